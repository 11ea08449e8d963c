// A loop in which every register counts: general, flags, gs base, x87, mxcsr, vector (AVX-512 if
// there is one), opmask.
#include "guest.h"
#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>

static uint64_t gs_area[8] = {0x1122334455667788};
static unsigned char in[64 * 32], out[64 * 32];
static uint64_t masks_in[8], masks_out[8];

// All general registers but rsp hold patterns across the inner loop, which counts in memory.
static void general(void) {
    static uint64_t count;
    uint64_t wrong;
    count = 40000;
    __asm__ volatile(
        "push %%rbp\n"
        "mov $0x101, %%eax; mov $0x202, %%ebx; mov $0x303, %%ecx; mov $0x404, %%edx\n"
        "mov $0x505, %%esi; mov $0x606, %%edi; mov $0x707, %%ebp; mov $0x808, %%r8d\n"
        "mov $0x909, %%r9d; mov $0xa0a, %%r10d; mov $0xb0b, %%r11d; mov $0xc0c, %%r12d\n"
        "mov $0xd0d, %%r13d; mov $0xe0e, %%r14d; mov $0xf0f, %%r15d; std\n"
        "1: decq %1; jnz 1b\n"
        "pushf; cld\n"
        "sub $0x101, %%rax; sub $0x202, %%rbx; or %%rbx, %%rax; sub $0x303, %%rcx; or %%rcx, %%rax\n"
        "sub $0x404, %%rdx; or %%rdx, %%rax; sub $0x505, %%rsi; or %%rsi, %%rax; sub $0x606, %%rdi\n"
        "or %%rdi, %%rax; sub $0x707, %%rbp; or %%rbp, %%rax; sub $0x808, %%r8; or %%r8, %%rax\n"
        "sub $0x909, %%r9; or %%r9, %%rax; sub $0xa0a, %%r10; or %%r10, %%rax; sub $0xb0b, %%r11\n"
        "or %%r11, %%rax; sub $0xc0c, %%r12; or %%r12, %%rax; sub $0xd0d, %%r13; or %%r13, %%rax\n"
        "sub $0xe0e, %%r14; or %%r14, %%rax; sub $0xf0f, %%r15; or %%r15, %%rax\n"
        "pop %%rcx; and $0x444, %%ecx; xor $0x444, %%ecx; or %%rcx, %%rax; pop %%rbp\n"
        : "=a"(wrong), "+m"(count)
        :
        : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
    if (wrong) fail("a general register or flag", wrong);
}

#define EACH16(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15)
#define EACH32(f) EACH16(f) f(16) f(17) f(18) f(19) f(20) f(21) f(22) f(23) f(24) f(25) f(26) f(27) f(28) f(29) f(30) f(31)
#define SPIN "mov $60000, %%ecx; 1: dec %%ecx; jnz 1b\n"

static void vectors(int wide) {
    if (wide) {
#define LOAD(n) "vmovups " #n "*64(%0), %%zmm" #n "\n"
#define STORE(n) "vmovups %%zmm" #n ", " #n "*64(%1)\n"
        __asm__ volatile(EACH32(LOAD) "kmovw (%2), %%k1; kmovw 8(%2), %%k2; kmovw 16(%2), %%k7\n" SPIN EACH32(STORE)
                         "kmovw %%k1, (%3); kmovw %%k2, 8(%3); kmovw %%k7, 16(%3); vzeroupper\n"
                         : : "r"(in), "r"(out), "r"(masks_in), "r"(masks_out) : "rcx", "memory", "cc");
        if (memcmp(in, out, sizeof in)) fail("a zmm register", 0);
        if (memcmp(masks_in, masks_out, 24)) fail("a mask register", 0);
    } else {
#define LOAD_Y(n) "vmovups " #n "*64(%0), %%ymm" #n "\n"
#define STORE_Y(n) "vmovups %%ymm" #n ", " #n "*64(%1)\n"
        __asm__ volatile(EACH16(LOAD_Y) SPIN EACH16(STORE_Y) "vzeroupper\n"
                         : : "r"(in), "r"(out) : "rcx", "memory", "cc");
        for (int i = 0; i < 16; i++)
            if (memcmp(in + 64 * i, out + 64 * i, 32)) fail("a ymm register", i);
    }
}

// The rounding mode of both units, and a number on the x87 stack.
static void units(void) {
    uint32_t mxcsr_in = 0x7f80, mxcsr_out, mxcsr_usual = 0x1f80;
    uint16_t control_in = 0x0f7f, control_out, control_usual = 0x037f;
    double pi;
    __asm__ volatile("ldmxcsr %4; fldcw %5; fldpi\n" SPIN "fstpl %2; fstcw %1; stmxcsr %0; ldmxcsr %6; fldcw %7\n"
                     : "=m"(mxcsr_out), "=m"(control_out), "=m"(pi), "+m"(mxcsr_in)
                     : "m"(mxcsr_in), "m"(control_in), "m"(mxcsr_usual), "m"(control_usual)
                     : "rcx", "cc");
    if (mxcsr_out != mxcsr_in) fail("mxcsr", mxcsr_out);
    if (control_out != control_in) fail("the x87 control word", control_out);
    if (pi < 3.1415926 || pi > 3.1415927) fail("the x87 stack", 0);
}

int main(void) {
    unsigned a, b = 0, c, d;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    int wide = b >> 16 & 1;
    for (unsigned i = 0; i < sizeof in; i++) in[i] = i * 37 + i / 64;
    for (int i = 0; i < 8; i++) masks_in[i] = 0xa5c3 ^ (uint64_t)i << 4;
    syscall(SYS_arch_prctl, ARCH_SET_GS, gs_area);
    dprintf(1, "%s\n", wide ? "avx512" : "avx");
    for (uint64_t x = 1; !over(); x = twice(x, 1000)) {
        uint64_t word;
        general();
        vectors(wide);
        units();
        __asm__ volatile("mov %%gs:0, %0" : "=r"(word));
        if (word != gs_area[0]) fail("the gs base", word);
    }
    puts("ok");
}
