//! What processes are called: `4711 sh`, and after an exec `4711 sh → ls`.
use memtrail_decode::{Message, Module};
use memtrail_ring::message::FORKED;
use memtrail_trace::Known;
use std::collections::BTreeMap;

/// A process, as it tells of itself.
#[derive(Clone, Debug, Default)]
struct Told {
    pid: u32,
    /// The programs it ran, one after the other.
    programs: Vec<String>,
    /// It runs a program whose file has not been told of.
    waits: bool,
}

/// The names of all processes, by serial number.
pub fn names(known: &Known) -> BTreeMap<u32, String> {
    let mut all: BTreeMap<u32, Told> = BTreeMap::new();
    for (teller, message) in &known.messages {
        match message {
            &Message::Process {
                process,
                parent,
                pid,
                how,
            } => {
                let inherited = all.get(&parent).filter(|_| how == FORKED);
                let program = inherited.and_then(|parent| parent.programs.last()).cloned();
                let told = all.entry(process).or_default();
                told.pid = pid;
                told.waits = program.is_none();
                told.programs.extend(program);
            }
            // The first file that has code is the program.
            Message::Map { path, .. } if path.starts_with(b"/") && !path.starts_with(b"/memfd:") => {
                if let Some(told) = all.get_mut(teller).filter(|told| told.waits) {
                    let file = Module {
                        path: path.clone(),
                        build_id: None,
                        generated: false,
                    };
                    told.programs.push(file.name());
                    told.waits = false;
                }
            }
            _ => {}
        }
    }
    let name = |(serial, told): (u32, Told)| (serial, format!("{} {}", told.pid, told.programs.join(" → ")));
    all.into_iter().map(name).collect()
}
