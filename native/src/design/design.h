/*
 * Designs: which bits of a fingerprint are keys, so that a pair within distance k is sure to meet.
 *
 * The generalised pigeonhole. Cut the 64 bits into m blocks with thresholds t_1 .. t_m, where the
 * (t_i + 1) add up to k + 1. If a pair differed by more than t_i bits in every block i, it would
 * differ by at least k + 1 bits; so a pair within k has a block where it differs by at most t_i.
 * With all t_i = 0 this is the design of Manku, Jain and Das Sarma (WWW 2007, section 3.1).
 *
 * Such a block is searched by one or several block tables. Each takes some of the block's bits as
 * its key and leaves the others out; a difference in a bit left out costs nothing, one in a key bit
 * must be tried: the key is looked up with each set of at most `threshold` of its `flips` flipped.
 * With t = 1, tables that leave out different bits share the work, and none flips a bit that
 * another leaves out; when together they leave out every bit, nothing is flipped at all.
 *
 * The rule kept: for every difference d of at most k bits, block_finds(block, d) holds for some
 * block of the design. The design that costs least for a number of values is computed, not listed.
 */
#ifndef NDD_DESIGN_H
#define NDD_DESIGN_H

#include "base/bits.h"
#include "ndd.h"

#define NDD_VALUE_BITS 64
#define NDD_MAX_DISTANCE 15
#define NDD_MAX_RUNS 32 /* of consecutive bits in a mask */

struct block {
    uint64_t mask;      /* the key bits */
    uint64_t flips;     /* those among them that a probe flips */
    uint32_t threshold; /* the most that it flips at once */
    uint32_t bits;      /* number of key bits, at most 63 */
    uint32_t lines;     /* of a bucket of a table (bucket_layout.h) */
    uint32_t runs;
    struct {
        uint64_t mask;
        uint32_t shift;
    } run[NDD_MAX_RUNS]; /* how the mask's bits are brought together */
};

struct design {
    struct block *blocks;
    uint32_t count; /* 0: nothing beats comparing with every value */
};

/* A block with these key bits, of which these are flipped, at most `threshold` at once. */
void block_set(struct block *block, uint64_t mask, uint64_t flips, uint32_t threshold);

/* The key of a value: its bits under the mask, brought together. */
static inline uint64_t block_key(const struct block *block, uint64_t value) {
    uint64_t key = 0;
    for (uint32_t i = 0; i < block->runs; i++) {
        key |= value >> block->run[i].shift & block->run[i].mask;
    }
    return key;
}

/* Whether two values that differ in these bits meet in this block. */
static inline int block_finds(const struct block *block, uint64_t difference) {
    uint64_t in_key = difference & block->mask;
    return (in_key & ~block->flips) == 0 && count_bits(in_key) <= (int)block->threshold;
}

/* The design for probing a table of `values` values; the preset weighs memory against time. */
ndd_status design_for_probes(struct design *design, uint64_t values, uint32_t k,
                             ndd_preset preset);

/* A block of a segment's design: its width, its threshold, and in how many tables of how many key bits
 * it is searched. A file describes its design by these, from which only masks that find every difference
 * can be made. */
struct part {
    uint8_t width, threshold, bits, copies;
};

/* The design of a segment of `values` values: memory first. Without parts all values are compared. */
ndd_status design_for_segment(uint64_t values, uint32_t k, struct part parts[NDD_MAX_DISTANCE + 1],
                              uint32_t *count);

/* The design that these parts are, at most NDD_MAX_DISTANCE + 1; NDD_DAMAGED when they are none for k.
 * Without parts it is one table without key bits. */
ndd_status design_of_parts(struct design *design, const struct part *parts, uint32_t count,
                           uint32_t k);

/* The design for finding all pairs of `values` values that differ only in `free_bits`. Its blocks flip
 * nothing: the pairs to compare are those with equal keys. */
ndd_status design_for_pairs(struct design *design, uint64_t values, uint64_t free_bits,
                            uint32_t k);

/* A design given by the key bits of its blocks, at most 63 each. */
ndd_status design_of_masks(struct design *design, const uint64_t *masks, uint32_t count);

void design_close(struct design *design);

#endif
