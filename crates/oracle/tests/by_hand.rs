//! The oracle against lists written by hand from the architecture manuals.
//!
//! Each case is a few instructions, assembled alone: text at 0x401000, data at
//! 0x402000, rsp set to 0x402800, and an exit that touches nothing. So every
//! access of the whole program stands in the test, as literal addresses.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

struct Case {
    name: &'static str,
    code: &'static str,
    data: &'static str,
    accesses: &'static [&'static str],
}

fn build(case: &Case) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = directory.join(format!("{}.S", case.name));
    let program = directory.join(case.name);
    let text = format!(
        ".intel_syntax noprefix\n.global _start\n.text\n_start: mov esp, 0x402800\n{}\n\
         done: mov eax, 231\n xor edi, edi\n syscall\n\
         .data\n.balign 64\ncells:\n{}\n.skip 0x1000 - (. - cells)\n\
         .section .note.GNU-stack, \"\", @progbits\n",
        case.code, case.data
    );
    std::fs::write(&source, text).expect("the scratch directory is writable");
    let status = Command::new("gcc")
        .args([
            "-nostdlib",
            "-static",
            "-no-pie",
            "-Wl,--section-start=.text=0x401000,-Tdata=0x402000,--build-id=none",
        ])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status()
        .expect("gcc runs");
    assert!(status.success(), "{} does not assemble", case.name);
    program
}

/// Lines of the oracle, whole.
fn trace(case: &Case, options: &[&str]) -> Vec<String> {
    let program = build(case);
    let list = program.with_extension("accesses");
    let status = Command::new(env!("CARGO_BIN_EXE_memtrail-oracle"))
        .args(options)
        .arg("-o")
        .arg(&list)
        .arg("--")
        .arg(&program)
        .status()
        .expect("the oracle runs");
    assert!(status.success(), "{} ended with {status}", case.name);
    let text = std::fs::read_to_string(&list).expect("the oracle wrote its list");
    text.lines().map(str::to_owned).collect()
}

fn check(case: Case) {
    let found: Vec<String> = trace(&case, &[])
        .iter()
        .map(|line| line.splitn(3, ' ').nth(2).expect("thread, pc, and the rest").to_owned())
        .collect();
    assert_eq!(found, case.accesses, "{}", case.name);
}

#[test]
fn thread_and_pc_are_printed_first() {
    // mov esp, imm32 is 5 bytes; push imm8 is 2.
    let case = Case {
        name: "pc",
        code: "push 1\n pop rax\n",
        data: "",
        accesses: &[],
    };
    assert_eq!(
        trace(&case, &[]),
        ["0 0x401005 W 0x4027f8 8", "0 0x401007 R 0x4027f8 8"]
    );
    assert_eq!(trace(&case, &["--limit", "1"]), ["0 0x401005 W 0x4027f8 8"]);
    assert_eq!(trace(&case, &["--only-exe"]).len(), 2);
}

#[test]
fn read_modify_write_is_two_accesses() {
    check(Case {
        name: "rmw",
        code: "inc dword ptr [cells]\n lock xadd [cells+8], rax\n xchg [cells+16], al\n cmp [cells], ecx\n\
               mov ecx, 5\n cmpxchg [cells+32], rcx\n cmp eax, eax\n cmovne rax, [cells+40]\n setz [cells+3]",
        data: ".quad 1, 2, 3, 4, 5, 6",
        accesses: &[
            "R 0x402000 4",
            "W 0x402000 4",
            "R 0x402008 8",
            "W 0x402008 8",
            "R 0x402010 1",
            "W 0x402010 1",
            "R 0x402000 4",
            "R 0x402020 8",
            "W 0x402020 8",
            "R 0x402028 8",
            "W 0x402003 1",
        ],
    });
}

#[test]
fn stack_operands_come_in_architectural_order() {
    check(Case {
        name: "stack",
        code: "push qword ptr [rsp+8]\n pop qword ptr [rsp+8]\n call [cells]\n jmp 1f\n\
               callee: ret\n\
               1: push word ptr 7\n pop ax\n pushfq\n popfq\n mov ebp, 0x402700\n enter 16, 2\n leave",
        data: ".quad callee",
        accesses: &[
            // push [m]: source, then the slot below
            "R 0x402808 8",
            "W 0x4027f8 8",
            // pop [rsp+8]: the address is formed after the increment
            "R 0x4027f8 8",
            "W 0x402808 8",
            "R 0x402000 8",
            "W 0x4027f8 8",
            "R 0x4027f8 8",
            "W 0x4027fe 2",
            "R 0x4027fe 2",
            "W 0x4027f8 8",
            "R 0x4027f8 8",
            // enter 16, 2: rbp, one outer frame pointer, the new frame pointer
            "W 0x4027f8 8",
            "R 0x4026f8 8",
            "W 0x4027f0 8",
            "W 0x4027e8 8",
            "R 0x4027f8 8",
        ],
    });
}

