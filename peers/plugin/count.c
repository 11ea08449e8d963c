/* A QEMU plugin that counts memory accesses per guest instruction.
 *
 * Prints at exit, to the file given as out=FILE:
 *   C <lowest guest address of the main program's code>   (its load address follows)
 *   A <pc> <reads> <bytes read> <writes> <bytes written>
 *
 * The distribution ships the emulator without its plugin header, so the few
 * declarations of interface version 1 that are used here are our own, written
 * from its documentation. One guest thread is assumed: counters are plain.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { NO_REGISTERS = 0 };
enum { READS_AND_WRITES = 3 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                                  void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
                                             void (*)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *), int, int,
                                             void *);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
extern bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);
extern uint64_t qemu_plugin_start_code(void);

EXPORT int qemu_plugin_version = 1;

/* Counters of one instruction; a chain of them hangs off each hash bucket. A
 * block may be translated many times: its instructions must find their counters again. */
struct counter {
    uint64_t pc, reads, read_bytes, writes, written_bytes;
    struct counter *next;
};

enum { BUCKETS = 1 << 16 };
static struct counter *buckets[BUCKETS];
static char output[4096];

static struct counter *counter_of(uint64_t pc)
{
    struct counter **at = &buckets[(pc ^ pc >> 16) % BUCKETS];
    for (; *at; at = &(*at)->next)
        if ((*at)->pc == pc)
            return *at;
    *at = calloc(1, sizeof **at);
    if (!*at)
        abort();
    (*at)->pc = pc;
    return *at;
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct counter *counter = data;
    uint64_t size = 1ull << qemu_plugin_mem_size_shift(info);
    (void)cpu, (void)address;
    if (qemu_plugin_mem_is_store(info)) {
        counter->writes++;
        counter->written_bytes += size;
    } else {
        counter->reads++;
        counter->read_bytes += size;
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    size_t count = qemu_plugin_tb_n_insns(block);
    (void)id;
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        qemu_plugin_register_vcpu_mem_cb(instruction, on_access, NO_REGISTERS, READS_AND_WRITES,
                                         counter_of(qemu_plugin_insn_vaddr(instruction)));
    }
}

static void at_end(qemu_plugin_id_t id, void *data)
{
    FILE *out = fopen(output, "w");
    (void)id, (void)data;
    if (!out)
        abort();
    fprintf(out, "C %lx\n", qemu_plugin_start_code());
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct counter *c = buckets[i]; c; c = c->next)
            if (c->reads || c->writes)
                fprintf(out, "A %lx %lu %lu %lu %lu\n", c->pc, c->reads, c->read_bytes, c->writes, c->written_bytes);
    fclose(out);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "out=", 4))
            snprintf(output, sizeof output, "%s", argv[i] + 4);
    if (!output[0])
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, at_end, NULL);
    return 0;
}
