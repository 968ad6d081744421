/*
 * Joining: all pairs of distinct values within distance k.
 *
 * For each block of a design (design.h) the values are sorted by their key; a pair within k has
 * equal keys in some block, so only values side by side are compared. Where data is not spread
 * evenly a group can be large: then its values differ only in the bits outside the key, and the
 * same is done for the group, in a design for those bits.
 *
 * The rule kept: a pair that several blocks bring together counts in the first of them only, at
 * each depth; so every pair is found once, and nothing needs to be remembered.
 */
#ifndef NDD_JOIN_H
#define NDD_JOIN_H

#include "design/design.h"

/* What is done with a pair of distinct values within k, a < b. */
typedef ndd_status (*pair_found)(void *context, uint64_t a, uint64_t b);

struct join_rule {
    uint32_t k;
    pair_found found;
    void *context;
};

/* Finds all pairs of n distinct values. */
ndd_status join_all(const struct join_rule *rule, const uint64_t *values, size_t n);

/* Finds those of them that meet in this block of the design, and in none before. */
ndd_status join_block(const struct join_rule *rule, const uint64_t *values, size_t n,
                      const struct design *design, uint32_t block);

#endif
