//! Damaged files get answers or reasons; nothing panics, nothing grows without bound.
use crate::build::build;
use memtrail_symbols::{Files, Input, Module, Options, Store, Symbols};
use std::io::{self, Cursor};
use std::path::Path;

/// One file, whatever it is called.
struct Only(Vec<u8>);

impl Files for Only {
    fn open(&self, _: &Path) -> io::Result<Box<dyn Input>> {
        Ok(Box::new(Cursor::new(self.0.clone())))
    }
}

/// Asks everything, of some addresses.
fn ask(module: &Module<'_>) {
    for variable in module.variables() {
        let _ = variable.describe(variable.size / 2, true);
        let _ = variable.describe(variable.size, false);
    }
    for segment in module.segments().iter().filter(|s| s.executable) {
        let step = (segment.filesz / 64).max(1);
        for offset in (0..segment.filesz).step_by(step as usize).take(64) {
            let Some(pc) = segment.vaddr.checked_add(offset) else {
                break;
            };
            let _ = module.locate_vaddr(pc);
            let _ = module.function_at_vaddr(pc);
            let operands = module.instruction_at(pc).map(|i| i.operands).unwrap_or_default();
            for operand in &operands {
                let _ = module.local_of(pc, operand);
            }
        }
    }
    let _ = (module.tls().map(|tls| tls.executable_offset()), module.reasons());
}

/// How many could be opened at all.
fn ask_all(damaged: impl Iterator<Item = Vec<u8>>) -> usize {
    let opened = damaged.filter(|bytes| {
        let store = Store::default();
        let symbols = Symbols::new(&store, Box::new(Only(bytes.clone())), Options::default());
        let module = symbols.module(b"/program", None);
        module.is_ok_and(|module| {
            ask(&module);
            true
        })
    });
    opened.count()
}

/// Bytes to change: spread over a file with a step that is no multiple of anything.
fn flips(bytes: &[u8], count: usize) -> impl Iterator<Item = Vec<u8>> + '_ {
    let values = [0xff, 0x00, 0x80, 0x01, 0x7f];
    (0..count).map(move |k| {
        let mut bytes = bytes.to_vec();
        let at = (k * 7919 * 31) % bytes.len();
        bytes[at] = if k % 7 == 0 {
            bytes[at] ^ 0x40
        } else {
            values[k % values.len()]
        };
        bytes
    })
}

#[test]
fn programs_cut_off_anywhere() {
    for flags in [
        &["-g"][..],
        &["-g", "-gz=zlib"],
        &["-g", "-Wl,--compress-debug-sections=zstd"],
    ] {
        let bytes = std::fs::read(build("shapes.c", "gcc", flags).program).unwrap();
        let cuts = (0..200).map(|k| bytes[..bytes.len() * k / 200].to_vec());
        // The section headers are at the end: without them there is nothing to go by.
        assert_eq!(ask_all(cuts), 0);
        assert_eq!(ask_all(std::iter::once(bytes.clone())), 1);
    }
}

#[test]
fn programs_with_changed_bytes() {
    for (compiler, source, flags) in [
        ("gcc", "shapes.c", &["-gdwarf-5", "-O2"][..]),
        ("gcc", "shapes.c", &["-gdwarf-4", "-gz=zlib"]),
        ("g++", "classes.cpp", &["-g"]),
        ("gfortran", "fields.f90", &["-g"]),
    ] {
        let bytes = std::fs::read(build(source, compiler, flags).program).unwrap();
        let opened = ask_all(flips(&bytes, 300));
        assert!(opened > 250, "{opened}");
    }
}

#[test]
fn debug_sections_full_of_changes() {
    let built = build("shapes.c", "gcc", &["-g", "-O1"]);
    let sections = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_line",
        ".debug_str",
        ".debug_rnglists",
        ".debug_loclists",
        ".eh_frame",
        ".symtab",
    ];
    for section in sections {
        built.run(&[
            "objcopy",
            "--dump-section",
            &format!("{section}=raw"),
            "program",
            "copy",
        ]);
        let raw = std::fs::read(built.path("raw")).unwrap();
        let whole = std::fs::read(&built.program).unwrap();
        let at = whole.windows(raw.len()).position(|w| w == raw).expect(section);
        let changed = flips(&raw, 100).map(|section| {
            let mut bytes = whole.clone();
            bytes[at..at + section.len()].copy_from_slice(&section);
            bytes
        });
        assert_eq!(ask_all(changed), 100, "{section}");
    }
}
