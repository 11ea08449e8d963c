//! A C source built so that all tools see the same program counters, and the two comparisons made
//! on it.

use crate::listing::Listing;
use crate::profile::Function;
use crate::{equal, equal_pieces, lackey, memtrail, qemu, rules, Program, Result, Scratch};
use std::path::Path;

pub struct Fixture {
    program: Program,
    listing: Listing,
    /// Those of the source itself, not of the C library.
    functions: Vec<Function>,
    scratch: Scratch,
}

impl Fixture {
    /// Static and at a fixed address. `purpose` keeps concurrent tests apart.
    pub fn build(source: &Path, purpose: &str, args: &[&str]) -> Result<Fixture> {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let scratch = Scratch::new(&format!("{name}.{purpose}"))?;
        let object = scratch.path("object.o");
        scratch.compile(&["-O2", "-fno-pie", "-c"], source, &object)?;
        let path = scratch.path(&name);
        scratch.compile(&["-static", "-no-pie"], &object, &path)?;
        let program = Program::new(&path, args, None)?;
        let functions = program.functions_of(&object)?;
        let listing = Listing::of(&path)?;
        Ok(Fixture {
            program,
            listing,
            functions,
            scratch,
        })
    }

    /// Returns how many functions had accesses.
    pub fn lackey_agrees_with_qemu(&self) -> Result<usize> {
        let lackey = rules::architectural(&lackey::profile(&self.program)?, &self.listing);
        let qemu = qemu::profile(&self.program, &self.scratch)?;
        equal_pieces(
            &self.functions,
            &self.listing,
            ("lackey", &rules::pieces(&lackey)),
            &qemu,
        )
    }

    /// In all stages of probes.
    pub fn memtrail_agrees_with_both(&self) -> Result<usize> {
        let lackey = rules::architectural(&lackey::profile(&self.program)?, &self.listing);
        let qemu = qemu::profile(&self.program, &self.scratch)?;
        let mut compared = 0;
        for probes in memtrail::STAGES {
            let ours = memtrail::profile(&self.program, &self.scratch, probes)?;
            let pieces = rules::pieces(&ours);
            let complain = |why| format!("--probes {probes}: {why}");
            compared =
                equal(&self.functions, &self.listing, ("memtrail", &ours), ("lackey", &lackey)).map_err(complain)?;
            equal_pieces(&self.functions, &self.listing, ("memtrail", &pieces), &qemu).map_err(complain)?;
        }
        Ok(compared)
    }
}
