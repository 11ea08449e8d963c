// operator new and delete in all forms; one that throws, twice from the same place, and what is allocated further down then.
// guest: build=dynamic
#include <cstdint>
#include <cstdlib>
#include <new>
#include "notes.h"
struct alignas(64) Wide {
    char bytes[128];
};
static volatile size_t huge = (size_t)1 << 62;
static void *volatile sink;
__attribute__((noinline)) static void deeper(int n) {
    volatile char room[200];
    room[n] = 1;
    if (n > 0) return deeper(n - 1);
    void *p = sink = malloc(77);
    expect("alloc %p 77 malloc", p);
    expect("free %p free", p);
    free(p);
}
int main(int argc, char **argv) {
    memtrail_enter("test");
    int *one = new int;
    expect("alloc %p 4 _Znwm", one);
    sink = one;
    long *many = new long[10];
    expect("alloc %p 80 _Znam", many);
    sink = many;
    Wide *wide = new Wide;
    expect("alloc %p 128 _ZnwmSt11align_val_t", wide);
    sink = wide;
    Wide *wides = new Wide[2];
    expect("alloc %p 256 _ZnamSt11align_val_t", wides);
    sink = wides;
    char *quiet = new (std::nothrow) char[33];
    expect("alloc %p 33 _ZnamRKSt9nothrow_t", quiet);
    sink = quiet;
    for (int i = 0; i < 2; i++) {
        try {
            sink = operator new(huge + i);
        } catch (const std::bad_alloc &) {
            expect("caught");
        }
        deeper(3);
    }
    // From the same place as those that threw, but now it works.
    for (int i = 0; i < 3; i++) {
        try {
            void *p = sink = operator new(i < 2 ? huge : 24);
            expect("alloc %p 24 _Znwm", p);
            expect("free %p _ZdlPv", p);
            operator delete(p);
        } catch (const std::bad_alloc &) {
            expect("caught");
        }
    }
    expect("free %p _ZdaPv", quiet);
    delete[] quiet;
    expect("free %p _ZdaPvSt11align_val_t", wides);
    operator delete[](wides, std::align_val_t(64));
    expect("free %p _ZdlPvmSt11align_val_t", wide);
    operator delete(wide, sizeof *wide, std::align_val_t(64));
    expect("free %p _ZdaPv", many);
    delete[] many;
    expect("free %p _ZdlPvm", one);
    operator delete(one, sizeof *one);
    memtrail_name(&huge, sizeof huge, "huge");
    expect("name %p 8 huge", &huge);
    memtrail_leave("test");
    finish(argc);
    return 0;
}
