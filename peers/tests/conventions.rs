//! One function per kind of access: the written conventions hold for the tools installed here.
//!
//! If `emulators_agree` fails after an upgrade of Valgrind or QEMU, a convention of theirs has
//! changed, and `rules` must follow. If only `memtrail_agrees` fails, memtrail is wrong.

use peers::{Fixture, Result};
use std::path::Path;

/// Functions of the source that make accesses; `main` among them, `no_access` too (it returns).
const LEAST: usize = 27;

fn fixture(purpose: &str) -> Result<Fixture> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/conventions.c");
    Fixture::build(&source, purpose, &[])
}

fn enough(compared: Result<usize>) {
    match compared {
        Ok(count) => assert!(count >= LEAST, "only {count} functions were compared"),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn emulators_agree() {
    enough(fixture("emulators").and_then(|f| f.lackey_agrees_with_qemu()));
}

#[test]
fn memtrail_agrees() {
    enough(fixture("memtrail").and_then(|f| f.memtrail_agrees_with_both()));
}
