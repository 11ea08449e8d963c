//! Two programs as Debian ships them: position-independent, dynamic, stripped.
//!
//! Functions are the ranges of the unwind table of the program itself. The C
//! library is left out: it picks other string routines under emulators.

use peers::listing::Listing;
use peers::{equal, equal_pieces, lackey, memtrail, qemu, rules, Program, Result, Scratch};
use std::fmt::Write;
use std::path::Path;

/// Text without a pattern that a compressor would swallow whole; the same every time.
fn text(lines: u32) -> String {
    let mut state = 1u64;
    (0..lines).fold(String::new(), |mut text, i| {
        state = state * 16807 % 2147483647;
        let _ = writeln!(text, "{i} {} {}", state % 997, state % 31);
        text
    })
}

fn agree(name: &str, args: &[&str], lines: u32, least: usize, with_memtrail: bool) -> Result<()> {
    let scratch = Scratch::new(&format!("{name}.{with_memtrail}"))?;
    let input = scratch.path("input");
    std::fs::write(&input, text(lines)).map_err(|e| e.to_string())?;
    let program = Program::new(&Path::new("/usr/bin").join(name), args, Some(&input))?;
    let listing = Listing::of(&program.path)?;
    let functions = program.functions_from_unwind_table()?;
    let lackey = rules::architectural(&lackey::profile(&program)?, &listing);
    let qemu = qemu::profile(&program, &scratch)?;
    let compared = equal_pieces(&functions, &listing, ("lackey", &rules::pieces(&lackey)), &qemu)?;
    if compared < least {
        return Err(format!("only {compared} functions had accesses; expected {least}"));
    }
    if with_memtrail {
        for probes in memtrail::STAGES {
            let ours = memtrail::profile(&program, &scratch, probes)?;
            let complain = |why| format!("--probes {probes}: {why}");
            equal(&functions, &listing, ("memtrail", &ours), ("lackey", &lackey)).map_err(complain)?;
            equal_pieces(&functions, &listing, ("memtrail", &rules::pieces(&ours)), &qemu).map_err(complain)?;
        }
    }
    Ok(())
}

fn gzip(with_memtrail: bool) -> Result<()> {
    agree("gzip", &["-c", "-n"], 2000, 20, with_memtrail)
}

/// The seed keeps mawk from asking the clock for one.
fn mawk(with_memtrail: bool) -> Result<()> {
    let script = "{ n[$2] += $3; s = s substr($0, 2, 3) } /7+/ { hits++ } \
                  END { for (k in n) t += n[k] * length(k); print t, hits, length(s); gsub(/1/, \"one\", s); print s }";
    agree("mawk", &["-Wrandom=1", script], 1000, 40, with_memtrail)
}

macro_rules! programs {
    ($($name:ident)*) => {
        mod emulators_agree { $(
            #[test]
            fn $name() {
                super::$name(false).unwrap_or_else(|why| panic!("{why}"));
            }
        )* }
        mod memtrail_agrees { $(
            #[test]
            fn $name() {
                super::$name(true).unwrap_or_else(|why| panic!("{why}"));
            }
        )* }
    };
}

programs! { gzip mawk }
