/*
 * Crowded buckets of a segment: how far their values lie from one that they all resemble.
 *
 * As in table_crowd.h: two numbers differ in at least as many bits as their distances from a third number
 * do. So a probe at the centre of a shell skips the bucket when no value has a possible distance. Nothing
 * of this is stored in the file; it is computed on opening, when every byte is read anyway.
 *
 * The rule kept: each bucket with NDD_SEGMENT_CROWD values or more has one entry, in the order of tables and
 * buckets, and each of its values is counted once.
 */
#include "segment/segment_crowd.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4

static ndd_status add(struct segment_crowds *crowds, struct segment_crowd crowd) {
    if (crowds->count == crowds->room) {
        uint32_t room = crowds->room == 0 ? FIRST_ROOM : 2 * crowds->room;
        struct segment_crowd *larger = realloc(crowds->list, room * sizeof *larger);
        if (larger == NULL) return NDD_NO_MEMORY;
        crowds->list = larger;
        crowds->room = room;
    }
    crowds->list[crowds->count++] = crowd;
    return NDD_OK;
}

/* What more than half of the values of a bucket have in each bit. */
static uint64_t pivot_of(const struct segment_table *table, uint64_t start, uint64_t end) {
    uint64_t set[64] = {0}, pivot = 0;
    uint32_t width = 32 + table->far_bits;
    for (uint64_t i = start; i < end; i++) {
        uint64_t rest = segment_rest(table, i);
        for (uint32_t bit = 0; bit < width; bit++) set[bit] += rest >> bit & 1;
    }
    for (uint32_t bit = 0; bit < width; bit++) {
        if (set[bit] > (end - start) / 2) pivot |= UINT64_C(1) << bit;
    }
    return pivot;
}

static ndd_status look_at_table(struct segment_crowds *crowds, const struct segment_table *table,
                                uint32_t block) {
    for (uint64_t bucket = 0; bucket >> table->bits == 0; bucket++) {
        uint64_t start = segment_start(table, bucket), end = segment_start(table, bucket + 1);
        if (end - start < NDD_SEGMENT_CROWD) continue;
        struct segment_crowd crowd = {block, (uint32_t)bucket, pivot_of(table, start, end), {0}};
        for (uint64_t i = start; i < end; i++) {
            crowd.at[count_bits(segment_rest(table, i) ^ crowd.pivot)]++;
        }
        ndd_status status = add(crowds, crowd);
        if (status != NDD_OK) return status;
    }
    return NDD_OK;
}

ndd_status segment_crowds_open(struct segment_crowds *crowds, const struct segment_table *tables,
                               uint32_t count) {
    ndd_status status = NDD_OK;
    *crowds = (struct segment_crowds){0};
    for (uint32_t i = 0; i < count && status == NDD_OK; i++) {
        status = look_at_table(crowds, &tables[i], i);
    }
    if (status != NDD_OK) segment_crowds_close(crowds);
    return status;
}

void segment_crowds_close(struct segment_crowds *crowds) {
    free(crowds->list);
    *crowds = (struct segment_crowds){0};
}

static int comes_before(const struct segment_crowd *crowd, uint32_t block, uint32_t bucket) {
    return crowd->block != block ? crowd->block < block : crowd->bucket < bucket;
}

int segment_crowds_may_match(const struct segment_crowds *crowds, uint32_t block, uint32_t bucket,
                            uint64_t rest, uint32_t most) {
    uint32_t low = 0, high = crowds->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (comes_before(&crowds->list[middle], block, bucket)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const struct segment_crowd *crowd = &crowds->list[low];
    uint32_t own = (uint32_t)count_bits(rest ^ crowd->pivot);
    uint32_t first = own > most ? own - most : 0, last = own + most < 64 ? own + most : 64;
    for (uint32_t i = first; i <= last; i++) {
        if (crowd->at[i] > 0) return 1;
    }
    return 0;
}
