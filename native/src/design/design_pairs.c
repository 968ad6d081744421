/* Designs for finding all pairs of a set: nothing is flipped, the values with equal keys are compared. */
#include <float.h>
#include <stdlib.h>

#include "design/design.h"
#include "design/design_cut.h"

#define MAX_PARTS 12   /* of a block whose parts are left out in turn */
#define MAX_SUBSETS 64 /* ways to leave parts out */
#define PAIR_NS 0.8
#define SORT_NS 5.0 /* one value, one pass of the radix sort */
#define SORT_BITS 11

/* The parts of a block of w bits, as even as can be: part i begins here. */
static uint32_t part_start(uint32_t w, uint32_t parts, uint32_t i) { return w * i / parts; }

static void pair_options(struct options *options, double values) {
    uint32_t enough = 1; /* with more key bits than these, groups hardly get smaller */
    while (enough < NDD_MAX_KEY_BITS && (double)(UINT64_C(1) << enough) < 4 * values) enough++;
    for (uint32_t w = 0; w <= NDD_VALUE_BITS; w++) {
        for (uint32_t t = 0; t <= NDD_MAX_THRESHOLD; t++) {
            struct option *best = &options->of[w][t];
            *best = (struct option){.cost = DBL_MAX};
            for (uint32_t parts = t + 1; parts <= MAX_PARTS && parts <= w; parts++) {
                if (t == 0 && parts > 1) break;
                double tables = binomial(parts, t);
                if (tables > MAX_SUBSETS) break;
                uint32_t longest = (w + parts - 1) / parts;
                if (w <= t * longest) continue;
                uint32_t p = w - t * longest < enough ? w - t * longest : enough;
                double passes = (p + SORT_BITS - 1) / SORT_BITS;
                double groups = (double)(UINT64_C(1) << p);
                double sorting = values * (SORT_NS * passes + 2);
                double cost = tables * (sorting + values * values / groups / 2 * PAIR_NS);
                if (cost < best->cost) *best = (struct option){.cost = cost, .bits = enough, .copies = parts};
            }
        }
    }
}

/* The next larger number with as many bits set. */
static uint32_t next_subset(uint32_t subset) {
    uint32_t low = subset & (0 - subset), ripple = subset + low;
    return ripple | ((subset ^ ripple) >> 2) / low;
}

/* The tables of one block, whose bits are where[0 .. width - 1]: one for each choice of threshold
 * parts to leave out. */
static uint32_t add_pair_blocks(struct block *blocks, const uint8_t *where, struct cut cut,
                                struct option option) {
    uint32_t parts = option.copies, count = 0;
    uint32_t out = (UINT32_C(1) << cut.threshold) - 1;
    do {
        uint64_t mask = 0;
        uint32_t bits = 0;
        for (uint32_t i = 0; i < parts; i++) {
            if (out >> i & 1) continue;
            uint32_t end = part_start(cut.width, parts, i + 1);
            for (uint32_t b = part_start(cut.width, parts, i); b < end; b++) {
                if (bits++ < option.bits) mask |= UINT64_C(1) << where[b];
            }
        }
        block_set(&blocks[count++], mask, 0, 0);
        if (out == 0) break;
        out = next_subset(out);
    } while (out >> parts == 0);
    return count;
}

ndd_status design_for_pairs(struct design *design, uint64_t values, uint64_t free_bits,
                            uint32_t k) {
    *design = (struct design){NULL, 0};
    uint8_t where[NDD_VALUE_BITS];
    uint32_t width = 0;
    for (uint64_t left = free_bits; left != 0; left &= left - 1) {
        where[width++] = (uint8_t)lowest_bit(left);
    }
    struct options *options = malloc(sizeof *options);
    if (options == NULL) return NDD_NO_MEMORY;
    double n = (double)values, cost;
    struct cut cuts[NDD_MAX_DISTANCE + 1];
    pair_options(options, n);
    uint32_t count = design_best_cut(options, width, k, cuts, &cost);
    ndd_status status = NDD_OK;
    if (count > 0 && cost < n * n / 2 * PAIR_NS) {
        design->blocks = malloc(count * MAX_SUBSETS * sizeof *design->blocks);
        if (design->blocks == NULL) status = NDD_NO_MEMORY;
        uint32_t from = 0;
        for (uint32_t i = 0; i < count && status == NDD_OK; i++) {
            struct option option = options->of[cuts[i].width][cuts[i].threshold];
            struct block *next = design->blocks + design->count;
            design->count += add_pair_blocks(next, where + from, cuts[i], option);
            from += cuts[i].width;
        }
    }
    free(options);
    return status;
}
