// A signal at any step of a stretch of assembly: tests/steps.rs sends one at each; here there is none.
// guest: build=nolibc
// It tells where the stretch and the handler lie, and goes through the stretch 16 times; before the last it waits for a byte
// of standard input. Each time registers, stack and memory begin alike. It ends with a checksum of all that the
// stretch left behind, and with the registers that a signal interrupted, as the handler found them.
#include "nolibc.h"

enum { PASSES = 16, REGISTERS = 18 };
static const uint64_t INITIAL[10] = {0x1234, 5, 0x77665544332211, 9, 10, 11, 12, 13, 14, 15};
uint64_t cells[10], sums[10], copies[20];
unsigned char zeros[8] = {1, 1, 1, 0, 0, 0, 0, 0};
uint64_t *pointer;
uint64_t own_stack[8192], stack_of_c, left_behind[2];

static volatile long signals;
static greg_t found[REGISTERS];
__attribute__((section("handler"))) static void note(int n, siginfo_t *info, void *context) {
    for (int i = 0; i < REGISTERS; i++) ((volatile greg_t *)found)[i] = context_registers(context)[i];
    signals++;
}

void go_through(void);
__asm__(".intel_syntax noprefix\n"
    ".text\n"
"go_through:\n"
    "push rbx; push rbp; push r12; push r13; push r14; push r15\n"
    "mov [stack_of_c], rsp\n"
    "mov esp, offset own_stack + 65536\n"
    "mov eax, 1; mov ebx, 2; mov ecx, 3; mov edx, 4; mov esi, 5; mov edi, 6; mov ebp, 7; mov r8d, 8; mov r9d, 9\n"
    "mov r10d, 10; mov r11d, 11; mov r12d, 12; mov r13d, 13; mov r14d, 14; mov r15d, 15\n"
    "test eax, eax\n"
    "jmp stretch_begins\n"
"stretch_is_done:\n"
    "mov rsp, [stack_of_c]\n"
    "mov [left_behind], r12\n"
    "mov [left_behind + 8], r15\n"
    "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx\n"
    "ret\n"

    ".section stretch, \"ax\"\n"
"stretch_begins:\n"
    // The stack, and r15 as base, index, operand and pushed value.
    "mov r15d, offset cells\n"
    "push r15\n"
    "push qword ptr [r15 + 8]\n"
    "pop rax\n"
    "pop r14\n"
    "mov [r15 + 16], rax\n"
    "lea r15, [r15 + rax*8]\n"
    "add r12, [r15]\n"
    "push r15\n"
    "push qword ptr [rsp]\n"
    "pop qword ptr [cells + 64]\n"
    "pop r15\n"
    "mov r15, 0x1122334455667788\n"
    "bswap r15\n"
    "xchg r15, [cells + 72]\n"
    // Each instruction depends on the flags of the one before.
    "mov rax, -1\n"
    "add rax, 2\n"
    "adc rbx, [cells]\n"
    "adc [cells + 24], rbx\n"
    "sbb rdx, rdx\n"
    "rcl r12, 1\n"
    "adc r12, r15\n"
    "setc r15b\n"
    "cmovc rbx, [cells + 8]\n"
    "mov [cells + 32], r15\n"
    // Loops of one block: by `loop` and its kin, and by comparison; the third is affine, the fifth counts in r15.
    "mov ecx, 4\n"
"1:  adc r12, [cells + rcx*8]\n"
    "loop 1b\n"
    "mov ecx, 7\n"
"2:  cmp byte ptr [zeros + rcx], 0\n"
    "loope 2b\n"
    "mov [sums + 72], rcx\n"
    "mov ecx, 8\n"
"3:  cmp byte ptr [cells + rcx*8], 12\n"
    "loopne 3b\n"
    "mov [sums + 64], rcx\n"
    "xor ecx, ecx\n"
"4:  mov rax, [cells + rcx*8]\n"
    "add [sums + rcx*8], rax\n"
    "inc rcx\n"
    "cmp rcx, 5\n"
    "jne 4b\n"
    "mov r15d, 4\n"
"5:  mov al, [cells + r15*8]\n"
    "add r12b, al\n"
    "dec r15\n"
    "jnz 5b\n"
    // Repeated string instructions, forward and backward, between accesses whose bases are loaded.
    "mov rdi, [pointer]\n"
    "mov [rdi], r12\n"
    "mov esi, offset cells\n"
    "mov ecx, 9\n"
    "rep movsb\n"
    "mov rbx, [pointer]\n"
    "mov [rbx + 80], rcx\n"
    "mov ecx, 5\n"
    "rep stosb\n"
    "mov [rbx + 88], rdi\n"
    "std\n"
    "lea rsi, [rbx + 16]\n"
    "lea rdi, [rbx + 120]\n"
    "mov ecx, 3\n"
    "rep movsq\n"
    "lodsb\n"
    "cld\n"
    "mov esi, offset cells\n"
    "mov rdi, [pointer]\n"
    "mov ecx, 20\n"
    "repe cmpsb\n"
    "mov [rbx + 128], rcx\n"
    "mov edi, offset zeros\n"
    "mov al, 0\n"
    "mov ecx, 8\n"
    "repne scasb\n"
    "lea r15, [rcx + rdi]\n"
    "mov [rbx + 136], r15\n"
    // Ways out of a block: two branches not taken, one taken, with accesses between them.
    "mov rax, [cells + 8]\n"
    "cmp rax, 5\n"
    "jne 6f\n"
    "add r12, [rbx + 16]\n"
    "cmp byte ptr [rbx], 0\n"
    "je 6f\n"
    "push rax\n"
    "test rax, [cells + 48]\n"
    "jnz 6f\n"
    "hlt\n"
"6:  pop rcx\n"
    "add r12, rcx\n"
    "jrcxz 7f\n"
    "inc r12\n"
    // Calls and jumps: direct, through r15, through a register and through memory.
"7:  call callee\n"
    "mov eax, offset callee\n"
    "call rax\n"
    "mov r15d, offset table\n"
    "call [r15]\n"
    "mov r15d, offset callee\n"
    "call r15\n"
    "call [table]\n"
    "mov eax, 1\n"
    "jmp [table + rax*8]\n"
    "hlt\n"
"callee:\n"
    "push r15\n"
    "mov r15d, 4\n"
    "add r12, r15\n"
    "adc [cells + 40], r12\n"
    "pop r15\n"
    "ret\n"
"landed:\n"
    "push rbp\n"
    "mov rbp, rsp\n"
    "sub rsp, 32\n"
    "mov [rbp - 8], r12\n"
    "movdqu xmm0, [cells]\n"
    "movdqu [rbp - 32], xmm0\n"
    "add r12, [rbp - 32]\n"
    "leave\n"
    "xadd [cells + 56], r12\n"
    "mov rax, [cells]\n"
    "lock cmpxchg [cells], r12\n"
    "jmp stretch_is_done\n"
    ".data\n"
"table: .quad callee, landed\n"
    ".text\n"
    ".att_syntax\n");

