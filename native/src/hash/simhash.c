/*
 * Simhash by bit-sliced counters: instead of 64 counters that each step for every hash, every
 * counter bit of all 64 positions is one 64-bit word, and an addition is a few logical operations.
 * The majority is decided in the same form, so the result is exact and the same on every path.
 */
#include "hash/simhash.h"

#include <string.h>

#include "base/bits.h"

/* Full adder on 64 lanes: a + b + *low = 2 * result + *low. */
static inline uint64_t carry_save(uint64_t *low, uint64_t a, uint64_t b) {
    uint64_t half = a ^ b;
    uint64_t high = (a & b) | (half & *low);
    *low ^= half;
    return high;
}

static void ripple(uint64_t *plane, uint64_t carry) {
    while (carry != 0) {
        uint64_t next = *plane & carry;
        *plane++ ^= carry;
        carry = next;
    }
}

/* Adds eight words to the three lowest planes; what is carried out of them counts eight. */
static inline uint64_t add8(uint64_t *plane, const uint64_t *h) {
    uint64_t twos_a = carry_save(&plane[0], h[0], h[1]);
    uint64_t twos_b = carry_save(&plane[0], h[2], h[3]);
    uint64_t fours_a = carry_save(&plane[1], twos_a, twos_b);
    twos_a = carry_save(&plane[0], h[4], h[5]);
    twos_b = carry_save(&plane[0], h[6], h[7]);
    uint64_t fours_b = carry_save(&plane[1], twos_a, twos_b);
    return carry_save(&plane[2], fours_a, fours_b);
}

void bit_counter_add8(struct bit_counter *counter) {
    ripple(&counter->plane[3], add8(counter->plane, counter->pending));
    counter->waiting = 0;
}

void bit_counter_finish(struct bit_counter *counter) {
    for (uint32_t i = 0; i < counter->waiting; i++) ripple(counter->plane, counter->pending[i]);
    counter->waiting = 0;
}

/* Bits whose counter, of so many planes, is greater than half. */
static uint64_t greater(const uint64_t *plane, int planes, uint64_t half) {
    uint64_t above = 0, equal = ~UINT64_C(0);
    for (int j = planes - 1; j >= 0; j--) {
        uint64_t threshold = half >> j & 1 ? ~UINT64_C(0) : 0;
        above |= equal & plane[j] & ~threshold;
        equal &= ~(plane[j] ^ threshold);
    }
    return above;
}

uint64_t bit_counter_majority(struct bit_counter *counter, uint64_t added) {
    bit_counter_finish(counter);
    return greater(counter->plane, 40, added / 2);
}

uint64_t ndd_simhash(const uint64_t *hashes, size_t n) {
    struct bit_counter counter;
    memset(&counter, 0, sizeof counter);
    size_t i = 0;
    for (; n - i >= 64; i += 64) { /* how far a carry ripples is chance: let it do so once in 64 */
        uint64_t eights[8];
        for (size_t j = 0; j < 8; j++) eights[j] = add8(counter.plane, hashes + i + 8 * j);
        ripple(&counter.plane[6], add8(&counter.plane[3], eights));
    }
    for (; i < n; i++) bit_counter_add(&counter, hashes[i]);
    return bit_counter_majority(&counter, n);
}

/* Any weights: one counter for each bit of them; then their sum, each shifted by its bit. */
static uint64_t simhash_sliced(const uint64_t *hashes, const uint32_t *weights, size_t n,
                               uint32_t used) {
    struct bit_counter counters[32];
    uint64_t total = 0;
    for (uint32_t j = 0; j < 32 && used >> j != 0; j++) memset(&counters[j], 0, sizeof counters[j]);
    for (size_t i = 0; i < n; i++) {
        total += weights[i];
        for (uint32_t w = weights[i]; w != 0; w &= w - 1) {
            bit_counter_add(&counters[lowest_bit(w)], hashes[i]);
        }
    }
    uint64_t sum[64] = {0};
    for (uint32_t j = 0; j < 32 && used >> j != 0; j++) {
        bit_counter_finish(&counters[j]);
        uint64_t carry = 0;
        for (uint32_t i = j; i < 64; i++) {
            uint64_t addend = i - j < 40 ? counters[j].plane[i - j] : 0;
            carry = carry_save(&sum[i], addend, carry);
        }
    }
    return greater(sum, 64, total / 2);
}

ndd_status ndd_simhash_weighted(const uint64_t *hashes, const uint32_t *weights, size_t n,
                                uint64_t *value) {
    if (n > (size_t)1 << 31) return NDD_TOO_LARGE;
    uint32_t used = 0;
    for (size_t i = 0; i < n; i++) used |= weights[i];
    simhash_way ways[NDD_SIMHASH_WAYS];
    if (used <= NDD_SIMHASH_SMALL && simhash_ways(ways) > 0) {
        *value = ways[0](hashes, weights, n);
        return NDD_OK;
    }
    *value = simhash_sliced(hashes, weights, n, used);
    return NDD_OK;
}

int ndd_distance(uint64_t a, uint64_t b) {
    return count_bits(a ^ b);
}
