#include "design/quotient.h"

#include <assert.h>
#include <stdlib.h>

static void set_pieces(struct pieces *pieces, uint64_t mask) {
    uint32_t gathered = 0;
    *pieces = (struct pieces){.count = 0};
    for (uint32_t from = 0; mask != 0; pieces->count++) {
        uint32_t length = 0;
        assert(pieces->count < NDD_MAX_PIECES); /* a block's bits are in at most two runs, and those outside in three */
        from = lowest_bit(mask);
        while (from + length < 64 && mask >> (from + length) & 1) length++;
        uint64_t ones = length == 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1;
        pieces->shift[pieces->count] = from - gathered;
        pieces->mask[pieces->count] = ones << gathered;
        gathered += length;
        mask &= ~(ones << from);
    }
}

struct quotient quotient_of(const struct block *block) {
    struct quotient quotient = {.fold = block->bits < 2 ? 1 : (block->bits + 1) / 2};
    set_pieces(&quotient.key, block->mask);
    set_pieces(&quotient.rest, ~block->mask);
    return quotient;
}

/* Appends the flips of a block to flips (or only counts them, if that is NULL), fewest bits first. */
static uint32_t list_flips(const struct design *design, uint32_t at_block, struct flip *flips) {
    const struct block *block = &design->blocks[at_block];
    struct quotient quotient = quotient_of(block);
    uint64_t bits[64];
    uint32_t n = 0, count = 0;
    for (uint64_t left = block->flips; left != 0; left &= left - 1) bits[n++] = left & (0 - left);
    for (uint32_t size = 0; size <= block->threshold && size <= n; size++) {
        uint32_t chosen[64];
        for (uint32_t i = 0; i < size; i++) chosen[i] = i;
        for (;;) {
            uint64_t flip = 0;
            for (uint32_t i = 0; i < size; i++) flip |= bits[chosen[i]];
            if (flips != NULL) {
                uint32_t bucket = quotient_bucket(&quotient, flip);
                flips[count] = (struct flip){flip, bucket, (uint16_t)size, (uint16_t)at_block};
            }
            count++;
            /* The next combination: move the last that can move, and those after it close up. */
            uint32_t at = size;
            while (at > 0 && chosen[at - 1] == n - size + at - 1) at--;
            if (at == 0) break;
            chosen[at - 1]++;
            for (uint32_t i = at; i < size; i++) chosen[i] = chosen[i - 1] + 1;
        }
    }
    return count;
}

ndd_status flips_open(struct flips *flips, const struct design *design) {
    uint32_t total = 0;
    *flips = (struct flips){NULL, malloc(design->count * sizeof *flips->end)};
    if (flips->end == NULL) return NDD_NO_MEMORY;
    for (uint32_t i = 0; i < design->count; i++) {
        total += list_flips(design, i, NULL);
        flips->end[i] = total;
    }
    flips->list = malloc(total * sizeof *flips->list);
    if (flips->list == NULL) {
        flips_close(flips);
        return NDD_NO_MEMORY;
    }
    for (uint32_t i = 0; i < design->count; i++) {
        (void)list_flips(design, i, flips->list + flips_begin(flips, i));
    }
    return NDD_OK;
}

void flips_close(struct flips *flips) {
    free(flips->list);
    free(flips->end);
    *flips = (struct flips){NULL, NULL};
}