extern char __start_stretch[], __stop_stretch[], __start_handler[], __stop_handler[];

static void print_words(const char *name, const uint64_t *words, int count) {
    char line[400], *to = line;
    while (*name) *to++ = *name++;
    for (int i = 0; i < count; i++) {
        *to++ = ' ';
        for (int shift = 60; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[words[i] >> shift & 15];
    }
    *to++ = '\n';
    SYS3(SYS_write, 1, line, to - line);
}
static void begin_again(void) {
    memcpy(cells, INITIAL, sizeof cells);
    memset(sums, 0, sizeof sums);
    memset(copies, 0, sizeof copies);
    pointer = copies;
}
static uint64_t mixed(uint64_t sum, const uint64_t *words, int count) {
    for (int i = 0; i < count; i++) sum = (sum ^ words[i]) * 0x100000001b3;
    return sum;
}
int main(void) {
    on_signal(SIGUSR1, note, 0, 0);
    uint64_t places[] = {(uint64_t)__start_stretch, (uint64_t)__stop_stretch, (uint64_t)__start_handler, (uint64_t)__stop_handler};
    print_words("places", places, 4);
    for (int i = 0; i < PASSES; i++) {
        char byte;
        begin_again();
        // Only the last pass waits for a byte; the others make its code known to whatever runs this.
        if (SYS3(SYS_read, 0, &byte, i == PASSES - 1) < 0) return 1;
        go_through();
        // The last of the steps at which signals are sent.
        SYS1(SYS_getppid, 0);
    }
    uint64_t sum = mixed(mixed(mixed(mixed(0, left_behind, 2), cells, 10), sums, 10), copies, 20);
    print_words("checksum", &sum, 1);
    for (long i = 0; i < signals; i++) print_words("interrupted", (uint64_t *)found, REGISTERS);
    return 0;
}
