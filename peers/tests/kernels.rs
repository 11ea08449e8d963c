//! The benchmark kernels, at small sizes: every function of each must agree.

use peers::{Fixture, Result};
use std::path::Path;

fn fixture(name: &str, purpose: &str, args: &[&str]) -> Result<Fixture> {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/kernels");
    Fixture::build(&kernels.join(format!("{name}.c")), purpose, args)
}

macro_rules! kernels {
    ($($name:ident: $args:expr;)*) => {
        mod emulators_agree { $(
            #[test]
            fn $name() {
                let agreed = super::fixture(stringify!($name), "emulators", &$args).and_then(|f| f.lackey_agrees_with_qemu());
                agreed.unwrap_or_else(|why| panic!("{why}"));
            }
        )* }
        mod memtrail_agrees { $(
            #[test]
            fn $name() {
                let agreed = super::fixture(stringify!($name), "memtrail", &$args).and_then(|f| f.memtrail_agrees_with_both());
                agreed.unwrap_or_else(|why| panic!("{why}"));
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
