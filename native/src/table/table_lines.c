#include "table/table_lines.h"

#include <stdlib.h>

#include "hash/set_sum.h"

#define FIRST_OVERFLOW 4

_Static_assert(sizeof(union line) == NDD_LINE_BYTES, "a line is a cache line");

static uint64_t overflow_size(const struct lines *lines, uint32_t capacity) {
    return sizeof(struct overflow) + (uint64_t)capacity * (4 + lines->far_bytes);
}

static uint64_t overflow_memory(const struct lines *lines, const struct overflow *overflow) {
    const struct crowd *crowd = overflow_crowd(overflow);
    return crowd != NULL ? lines->crowds->bytes(crowd) : overflow_size(lines, overflow->capacity);
}

static void overflow_close(struct lines *lines, struct overflow *overflow) {
    if (overflow == NULL) return;
    lines->overflow_bytes -= overflow_memory(lines, overflow);
    if (overflow_crowd(overflow) != NULL) {
        lines->crowds->close(overflow_crowd(overflow));
    } else {
        free(overflow);
    }
}

ndd_status lines_open(struct lines *lines, const struct block *block, uint32_t width, uint32_t k,
                      const struct crowd_functions *crowds) {
    uint32_t bits = block->bits, known = 64 - width + bits; /* known: bits that no entry stores */
    *lines = (struct lines){.bits = bits, .width = width, .k = k, .quotient = quotient_of(block)};
    lines->crowds = crowds;
    lines->far_bytes = bucket_far_bytes(known);
    lines->lines = block->lines;
    lines->inside = bucket_entries(known, block->lines);
    if (bits + 9 >= sizeof(size_t) * 8) return NDD_NO_MEMORY;
    if (!memory_open(&lines->memory, (sizeof(union line) * lines->lines) << bits)) {
        return NDD_NO_MEMORY;
    }
    lines->at = lines->memory.at;
    return NDD_OK;
}

void lines_close(struct lines *lines) {
    if (lines->overflow_bytes > 0) {
        for (size_t i = 0; i >> lines->bits == 0; i++) {
            overflow_close(lines, line_overflow(lines_at(lines, (uint32_t)i)));
        }
    }
    memory_close(&lines->memory);
    *lines = (struct lines){0};
}

static void store_entry(const struct lines *lines, uint32_t *entries, uint32_t room, uint32_t i,
                        uint64_t rest) {
    uint8_t *far = (uint8_t *)(entries + room);
    uint16_t half = (uint16_t)(rest >> 32);
    entries[i] = (uint32_t)rest;
    if (lines->far_bytes == 1) {
        far[i] = (uint8_t)half;
    } else if (lines->far_bytes == 2) {
        memcpy(far + 2 * i, &half, 2);
    } else {
        entries[room + i] = (uint32_t)(rest >> 32);
    }
}

static uint64_t load_entry(const struct lines *lines, const uint32_t *entries, uint32_t room,
                           uint32_t i) {
    return (uint64_t)entry_far(entries, room, lines->far_bytes, i) << 32 | entries[i];
}

static uint64_t lines_entry(const struct lines *lines, const union line *line, uint32_t i) {
    const struct overflow *overflow = line_overflow(line);
    uint32_t inside = line_inside(lines, line);
    if (i < inside) return load_entry(lines, line_lows(line), lines->inside, i);
    return load_entry(lines, overflow_entries(overflow), overflow->capacity, i - inside);
}

/* ------------------------------------------------------------------------------------ crowding */

/* Moves the entries beyond a bucket's lines into a crowd, if that is worth it and there is memory. */
static void make_crowd(struct lines *lines, union line *line) {
    struct overflow *overflow = line_overflow(line);
    uint64_t *rests = malloc(overflow->count * sizeof *rests);
    if (rests == NULL) return;
    for (uint32_t i = 0; i < overflow->count; i++) {
        rests[i] = load_entry(lines, overflow_entries(overflow), overflow->capacity, i);
    }
    uint32_t width = lines->width - lines->bits;
    struct crowd *crowd = lines->crowds->open(rests, overflow->count, width, lines->k);
    free(rests);
    if (crowd == NULL) return;
    overflow_close(lines, overflow);
    lines->overflow_bytes += lines->crowds->bytes(crowd);
    line->head = (uint64_t)(uintptr_t)crowd;
}

