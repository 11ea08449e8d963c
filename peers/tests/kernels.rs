//! The benchmark kernels, at small sizes: every function of each must agree.

use peers::listing::Listing;
use peers::{equal, equal_pieces, lackey, memtrail, qemu, rules, Program, Result, Scratch};
use std::path::Path;

struct Kernel {
    program: Program,
    listing: Listing,
    functions: Vec<peers::Function>,
    scratch: Scratch,
}

/// Static and at a fixed address: program counters are the same in every run and under every tool.
fn build(name: &str, test: &str, args: &[&str]) -> Result<Kernel> {
    let scratch = Scratch::new(&format!("{name}.{test}"))?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../bench/kernels")
        .join(format!("{name}.c"));
    let object = scratch.path("kernel.o");
    scratch.compile(&["-O2", "-fno-pie", "-c"], &source, &object)?;
    let path = scratch.path(name);
    scratch.compile(&["-static", "-no-pie"], &object, &path)?;
    let program = Program::new(&path, args, None)?;
    let functions = program.functions_of(&object)?;
    let listing = Listing::of(&path)?;
    Ok(Kernel {
        program,
        listing,
        functions,
        scratch,
    })
}

fn lackey_agrees_with_qemu(name: &str, args: &[&str]) -> Result<()> {
    let k = build(name, "emulators", args)?;
    let lackey = rules::architectural(&lackey::profile(&k.program)?, &k.listing);
    let qemu = qemu::profile(&k.program, &k.scratch)?;
    equal_pieces(&k.functions, &k.listing, ("lackey", &rules::pieces(&lackey)), &qemu)?;
    Ok(())
}

fn memtrail_agrees_with_both(name: &str, args: &[&str]) -> Result<()> {
    let k = build(name, "memtrail", args)?;
    let lackey = rules::architectural(&lackey::profile(&k.program)?, &k.listing);
    let qemu = qemu::profile(&k.program, &k.scratch)?;
    for probes in ["naive", "block", "loop"] {
        let ours = memtrail::profile(&k.program, &k.scratch, probes)?;
        let complain = |why| format!("--probes {probes}: {why}");
        equal(&k.functions, &k.listing, ("memtrail", &ours), ("lackey", &lackey)).map_err(complain)?;
        equal_pieces(&k.functions, &k.listing, ("memtrail", &rules::pieces(&ours)), &qemu).map_err(complain)?;
    }
    Ok(())
}

macro_rules! kernels {
    ($($name:ident: $args:expr;)*) => {
        mod emulators_agree { $(
            #[test]
            fn $name() {
                super::lackey_agrees_with_qemu(stringify!($name), &$args).unwrap_or_else(|why| panic!("{why}"));
            }
        )* }
        mod memtrail_agrees { $(
            #[test]
            fn $name() {
                super::memtrail_agrees_with_both(stringify!($name), &$args).unwrap_or_else(|why| panic!("{why}"));
            }
        )* }
    };
}

kernels! {
    matmul: ["24", "2"];
    triad: ["5000", "3"];
    stencil: ["60", "4"];
    quicksort: ["5000", "1"];
    fib: ["15", "1"];
}
