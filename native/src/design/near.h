/*
 * Which of 16 numbers of 32 bits are near another: the inner loop of every probe.
 *
 * Compilers turn each loop into a few instructions where the processor can count the bits of 16 numbers
 * at once (AVX-512 VPOPCNTDQ). So a search function is compiled twice, with NDD_COUNTS_LANES and without,
 * and processor_counts_lanes() says which one to call.
 */
#ifndef NDD_NEAR_H
#define NDD_NEAR_H

#include <stdint.h>
#include <string.h>

#include "base/bits.h"
#include "design/design.h"

#define NDD_LANES 16

#ifndef NDD_WITHOUT_LANES /* a test compares with and without */
#define NDD_WITHOUT_LANES 0
#endif

#if defined(__GNUC__) || defined(__clang__)
#define NDD_INLINE static inline __attribute__((always_inline))
#else
#define NDD_INLINE static inline
#endif

/* A value within k counts in the first block that finds it. */
NDD_INLINE int is_first(const struct design *design, uint32_t block, uint64_t difference) {
    for (uint32_t i = 0; i < block; i++) {
        if (block_finds(&design->blocks[i], difference)) return 0;
    }
    return 1;
}

#if defined(__GNUC__) || defined(__clang__)
NDD_INLINE uint32_t count_lane_bits(uint32_t x) { return (uint32_t)__builtin_popcount(x); }
#else
NDD_INLINE uint32_t count_lane_bits(uint32_t x) { return (uint32_t)count_bits(x); }
#endif

/* Whether one of 16 numbers is within `most` bits of another. */
NDD_INLINE int any_near(const uint32_t *numbers, uint32_t other, uint32_t most) {
    uint32_t any = 0;
    for (int i = 0; i < NDD_LANES; i++) any |= count_lane_bits(numbers[i] ^ other) <= most;
    return any != 0;
}

/* Which of n numbers, at most 16, are within `most` bits of another: a bit for each. */
NDD_INLINE uint32_t which_near(const uint32_t *numbers, uint32_t n, uint32_t other, uint32_t most) {
    uint32_t near = 0;
    for (uint32_t i = 0; i < n; i++) {
        near |= (uint32_t)(count_lane_bits(numbers[i] ^ other) <= most) << i;
    }
    return near;
}

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define NDD_COUNTS_LANES __attribute__((target("avx512vpopcntdq,avx512vl,avx512bw,popcnt")))
static inline int processor_counts_lanes(void) {
    return !NDD_WITHOUT_LANES && __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw");
}
#endif

#endif
