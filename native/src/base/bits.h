/* Counting and finding bits, with the compiler's instruction where it has one. */
#ifndef NDD_BITS_H
#define NDD_BITS_H

#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
static inline int count_bits(uint64_t x) { return __builtin_popcountll(x); }
/* x is not 0 */
static inline uint32_t lowest_bit(uint64_t x) { return (uint32_t)__builtin_ctzll(x); }
/* A hint that the line at this address is read soon. */
static inline void prefetch(const void *address) { __builtin_prefetch(address); }
#else
static inline int count_bits(uint64_t x) {
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (int)(x * UINT64_C(0x0101010101010101) >> 56);
}
/* x is not 0 */
static inline uint32_t lowest_bit(uint64_t x) { return (uint32_t)count_bits((x & (0 - x)) - 1); }
static inline void prefetch(const void *address) { (void)address; }
#endif

/* Stands before a function whose inner loop counts bits. The oldest x86-64 processors have no
 * instruction for it, so the function is compiled with and without, and the loader takes the one
 * that fits. Not under a sanitizer, which starts later than the loader chooses. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__POPCNT__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define NDD_COUNTS_BITS __attribute__((target_clones("popcnt", "default")))
#else
#define NDD_COUNTS_BITS
#endif

#endif
