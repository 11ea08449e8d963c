//! The machine code of a few small blocks, compared with a file.
//! `MEMTRAIL_BLESS=1 cargo test -p memtrail-translate` writes the file anew; look at the difference
//! before committing it.
use crate::{analyze, analyze_path, emit, Block, Emitted, Entry, LinkKind, Options, Place, Stretch};
use iced_x86::{Decoder, DecoderOptions, Formatter, NasmFormatter};
use memtrail_ring::Probes;
use std::fmt::Write;
use std::string::String;
use std::vec::Vec;

const PC: u64 = 0x40_1000;
const HOT: u64 = 0x50_0000;
const COLD: u64 = 0x51_0000;

const BLOCKS: [(&str, &[u8]); 14] = [
    (
        "chained loads and a store",
        &[
            0x48, 0x8b, 0x07, 0x48, 0x8b, 0x5f, 0x08, 0x48, 0x01, 0x47, 0x10, 0xeb, 0xbe,
        ],
    ),
    (
        "a function's beginning: rsp carried, rdi overwritten by a load",
        &[
            0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0x48, 0x89, 0x7d, 0xf8, 0x48, 0x8b, 0x3c, 0xf7, 0x8b, 0x07,
            0xe8, 0xfb, 0x00, 0x00, 0x00,
        ],
    ),
    (
        "an affine loop",
        &[0x48, 0x03, 0x17, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x75, 0xf4],
    ),
    (
        "a partly affine loop",
        &[
            0x48, 0x8b, 0x07, 0x83, 0x00, 0x01, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x75, 0xf1,
        ],
    ),
    (
        "a loop that masks what it loaded last",
        // and edx, 0x7fff; movzx edx, word [r11+rdx*2]; mov eax, edx; cmp [r9+rax], r10b; jne to
        // the beginning
        &[
            0x81, 0xe2, 0xff, 0x7f, 0, 0, 0x41, 0x0f, 0xb7, 0x14, 0x53, 0x89, 0xd0, 0x45, 0x38, 0x14, 0x01, 0x75, 0xed,
        ],
    ),
    ("a stand-in for r15", &[0x49, 0x8b, 0x47, 0x08, 0x49, 0xff, 0xc7, 0xc3]),
    (
        "segments, and a return that pops",
        &[
            0x65, 0x48, 0x8b, 0x04, 0x25, 0x10, 0, 0, 0, 0x64, 0x48, 0x8b, 0x08, 0xc2, 0x08, 0x00,
        ],
    ),
    (
        "relative to rip, and a jump through a table",
        &[0x8b, 0x05, 0x00, 0x10, 0, 0, 0xff, 0x24, 0xc5, 0x00, 0x10, 0, 0],
    ),
    (
        "a side exit",
        &[0x48, 0x85, 0xff, 0x74, 0x3e, 0x48, 0x8b, 0x07, 0x48, 0x8b, 0x08, 0xc3],
    ),
    ("a system call", &[0x0f, 0x05]),
    ("a repeated string instruction", &[0xf3, 0xa4, 0xc3]),
    ("a gather", &[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x88, 0xc3]),
    ("an indirect call", &[0xff, 0x53, 0x18]),
    (
        "r15 in memory, and an indirect jump",
        &[0x41, 0x57, 0x41, 0x5f, 0xff, 0xe0],
    ),
];

/// A path: a branch that is taken, a call, a return, and a jump through a table.
const PATH: [(u64, &[u8]); 4] = [
    // mov rax, [rdi]; test rax, rax; jne
    (PC, &[0x48, 0x8b, 0x07, 0x48, 0x85, 0xc0, 0x75, 0x1e]),
    // mov rbx, [rax]; call
    (PC + 0x26, &[0x48, 0x8b, 0x18, 0xe8, 0xd2, 0x00, 0x00, 0x00]),
    // mov rdx, [rbx]; ret
    (PC + 0x100, &[0x48, 0x8b, 0x13, 0xc3]),
    // jmp [rdx * 8 + 0x1000]
    (PC + 0x2e, &[0xff, 0x24, 0xd5, 0x00, 0x10, 0, 0]),
];
/// Where the jump leads: test rdx, rdx; je; mov rax, [rdx]; ret
const PATH_END: (u64, &[u8]) = (PC + 0x200, &[0x48, 0x85, 0xd2, 0x74, 0x10, 0x48, 0x8b, 0x02, 0xc3]);

