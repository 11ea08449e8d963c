//! Where debug information is found, and what is said if it is not.
use crate::build::{build, function, open, symbols, Built};
use memtrail_symbols::{BuildId, Module, Options, Reason, Store};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// Separates `program` into itself, stripped, and `program.debug`.
fn separated(flags: &[&str]) -> Built {
    let built = build("shapes.c", "gcc", flags);
    built.run(&["objcopy", "--only-keep-debug", "program", "program.debug"]);
    built.run(&["cp", "program", "whole"]);
    built.run(&["objcopy", "--strip-all", "program"]);
    built
}

fn module<'s>(store: &'s Store, path: &Path, options: Options) -> Rc<Module<'s>> {
    symbols(store, options)
        .module(path.as_os_str().as_bytes(), None)
        .unwrap()
}

/// The address of `use`, which only the unstripped program tells.
fn use_in(built: &Built, whole: &str) -> u64 {
    let store = Store::default();
    function(&open(&store, &built.path(whole)), "use").range.start
}

fn is_resolved(module: &Module<'_>, pc: u64) {
    let location = module.locate_vaddr(pc);
    assert_eq!(
        (location.function.as_deref(), location.frames[0].line),
        (Some("use"), Some(23)),
        "{location:?}"
    );
    assert_eq!((location.reason, module.reasons()), (None, vec![]));
    let names: Vec<&str> = module.variables().iter().map(|v| v.name.as_str()).collect();
    assert!(names.contains(&"use::calls"), "{names:?}");
}

#[test]
fn debug_information_in_another_file() {
    let built = separated(&["-g", "-Wl,--build-id=none"]);
    let pc = use_in(&built, "whole");
    built.run(&["objcopy", "--add-gnu-debuglink=program.debug", "program"]);
    let check = |options: Options| {
        let store = Store::default();
        is_resolved(&module(&store, &built.program, options), pc);
    };
    check(Options::default());
    built.run(&["mkdir", ".debug"]);
    built.run(&["mv", "program.debug", ".debug"]);
    check(Options::default());
    built.run(&["mkdir", "elsewhere"]);
    built.run(&["mv", ".debug/program.debug", "elsewhere"]);
    let debug_dirs = vec![built.path("elsewhere")];
    check(Options {
        debug_dirs,
        ..Options::default()
    });
}

#[test]
fn another_program_s_debug_information_is_refused() {
    let built = separated(&["-g", "-Wl,--build-id=none"]);
    let pc = use_in(&built, "whole");
    built.run(&["objcopy", "--add-gnu-debuglink=program.debug", "program"]);
    built.run(&["sh", "-c", "echo more >> program.debug"]);
    let store = Store::default();
    let refused = module(&store, &built.program, Options::default());
    let location = refused.locate_vaddr(pc);
    let Some(Reason::ChecksumDiffers { path, expected, found }) = &location.reason else {
        panic!("{location:?}")
    };
    assert_eq!((path, expected == found), (&built.path("program.debug"), false));
    assert_eq!((location.function, location.frames.len()), (None, 0));
    let force = Options {
        force: true,
        ..Options::default()
    };
    assert_eq!(
        module(&store, &built.program, force).locate_vaddr(pc).frames[0].line,
        Some(23)
    );
}

