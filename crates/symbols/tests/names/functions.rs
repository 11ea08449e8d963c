//! Functions and lines, from whatever debug information there is.
use crate::build::{build, function, open};
use memtrail_symbols::{Module, Store};

/// The lines that the instructions of a function come from, each once, in order.
fn lines(module: &Module<'_>, name: &str) -> Vec<u32> {
    let range = function(module, name).range;
    let outermost = range.filter_map(|pc| module.locate_vaddr(pc).frames.last()?.line);
    let mut lines: Vec<u32> = outermost.collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

fn check_use(module: &Module<'_>) {
    let use_ = function(module, "use");
    let all: Vec<_> = use_.range.clone().map(|pc| module.locate_vaddr(pc)).collect();
    assert!(all
        .iter()
        .all(|l| l.function.as_deref() == Some("use") && l.reason.is_none()));
    let inlined: Vec<_> = all.iter().filter(|l| l.frames.len() == 2).collect();
    assert!(!inlined.is_empty());
    for location in inlined {
        let [inner, outer] = &location.frames[..] else { panic!() };
        assert_eq!((inner.function.as_deref(), inner.line), (Some("add"), Some(19)));
        assert_eq!((outer.function.as_deref(), outer.line), (Some("use"), Some(27)));
        assert!(
            inner.file.as_deref().is_some_and(|f| f.ends_with("/shapes.c")),
            "{inner:?}"
        );
        assert!(inner.column.is_some());
    }
    // Clang takes the value to return and the end of the function for one line.
    assert_eq!(lines(module, "use")[..6], [23, 25, 26, 27, 28, 29]);
}

#[test]
fn c_in_every_kind_of_debug_information() {
    let kinds: &[(&str, &[&str])] = &[
        ("gcc", &["-g"]),
        ("gcc", &["-gdwarf-4"]),
        ("gcc", &["-gdwarf-5", "-no-pie"]),
        ("gcc", &["-gdwarf-5", "-static"]),
        ("gcc", &["-gdwarf-4", "-fdebug-types-section"]),
        ("gcc", &["-gdwarf-5", "-fdebug-types-section"]),
        ("gcc", &["-g", "-gz=zlib"]),
        ("gcc", &["-g", "-gz=zlib-gnu"]),
        ("gcc", &["-g", "-Wl,--compress-debug-sections=zstd"]),
        ("gcc", &["-g", "-gsplit-dwarf"]),
        ("gcc", &["-gdwarf-4", "-gsplit-dwarf"]),
        ("clang", &["-g", "-pie"]),
    ];
    for (compiler, flags) in kinds {
        let built = build("shapes.c", compiler, flags);
        let store = Store::default();
        println!("{compiler} {flags:?}");
        check_use(&open(&store, &built.program));
    }
}
