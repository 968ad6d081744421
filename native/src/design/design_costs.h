/*
 * What a block table is expected to cost, in memory and in time, for values that are spread evenly.
 *
 * Nanoseconds were measured on one common machine; their ratios matter, and only for speed.
 */
#ifndef NDD_DESIGN_COSTS_H
#define NDD_DESIGN_COSTS_H

#include <stdint.h>

struct block_costs {
    double bytes;
    double visit_ns;  /* one key that is looked up, among many */
    double update_ns; /* one value that is put in */
};

/* A block table in memory: keys of `bits` bits, buckets of `lines` lines (bucket_layout.h). */
struct block_costs lines_costs(double values, uint32_t bits, uint32_t lines);

/* The same in a segment (segment_format.h). */
struct block_costs segment_costs(double values, uint32_t bits);

#endif
