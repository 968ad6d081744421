/*
 * Simhash of small weights: 64 sums of 16 bits side by side. What a hash adds is its weight in the lanes of
 * its set bits and 0 in all others. Three ways to do so, by what the processor has; all give what simhash.c's sums give.
 */
#include <string.h>

#include "base/chunk.h"
#include "hash/simhash.h"

#define ROUND 128 /* weights of NDD_SIMHASH_SMALL whose sum fits into 16 bits */

/* Any processor: 4 lanes to a word. A multiplication puts the four bits of a word one into each lane. */
static uint64_t by_words(const uint64_t *hashes, const uint32_t *weights, size_t step, size_t n) {
    const uint64_t spread = UINT64_C(0x0000200040008001), ones = UINT64_C(0x0001000100010001);
    uint64_t sum[64] = {0}, total = 0;
    for (size_t i = 0; i < n;) {
        uint64_t lanes[16] = {0};
        for (size_t stop = n - i < ROUND ? n : i + ROUND; i < stop; i++) {
            uint64_t weight = weights[i * step];
            total += weight;
            for (int j = 0; j < 16; j++) lanes[j] += ((hashes[i] >> 4 * j & 15) * spread & ones) * weight;
        }
        for (int j = 0; j < 64; j++) sum[j] += lanes[j / 4] >> 16 * (j % 4) & 0xffff;
    }
    return simhash_of_sums(sum, total);
}

#ifdef NDD_CHUNKS
/* Adds a round to the sums. */
static inline void end_round(uint64_t *sum, const void *lanes) {
    uint16_t round[64];
    memcpy(round, lanes, sizeof round);
    for (int j = 0; j < 64; j++) sum[j] += round[j];
}

/* SSE2: 8 lanes to a register, a mask made for each. */
static uint64_t by_comparison(const uint64_t *hashes, const uint32_t *weights, size_t step, size_t n) {
    const __m128i bit = _mm_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128);
    uint64_t sum[64] = {0}, total = 0;
    for (size_t i = 0; i < n;) {
        __m128i lanes[8];
        for (int j = 0; j < 8; j++) lanes[j] = _mm_setzero_si128();
        for (size_t stop = n - i < ROUND ? n : i + ROUND; i < stop; i++) {
            total += weights[i * step];
            __m128i weight = _mm_set1_epi16((short)weights[i * step]);
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
        end_round(sum, lanes);
    }
    return simhash_of_sums(sum, total);
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HAS_MASKS 1
#include <immintrin.h>

/* AVX-512: the hash is the mask. Registers of 256 bits, for those of 512 slow down the processors that had
 * them first. */
__attribute__((target("avx512bw,avx512vl")))
static uint64_t by_mask(const uint64_t *hashes, const uint32_t *weights, size_t step, size_t n) {
    uint64_t sum[64] = {0}, total = 0;
    for (size_t i = 0; i < n;) {
        __m256i lanes[4];
        for (int j = 0; j < 4; j++) lanes[j] = _mm256_setzero_si256();
        for (size_t stop = n - i < ROUND ? n : i + ROUND; i < stop; i++) {
            total += weights[i * step];
            __m256i weight = _mm256_set1_epi16((short)weights[i * step]);
            for (int j = 0; j < 4; j++) {
                lanes[j] = _mm256_mask_add_epi16(lanes[j], (__mmask16)(hashes[i] >> 16 * j), lanes[j], weight);
            }
        }
        end_round(sum, lanes);
    }
    return simhash_of_sums(sum, total);
}
#endif
#endif

int simhash_ways(simhash_way ways[NDD_SIMHASH_WAYS]) {
    int n = 0;
#ifdef HAS_MASKS
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) ways[n++] = by_mask;
#endif
#ifdef NDD_CHUNKS
    ways[n++] = by_comparison;
#endif
    ways[n++] = by_words;
    return n;
}
