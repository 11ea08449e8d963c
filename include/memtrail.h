/* Markers: a program tells memtrail what it knows of itself.
 *
 * Include this header and call the functions below. Nothing is linked. Where the program is not recorded, and on
 * other processors than x86-64, they do nothing; on x86-64 they cost an instruction that does nothing, and its operands.
 *
 *     double *matrix = my_pool(n * n * sizeof *matrix);
 *     memtrail_name(matrix, n * n * sizeof *matrix, "matrix");
 *     memtrail_enter("multiply");
 *     ...
 *     memtrail_leave("multiply");
 *
 * Names are texts that end with a zero byte; those longer than 1024 bytes are cut.
 */
#ifndef MEMTRAIL_H
#define MEMTRAIL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
/* nop dword ptr [rax + rax + 32-bit displacement]: no compiler makes one with such a displacement. */
#define MEMTRAIL_MARK(number, p, n, name)                                                                        \
    __asm__ __volatile__(".byte 0x0f, 0x1f, 0x84, 0x00, 0x6d, 0x74, 0x72, " number                               \
                         :                                                                                       \
                         : "D"(p), "S"(n), "d"(name)                                                             \
                         : "memory")
#else
#define MEMTRAIL_MARK(number, p, n, name) ((void)(p), (void)(n), (void)(name))
#endif

/* The bytes from p on have this name. With 0 bytes: the allocated block that p points into. */
static inline void memtrail_name(const volatile void *p, size_t bytes, const char *name) {
    MEMTRAIL_MARK("0x01", p, bytes, name);
}

/* A region of this name begins, in this thread. */
static inline void memtrail_enter(const char *region) {
    MEMTRAIL_MARK("0x02", (void *)0, (size_t)0, region);
}

/* It ends. */
static inline void memtrail_leave(const char *region) {
    MEMTRAIL_MARK("0x03", (void *)0, (size_t)0, region);
}

#ifdef __cplusplus
}
#endif
#endif
