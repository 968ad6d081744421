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

/* What the lines of a table do with a crowded bucket (table_lines.h says what each does). */
extern const struct crowd_functions table_crowds;

#endif
