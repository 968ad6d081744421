/*
 * Interpolation search in sorted 64-bit numbers: a guess at where a number stands, by its size.
 *
 * On numbers that are spread evenly it takes about log log n reads (Manku, Jain and Das Sarma, WWW
 * 2007, section 3.1). The rule kept: whatever the numbers are, it takes at most NDD_GUESSES + log2 n,
 * because after NDD_GUESSES guesses it halves what is left.
 */
#ifndef NDD_INTERPOLATE_H
#define NDD_INTERPOLATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define NDD_GUESSES 12 /* log log 2^64 is 6; each guess may miss to either side */
#define NDD_IN_A_ROW 8 /* numbers in a cache line: these are read one by one */

#ifndef NDD_COUNT_READ /* a test counts them */
#define NDD_COUNT_READ() ((void)0)
#endif

/* The index of the first of n sorted numbers that is not below `wanted`; n if there is none. Number i
 * is the 8 bytes at 8 * i: little-endian, when they are a file's, or this machine's. */
static inline size_t interpolate(const void *numbers, size_t n, uint64_t wanted, int as_file) {
    const uint64_t *words = numbers;
    const uint8_t *bytes = numbers;
    size_t low = 0, high = n; /* what stands before low is below; what stands from high on is not */
    uint64_t least = 0, most = UINT64_MAX; /* at low or more, at high - 1 or less */
    for (uint32_t steps = 0; high - low > NDD_IN_A_ROW; steps++) {
        size_t width = high - low, at = low + width / 2;
        if (steps < NDD_GUESSES) {
            double share = (double)(wanted - least) / ((double)(most - least) + 1);
            size_t guess = low + (size_t)(share * (double)width);
            at = guess < high ? guess : high - 1;
        }
        NDD_COUNT_READ();
        uint64_t found = as_file ? load8_le(bytes + 8 * at) : words[at];
        if (found < wanted) {
            low = at + 1;
            least = found;
        } else {
            high = at;
            most = found;
        }
    }
    for (; low < high; low++) {
        if ((as_file ? load8_le(bytes + 8 * low) : words[low]) >= wanted) break;
    }
    return low;
}

#endif
