/*
 * Simhash of small weights: 64 sums of 16 bits side by side, 8 to a register of SSE2. What a hash adds is its weight
 * in the lanes of its set bits and 0 in all others. It gives what simhash.c's counters give.
 */
#include <string.h>

#include "base/chunk.h"
#include "hash/simhash.h"

#ifdef NDD_CHUNKS
#define ROUND 128 /* weights of NDD_SIMHASH_SMALL whose sum fits into 16 bits */

uint64_t simhash_lanes(const uint64_t *hashes, const uint32_t *weights, size_t n) {
    const __m128i bit = _mm_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128);
    uint64_t sum[64] = {0}, total = 0;
    for (size_t i = 0; i < n;) {
        __m128i lanes[8];
        for (int j = 0; j < 8; j++) lanes[j] = _mm_setzero_si128();
        for (size_t stop = n - i < ROUND ? n : i + ROUND; i < stop; i++) {
            total += weights[i];
            __m128i weight = _mm_set1_epi16((short)weights[i]);
            __m128i bytes = _mm_set_epi32(0, 0, (int)(uint32_t)(hashes[i] >> 32), (int)(uint32_t)hashes[i]);
            bytes = _mm_unpacklo_epi8(bytes, _mm_setzero_si128()); /* each byte of the hash in 16 bits */
            __m128i four[2] = {_mm_unpacklo_epi16(bytes, bytes), _mm_unpackhi_epi16(bytes, bytes)};
#define ADD(j, byte)                                                                               \
    do {                                                                                           \
        __m128i spread = _mm_shuffle_epi32(byte, 0x55 * ((j) & 3));                                \
        __m128i set = _mm_cmpeq_epi16(_mm_and_si128(spread, bit), bit);                            \
        lanes[j] = _mm_add_epi16(lanes[j], _mm_and_si128(set, weight));                            \
    } while (0)
            ADD(0, four[0]);
            ADD(1, four[0]);
            ADD(2, four[0]);
            ADD(3, four[0]);
            ADD(4, four[1]);
            ADD(5, four[1]);
            ADD(6, four[1]);
            ADD(7, four[1]);
#undef ADD
        }
        uint16_t round[64];
        memcpy(round, lanes, sizeof round);
        for (int j = 0; j < 64; j++) sum[j] += round[j];
    }
    uint64_t value = 0;
    for (int j = 0; j < 64; j++) value |= (uint64_t)(sum[j] > total / 2) << j;
    return value;
}
#endif
