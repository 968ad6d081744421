#include "design/design.h"

#include <stdlib.h>

void block_set(struct block *block, uint64_t mask, uint64_t flips, uint32_t threshold) {
    *block = (struct block){.mask = mask, .flips = flips, .threshold = threshold, .lines = 1};
    while (mask != 0) {
        uint32_t from = lowest_bit(mask), length = 0;
        while (from + length < NDD_VALUE_BITS && mask >> (from + length) & 1) length++;
        uint64_t ones = length == NDD_VALUE_BITS ? UINT64_MAX : (UINT64_C(1) << length) - 1;
        block->run[block->runs].shift = from - block->bits;
        block->run[block->runs].mask = ones << block->bits;
        block->runs++;
        block->bits += length;
        mask &= ~(ones << from);
    }
}

void design_close(struct design *design) {
    free(design->blocks);
    *design = (struct design){NULL, 0};
}

ndd_status design_of_masks(struct design *design, const uint64_t *masks, uint32_t count) {
    *design = (struct design){malloc(count * sizeof *design->blocks + 1), count};
    if (design->blocks == NULL) return NDD_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) block_set(&design->blocks[i], masks[i], 0, 0);
    return NDD_OK;
}
