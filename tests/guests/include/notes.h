// What a guest expects to be noted, line by line as `dump --notes` has it, in a buffer of its own: printing would allocate.
// It is printed only if the guest is asked for it: addresses vary.
#pragma once
#include <memtrail.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static char notes_text[1 << 16];
static int notes_length;
static void expect(const char *format, ...) {
    va_list list;
    va_start(list, format);
    notes_length += vsnprintf(notes_text + notes_length, sizeof notes_text - notes_length, format, list);
    va_end(list);
    notes_text[notes_length++] = '\n';
}
static void finish(int argc) {
    if (argc > 1) write(1, notes_text, notes_length);
    else write(1, "done\n", 5);
}
