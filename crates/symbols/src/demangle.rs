//! Names as the source has them.
use std::fmt::{self, Write};

/// A writer that refuses what is too long: mangled names can stand for exponentially long ones.
struct Bounded(String);

impl cpp_demangle::DemangleWrite for Bounded {
    fn write_string(&mut self, s: &str) -> fmt::Result {
        const LIMIT: usize = 1 << 16;
        if self.0.len() + s.len() > LIMIT {
            return Err(fmt::Error);
        }
        self.0.write_str(s)
    }
}

/// C++ without parameters and return type, Rust without hash, Fortran modules as `module::name`;
/// anything else as it is.
pub fn demangle(name: &[u8]) -> String {
    let plain = String::from_utf8_lossy(name);
    if let Some((module, procedure)) = plain.strip_prefix("__").and_then(|rest| rest.split_once("_MOD_")) {
        return format!("{module}::{procedure}");
    }
    if let Ok(rust) = rustc_demangle::try_demangle(&plain) {
        // C++'s old and Rust's legacy names begin alike; only the latter end in a hash.
        return format!("{rust:#}");
    }
    cpp(name).unwrap_or_else(|| plain.into_owned())
}

fn cpp(name: &[u8]) -> Option<String> {
    let name = name.strip_prefix(b"_Z").map(|_| name)?;
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let mut out = Bounded(String::new());
    symbol.structured_demangle(&mut out, &options).ok()?;
    Some(out.0)
}

/// A procedure's name without the underscore that Fortran compilers append.
pub fn fortran(name: &[u8]) -> String {
    let name = demangle(name);
    name.strip_suffix('_').map(str::to_string).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_language() {
        assert_eq!(demangle(b"main"), "main");
        assert_eq!(demangle(b"_ZN2ns3FooIiE3barEdPc"), "ns::Foo<int>::bar");
        assert_eq!(
            demangle(b"_ZN4core3fmt5Write9write_str17h0123456789abcdefE"),
            "core::fmt::Write::write_str"
        );
        assert_eq!(demangle(b"_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangle(b"__fields_MOD_step"), "fields::step");
        assert_eq!(fortran(b"kernel_"), "kernel");
        assert_eq!(demangle(b"_Znot mangled"), "_Znot mangled");
        assert_eq!(demangle(b"\xff"), "\u{fffd}");
    }

    /// `f<X<int, int>, X<X<int, int>, X<int, int>>, …>`: each argument refers twice to the one
    /// before.
    fn doubling(arguments: usize) -> String {
        let digits = b"123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let twice = digits.iter().take(arguments).map(|&digit| {
            let before = format!("S{}_", digit as char);
            format!("S0_I{before}{before}E")
        });
        format!("_Z1fI1XIiiE{}Evv", twice.collect::<String>())
    }

    #[test]
    fn names_that_explode_stay_mangled() {
        let small = demangle(doubling(1).as_bytes());
        assert_eq!(small, "f<X<int, int>, X<X<int, int>, X<int, int> > >");
        let large = doubling(30);
        assert_eq!(demangle(large.as_bytes()), large);
    }
}
