/* Values for tests: spread, close together, at the extremes; and the order in which matches stand. */
#ifndef VALUES_H
#define VALUES_H

#include <string.h>

#include "check.h"
#include "ndd.h"

static unsigned long long random_state = 0x9e3779b97f4a7c15ULL;

static inline uint64_t below(uint64_t n) { return random_bits(&random_state) % n; }

/* The value with at most `bits` of its bits flipped. */
static inline uint64_t flipped(uint64_t value, uint32_t bits) {
    while (bits-- > 0) value ^= UINT64_C(1) << below(64);
    return value;
}

/* Kinds of data: spread, in clusters, in a few bits at one end or the other, the extremes. */
static inline uint64_t make_value(int kind, const uint64_t *before, size_t n) {
    switch (kind) {
    case 0: return random_bits(&random_state);
    case 1:
        return n < 10 ? random_bits(&random_state) : flipped(before[below(n)], (uint32_t)below(9));
    case 2: return UINT64_C(0xfeedface00000000) | below(1 << 14);
    case 3: return below(1 << 14) << 50 | 0x1234;
    default: return flipped(below(2) ? UINT64_MAX : 0, (uint32_t)below(6));
    }
}

static inline void make_values(int kind, uint64_t *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i] = make_value(kind, values, i);
}

/* Orders matches as an answer does, for qsort. */
static inline int nearer(const void *a, const void *b) {
    const ndd_match *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    if (x->document != y->document) return x->document < y->document ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* Two answers to as many queries have the same matches, and some. */
static inline void check_same(const ndd_answer *one, const ndd_answer *other, size_t n) {
    const uint64_t *offsets[2];
    const ndd_match *matches[2];
    ndd_answer_get(one, &offsets[0], &matches[0]);
    ndd_answer_get(other, &offsets[1], &matches[1]);
    CHECK(offsets[0][n] > 0 && memcmp(offsets[0], offsets[1], (n + 1) * sizeof **offsets) == 0);
    CHECK(memcmp(matches[0], matches[1], (size_t)offsets[0][n] * sizeof **matches) == 0);
}

#endif
