/* Bit-sliced simhash, fed a hash at a time. */
#ifndef NDD_SIMHASH_H
#define NDD_SIMHASH_H

#include "ndd.h"

/* Counts, for each of 64 bit positions at once, how many hashes have the bit set: plane[j] holds
 * bit j of all 64 counters. Hashes wait in pending until eight can be added by one tree of
 * carry-save adders. */
struct bit_counter {
    uint64_t plane[40];
    uint64_t pending[8];
    uint32_t waiting;
};

void bit_counter_add8(struct bit_counter *counter);
void bit_counter_finish(struct bit_counter *counter);

static inline void bit_counter_add(struct bit_counter *counter, uint64_t hash) {
    counter->pending[counter->waiting++] = hash;
    if (counter->waiting == 8) bit_counter_add8(counter);
}

/* The simhash of all hashes added; `added` is their number. */
uint64_t bit_counter_majority(struct bit_counter *counter, uint64_t added);

/* Simhash of weights up to NDD_SIMHASH_SMALL, as page readers give them (simhash_lanes.c). simhash_ways()
 * fills in those ways that this processor has, the fastest first, and returns how many: maybe none. */
#define NDD_SIMHASH_SMALL 511
#define NDD_SIMHASH_WAYS 2
typedef uint64_t (*simhash_way)(const uint64_t *hashes, const uint32_t *weights, size_t n);
int simhash_ways(simhash_way ways[NDD_SIMHASH_WAYS]);

#endif