#[test]
fn repeated_strings_count_each_element() {
    check(Case {
        name: "strings",
        code: "mov esi, offset cells\n mov edi, offset cells+64\n mov ecx, 2\n rep movsq\n\
               mov ecx, 0\n rep stosb\n\
               mov esi, offset cells\n mov edi, offset cells+8\n mov ecx, 9\n repe cmpsb\n\
               std\n mov edi, offset cells+100\n mov ecx, 2\n rep stosw\n cld\n lodsd",
        data: ".byte 1,2,3,4,5,6,7,8, 1,2,9,4,5,6,7,8",
        accesses: &[
            "R 0x402000 8",
            "W 0x402040 8",
            "R 0x402008 8",
            "W 0x402048 8",
            "R 0x402000 1",
            "R 0x402008 1",
            "R 0x402001 1",
            "R 0x402009 1",
            "R 0x402002 1",
            "R 0x40200a 1",
            "W 0x402064 2",
            "W 0x402062 2",
            "R 0x402003 4",
        ],
    });
}

#[test]
fn bit_strings_touch_the_word_the_offset_names() {
    check(Case {
        name: "bits",
        code: "mov eax, 70\n bt qword ptr [cells+64], rax\n mov rax, -1\n bts dword ptr [cells+64], eax\n\
               mov eax, 16\n btr word ptr [cells+64], ax\n bt dword ptr [cells+64], 40",
        data: "",
        accesses: &[
            "R 0x402048 8",
            "R 0x40203c 4",
            "W 0x40203c 4",
            "R 0x402042 2",
            "W 0x402042 2",
            "R 0x402040 4",
        ],
    });
}

#[test]
fn odd_extents_and_non_accesses() {
    check(Case {
        name: "extents",
        code: "fld1\n fstp tbyte ptr [cells+3]\n fnstenv [cells+64]\n fnsave [cells+128]\n fxsave [cells+512]\n\
               mov eax, 3\n xor edx, edx\n xsave [cells+1024]\n\
               mov ebx, offset cells\n mov eax, 5\n xlatb\n\
               lea rax, [rbx]\n nop dword ptr [rbx]\n clflush [rbx]\n prefetcht0 [rbx+7]\n movups xmm0, [rbx+60]\n\
               mov rdx, [cells]",
        data: "",
        accesses: &[
            "W 0x402003 10",
            "W 0x402040 28",
            "W 0x402080 108",
            "W 0x402200 512",
            "W 0x402400 576",
            "R 0x402005 1",
            "P 0x402007 1",
            "R 0x40203c 16",
            "R 0x402000 8",
        ],
    });
}

#[test]
fn offsets_wrap_at_the_address_width() {
    check(Case {
        name: "width",
        code: "movabs rbx, 0x7700402010\n mov ecx, -2\n mov al, [ebx+ecx*8]\n mov al, [ebx]\n\
               mov eax, 158\n mov edi, 0x1002\n mov esi, 0x402100\n syscall\n mov rax, fs:[16]\n mov edx, 8\n\
               mov fs:[rdx*2-8], ecx\n movabs al, [0x402004]\n movabs [0x402018], rax",
        data: "",
        accesses: &[
            "R 0x402000 1",
            "R 0x402010 1",
            "R 0x402110 8",
            "W 0x402108 4",
            "R 0x402004 1",
            "W 0x402018 8",
        ],
    });
}

#[test]
fn byte_masks_select_bytes() {
    check(Case {
        name: "maskmov",
        code: "movq xmm1, [cells]\n mov edi, offset cells+32\n maskmovdqu xmm1, xmm1",
        data: ".byte 0x80, 0, 0x7f, 0xff, 0, 0, 0, 0x80",
        accesses: &["R 0x402000 8", "W 0x402020 1", "W 0x402023 1", "W 0x402027 1"],
    });
}

fn cpu_has(features: &[&str]) -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
    let all = features.iter().all(|f| flags.split(' ').any(|flag| flag == *f));
    if !all {
        // Not by eprintln!, which the test runner hides for tests that pass.
        let _ = writeln!(
            std::io::stderr(),
            "******** NOT RUNNABLE HERE: needs {features:?} ********"
        );
    }
    all
}

#[test]
fn opmasks_select_elements() {
    if !cpu_has(&["avx512f", "avx512vl"]) {
        return;
    }
    check(Case {
        name: "opmask",
        code: "mov eax, 0x8005\n kmovw k1, eax\n mov ebx, offset cells\n\
               vmovdqu32 zmm0{k1}{z}, [rbx]\n vpaddq ymm1{k1}, ymm0, [rbx]\n\
               vpaddd zmm2{k1}, zmm0, dword ptr [rbx+4]{1to16}\n kxorw k2, k2, k2\n\
               vpaddd zmm2{k2}, zmm0, dword ptr [rbx+4]{1to16}\n vpcompressd [rbx+64]{k1}, zmm0\n\
               vmovdqu64 zmm3, [rbx+1]\n vmovss [rbx]{k1}, xmm0\n vmovss [rbx]{k2}, xmm0\n\
               vpmovqd [rbx+8]{k1}, zmm3\n vpermd zmm4{k1}, zmm3, [rbx]",
        data: "",
        accesses: &[
            "R 0x402000 4",
            "R 0x402008 4",
            "R 0x40203c 4",
            "R 0x402000 8",
            "R 0x402010 8",
            "R 0x402004 4",
            "W 0x402040 4",
            "W 0x402044 4",
            "W 0x402048 4",
            "R 0x402001 64",
            "W 0x402000 4",
            "W 0x402008 4",
            "W 0x402010 4",
            // a permute masks only its result
            "R 0x402000 64",
        ],
    });
}

