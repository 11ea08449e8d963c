// A program linked to the very addresses that the runtime takes in others.
// guest: build=nolibc flags=-fPIE,-Xlinker,-Ttext-segment=0x550000000000
#include "nolibc.h"

static int numbers[64];

int main(void) {
    int sum = 0;
    for (int i = 0; i < 64; i++) numbers[i] = i * i;
    for (int i = 0; i < 64; i++) sum += numbers[(i * 7) % 64];
    print_number(sum);
    print_number((long)&numbers >> 40);
    return 0;
}
