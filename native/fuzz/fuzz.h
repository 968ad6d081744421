/*
 * What the harnesses share: a check for every build, and a bound on memory.
 *
 * A harness defines LLVMFuzzerTestOneInput, so that libFuzzer, AFL++ and driver.c can run it. It
 * judges by rules, not only by faults: what the library says is compared with something plainer.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ndd.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Not assert: this must hold in every build. */
#define MUST(condition)                                                               \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            abort();                                                                  \
        }                                                                             \
    } while (0)

static inline int fuzz_bits_between(uint64_t a, uint64_t b) {
    int bits = 0;
    for (uint64_t left = a ^ b; left != 0; left &= left - 1) bits++;
    return bits;
}

static inline uint64_t fuzz_number(const uint8_t *bytes) {
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

/* The bytes in an allocation of their own and exactly their size, `shift` bytes past its start: so
 * a read past the end is seen, and one that counts on alignment. Give it back to fuzz_drop(). */
static inline uint8_t *fuzz_exact(const uint8_t *bytes, size_t n, size_t shift) {
    uint8_t *room = calloc(n + shift > 0 ? n + shift : 1, 1);
    MUST(room != NULL);
    if (n > 0) memcpy(room + shift, bytes, n);
    return room + shift;
}

static inline void fuzz_drop(uint8_t *exact, size_t shift) { free(exact - shift); }

/* ---------------------------------------------------------------------------------- memory */

/* Counted by AddressSanitizer's hooks; without it nothing is counted, and no bound is broken. */
#if defined(__SANITIZE_ADDRESS__)
#define FUZZ_COUNTS_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FUZZ_COUNTS_MEMORY 1
#endif
#endif

struct fuzz_memory {
    size_t now, most;
};

extern struct fuzz_memory fuzz_memory;

#ifdef FUZZ_COUNTS_MEMORY
size_t __sanitizer_get_allocated_size(const volatile void *p);
int __sanitizer_install_malloc_and_free_hooks(void (*taken)(const volatile void *, size_t),
                                              void (*freed)(const volatile void *));
#endif

/* From here on the most memory held at once is counted. */
void fuzz_count_memory(void);
/* The most that was held above what was held when counting began. */
size_t fuzz_memory_taken(void);

#endif