/* Turns a small crowd into a contiguous overflow again, if there is memory. */
static void dissolve_crowd(struct lines *lines, union line *line) {
    struct crowd *crowd = overflow_crowd(line_overflow(line));
    uint32_t count = (uint32_t)lines->crowds->count(crowd), capacity = (count + 2) & ~UINT32_C(1);
    struct overflow *overflow = malloc((size_t)overflow_size(lines, capacity));
    uint64_t *rests = malloc(count * sizeof *rests + 1);
    if (overflow != NULL && rests != NULL) {
        lines->crowds->list(crowd, rests);
        *overflow = (struct overflow){count, capacity};
        for (uint32_t i = 0; i < count; i++) store_entry(lines, overflow_entries(overflow), capacity, i, rests[i]);
        overflow_close(lines, line_overflow(line));
        lines->overflow_bytes += overflow_size(lines, capacity);
        line->head = (uint64_t)(uintptr_t)overflow;
        overflow = NULL;
    }
    free(overflow);
    free(rests);
}

static ndd_status make_room_in_crowd(struct lines *lines, struct crowd *crowd, uint64_t rest) {
    uint64_t before = lines->crowds->bytes(crowd);
    ndd_status status = lines->crowds->make_room(crowd, rest);
    lines->overflow_bytes += lines->crowds->bytes(crowd) - before;
    return status;
}

/* Removes an entry of a bucket with a crowd; when it is in the lines, one of the crowd moves there. */
static int remove_from_crowd(struct lines *lines, union line *line, uint64_t rest) {
    struct crowd *crowd = overflow_crowd(line_overflow(line));
    uint64_t before = lines->crowds->bytes(crowd);
    uint32_t *entries = line_entries(line), inside = 0;
    while (inside < lines->inside && load_entry(lines, entries, lines->inside, inside) != rest) inside++;
    if (inside < lines->inside) {
        rest = lines->crowds->any(crowd);
        store_entry(lines, entries, lines->inside, inside, rest);
    }
    int removed = lines->crowds->remove(crowd, rest);
    lines->overflow_bytes += lines->crowds->bytes(crowd) - before;
    if (lines->crowds->count(crowd) <= NDD_CROWD_FEW) dissolve_crowd(lines, line);
    return removed;
}

/* ------------------------------------------------------------------------------------- entries */

ndd_status lines_make_more(struct lines *lines, union line *line, uint64_t rest) {
    struct overflow *overflow = line_overflow(line);
    uint32_t capacity = FIRST_OVERFLOW, before = 0;
    if (overflow != NULL && overflow->count == overflow->capacity && overflow->count >= NDD_CROWD_MANY &&
        lines->crowds != NULL) {
        make_crowd(lines, line);
        overflow = line_overflow(line);
    }
    if (overflow != NULL) {
        if (overflow_crowd(overflow) != NULL) {
            return make_room_in_crowd(lines, overflow_crowd(overflow), rest);
        }
        if (overflow->count < overflow->capacity) return NDD_OK;
        before = overflow->capacity;
        capacity = (before + before / 4 + 5) & ~UINT32_C(1);
    }
    if (overflow_size(lines, capacity) > SIZE_MAX) return NDD_NO_MEMORY;
    struct overflow *larger = realloc(overflow, (size_t)overflow_size(lines, capacity));
    if (larger == NULL) return NDD_NO_MEMORY;
    if (overflow == NULL) {
        larger->count = 0;
    } else {
        memmove(overflow_entries(larger) + capacity, overflow_entries(larger) + before,
                (size_t)before * lines->far_bytes);
    }
    larger->capacity = capacity;
    line->head = (uint64_t)(uintptr_t)larger;
    lines->overflow_bytes += overflow_size(lines, capacity);
    if (before > 0) lines->overflow_bytes -= overflow_size(lines, before);
    return NDD_OK;
}

void lines_put(const struct lines *lines, union line *line, uint64_t rest) {
    struct overflow *overflow = line_overflow(line);
    if (overflow == NULL) {
        store_entry(lines, line_entries(line), lines->inside, (uint32_t)line->head++, rest);
    } else if (overflow_crowd(overflow) != NULL) {
        lines->crowds->put(overflow_crowd(overflow), rest);
    } else {
        store_entry(lines, overflow_entries(overflow), overflow->capacity, overflow->count++, rest);
    }
}

