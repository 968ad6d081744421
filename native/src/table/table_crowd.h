/*
 * A crowd: thousands of entries beyond the lines of one bucket, searched by an index of their own.
 *
 * What they have in common is in the bucket's key; what is left of each, the rest, is a shorter number
 * of `width` bits, and finding those within k of another is the table's problem once more. So a crowd
 * has block tables of rests, as the table has of values, in a design for their number. Crowds have no
 * further crowds, because each would hold every rest several times: where a crowd's own buckets fill
 * up, they are just long.
 *
 * That happens when all rests lie in a shell around one centre and so have most of every key in common.
 * Therefore a crowd also counts its rests by their distance from the `pivot`, a number that resembles
 * them all. By the triangle inequality two numbers differ in at least as many bits as their distances
 * from a third number do; so a probe for which no rest has a possible distance ends there.
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