fn disassemble(out: &mut String, name: &str, base: u64, bytes: &[u8], emitted: &Emitted) {
    let mut formatter = NasmFormatter::new();
    let mut decoder = Decoder::with_ip(64, bytes, base, DecoderOptions::NONE);
    while decoder.can_decode() {
        let insn = decoder.decode();
        if name == "hot" && insn.ip() == base + u64::from(emitted.head) {
            out.push_str("  head:\n");
        }
        let mut text = String::new();
        formatter.format(&insn, &mut text);
        writeln!(out, "    {:06x}  {text}", insn.ip()).unwrap();
    }
}

fn describe(what: &str, code: &[u8], probes: Probes, entry: Entry) -> String {
    let opts = Options { probes, max_block: 64 };
    let block = analyze(code, PC, &opts).unwrap();
    describe_block(what, &block, &[(PC, code)], probes, entry)
}

fn describe_path(what: &str, pieces: &[(u64, &[u8])], entry: Entry) -> String {
    let probes = Probes::Loop;
    let opts = Options { probes, max_block: 64 };
    let code: Vec<u8> = pieces.iter().flat_map(|p| p.1).copied().collect();
    let stretch = |&(pc, code): &(u64, &[u8])| Stretch {
        pc,
        bytes: code.len() as u32,
    };
    let stretches: Vec<Stretch> = pieces.iter().map(stretch).collect();
    let block = analyze_path(&code, &stretches, &opts).unwrap();
    describe_block(what, &block, pieces, probes, entry)
}

fn describe_block(what: &str, block: &Block, pieces: &[(u64, &[u8])], probes: Probes, entry: Entry) -> String {
    let code: Vec<u8> = pieces.iter().flat_map(|p| p.1).copied().collect();
    let place = Place {
        hot: HOT,
        cold: COLD,
        id: 100,
        link: 7,
        entry,
        probes,
        map: false,
    };
    let emitted = emit(block, &code, place);
    let mut out = String::new();
    writeln!(out, "=== {what} ({probes:?}, {entry:?})").unwrap();
    for (pc, code) in pieces {
        disassemble(&mut out, "source", *pc, code, &emitted);
    }
    let plan = &block.plan;
    writeln!(
        out,
        "  {} words, {} accesses, {:?}",
        plan.words,
        plan.accesses.len(),
        block.exit
    )
    .unwrap();
    for (way, side) in block.ways.iter().zip(&plan.sides) {
        writeln!(
            out,
            "  {} words if left with instruction {}, {way:x?}",
            side.words, side.insn
        )
        .unwrap();
    }
    if let Some(looping) = &plan.looping {
        writeln!(out, "  {looping:?}").unwrap();
    }
    disassemble(&mut out, "hot", HOT, &emitted.hot, &emitted);
    out.push_str("  cold:\n");
    disassemble(&mut out, "cold", COLD, &emitted.cold, &emitted);
    for link in &emitted.links {
        match link {
            LinkKind::Direct { target, patch } => writeln!(out, "  link to {target:x}, jump at {patch:x}").unwrap(),
            other => writeln!(out, "  link {other:x?}").unwrap(),
        }
    }
    out.push('\n');
    out
}

#[test]
fn the_code_is_as_expected() {
    let mut text = String::new();
    for (what, code) in BLOCKS {
        text += &describe(what, code, Probes::Loop, Entry::Direct);
    }
    let (what, code) = BLOCKS[0];
    text += &describe(what, code, Probes::Naive, Entry::Direct);
    text += &describe(what, code, Probes::Block, Entry::Indirect);
    text += &describe(what, code, Probes::None, Entry::Return);
    let path = [&PATH[..], &[PATH_END]].concat();
    text += &describe_path("a path", &path, Entry::Direct);
    text += &describe_path("a path that is entered by a return", &path[..3], Entry::Return);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden.txt");
    if std::env::var_os("MEMTRAIL_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    let different = text.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(
        text == expected,
        "the code has changed, first here: {different:?}; if it is right: MEMTRAIL_BLESS=1 cargo test -p memtrail-translate"
    );
}
