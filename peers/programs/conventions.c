/* One function per kind of access on which tools are known to differ, or might.
 * Every function runs its instruction ROUNDS times on memory of its own. */
#include <stdint.h>
#include <string.h>

enum { ROUNDS = 10 };
#define EACH for (int round = 0; round < ROUNDS; round++)
#define CASE static void __attribute__((noinline))

static uint64_t word[64] __attribute__((aligned(64)));
static unsigned __int128 wide;
static uint64_t other[64] __attribute__((aligned(64)));

CASE read_modify_write(void)
{
    EACH __asm__ volatile("addq %1, (%0)\n incl 8(%0)\n negq 16(%0)\n shlw $3, 24(%0)\n xorb $1, 32(%0)" : : "r"(word), "r"(3ul) : "cc", "memory");
}
CASE locked_add(void) { EACH __asm__ volatile("lock addq $1, %0" : "+m"(word[0]) : : "cc"); }
CASE locked_exchange_add(void)
{
    EACH { uint32_t one = 1; __asm__ volatile("lock xaddl %1, %0" : "+m"(word[0]), "+r"(one) : : "cc"); }
}
CASE exchange(void) { EACH { uint64_t v = 7; __asm__ volatile("xchgq %1, %0" : "+m"(word[0]), "+r"(v)); } }
CASE compare_exchange(void)
{
    EACH { uint64_t a = (uint64_t)round % 2 ? word[0] : ~word[0]; __asm__ volatile("cmpxchgq %2, %0" : "+m"(word[0]), "+a"(a) : "r"(5ul) : "cc"); }
}
CASE locked_compare_exchange(void)
{
    EACH { uint64_t a = (uint64_t)round % 2 ? word[0] : ~word[0]; __asm__ volatile("lock cmpxchgq %2, %0" : "+m"(word[0]), "+a"(a) : "r"(5ul) : "cc"); }
}
CASE wide_compare_exchange(void)
{
    EACH { uint64_t a = 1, d = 2; __asm__ volatile("cmpxchg16b %0" : "+m"(wide), "+a"(a), "+d"(d) : "b"(1ul), "c"(2ul) : "cc"); }
}
/* The red zone belongs to the compiler: step over it before pushing. */
CASE stack(void)
{
    EACH __asm__ volatile("lea -128(%%rsp), %%rsp\n pushq %0\n popq %0\n pushfq\n popfq\n pushw $3\n popw %%ax\n"
                          "pushq $5\n enter $16, $0\n leave\n popq %%rax\n lea 128(%%rsp), %%rsp"
                          : "+m"(word[0]) : : "rax", "cc", "memory");
}
static void __attribute__((noinline)) nothing(void) { __asm__ volatile(""); }
static void (*volatile pointer)(void) = nothing;
CASE call_through_memory(void) { EACH pointer(); }
CASE string_move(void)
{
    EACH { void *to = other, *from = word; uint64_t n = 100; __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory"); }
}
CASE string_store(void)
{
    EACH { void *to = other; uint64_t n = 20; __asm__ volatile("rep stosq\n rep stosl" : "+D"(to), "+c"(n) : "a"(0ul) : "memory"); }
}
CASE string_move_backwards(void)
{
    EACH { void *to = other + 20, *from = word + 20; uint64_t n = 20; __asm__ volatile("std\n rep movsq\n cld" : "+D"(to), "+S"(from), "+c"(n) : : "memory", "cc"); }
}
CASE string_compare(void)
{
    memset(word, 0, sizeof word), memset(other, 0, sizeof other);
    ((char *)other)[37] = 1;
    EACH { void *a = word, *b = other; uint64_t n = 64; __asm__ volatile("repe cmpsb" : "+D"(a), "+S"(b), "+c"(n) : : "memory", "cc"); }
}
CASE string_scan(void)
{
    EACH { void *a = other; uint64_t n = 64; __asm__ volatile("repne scasb" : "+D"(a), "+c"(n) : "a"(1) : "memory", "cc"); }
}
CASE conditional_move(void)
{
    EACH { uint64_t v = 0; __asm__ volatile("cmpq %%rsp, %%rsp\n cmovneq %1, %0\n cmoveq %1, %0" : "+r"(v) : "m"(word[0]) : "cc"); }
}
CASE dead_load(void) { EACH { uint64_t v; __asm__ volatile("movq %1, %0\n xorl %k0, %k0" : "=r"(v) : "m"(word[0]) : "cc"); } }
CASE vector_16(void) { EACH __asm__ volatile("movdqa (%0), %%xmm0\n paddd 16(%0), %%xmm0\n movdqu %%xmm0, 33(%0)" : : "r"(word) : "xmm0", "memory"); }
CASE vector_32(void) { EACH __asm__ volatile("vmovdqu (%0), %%ymm0\n vmovdqa %%ymm0, 32(%0)\n vzeroupper" : : "r"(word) : "xmm0", "memory"); }
CASE vector_parts(void)
{
    EACH __asm__ volatile("movhps (%0), %%xmm0\n movlpd 8(%0), %%xmm0\n movss 16(%0), %%xmm1\n movsd %%xmm0, 24(%0)\n pinsrw $2, 32(%0), %%xmm0\n"
                          "cvtsi2sdq 40(%0), %%xmm2\n movd %%xmm0, 48(%0)\n movhpd %%xmm0, 56(%0)" : : "r"(word) : "xmm0", "xmm1", "xmm2", "memory");
}
CASE x87(void) { EACH __asm__ volatile("fldt (%0)\n fstpt 16(%0)\n fldl 32(%0)\n fstps 40(%0)\n fildll 48(%0)\n fistpl 56(%0)" : : "r"(word) : "st", "memory"); }
CASE bit_test_registers(void) { EACH { uint64_t v = 5; __asm__ volatile("btq %1, %0\n btsq %1, %0\n btcl $3, %k0" : "+r"(v) : "r"(70ul) : "cc"); } }
CASE no_access(void)
{
    EACH { void *p; __asm__ volatile("leaq %1, %0\n nopw %1\n prefetcht0 %1\n prefetchw %1" : "=r"(p) : "o"(word[0])); }
}
CASE straddle(void) { EACH __asm__ volatile("movq 60(%0), %%rax\n movq %%rax, 62(%0)" : : "r"(word) : "rax", "memory"); }
CASE arithmetic_operands(void)
{
    EACH { uint64_t a = 9, d = 0; __asm__ volatile("mulq %2\n divq %3\n cmpb $0, %2\n testl $1, %2\n movzbl %2, %%ecx\n movsbq %2, %%rcx" : "+a"(a), "+d"(d) : "m"(word[50]), "m"(word[51]) : "rcx", "cc"); }
}
CASE segment_relative(void) { EACH __asm__ volatile("movq %%fs:0, %%rax\n movl %%fs:0x28, %%ecx" : : : "rax", "rcx"); }
CASE short_addresses(void) { EACH { uint64_t v; __asm__ volatile("movq (%k1), %0" : "=r"(v) : "r"(word)); } }

int main(void)
{
    read_modify_write(), locked_add(), locked_exchange_add(), exchange(), compare_exchange(), locked_compare_exchange();
    wide_compare_exchange(), stack(), call_through_memory(), string_move(), string_store(), string_move_backwards();
    string_compare(), string_scan(), conditional_move(), dead_load(), vector_16(), vector_32(), vector_parts(), x87();
    bit_test_registers(), no_access(), straddle();
    word[50] = 3, word[51] = 5;
    arithmetic_operands(), segment_relative(), short_addresses();
    return 0;
}
