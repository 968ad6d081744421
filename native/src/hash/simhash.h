/* Ways to compute a simhash, by what the processor has; all give the same (simhash_lanes.c). */
#ifndef NDD_SIMHASH_H
#define NDD_SIMHASH_H

#include "ndd.h"

/* Of weights up to NDD_SIMHASH_SMALL, as page readers give them. step: 1 if each hash has a weight of its own, 0 if
 * all have the first one. simhash_ways() fills in the ways that this processor has, the fastest first, and returns
 * how many: at least one. */
#define NDD_SIMHASH_SMALL 511
#define NDD_SIMHASH_WAYS 3
typedef uint64_t (*simhash_way)(const uint64_t *hashes, const uint32_t *weights, size_t step, size_t n);
int simhash_ways(simhash_way ways[NDD_SIMHASH_WAYS]);

/* The bits whose weight is more than half of all. */
static inline uint64_t simhash_of_sums(const uint64_t sum[64], uint64_t total) {
    uint64_t value = 0;
    for (int bit = 0; bit < 64; bit++) value |= (uint64_t)(sum[bit] > total / 2) << bit;
    return value;
}

#endif
