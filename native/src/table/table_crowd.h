/*
 * A crowd: thousands of entries beyond the lines of one bucket, searched by an index of their own.
 *
 * What they have in common is in the bucket's key; what is left of each, the rest, is a shorter number
 * of `width` bits, and finding those within k of another is the table's problem once more. So a crowd
 * has block tables as the table has, of rests, in a design for as many as there are. Where these are
 * crowded too, their buckets are long: crowds have no crowds, as each would keep every rest several
 * times over.
 *
 * So it is where all lie in a shell around one centre, which have most of every key in common. Hence a
 * crowd also counts how far its rests are from one of them all resemble, the `pivot`: two numbers differ
 * by as many bits at least as their distances from a third do, and a probe from where no rest is near
 * by that goes no further.
 *
 * The rule kept: each rest of the crowd is in its index as a value is in the table's, and counted once.
 */
#ifndef NDD_TABLE_CROWD_H
#define NDD_TABLE_CROWD_H

#include "table/table_index.h"

struct crowd {
    struct overflow none; /* without entries, and of no capacity */
    uint32_t width;       /* bits of a rest */
    uint32_t k;
    uint64_t count;
    uint64_t limit; /* rests up to which the index serves; beyond, another is made */
    uint64_t pivot;
    uint32_t at[65]; /* rests at each distance from it */
    struct index index;
};

static inline struct crowd *overflow_crowd(const struct overflow *overflow) {
    return overflow->capacity == 0 ? (struct crowd *)(uintptr_t)overflow : NULL;
}

/* A crowd of these rests, for distances up to k. NULL without memory, or when it is not worth while. */
struct crowd *crowd_open(const uint64_t *rests, uint64_t count, uint32_t width, uint32_t k);
void crowd_close(struct crowd *crowd);

/* Makes room for a rest, so that crowd_put of it cannot fail. */
ndd_status crowd_make_room(struct crowd *crowd, uint64_t rest);
void crowd_put(struct crowd *crowd, uint64_t rest);

/* Removes a rest; 0 if it is not there. */
int crowd_remove(struct crowd *crowd, uint64_t rest);

/* Any rest of a crowd; and all of them, in no order. */
uint64_t crowd_any(const struct crowd *crowd);
void crowd_list(const struct crowd *crowd, uint64_t *rests);

uint64_t crowd_bytes(const struct crowd *crowd);

/* NULL, or the rule that does not hold. */
const char *crowd_validate(const struct crowd *crowd);

#endif
