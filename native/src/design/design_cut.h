/*
 * How a design is found, for probes and for pairs alike: for each width w and threshold t, the cheapest
 * way to search a block of w bits for differences of up to t; then, by dynamic programming over bits
 * and thresholds, the cheapest cut of all bits into blocks.
 *
 * Costs are nanoseconds, from measurements on one common machine; their ratios matter, and only for
 * speed.
 */
#ifndef NDD_DESIGN_CUT_H
#define NDD_DESIGN_CUT_H

#include "design/design.h"

#define NDD_MAX_THRESHOLD 4 /* of one block; more flips than anyone wants to try */
#define NDD_MAX_KEY_BITS 31

/* How one block is searched, and what that costs. */
struct option {
    double cost;
    uint32_t bits;   /* key bits; for pairs, at most */
    uint32_t copies; /* probes: tables; pairs: parts */
    uint32_t lines;  /* probes: of a bucket */
    double bytes;     /* probes: of the tables */
};

struct options {
    struct option of[NDD_VALUE_BITS + 1][NDD_MAX_THRESHOLD + 1];
};

struct cut { /* a block of the best cut */
    uint32_t width;
    uint32_t threshold;
};

/* The cheapest cut of `width` bits for distance k; returns the number of blocks, 0 if there is no
 * cut, and its cost. */
uint32_t design_best_cut(const struct options *options, uint32_t width, uint32_t k,
                         struct cut cuts[NDD_MAX_DISTANCE + 1], double *cost);

/* Ways to choose k of n. */
double binomial(uint32_t n, uint32_t k);

#endif
