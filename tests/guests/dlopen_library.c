// A library opened, used and closed at run time.
// guest: build=dynamic scope=exe
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (!library) return 1;
        double (*root)(double) = (double (*)(double))dlsym(library, "cbrt");
        for (int k = 1; k < 4; k++) sum += root(k * 8.0);
        dlclose(library);
    }
    printf("%.4f\n", sum);
    return 0;
}
