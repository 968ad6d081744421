/*
 * Counts the work of reading a page, the same on every run: basic blocks passed, by the compiler's
 * -fsanitize-coverage=trace-pc, and the bytes that the C library's functions pass over, 16 to a step
 * (compiled with -Dmemchr=counted_memchr and so on). Time is not looked at.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#undef memchr
#undef memcpy
#undef memmove
#undef memset
#undef memcmp
#undef realloc
#include <string.h>

static uint64_t steps;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { steps++; }

static void passed(size_t bytes) { steps += 1 + bytes / 16; }

void *counted_memchr(const void *at, int c, size_t n);
void *counted_memcpy(void *to, const void *from, size_t n);
void *counted_memmove(void *to, const void *from, size_t n);
void *counted_memset(void *at, int c, size_t n);
int counted_memcmp(const void *a, const void *b, size_t n);
void *counted_realloc(void *at, size_t n);
uint64_t steps_taken(void);

void *counted_memchr(const void *at, int c, size_t n) {
    const char *found = memchr(at, c, n);
    passed(found == NULL ? n : (size_t)(found - (const char *)at));
    return (void *)found;
}

void *counted_memcpy(void *to, const void *from, size_t n) {
    passed(n);
    return memcpy(to, from, n);
}

void *counted_memmove(void *to, const void *from, size_t n) {
    passed(n);
    return memmove(to, from, n);
}

void *counted_memset(void *at, int c, size_t n) {
    passed(n);
    return memset(at, c, n);
}

int counted_memcmp(const void *a, const void *b, size_t n) {
    passed(n);
    return memcmp(a, b, n);
}

void *counted_realloc(void *at, size_t n) {
    passed(n); /* it may be moved */
    return realloc(at, n);
}

/* Steps since the last call. */
uint64_t steps_taken(void) {
    uint64_t taken = steps;
    steps = 0;
    return taken;
}