#[test]
fn build_id_directories() {
    let built = separated(&["-g", "-Wl,--build-id=0xabcdef0123456789"]);
    let pc = use_in(&built, "whole");
    built.run(&["mkdir", "-p", "dirs/.build-id/ab"]);
    built.run(&["mv", "program.debug", "dirs/.build-id/ab/cdef0123456789.debug"]);
    let store = Store::default();
    let debug_dirs = vec![built.path("dirs")];
    let options = Options {
        debug_dirs,
        ..Options::default()
    };
    let found = module(&store, &built.program, options.clone());
    is_resolved(&found, pc);
    assert_eq!(found.build_id().to_string(), "abcdef0123456789");
    // Without the directory, nothing but the program's own exports is known.
    let stripped = module(&store, &built.program, Options::default());
    let location = stripped.locate_vaddr(pc);
    assert_eq!(location.reason, Some(Reason::NoSymbols));
    assert_eq!(stripped.function_at_vaddr(pc).unwrap().name, None);
    assert_eq!(stripped.function_at_vaddr(pc).unwrap().range.start, pc);
    // Another build's file in its place.
    let other = separated(&["-g", "-Wl,--build-id=0xffff"]);
    let place = built.path("dirs/.build-id/ab/cdef0123456789.debug");
    std::fs::copy(other.path("program.debug"), &place).unwrap();
    let refused = module(&store, &built.program, options).locate_vaddr(pc).reason;
    let (expected, found) = (
        BuildId(vec![0xab, 0xcd, 0xef, 1, 0x23, 0x45, 0x67, 0x89]),
        BuildId(vec![0xff, 0xff]),
    );
    let path = place;
    assert_eq!(refused, Some(Reason::BuildIdDiffers { path, expected, found }));
}

#[test]
fn a_changed_program_is_refused_unless_forced() {
    let built = build("shapes.c", "gcc", &["-g", "-Wl,--build-id=0x0102"]);
    let store = Store::default();
    let path = built.program.as_os_str().as_bytes();
    let strict = symbols(&store, Options::default());
    let why = strict.module(path, Some(&[1, 3])).unwrap_err();
    let said = format!(
        "{} is another build: its build id is 0102, 0103 was recorded",
        built.program.display()
    );
    assert_eq!(why.to_string(), said);
    assert!(strict.module(path, Some(&[1, 2])).is_ok());
    let force = Options {
        force: true,
        ..Options::default()
    };
    assert!(symbols(&store, force).module(path, Some(&[1, 3])).is_ok());
    let missing = strict.module(b"/no/such/file", None).unwrap_err();
    assert_eq!(missing.to_string(), "/no/such/file not found");
    let directory = strict
        .module(built.dir.path().as_os_str().as_bytes(), None)
        .unwrap_err();
    assert!(matches!(directory, Reason::Unreadable { .. }), "{directory:?}");
    let text = built.path("shapes.c");
    let text = strict.module(text.as_os_str().as_bytes(), None).unwrap_err();
    assert!(matches!(text, Reason::NotElf(_)), "{text:?}");
}

#[test]
fn files_of_another_machine() {
    let built = build("shapes.c", "gcc", &["-g"]);
    built.run(&["mkdir", "-p", "root/opt/app"]);
    built.run(&["mv", "program", "root/opt/app/program"]);
    let options = Options {
        sysroot: Some(built.path("root")),
        ..Options::default()
    };
    let store = Store::default();
    let symbols = symbols(&store, options);
    let module = symbols.module(b"/opt/app/program", None).unwrap();
    assert_eq!(module.path(), built.path("root/opt/app/program"));
    let source = module.locate_vaddr(function(&module, "use").range.start);
    let source = source.frames[0].file.clone().unwrap();
    assert!(symbols.source(&source).unwrap().contains("int use(int *p, int n)"));
    assert!(matches!(symbols.source("/no/such.c"), Err(Reason::NotFound(_))));
}

#[test]
fn symbols_without_debug_information() {
    let built = build("shapes.c", "gcc", &[]);
    let store = Store::default();
    let module = open(&store, &built.program);
    let range = function(&module, "use").range;
    let location = module.locate_vaddr(range.start + 4);
    assert_eq!(
        (location.function.as_deref(), location.reason),
        (Some("use"), Some(Reason::NoDebugInfo))
    );
    let matrix = module.variables().iter().find(|v| v.name == "matrix").unwrap();
    assert_eq!(
        (matrix.size, &matrix.ty, matrix.describe(8, true).as_str()),
        (576, &None, "matrix+0x8")
    );
    let counts = module
        .variables()
        .iter()
        .filter(|v| v.name.starts_with("calls"))
        .count();
    assert_eq!(counts, 1);
    assert_eq!(module.locate(1 << 40).reason, Some(Reason::NotLoaded(1 << 40)));
}

