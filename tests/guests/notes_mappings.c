// Memory mapped, moved and given back by system calls.
// guest: build=dynamic
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>
#include "notes.h"
int main(int argc, char **argv) {
    int fd = open("/proc/self/exe", O_RDONLY);
    char name[4096];
    name[readlink("/proc/self/exe", name, sizeof name - 1)] = 0;
    sbrk(0);
    memtrail_enter("test");
    char *a = mmap(0, 20000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect("map %p 20480 rw- 0x0 -", a);
    char *b = mremap(a, 20480, 1 << 22, MREMAP_MAYMOVE);
    expect("remap %p 20480 %p 4194304", a, b);
    b[1 << 21] = 1;
    char *c = mremap(b, 1 << 22, 4096, 0);
    expect("remap %p 4194304 %p 4096", b, c);
    if (mmap(c + 1, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) return 1;
    char *d = mmap(c, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 4096);
    expect("map %p 4096 r-- 0x1000 %s", d, name);
    munmap(d, 4096);
    expect("unmap %p 4096", d);
    if (munmap(d + 1, 4096) == 0) return 1;
    char *end = sbrk(12288);
    expect("break %p", end + 12288);
    sbrk(-4096);
    expect("break %p", end + 8192);
    int id = shmget(IPC_PRIVATE, 10000, 0600);
    char *s = shmat(id, 0, 0);
    shmctl(id, IPC_RMID, 0);
    expect("map %p 12288 rw- 0x0 /SYSV", s);
    s[5000] = 3;
    shmdt(s);
    expect("unmap %p 12288", s);
    memtrail_leave("test");
    close(fd);
    finish(argc);
    return 0;
}
