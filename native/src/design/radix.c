/*
 * Many values are first split by the highest bits of their keys into parts that fit into the caches, and
 * each part is sorted from the lowest digit up. A part that is still too large is split again.
 *
 * Keys that a stranger chose can split off one value at each of 53 levels. So a level keeps next to nothing on the
 * stack: all of them share one array of starts, and each finds where its next part ends by looking.
 */
#include "design/radix.h"

#include <string.h>

#define DIGIT_BITS 11
#define FEW 48        /* up to so few an insertion sort is faster */
#define CACHED 16384  /* so many fit into the caches */

static uint64_t *insertion_sort(uint64_t *values, size_t n, const struct block *block) {
    for (size_t i = 1; i < n; i++) {
        uint64_t value = values[i], key = block_key(block, value);
        size_t at = i;
        for (; at > 0 && block_key(block, values[at - 1]) > key; at--) values[at] = values[at - 1];
        values[at] = value;
    }
    return values;
}

/* Where each digit begins in n values sorted by it; 0 if all have the same. */
static int digit_starts(size_t *starts, const uint64_t *values, size_t n, const struct block *block,
                        uint32_t low, uint64_t ones) {
    memset(starts, 0, (size_t)(ones + 1) * sizeof *starts);
    for (size_t i = 0; i < n; i++) starts[block_key(block, values[i]) >> low & ones]++;
    size_t start = 0, largest = 0;
    for (size_t digit = 0; digit <= ones; digit++) {
        size_t count = starts[digit];
        starts[digit] = start;
        start += count;
        if (count > largest) largest = count;
    }
    return largest < n;
}

static void scatter(uint64_t *to, const uint64_t *values, size_t n, const struct block *block,
                    uint32_t low, uint64_t ones, size_t *starts) {
    for (size_t i = 0; i < n; i++) {
        to[starts[block_key(block, values[i]) >> low & ones]++] = values[i];
    }
}

/* Sorts by the lowest `bits` of the keys, from the lowest digit up. */
static uint64_t *sort_cached(uint64_t *values, uint64_t *scratch, size_t n, const struct block *block,
                             uint32_t bits, size_t *starts) {
    if (n <= FEW) return insertion_sort(values, n, block);
    uint32_t passes = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    for (uint32_t pass = 0; pass < passes; pass++) {
        /* Digits as even as can be: fewer streams to write at once. */
        uint32_t low = bits * pass / passes, high = bits * (pass + 1) / passes;
        uint64_t ones = (UINT64_C(1) << (high - low)) - 1;
        if (!digit_starts(starts, values, n, block, low, ones)) continue;
        scatter(scratch, values, n, block, low, ones, starts);
        uint64_t *sorted = scratch;
        scratch = values;
        values = sorted;
    }
    return values;
}

/* Where the values end that have the same digit as the one at `from`, and stand behind it; digits ascend. */
static size_t part_end(const uint64_t *values, size_t from, size_t n, const struct block *block, uint32_t low,
                       uint64_t ones) {
    uint64_t digit = block_key(block, values[from]) >> low & ones;
    size_t inside = from, step = 1;
    for (; step < n - inside && (block_key(block, values[inside + step]) >> low & ones) == digit; step *= 2) {
        inside += step;
    }
    size_t beyond = step < n - inside ? inside + step : n;
    while (beyond - inside > 1) {
        size_t middle = inside + (beyond - inside) / 2;
        if ((block_key(block, values[middle]) >> low & ones) == digit) {
            inside = middle;
        } else {
            beyond = middle;
        }
    }
    return beyond;
}

/* Sorts by the lowest `bits` of the keys; those above are the same in all. */
static uint64_t *sort_parts(uint64_t *values, uint64_t *scratch, size_t n, const struct block *block,
                            uint32_t bits, size_t *starts) {
    if (n <= FEW || bits <= DIGIT_BITS || (n <= CACHED && bits <= 2 * DIGIT_BITS)) {
        return sort_cached(values, scratch, n, block, bits, starts);
    }
    size_t part_size = n <= CACHED ? FEW / 8 : CACHED / 2; /* what is wanted of a part */
    uint32_t digit = 1;
    while (digit < DIGIT_BITS && n >> digit > part_size) digit++;
    uint32_t low = bits - digit;
    uint64_t ones = (UINT64_C(1) << digit) - 1;
    if (!digit_starts(starts, values, n, block, low, ones)) {
        return sort_parts(values, scratch, n, block, low, starts);
    }
    scatter(scratch, values, n, block, low, ones, starts);
    for (size_t from = 0, to; from < n; from = to) {
        to = part_end(scratch, from, n, block, low, ones);
        size_t count = to - from;
        uint64_t *sorted = sort_parts(scratch + from, values + from, count, block, low, starts);
        if (sorted != scratch + from) memcpy(scratch + from, sorted, count * sizeof *sorted);
    }
    return scratch;
}

uint64_t *radix_sort(uint64_t *values, uint64_t *scratch, size_t n, const struct block *block) {
    static const struct block whole = {
        .mask = UINT64_MAX, .bits = 64, .runs = 1, .run = {{UINT64_MAX, 0}}};
    size_t starts[1 << DIGIT_BITS];
    if (block == NULL) block = &whole;
    return sort_parts(values, scratch, n, block, block->bits, starts);
}