#[test]
fn masks_count_lanes_of_the_result() {
    if !cpu_has(&[
        "avx512f",
        "avx512vl",
        "avx512bw",
        "avx512dq",
        "avx512_vnni",
        "avx512_vbmi2",
    ]) {
        return;
    }
    check(Case {
        name: "lanes",
        code: "mov eax, 0x0a\n kmovw k1, eax\n mov ebx, offset cells\n vpxord zmm0, zmm0, zmm0\n\
               vpcompressd [rbx+64], zmm0\n vpexpandb xmm1, [rbx]\n vpexpandw ymm1{k1}{z}, [rbx+1]\n\
               vpdpbusd xmm1{k1}, xmm0, [rbx]\n vpmovzxbq zmm1{k1}{z}, [rbx]\n\
               vcvtps2pd ymm1{k1}{z}, [rbx]\n vcvtpd2ps xmm1{k1}{z}, ymmword ptr [rbx]\n\
               vcvtps2ph [rbx+64]{k1}, ymm0, 0\n vfpclassps k2{k1}, xmmword ptr [rbx], 1\n\
               vpslld xmm1{k1}, xmm0, [rbx]\n vpslld xmm1{k1}, [rbx], 1\n\
               vbroadcastsd zmm1{k1}, [rbx]\n vaddps xmm1{k1}, xmm0, dword ptr [rbx]{1to4}\n\
               vpaddq xmm1{k1}, xmm0, qword ptr [rbx]{1to2}\n vpcmpub k2{k1}, xmm0, [rbx+16], 0\n\
               vextracti32x4 [rbx+64]{k1}, zmm0, 1\n vaddsd xmm1{k1}, xmm0, [rbx]\n kmovb [rbx], k1\n\
               mov eax, 0x0c\n kmovw k1, eax\n vpaddq xmm1{k1}, xmm0, qword ptr [rbx]{1to2}",
        data: "",
        accesses: &[
            // unmasked: whole, compressing and expanding too
            "W 0x402040 64",
            "R 0x402000 16",
            // two active lanes, packed from the start
            "R 0x402001 2",
            "R 0x402003 2",
            // dot product of bytes, masked by dwords
            "R 0x402004 4",
            "R 0x40200c 4",
            "R 0x402001 1",
            "R 0x402003 1",
            "R 0x402004 4",
            "R 0x40200c 4",
            "R 0x402008 8",
            "R 0x402018 8",
            "W 0x402042 2",
            "W 0x402046 2",
            "R 0x402004 4",
            "R 0x40200c 4",
            // a count in memory is read whole; a shifted operand by element
            "R 0x402000 16",
            "R 0x402004 4",
            "R 0x40200c 4",
            // broadcasts: once, if any lane in range is active
            "R 0x402000 8",
            "R 0x402000 4",
            "R 0x402000 8",
            "R 0x402011 1",
            "R 0x402013 1",
            "W 0x402044 4",
            "W 0x40204c 4",
            // vaddsd: bit 0 is clear, no access
            "W 0x402000 1",
            // the last broadcast: only lanes out of range are set
        ],
    });
}

#[test]
fn extended_state_extents_follow_the_mask() {
    if !cpu_has(&["avx512f", "xsavec"]) {
        return;
    }
    // Standard offsets: AVX 576+256; opmask, ZMM_Hi256 and Hi16_ZMM where CPUID puts them, the last
    // ending the area.
    let case = Case {
        name: "xsave",
        code: "mov eax, 7\n xor edx, edx\n xsave [cells]\n xsavec [cells]\n xrstor [cells]\n\
               mov eax, 0xe7\n xsavec [cells]\n",
        data: "",
        accesses: &["W 0x402000 832", "W 0x402000 832", "R 0x402000 832", "W 0x402000 2432"],
    };
    check(case);
}

#[test]
fn gathers_and_scatters_touch_active_lanes_in_order() {
    if !cpu_has(&["avx2", "avx512f", "avx512vl"]) {
        return;
    }
    check(Case {
        name: "gather",
        code: "mov ebx, 0x402100\n vmovdqu xmm1, [cells]\n vmovdqu xmm2, [cells+16]\n\
               vpgatherdd xmm0, [rbx+xmm1*4], xmm2\n mov eax, 6\n kmovw k1, eax\n\
               vpscatterdq [rbx+xmm1*8]{k1}, ymm0",
        data: ".long 1, -1, 5, 0\n .long -1, 0x80000000, 0, 0x7fffffff",
        accesses: &[
            "R 0x402000 16",
            "R 0x402010 16",
            "R 0x402104 4",
            "R 0x4020fc 4",
            "W 0x4020f8 8",
            "W 0x402128 8",
        ],
    });
}
