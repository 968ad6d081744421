#include "radix.h"

#define DIGIT_BITS 11
#define FEW 48 /* so many are sooner inserted one by one */

static uint64_t *insertion_sort(uint64_t *values, size_t n, const struct block *block) {
    for (size_t i = 1; i < n; i++) {
        uint64_t value = values[i], key = block_key(block, value);
        size_t at = i;
        for (; at > 0 && block_key(block, values[at - 1]) > key; at--) values[at] = values[at - 1];
        values[at] = value;
    }
    return values;
}

uint64_t *radix_sort(uint64_t *values, uint64_t *scratch, size_t n, const struct block *block) {
    static const struct block whole = {
        .mask = UINT64_MAX, .bits = 64, .runs = 1, .run = {{UINT64_MAX, 0}}};
    if (block == NULL) block = &whole;
    if (n <= FEW) return insertion_sort(values, n, block);
    uint32_t passes = (block->bits + DIGIT_BITS - 1) / DIGIT_BITS;
    for (uint32_t pass = 0; pass < passes; pass++) {
        /* Digits as even as can be: fewer streams to write at once. */
        uint32_t low = block->bits * pass / passes, high = block->bits * (pass + 1) / passes;
        uint64_t ones = (UINT64_C(1) << (high - low)) - 1;
        size_t starts[1 << DIGIT_BITS] = {0};
        for (size_t i = 0; i < n; i++) starts[block_key(block, values[i]) >> low & ones]++;
        size_t start = 0, largest = 0;
        for (size_t digit = 0; digit <= ones; digit++) {
            size_t count = starts[digit];
            starts[digit] = start;
            start += count;
            if (count > largest) largest = count;
        }
        if (largest == n) continue; /* all alike in this digit */
        for (size_t i = 0; i < n; i++) {
            scratch[starts[block_key(block, values[i]) >> low & ones]++] = values[i];
        }
        uint64_t *sorted = scratch;
        scratch = values;
        values = sorted;
    }
    return values;
}
