//! The built runtime image, looked at from outside: what the kernel would refuse, what would need a
//! loader, and what would disturb the target's registers.
use iced_x86::{
    Decoder, DecoderOptions, EncodingKind, FlowControl, Formatter, Instruction, InstructionInfoFactory, NasmFormatter,
    OpAccess, Register,
};
use memtrail_tracee::IMAGE;

fn half(at: usize) -> usize {
    u16::from_le_bytes(IMAGE[at..at + 2].try_into().unwrap()).into()
}
fn word(at: usize) -> u32 {
    u32::from_le_bytes(IMAGE[at..at + 4].try_into().unwrap())
}
fn long(at: usize) -> usize {
    u64::from_le_bytes(IMAGE[at..at + 8].try_into().unwrap()) as usize
}

#[derive(Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    addr: usize,
    file_bytes: usize,
}

#[derive(Debug)]
struct Section {
    kind: u32,
    flags: usize,
    addr: usize,
    offset: usize,
    size: usize,
    link: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    value: usize,
    size: usize,
    kind: u8,
    section: usize,
    name: String,
}

fn segments() -> Vec<Segment> {
    let (table, size) = (long(32), half(54));
    let one = |i| Segment {
        kind: word(table + i * size),
        flags: word(table + i * size + 4),
        addr: long(table + i * size + 16),
        file_bytes: long(table + i * size + 32),
    };
    (0..half(56)).map(one).collect()
}

fn sections() -> Vec<Section> {
    let (table, size) = (long(40), half(58));
    let one = |i| {
        let at = table + i * size;
        Section {
            kind: word(at + 4),
            flags: long(at + 8),
            addr: long(at + 16),
            offset: long(at + 24),
            size: long(at + 32),
            link: word(at + 40) as usize,
        }
    };
    (0..half(60)).map(one).collect()
}

fn symbols() -> Vec<Symbol> {
    const SYMTAB: u32 = 2;
    let sections = sections();
    let mut symbols = Vec::new();
    for table in sections.iter().filter(|s| s.kind == SYMTAB) {
        let names = &sections[table.link];
        for at in (table.offset..table.offset + table.size).step_by(24).skip(1) {
            let name = &IMAGE[names.offset + word(at) as usize..];
            let end = name.iter().position(|&b| b == 0).unwrap();
            symbols.push(Symbol {
                value: long(at + 8),
                size: long(at + 16),
                kind: IMAGE[at + 4] & 15,
                section: half(at + 6),
                name: String::from_utf8_lossy(&name[..end]).into_owned(),
            });
        }
    }
    symbols
}

#[test]
fn it_needs_no_loader() {
    const DYN: usize = 3;
    let [load, dynamic, interp, tls] = [1, 2, 3, 7];
    assert_eq!(half(16), DYN, "it can lie anywhere");
    assert_eq!(long(32) % 8, 0);
    for s in segments() {
        assert!(![dynamic, interp, tls].contains(&s.kind), "{s:?}");
    }
    assert!(segments().iter().any(|s| s.kind == load));
}

#[test]
fn nothing_is_writable_and_executable_not_even_the_stack() {
    const GNU_STACK: u32 = 0x6474_e551;
    const X: u32 = 1;
    const W: u32 = 2;
    for s in segments() {
        assert!(s.flags & (W | X) != (W | X), "{s:?}");
    }
    let stacks: Vec<_> = segments().into_iter().filter(|s| s.kind == GNU_STACK).collect();
    assert_eq!(stacks.len(), 1, "without it the stack would be executable");
    assert_eq!(stacks[0].flags & X, 0);
}

#[test]
fn nothing_but_its_own_address_is_left_to_find() {
    let [rela, rel, dynsym] = [4, 9, 11];
    const UNDEFINED: usize = 0;
    const RELATIVE: usize = 8;
    const W: u32 = 2;
    let mut relocations = 0;
    for s in sections() {
        assert!(![rel, dynsym].contains(&s.kind), "{s:x?}");
        for at in (s.offset..s.offset + s.size).step_by(24).filter(|_| s.kind == rela) {
            let (to, what) = (long(at), long(at + 8));
            assert_eq!(what, RELATIVE, "the relocation of {to:#x}");
            let holds = |s: &Segment| s.flags & W != 0 && (s.addr..s.addr + s.file_bytes).contains(&to);
            assert!(segments().iter().any(holds), "{to:#x} is not in the data");
            relocations += 1;
        }
    }
    assert!(relocations > 100, "{relocations} relocations");
    let symbols = symbols();
    assert!(symbols.len() > 100, "the image has its symbols");
    for s in symbols {
        assert_ne!(s.section, UNDEFINED, "{s:x?} is undefined");
    }
}

/// The order of locks is checked in the image of a build with debug assertions, and in no other.
#[test]
fn it_checks_itself_if_this_build_does() {
    let message = b"a lock is taken out of order";
    let checks = IMAGE.windows(message.len()).any(|w| w == message);
    assert_eq!(checks, cfg!(debug_assertions));
}

