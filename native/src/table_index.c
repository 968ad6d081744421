#include "table_index.h"

#include <stdlib.h>

#include "set_sum.h"

#define AHEAD_FILL 24 /* values whose lines are being fetched while the index is filled */

void index_close(struct index *index) {
    if (index->lines != NULL) {
        for (uint32_t i = 0; i < index->design.count; i++) lines_close(&index->lines[i]);
    }
    free(index->lines);
    flips_close(&index->flips);
    design_close(&index->design);
    *index = (struct index){0};
}

static inline void prefetch_overflow(const union line *line) {
    const struct overflow *overflow = line_overflow(line);
    if (overflow != NULL) prefetch(overflow);
}

/* Puts all values into one block table: one at a time, so that its lines stay in the caches. */
static ndd_status fill(struct index *index, uint32_t block, const struct numbers *values) {
    struct lines *lines = &index->lines[block];
    for (uint32_t i = 0; i < values->count; i++) {
        if (values->count - i > AHEAD_FILL) {
            lines_prefetch(lines, index_line(index, block, values->items[i + AHEAD_FILL]));
            prefetch_overflow(index_line(index, block, values->items[i + AHEAD_FILL / 2]));
        }
        union line *line = index_line(index, block, values->items[i]);
        ndd_status status = lines_make_room(lines, line);
        if (status != NDD_OK) return status;
        lines_put(lines, line, keying_rest(&lines->keying, values->items[i]));
    }
    return NDD_OK;
}

static ndd_status open_parts(struct index *index, const struct numbers *values) {
    uint32_t count = index->design.count;
    index->lines = calloc(count, sizeof *index->lines);
    if (index->lines == NULL) return NDD_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        ndd_status status = lines_open(&index->lines[i], &index->design.blocks[i]);
        if (status != NDD_OK) return status;
    }
    ndd_status status = flips_open(&index->flips, &index->design);
    for (uint32_t i = 0; i < count && status == NDD_OK; i++) status = fill(index, i, values);
    return status;
}

ndd_status index_open(struct index *index, const struct numbers *values, uint64_t room,
                      uint32_t k, ndd_preset preset) {
    *index = (struct index){0};
    ndd_status status = design_for_probes(&index->design, room, k, preset);
    if (status == NDD_OK && index->design.count > 0) status = open_parts(index, values);
    if (status != NDD_OK) index_close(index);
    return status;
}

void index_find(const struct index *index, uint64_t value, struct spots *spots) {
    for (uint32_t i = 0; i < index->design.count; i++) {
        spots->lines[i] = index_line(index, i, value);
        lines_prefetch(&index->lines[i], spots->lines[i]);
    }
}

void index_prefetch(const struct index *index, const struct spots *spots) {
    for (uint32_t i = 0; i < index->design.count; i++) prefetch_overflow(spots->lines[i]);
}

ndd_status index_put(struct index *index, uint64_t value, const struct spots *spots) {
    uint32_t count = index->design.count;
    for (uint32_t i = 0; i < count; i++) {
        ndd_status status = lines_make_room(&index->lines[i], spots->lines[i]);
        if (status != NDD_OK) return status;
    }
    for (uint32_t i = 0; i < count; i++) {
        lines_put(&index->lines[i], spots->lines[i], keying_rest(&index->lines[i].keying, value));
    }
    return NDD_OK;
}

void index_remove(struct index *index, uint64_t value) {
    for (uint32_t i = 0; i < index->design.count; i++) {
        struct lines *lines = &index->lines[i];
        lines_remove(lines, index_line(index, i, value), keying_rest(&lines->keying, value));
    }
}

uint32_t index_keys(const struct index *index) {
    return index->design.count == 0 ? 0 : index->flips.end[index->design.count - 1];
}

uint64_t index_bytes(const struct index *index) {
    uint32_t count = index->design.count;
    uint64_t bytes = count * (sizeof *index->design.blocks + sizeof *index->lines +
                              sizeof *index->flips.end) +
                     index_keys(index) * sizeof *index->flips.list;
    for (uint32_t i = 0; i < count; i++) bytes += lines_bytes(&index->lines[i]);
    return bytes;
}

static const char *validate_block(const struct index *index, uint32_t block,
                                  struct set_sum expected, uint64_t count) {
    const struct lines *lines = &index->lines[block];
    uint64_t total = 0, overflow_bytes = 0;
    struct set_sum sum = {0, 0};
    for (size_t i = 0; i >> lines->bits == 0; i++) {
        const union line *line = lines_at(lines, (uint32_t)i);
        const struct overflow *overflow = line_overflow(line);
        uint32_t inside = line_inside(lines, line), beyond = overflow == NULL ? 0 : overflow->count;
        total += (uint64_t)inside + beyond;
        if (inside > lines->inside) return "a bucket is fuller than its lines";
        if (overflow != NULL) {
            if (beyond > overflow->capacity) return "a bucket is fuller than its memory";
            overflow_bytes += overflow_size(lines, overflow->capacity);
        }
        for (uint32_t j = 0; j < inside + beyond; j++) {
            set_sum_add(&sum, keying_value(&lines->keying, (uint32_t)i, lines_entry(lines, line, j)));
        }
    }
    if (total != count) return "the index has not as many values as the table";
    if (sum.a != expected.a || sum.b != expected.b) return "the index has other values";
    if (overflow_bytes != lines->overflow_bytes) return "the memory of the buckets is miscounted";
    return NULL;
}

const char *index_validate(const struct index *index, const struct numbers *values) {
    struct set_sum sum = {0, 0};
    const char *reason = NULL;
    for (uint32_t i = 0; i < values->count; i++) set_sum_add(&sum, values->items[i]);
    for (uint32_t i = 0; i < index->design.count && reason == NULL; i++) {
        reason = validate_block(index, i, sum, values->count);
    }
    return reason;
}
