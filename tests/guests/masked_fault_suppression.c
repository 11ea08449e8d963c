// Masked vector instructions with an empty mask on an unmapped operand: which fault, and which are suppressed.
// guest: build=static needs=avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx512vbmi,avx512_vbmi2,avx512_vnni,avx512_bitalg,avx512_bf16,gfni
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static sigjmp_buf back;
static void jump(int n) { siglongjmp(back, n); }
static void say(const char *text) { write(1, text, strlen(text)); }
#define T(name, code)                                                                                     \
    if (sigsetjmp(back, 1) == 0) {                                                                        \
        __asm__ volatile("kmovq %1, %%k1\n" code : : "r"(p), "r"(0l) : "memory", "xmm0", "xmm1");          \
        say(name " suppressed\n");                                                                        \
    } else {                                                                                              \
        say(name " faults\n");                                                                            \
    }
int main(void) {
    char *p = mmap(0, 8192, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, jump);
    T("vpaddd", "vpaddd (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpermd", "vpermd (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpshufb", "vpshufb (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpunpckldq", "vpunpckldq (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpslld m128", "vpslld (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vshufps", "vshufps $3, (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpackssdw", "vpackssdw (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vmovddup", "vmovddup (%0), %%zmm1%{%%k1%}")
    T("vinserti32x4", "vinserti32x4 $1, (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("valignd", "valignd $1, (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpmaddwd", "vpmaddwd (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpmaddubsw", "vpmaddubsw (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpconflictd", "vpconflictd (%0), %%zmm1%{%%k1%}")
    T("vpmultishiftqb", "vpmultishiftqb (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpermi2d", "vpermi2d (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpermilps i", "vpermilps $3, (%0), %%zmm1%{%%k1%}")
    T("vpermilps v", "vpermilps (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vmovshdup", "vmovshdup (%0), %%zmm1%{%%k1%}")
    T("vdbpsadbw", "vdbpsadbw $1, (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vgf2p8affine", "vgf2p8affineqb $1, (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vgf2p8mulb", "vgf2p8mulb (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpshufbitqmb", "vpshufbitqmb (%0), %%zmm0, %%k2%{%%k1%}")
    T("vpsravd", "vpsravd (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpdpbusd", "vpdpbusd (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpmulhrsw", "vpmulhrsw (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpshldvd", "vpshldvd (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vextracti32x4", "vextracti32x4 $1, %%zmm0, (%0)%{%%k1%}")
    T("vpermd bcst", "vpermd (%0)%{1to16%}, %%zmm0, %%zmm1%{%%k1%}")
    T("vbroadcasti32x4", "vbroadcasti32x4 (%0), %%zmm1%{%%k1%}")
    T("vpmovzxbd", "vpmovzxbd (%0), %%zmm1%{%%k1%}")
    T("vpmulld", "vpmulld (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpabsb", "vpabsb (%0), %%zmm1%{%%k1%}")
    T("vrcp14ps", "vrcp14ps (%0), %%zmm1%{%%k1%}")
    T("vplzcntd", "vplzcntd (%0), %%zmm1%{%%k1%}")
    T("vpopcntb", "vpopcntb (%0), %%zmm1%{%%k1%}")
    T("vdpbf16ps", "vdpbf16ps (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vfmaddps", "vfmadd231ps (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpsllw imm m", "vpsllw $1, (%0), %%zmm1%{%%k1%}")
    T("vpsllvw", "vpsllvw (%0), %%zmm0, %%zmm1%{%%k1%}")
    T("vpcmpb", "vpcmpeqb (%0), %%zmm0, %%k2%{%%k1%}")
    T("vsqrtss", "vsqrtss (%0), %%xmm0, %%xmm1%{%%k1%}")
    T("vexpandps", "vexpandps (%0), %%zmm1%{%%k1%}")
    T("vpavgb", "vpavgb (%0), %%zmm0, %%zmm1%{%%k1%}")
    return 0;
}
