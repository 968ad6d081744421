/* Sorted values for the tests of the paper's structures. */
#ifndef SORTED_VALUES_H
#define SORTED_VALUES_H

#include <stdlib.h>

#include "check.h"
#include "paper/ndd_paper.h"

static unsigned long long random_state = 0x1234567887654321ULL;

static inline int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

#define KINDS 6

/* Spread, with many equal, close together at one place, the extremes, in clusters, dense. */
static inline void make_values(int kind, uint64_t *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t x = random_bits(&random_state);
        switch (kind) {
        case 0: values[i] = x; break;
        case 1: values[i] = x % 5 * UINT64_C(0x3333333333333333); break;
        case 2: values[i] = i % 10 == 0 ? x : UINT64_C(0xfeedfacefeed0000) | (x & 0xff); break;
        case 3: values[i] = x % 2 == 0 ? 0 : UINT64_MAX; break;
        case 4: values[i] = (x % 20) * UINT64_C(0x0ddba11deadbeef5) ^ UINT64_C(1) << (x >> 32) % 64; break;
        default: values[i] = UINT64_MAX - x % (4 * n); break;
        }
    }
    if (n > 0) qsort(values, n, sizeof *values, ascending);
}

/* One of them with some bits flipped, or any other. */
static inline uint64_t make_query(const uint64_t *values, size_t n) {
    uint64_t x = random_bits(&random_state);
    if (n == 0 || x % 3 == 0) return random_bits(&random_state);
    uint64_t value = values[x / 3 % n];
    return x % 2 == 0 ? value : value ^ UINT64_C(1) << (x >> 50) % 64;
}

#endif
