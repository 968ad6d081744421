/*
 * The index of a table: the block tables of one design, and the keys a probe looks up in them.
 *
 * The rule kept: every value of the table is in every block table exactly once, in the bucket of
 * its key. An index without block tables is no index; then a probe compares with every value.
 */
#ifndef NDD_TABLE_INDEX_H
#define NDD_TABLE_INDEX_H

#include "design/design.h"
#include "table/numbers.h"
#include "table/table_lines.h"

struct index {
    struct design design;
    struct lines *lines; /* one for each block of the design */
    struct flips flips;
};

#define NDD_MAX_BLOCKS 64

static inline union line *index_line(const struct index *index, uint32_t block, uint64_t value) {
    const struct lines *lines = &index->lines[block];
    return lines_at(lines, quotient_bucket(&lines->quotient, value));
}

/* An index of these values, in the design for `room` values. */
ndd_status index_open(struct index *index, const struct numbers *values, uint64_t room, uint32_t k,
                      ndd_preset preset);
void index_close(struct index *index);

/* The bucket of a value in each block table. Holds until the index is closed. */
struct spots {
    union line *lines[NDD_MAX_BLOCKS];
};

/* index_find finds the spots of a value that is inserted soon, and prefetches their first lines; index_prefetch,
 * called some values later, prefetches where the entries will stand, in the other lines or beyond them. */
void index_find(const struct index *index, uint64_t value, struct spots *spots);
void index_prefetch(const struct index *index, const struct spots *spots);

/* Makes room for a value, whose spots these are, so that index_put of it cannot fail. */
ndd_status index_make_room(struct index *index, const struct spots *spots);
void index_put(struct index *index, uint64_t value, const struct spots *spots);

/* Removes a value, which is there. */
void index_remove(struct index *index, uint64_t value);

/* Buckets visited by a probe. */
uint32_t index_keys(const struct index *index);

uint64_t index_bytes(const struct index *index);

/* NULL, or the rule that does not hold for these values. */
const char *index_validate(const struct index *index, const uint64_t *values, uint64_t count);

#endif
