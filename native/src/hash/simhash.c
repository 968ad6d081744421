#include "hash/simhash.h"

#include "base/bits.h"

static simhash_way best_way(void) {
    simhash_way ways[NDD_SIMHASH_WAYS];
    (void)simhash_ways(ways);
    return ways[0];
}

uint64_t ndd_simhash(const uint64_t *hashes, size_t n) {
    static const uint32_t one = 1;
    return best_way()(hashes, &one, 0, n);
}

/* Any weights: a sum for each bit. */
static uint64_t by_counting(const uint64_t *hashes, const uint32_t *weights, size_t n) {
    uint64_t sum[64] = {0}, total = 0;
    for (size_t i = 0; i < n; i++) {
        total += weights[i];
        for (int bit = 0; bit < 64; bit++) sum[bit] += weights[i] & (0 - (hashes[i] >> bit & 1));
    }
    return simhash_of_sums(sum, total);
}

ndd_status ndd_simhash_weighted(const uint64_t *hashes, const uint32_t *weights, size_t n,
                                uint64_t *value) {
    if (n > (size_t)1 << 31) return NDD_TOO_LARGE;
    uint32_t used = 0;
    for (size_t i = 0; i < n; i++) used |= weights[i];
    *value = used <= NDD_SIMHASH_SMALL ? best_way()(hashes, weights, 1, n) : by_counting(hashes, weights, n);
    return NDD_OK;
}

int ndd_distance(uint64_t a, uint64_t b) {
    return count_bits(a ^ b);
}