#[test]
fn a_stripped_library_has_its_exports() {
    let built = build("shapes.c", "gcc", &["-shared", "-fPIC", "-s"]);
    let store = Store::default();
    let module = open(&store, &built.program);
    let location = module.locate_vaddr(function(&module, "use").range.start);
    assert_eq!(
        (location.function.as_deref(), location.reason),
        (Some("use"), Some(Reason::Stripped))
    );
    assert!(module.variables().iter().any(|v| v.name == "matrix" && v.size == 576));
    assert!(!module.variables().iter().any(|v| v.name == "counter"));
}

#[test]
fn packed_symbols_of_a_stripped_program() {
    let built = build("shapes.c", "gcc", &[]);
    let pc = use_in(&built, "program");
    built.run(&["objcopy", "--only-keep-debug", "program", "mini"]);
    built.run(&["xz", "--check=crc64", "mini"]);
    built.run(&["strip", "--strip-all", "program"]);
    built.run(&["objcopy", "--add-section", ".gnu_debugdata=mini.xz", "program"]);
    let store = Store::default();
    let module = open(&store, &built.program);
    let location = module.locate_vaddr(pc);
    assert_eq!(
        (location.function.as_deref(), location.reason),
        (Some("use"), Some(Reason::NoDebugInfo))
    );
    assert!(module.variables().iter().any(|v| v.name == "matrix" && v.size == 576));
}

#[test]
fn split_units_moved_packed_and_missing() {
    // Binutils' packer knows version 4 only.
    for (version, packer) in [("-gdwarf-4", "dwp"), ("-gdwarf-5", "llvm-dwp")] {
        let built = build("shapes.c", "gcc", &[version, "-gsplit-dwarf"]);
        let pc = use_in(&built, "program");
        let check = |program: &str| {
            let store = Store::default();
            is_resolved(&open(&store, &built.path(program)), pc);
        };
        check("program");
        built.run(&["mkdir", "moved"]);
        built.run(&["cp", "program", "program-shapes.dwo", "moved"]);
        built.run(&["mv", "program-shapes.dwo", "kept.dwo"]);
        check("moved/program");
        let store = Store::default();
        let module = open(&store, &built.program);
        let location = module.locate_vaddr(pc);
        // Lines are in the program itself.
        assert_eq!(
            (location.function.as_deref(), location.frames[0].line),
            (Some("use"), Some(23))
        );
        let _ = module.variables();
        let reasons = module.reasons();
        assert!(matches!(&reasons[..], [Reason::SplitMissing(path)] if path.ends_with("program-shapes.dwo")));
        built.run(&["mv", "kept.dwo", "program-shapes.dwo"]);
        built.run(&[packer, "-e", "program", "-o", "program.dwp"]);
        built.run(&["rm", "program-shapes.dwo"]);
        check("program");
    }
}

#[test]
fn what_debug_files_have_in_common() {
    let built = build("shapes.c", "gcc", &["-gdwarf-4"]);
    built.run(&["sh", "-c", "cp program other && cp program whole"]);
    built.run(&["dwz", "-m", "common.debug", "program", "other"]);
    let pc = use_in(&built, "whole");
    let store = Store::default();
    is_resolved(&open(&store, &built.program), pc);
    let grid = open(&store, &built.program);
    let grid = grid.variables().iter().find(|v| v.name == "grid").unwrap();
    assert_eq!(grid.describe(16, true), "grid[0][0].pos.y");
    built.run(&["rm", "common.debug"]);
    let module = open(&store, &built.program);
    assert_eq!(module.locate_vaddr(pc).frames[0].line, Some(23));
    assert!(
        matches!(&module.reasons()[..], [Reason::SupplementaryMissing(_)]),
        "{:?}",
        module.reasons()
    );
}
