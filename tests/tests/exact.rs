//! Every guest under every configuration of the recorder: same output, same end, same accesses.
//! And translated without probes: same output, same end.
//!
//! Guests whose instructions this CPU lacks are announced loudly and listed as
//! ignored; they never count as passed.

use libtest_mimic::{Arguments, Failed, Trial};
use memtrail_tests::run::Configuration;
use memtrail_tests::{cpu, guest, matrix};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let guests = match guest::all() {
        Ok(guests) => guests,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = Vec::new();
    for guest in guests {
        let missing = cpu::missing(&guest.needs);
        if !missing.is_empty() {
            eprintln!(
                "******** NOT RUNNABLE HERE: guest {} needs {} ********",
                guest.name,
                missing.join(", ")
            );
        }
        let translated = guest.clone();
        let runner = move || matrix::check_translation(&translated).map_err(Failed::from);
        trials.push(Trial::test(format!("{}::none", guest.name), runner).with_ignored_flag(!missing.is_empty()));
        for configuration in Configuration::all() {
            let guest = guest.clone();
            let name = format!("{}::{}", guest.name, configuration.name());
            let runner = move || matrix::check(&guest, configuration).map_err(Failed::from);
            trials.push(Trial::test(name, runner).with_ignored_flag(!missing.is_empty()));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
