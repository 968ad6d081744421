#include "table/table_index.h"

#include <stdlib.h>

#include "hash/set_sum.h"

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

/* Prefetches what of a bucket is written when a value is put in, its first line aside. */
static inline void prefetch_entry(const struct lines *lines, const union line *line) {
    const struct overflow *overflow = line_overflow(line);
    const uint32_t *entries = line_lows(line);
    if (overflow != NULL) {
        prefetch(overflow);
    } else if (lines->lines > 1) {
        prefetch(entries + line->head);
        prefetch((const uint8_t *)(entries + lines->inside) + line->head * lines->far_bytes);
    }
}

/* Puts all values into one block table: one at a time, so that its lines stay in the caches. */
static ndd_status fill(struct index *index, uint32_t block, const uint64_t *values, uint64_t count) {
    struct lines *lines = &index->lines[block];
    for (uint64_t i = 0; i < count; i++) {
        if (count - i > AHEAD_FILL) {
            prefetch(index_line(index, block, values[i + AHEAD_FILL]));
            prefetch_entry(lines, index_line(index, block, values[i + AHEAD_FILL / 2]));
        }
        union line *line = index_line(index, block, values[i]);
        ndd_status status = lines_make_room(lines, line);
        if (status != NDD_OK) return status;
        lines_put(lines, line, quotient_rest(&lines->quotient, values[i]));
    }
    return NDD_OK;
}

static ndd_status open_blocks(struct index *index, const struct numbers *values) {
    uint32_t count = index->design.count;
    index->lines = calloc(count, sizeof *index->lines);
    if (index->lines == NULL) return NDD_NO_MEMORY;
    ndd_status status = flips_open(&index->flips, &index->design);
    for (uint32_t i = 0; i < count && status == NDD_OK; i++) {
        status = lines_open(&index->lines[i], &index->design.blocks[i]);
    }
    for (uint32_t i = 0; i < count && status == NDD_OK; i++) status = fill(index, i, values->items, values->count);
    return status;
}

ndd_status index_open(struct index *index, const struct numbers *values, uint64_t room,
                      uint32_t k, ndd_preset preset) {
    *index = (struct index){0};
    ndd_status status = design_for_probes(&index->design, room, k, preset);
    if (status == NDD_OK && index->design.count > 0) status = open_blocks(index, values);
    if (status != NDD_OK) index_close(index);
    return status;
}

void index_find(const struct index *index, uint64_t value, struct spots *spots) {
    for (uint32_t i = 0; i < index->design.count; i++) {
        spots->lines[i] = index_line(index, i, value);
        prefetch(spots->lines[i]);
    }
}

void index_prefetch(const struct index *index, const struct spots *spots) {
    for (uint32_t i = 0; i < index->design.count; i++) prefetch_entry(&index->lines[i], spots->lines[i]);
}

ndd_status index_make_room(struct index *index, const struct spots *spots) {
    for (uint32_t i = 0; i < index->design.count; i++) {
        ndd_status status = lines_make_room(&index->lines[i], spots->lines[i]);
        if (status != NDD_OK) return status;
    }
    return NDD_OK;
}

void index_put(struct index *index, uint64_t value, const struct spots *spots) {
    for (uint32_t i = 0; i < index->design.count; i++) {
        lines_put(&index->lines[i], spots->lines[i], quotient_rest(&index->lines[i].quotient, value));
    }
}

void index_remove(struct index *index, uint64_t value) {
    for (uint32_t i = 0; i < index->design.count; i++) {
        struct lines *lines = &index->lines[i];
        lines_remove(lines, index_line(index, i, value), quotient_rest(&lines->quotient, value));
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
    uint64_t total = 0, bytes = 0;
    struct set_sum sum = {0, 0};
    for (size_t i = 0; i >> lines->bits == 0; i++) {
        const char *broken = lines_validate(lines, (uint32_t)i, &sum, &total, &bytes);
        if (broken != NULL) return broken;
    }
    if (total != count) return "the index has not as many values as the table";
    if (sum.a != expected.a || sum.b != expected.b) return "the index has other values";
    if (bytes != lines->overflow_bytes) return "the memory of the buckets is miscounted";
    return NULL;
}

const char *index_validate(const struct index *index, const uint64_t *values, uint64_t count) {
    struct set_sum sum = {0, 0};
    const char *reason = NULL;
    for (uint64_t i = 0; i < count; i++) set_sum_add(&sum, values[i]);
    for (uint32_t i = 0; i < index->design.count && reason == NULL; i++) {
        reason = validate_block(index, i, sum, count);
    }
    return reason;
}
