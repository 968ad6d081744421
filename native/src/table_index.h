/*
 * The index of a table: the block tables of one design, and the keys a probe looks up in them.
 *
 * The rule kept: every value of the table is in every block table exactly once, in the bucket of
 * its key. An index without block tables is no index; then a probe compares with every value.
 */
#ifndef NDD_TABLE_INDEX_H
#define NDD_TABLE_INDEX_H

#include "design.h"
#include "numbers.h"
#include "table_lines.h"

struct index {
    struct design design;
    struct lines *lines; /* one for each block of the design */
    uint32_t *flips;     /* what leads from a key's bucket to those of the keys to look up; */
    uint32_t *flips_end; /* those of block i end before flips[flips_end[i]], 0 is the first */
};

static inline uint32_t index_flips_begin(const struct index *index, uint32_t block) {
    return block == 0 ? 0 : index->flips_end[block - 1];
}

static inline uint32_t index_bucket(const struct index *index, uint32_t block, uint64_t value) {
    return lines_bucket(&index->lines[block], block_key(&index->design.blocks[block], value));
}

/* An index of these values, in the design for `room` values. */
ndd_status index_open(struct index *index, const struct numbers *values, uint64_t room, uint32_t k);
void index_close(struct index *index);

/* A hint that this value is put in soon. */
void index_prefetch(const struct index *index, uint64_t value);

/* Makes room for one more value, so that index_put cannot fail. */
ndd_status index_make_room(struct index *index, uint64_t value);
void index_put(struct index *index, uint64_t value);
void index_remove(struct index *index, uint64_t value);

/* Buckets visited by a probe. */
uint32_t index_keys(const struct index *index);

uint64_t index_bytes(const struct index *index);

/* NULL, or the rule that does not hold for these values. */
const char *index_validate(const struct index *index, const struct numbers *values);

#endif