/* Entry i of a bucket becomes another. */
static void replace_entry(const struct lines *lines, union line *line, uint32_t i, uint64_t rest) {
    struct overflow *overflow = line_overflow(line);
    uint32_t inside = line_inside(lines, line);
    if (i < inside) {
        store_entry(lines, line_entries(line), lines->inside, i, rest);
    } else {
        store_entry(lines, overflow_entries(overflow), overflow->capacity, i - inside, rest);
    }
}

int lines_remove(struct lines *lines, union line *line, uint64_t rest) {
    struct overflow *overflow = line_overflow(line);
    if (overflow != NULL && overflow_crowd(overflow) != NULL) {
        return remove_from_crowd(lines, line, rest);
    }
    uint32_t inside = line_inside(lines, line);
    uint32_t count = inside + (overflow == NULL ? 0 : overflow->count), gap = 0;
    while (gap < count && lines_entry(lines, line, gap) != rest) gap++;
    if (gap == count) return 0;
    replace_entry(lines, line, gap, lines_entry(lines, line, count - 1));
    if (overflow == NULL) {
        line->head--;
        return 1;
    }
    /* An overflow may be empty, after lines_make_room; then the entry was in the lines. */
    if (overflow->count > 0) {
        overflow->count--;
    } else {
        inside--;
    }
    if (overflow->count == 0) {
        overflow_close(lines, overflow);
        line->head = inside;
    }
    return 1;
}

uint64_t lines_bytes(const struct lines *lines) {
    return lines->memory.bytes + lines->overflow_bytes;
}

/* The entries of a bucket that are no crowd's. */
static uint32_t entries_of(const struct lines *lines, const union line *line) {
    const struct overflow *overflow = line_overflow(line);
    return line_inside(lines, line) + (overflow == NULL ? 0 : overflow->count);
}

uint64_t lines_any(const struct lines *lines) {
    uint32_t bucket = 0;
    while (line_inside(lines, lines_at(lines, bucket)) == 0) bucket++;
    const uint32_t *entries = line_lows(lines_at(lines, bucket));
    return quotient_value(&lines->quotient, bucket, load_entry(lines, entries, lines->inside, 0));
}

void lines_list(const struct lines *lines, uint64_t *values) {
    for (uint32_t bucket = 0; bucket >> lines->bits == 0; bucket++) {
        const union line *line = lines_at(lines, bucket);
        const struct overflow *overflow = line_overflow(line);
        uint64_t *from = values;
        uint32_t count = entries_of(lines, line);
        for (uint32_t i = 0; i < count; i++) *values++ = lines_entry(lines, line, i);
        if (overflow != NULL && overflow_crowd(overflow) != NULL) {
            lines->crowds->list(overflow_crowd(overflow), values);
            values += lines->crowds->count(overflow_crowd(overflow));
        }
        for (; from < values; from++) *from = quotient_value(&lines->quotient, bucket, *from);
    }
}

const char *lines_validate(const struct lines *lines, uint32_t bucket, struct set_sum *sum,
                           uint64_t *count, uint64_t *bytes) {
    const union line *line = lines_at(lines, bucket);
    const struct overflow *overflow = line_overflow(line);
    if (line_inside(lines, line) > lines->inside) return "a bucket is fuller than its lines";
    if (overflow != NULL && overflow->count > overflow->capacity) {
        return "a bucket is fuller than its memory";
    }
    uint32_t entries = entries_of(lines, line);
    for (uint32_t i = 0; i < entries; i++) {
        set_sum_add(sum, quotient_value(&lines->quotient, bucket, lines_entry(lines, line, i)));
    }
    *count += entries;
    if (overflow == NULL) return NULL;
    *bytes += overflow_memory(lines, overflow);
    const struct crowd *crowd = overflow_crowd(overflow);
    if (crowd == NULL) return NULL;
    const char *broken = lines->crowds->validate(crowd);
    uint64_t in_crowd = lines->crowds->count(crowd);
    uint64_t *rests = malloc((size_t)in_crowd * sizeof *rests + 1);
    if (broken == NULL && rests == NULL) broken = "there is no memory to look at a crowd";
    if (broken == NULL) {
        lines->crowds->list(crowd, rests);
        for (uint64_t i = 0; i < in_crowd; i++) {
            set_sum_add(sum, quotient_value(&lines->quotient, bucket, rests[i]));
        }
        *count += in_crowd;
    }
    free(rests);
    return broken;
}
