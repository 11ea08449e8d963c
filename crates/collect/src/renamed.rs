//! Programs under the names that they were started by.
//!
//! Processes tell of their modules as the kernel names them. What the supervisor found out when it
//! started a process takes the place of that, in everything that the process and those it forks
//! tell: the file and its mappings stay one module.
use memtrail_decode::Message;
use memtrail_ring::message::FORKED;
use memtrail_tracee::{started, Started};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

/// By serial number of the process: what its program is called.
#[derive(Debug, Default)]
pub(crate) struct Renamed(Mutex<HashMap<u32, Option<Started>>>);

impl Renamed {
    /// A process stands at the beginning of a program.
    pub fn begins(&self, process: u32, pid: i32) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(process, started(pid));
    }

    /// What a process tells, with the name its program was started by.
    pub fn renamed(&self, process: u32, mut message: Message) -> Message {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut message {
            &mut Message::Process {
                process, parent, how, ..
            } if how == FORKED => {
                let of_parent = all.get(&parent).cloned().flatten();
                all.insert(process, of_parent);
            }
            Message::Map { path, .. } | Message::Text { text: path, .. } => {
                if let Some(Some(started)) = all.get(&process) {
                    if started.mapped.as_os_str().as_bytes() == path.as_slice() {
                        *path = started.link.as_os_str().as_bytes().to_vec();
                    }
                }
            }
            _ => {}
        }
        message
    }
}
