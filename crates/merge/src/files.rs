//! A transport of files in a directory that all members share.
//!
//! Each member holds a lock on `BASE.lock.N` as long as it lives; the kernel lets go of it when the
//! member dies, however that happens. A part is a file; giving it away is renaming it to `BASE.part.N`, so
//! that it is there whole or not at all. Who waits for a part looks again and again, and takes the
//! lock in vain while the member lives. A member that never came is waited for until a time limit.
use crate::tree::Transport;
use rustix::fs::{flock, FlockOperation};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What can go wrong with files that travel.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("{path}: {source}")]
    File { path: String, source: io::Error },
    #[error("another process is member {member} already")]
    Taken { member: u32 },
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> DirectoryError + '_ {
    |source| DirectoryError::File {
        path: path.display().to_string(),
        source,
    }
}

/// Parts as files in a directory.
#[derive(Debug)]
pub struct Directory {
    base: PathBuf,
    me: u32,
    /// Held as long as this member lives.
    lock: File,
    /// How long to wait for a member that has not come yet.
    patience: Duration,
}

/// How often to look whether something has come.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Directory {
    /// Member `me` of those whose files begin with `base`. It counts as alive from now on.
    pub fn join(base: &Path, me: u32, patience: Duration) -> Result<Directory, DirectoryError> {
        let path = named(base, "lock", me);
        let open = || File::options().create(true).truncate(false).write(true).open(&path);
        let lock = open().map_err(failed(&path))?;
        // Who looks whether this member lives holds it for a moment.
        let mut tries = 50;
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            tries -= 1;
            if tries == 0 {
                return Err(DirectoryError::Taken { member: me });
            }
            std::thread::sleep(4 * LOOK_EVERY);
        }
        // What an earlier job left, which nobody waits for any more.
        let _ = fs::remove_file(named(base, "part", me));
        Ok(Directory {
            base: base.to_path_buf(),
            me,
            lock,
            patience,
        })
    }

    /// Where a member's part is, once it has given it away.
    pub fn part(&self, member: u32) -> PathBuf {
        named(&self.base, "part", member)
    }

    /// This member is done.
    pub fn leave(self) {
        // The name goes first: who holds a lock on a file without a name locks nobody out.
        let _ = fs::remove_file(named(&self.base, "lock", self.me));
        drop(self.lock);
    }

    /// Whether a member lives. `None` if it has not come yet, or was here and left.
    fn lives(&self, member: u32) -> Option<bool> {
        let lock = File::open(named(&self.base, "lock", member)).ok()?;
        Some(flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
    }
}

fn named(base: &Path, what: &str, member: u32) -> PathBuf {
    let mut name = OsString::from(base);
    name.push(format!(".{what}.{member}"));
    PathBuf::from(name)
}

impl Transport for Directory {
    type Part = PathBuf;
    type Error = DirectoryError;

    fn send(&mut self, part: PathBuf, _to: u32) -> Result<(), DirectoryError> {
        fs::rename(&part, self.part(self.me)).map_err(failed(&part))
    }

    fn receive(&mut self, from: u32) -> Result<Option<PathBuf>, DirectoryError> {
        let path = self.part(from);
        let begun = Instant::now();
        loop {
            // Asked first: one that dies after giving its part away has given it away.
            let lives = self.lives(from);
            if path.exists() {
                return Ok(Some(path));
            }
            let dead = match lives {
                Some(lives) => !lives,
                None => begun.elapsed() >= self.patience,
            };
            if dead {
                // A lock is there for a moment before it is held.
                std::thread::sleep(10 * LOOK_EVERY);
                if path.exists() {
                    return Ok(Some(path));
                }
                if self.lives(from) != Some(true) {
                    // Of no use to anybody any more.
                    let _ = fs::remove_file(named(&self.base, "lock", from));
                    return Ok(None);
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
