/* Crowded buckets of a segment, and whether a probe can match anything in one. */
#ifndef NDD_SEGMENT_CROWD_H
#define NDD_SEGMENT_CROWD_H

#include "ndd_bulk.h"
#include "segment/segment_format.h"

#ifndef NDD_SEGMENT_CROWD /* tests set a smaller one */
#define NDD_SEGMENT_CROWD 2048
#endif

/* A bucket of NDD_SEGMENT_CROWD values or more. */
struct segment_crowd {
    uint32_t block, bucket;
    uint64_t pivot;
    uint32_t at[65]; /* values at each distance from it */
};

struct segment_crowds {
    struct segment_crowd *list;
    uint32_t count, room;
};

ndd_status segment_crowds_open(struct segment_crowds *crowds, const struct segment_table *tables,
                               uint32_t count);
void segment_crowds_close(struct segment_crowds *crowds);

/* Whether a crowded bucket can hold a rest that differs from this one in at most `most` bits. */
int segment_crowds_may_match(const struct segment_crowds *crowds, uint32_t block, uint32_t bucket,
                            uint64_t rest, uint32_t most);

#endif