/// Why an instruction may not be in the image. Vector registers above xmm15 and upper halves, x87,
/// MMX and opmask registers stay the target's while the runtime runs; only xmm0 to 15 are saved on
/// the way in.
fn forbidden(insn: &Instruction, infos: &mut InstructionInfoFactory) -> Option<&'static str> {
    if insn.is_invalid() {
        return Some("does not decode");
    }
    if insn.encoding() != EncodingKind::Legacy {
        return Some("VEX, EVEX or XOP");
    }
    let saves = insn.is_save_restore_instruction();
    for used in infos.info(insn).used_registers() {
        let r = used.register();
        let touched = used.access() != OpAccess::None && used.access() != OpAccess::NoMemAccess;
        if touched && !saves && (r.is_st() || r.is_mm() || r.is_k() || r.is_ymm() || r.is_zmm()) {
            return Some("x87, MMX, opmask or wide vector register");
        }
        if touched && !saves && (Register::XMM16..=Register::XMM31).contains(&r) {
            return Some("high vector register");
        }
    }
    let legacy_float = insn.cpuid_features().iter().any(|f| {
        use iced_x86::CpuidFeature::*;
        matches!(f, FPU | FPU287 | FPU387 | MMX | D3NOW | D3NOWEXT)
    });
    (legacy_float && !saves).then_some("x87 or MMX")
}

#[test]
fn no_instruction_disturbs_what_is_not_saved() {
    const ALLOC_EXEC: usize = 2 | 4;
    const FUNC: u8 = 2;
    const NONE: u8 = 0;
    let sections = sections();
    let mut symbols = symbols();
    symbols.sort();
    let mut infos = InstructionInfoFactory::new();
    let mut formatter = NasmFormatter::new();
    let (mut functions, mut bytes, mut bad) = (0, 0, Vec::new());
    for text in sections.iter().filter(|s| s.flags & ALLOC_EXEC == ALLOC_EXEC) {
        let inside =
            |s: &&Symbol| (text.addr..text.addr + text.size).contains(&s.value) && [FUNC, NONE].contains(&s.kind);
        let starts: Vec<&Symbol> = symbols.iter().filter(inside).collect();
        assert!(!starts.is_empty());
        for (i, s) in starts.iter().enumerate() {
            let next = starts[i + 1..].iter().map(|n| n.value).find(|&v| v > s.value);
            let end = next.unwrap_or(text.addr + text.size);
            let size = if s.size > 0 {
                s.size.min(end - s.value)
            } else {
                end - s.value
            };
            let from = text.offset + (s.value - text.addr);
            let mut decoder = Decoder::with_ip(64, &IMAGE[from..from + size], s.value as u64, DecoderOptions::NONE);
            functions += 1;
            bytes += size;
            while decoder.can_decode() {
                let insn = decoder.decode();
                if let Some(why) = forbidden(&insn, &mut infos) {
                    let mut asm = String::new();
                    formatter.format(&insn, &mut asm);
                    bad.push(format!("{} {:#x}: {asm}: {why}", s.name, insn.ip()));
                }
                if s.size == 0 && insn.flow_control() == FlowControl::Return {
                    // Assembly without sizes: padding may follow.
                    break;
                }
            }
        }
    }
    assert!(functions > 50 && bytes > 10_000, "{functions} functions, {bytes} bytes");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// The rule itself, on instructions that are good and bad.
#[test]
fn the_rule_sees_what_it_should() {
    let mut infos = InstructionInfoFactory::new();
    for (bytes, good) in [
        (&[0x0f, 0x58, 0xc1][..], true),                // addps xmm0, xmm1
        (&[0x48, 0x0f, 0xae, 0x27], true),              // xsave64 [rdi]
        (&[0x48, 0x0f, 0xae, 0x0f], true),              // fxrstor64 [rdi]
        (&[0xf3, 0x48, 0xa5], true),                    // rep movsq
        (&[0xc5, 0xf8, 0x58, 0xc1], false),             // vaddps xmm0, xmm0, xmm1
        (&[0xc5, 0xf8, 0x77], false),                   // vzeroupper
        (&[0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1], false), // vaddps zmm0, zmm0, zmm1
        (&[0xc4, 0xe1, 0xf8, 0x91, 0x07], false),       // kmovq [rdi], k0
        (&[0xd9, 0xe8], false),                         // fld1
        (&[0xdd, 0x07], false),                         // fld qword [rdi]
        (&[0x0f, 0x77], false),                         // emms
        (&[0x0f, 0x6f, 0x07], false),                   // movq mm0, [rdi]
    ] {
        let insn = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        assert_eq!(forbidden(&insn, &mut infos).is_none(), good, "{bytes:x?}");
    }
}
