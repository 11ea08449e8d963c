//! One cell of the matrix: a guest under one configuration of the recorder.
//!
//! What does not depend on the configuration (native run, oracle's account) is
//! found once per guest and kept for the other cells.

use crate::compare::{executable_ranges, narrow, same_accesses, same_outside, Streams};
use crate::guest::{Guest, Scope};
use crate::run::{self, Configuration, Seen};
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
    let (seen, mut accesses) = run::recorded(guest, configuration)?;
    same_outside("recorded", &truth.native, &seen)?;
    in_scope(guest, &mut accesses)?;
    same_accesses(&truth.accesses, &accesses)
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
