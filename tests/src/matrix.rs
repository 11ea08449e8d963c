//! One cell of the matrix: a guest under one configuration of the recorder.
//!
//! What does not depend on the configuration (native run, oracle's account) is
//! found once per guest and kept for the other cells.

use crate::compare::{executable_ranges, narrow, same_accesses, same_outside, Line, Streams};
use crate::guest::{Guest, Scope};
use crate::run::{self, Configuration, Seen};
use memtrail_model::{Access, AccessSink, Point, Thread};
use memtrail_trace::{whole, Hasher, ThreadHash};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// What every recording of a guest must match.
pub struct Truth {
    pub native: Seen,
    pub accesses: Streams,
}

type Slot = Arc<OnceLock<Result<Arc<Truth>, String>>>;

/// The truth about a guest, established once however many cells ask for it.
pub fn truth(guest: &Guest) -> Result<Arc<Truth>, String> {
    static KNOWN: OnceLock<Mutex<HashMap<String, Slot>>> = OnceLock::new();
    let slot = {
        let mut known = KNOWN
            .get_or_init(Default::default)
            .lock()
            .unwrap_or_else(|e| e.into_inner());
        known.entry(guest.name.clone()).or_default().clone()
    };
    slot.get_or_init(|| establish(guest).map(Arc::new)).clone()
}

fn establish(guest: &Guest) -> Result<Truth, String> {
    let native = run::native(guest)?;
    if guest.scope == Scope::Output {
        return Ok(Truth {
            native,
            accesses: Streams::new(),
        });
    }
    let (seen, mut accesses) = run::oracle(guest)?;
    same_outside("oracle", &native, &seen)?;
    in_scope(guest, &mut accesses)?;
    if accesses.is_empty() {
        return Err("nothing to compare: the oracle saw no access in scope".into());
    }
    Ok(Truth { native, accesses })
}

fn in_scope(guest: &Guest, streams: &mut Streams) -> Result<(), String> {
    match guest.scope {
        Scope::Whole => {}
        Scope::Exe => {
            let binary = guest.built().map_err(|e| e.to_string())?;
            narrow(streams, &executable_ranges(&binary)?);
        }
        Scope::Output => streams.clear(),
    }
    Ok(())
}

/// Records the guest and compares everything.
pub fn check(guest: &Guest, configuration: Configuration) -> Result<(), String> {
    let truth = truth(guest)?;
    let mut account = run::recorded(guest, configuration)?;
    same_outside("recorded", &truth.native, &account.seen)?;
    if let Some(described) = &account.described {
        same_accesses(&account.streams, described).map_err(|e| format!("descriptors: {e}"))?;
    }
    let replayed = hashes(&account.streams);
    if account.hashes != replayed {
        return Err(format!(
            "hashes: dump --hash says\n{}its accesses give\n{replayed}",
            account.hashes
        ));
    }
    if guest.scope == Scope::Whole {
        let true_hashes = hashes(&truth.accesses);
        if account.hashes != true_hashes {
            same_accesses(&truth.accesses, &account.streams)?;
            return Err(format!("hashes: recorded\n{}oracle\n{true_hashes}", account.hashes));
        }
    }
    in_scope(guest, &mut account.streams)?;
    same_accesses(&truth.accesses, &account.streams)
}

/// The hashes of these accesses, as `dump --hash` prints them.
fn hashes(streams: &Streams) -> String {
    let mut hasher = Hasher::default();
    for (&thread, lines) in streams {
        let access = |l: &Line| Access {
            thread: Thread(thread),
            pc: l.pc,
            kind: l.kind,
            addr: l.addr,
            size: l.size,
            point: Point::NONE,
        };
        let accesses: Vec<Access> = lines.iter().map(access).collect();
        hasher.accesses(&accesses);
    }
    let hashes = hasher.hashes();
    let line = |h: &ThreadHash| format!("{} {} {:#018x}\n", h.thread, h.accesses, h.hash);
    let threads: String = hashes.iter().map(line).collect();
    let total: u64 = hashes.iter().map(|h| h.accesses).sum();
    format!("{threads}all {total} {:#018x}\n", whole(&hashes))
}

/// Translates the guest without probes: it must not notice.
pub fn check_translation(guest: &Guest) -> Result<(), String> {
    let truth = truth(guest)?;
    same_outside("translated", &truth.native, &run::translated(guest)?)
}

/// Single-steps the guest a second time: what the oracle says must not depend on the run.
pub fn check_oracle(guest: &Guest) -> Result<(), String> {
    let truth = truth(guest)?;
    let list = crate::tools::work_directory().join(format!("{}.again", guest.name));
    let (seen, mut accesses) = run::oracle_now(guest, &list)?;
    same_outside("oracle", &truth.native, &seen)?;
    in_scope(guest, &mut accesses)?;
    same_accesses(&truth.accesses, &accesses)
}
