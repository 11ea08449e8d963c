// A library that is opened at run time and has an allocator of its own.
// guest: build=dynamic scope=exe
#include <dlfcn.h>
#include "notes.h"
int main(int argc, char **argv) {
    if (argc > 1) {
        for (int i = 0; i < 2; i++) {
            void *library = dlopen(argv[1], RTLD_NOW);
            if (!library) return 1;
            void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "je_malloc");
            void (*give_back)(void *) = (void (*)(void *))dlsym(library, "je_free");
            memtrail_enter("test");
            void *p = allocate(40 + i);
            expect("alloc %p %d je_malloc", p, 40 + i);
            expect("free %p je_free", p);
            give_back(p);
            memtrail_leave("test");
            dlclose(library);
        }
    }
    finish(argc);
    return 0;
}
