#include "table/table_lines.h"

#include <assert.h>
#include <stdlib.h>

#include "hash/set_sum.h"

#define FIRST_OVERFLOW 4

_Static_assert(sizeof(union line) == NDD_LINE_BYTES, "a line is a cache line");

static uint64_t overflow_size(const struct lines *lines, uint32_t capacity) {
    return sizeof(struct overflow) + (uint64_t)capacity * (4 + lines->far_bytes);
}

static void overflow_close(struct lines *lines, struct overflow *overflow) {
    if (overflow == NULL) return;
    lines->overflow_bytes -= overflow_size(lines, overflow->capacity);
    free(overflow);
}

ndd_status lines_open(struct lines *lines, const struct block *block) {
    uint32_t bits = block->bits;
    *lines = (struct lines){.bits = bits, .lines = block->lines, .quotient = quotient_of(block)};
    lines->far_bytes = bucket_far_bytes(bits);
    lines->inside = bucket_entries(bits, block->lines);
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

/* ------------------------------------------------------------------------------------- entries */

ndd_status lines_make_more(struct lines *lines, union line *line) {
    struct overflow *overflow = line_overflow(line);
    uint32_t capacity = FIRST_OVERFLOW, before = 0;
    if (overflow != NULL) {
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
    } else {
        store_entry(lines, overflow_entries(overflow), overflow->capacity, overflow->count++, rest);
    }
}

/* The place of a rest among n entries of an array made for `room`; n if it is not there. */
static uint32_t find_entry(const struct lines *lines, const uint32_t *entries, uint32_t room, uint32_t n,
                           uint64_t rest) {
    uint32_t i = 0;
    while (i < n && (entries[i] != (uint32_t)rest || load_entry(lines, entries, room, i) != rest)) i++;
    return i;
}

void lines_remove(struct lines *lines, union line *line, uint64_t rest) {
    struct overflow *overflow = line_overflow(line);
    uint32_t *entries = line_entries(line), room = lines->inside, inside = line_inside(lines, line);
    uint32_t beyond = overflow == NULL ? 0 : overflow->count;
    uint64_t last = lines_entry(lines, line, inside + beyond - 1);
    uint32_t gap = find_entry(lines, entries, room, inside, rest);
    if (gap == inside && overflow != NULL) {
        entries = overflow_entries(overflow);
        room = overflow->capacity;
        gap = find_entry(lines, entries, room, beyond, rest);
    }
    assert(gap < (entries == line_entries(line) ? inside : beyond));
    store_entry(lines, entries, room, gap, last);
    if (overflow == NULL) {
        line->head--;
        return;
    }
    /* An overflow may be empty, after lines_make_room; then the entry was in the lines. */
    if (beyond > 0) {
        overflow->count--;
    } else {
        inside--;
    }
    if (overflow->count == 0) {
        overflow_close(lines, overflow);
        line->head = inside;
    }
}

uint64_t lines_bytes(const struct lines *lines) {
    return lines->memory.bytes + lines->overflow_bytes;
}

const char *lines_validate(const struct lines *lines, uint32_t bucket, struct set_sum *sum,
                           uint64_t *count, uint64_t *bytes) {
    const union line *line = lines_at(lines, bucket);
    const struct overflow *overflow = line_overflow(line);
    if (line_inside(lines, line) > lines->inside) return "a bucket is fuller than its lines";
    if (overflow != NULL && overflow->count > overflow->capacity) {
        return "a bucket is fuller than its memory";
    }
    uint32_t entries = line_inside(lines, line) + (overflow == NULL ? 0 : overflow->count);
    for (uint32_t i = 0; i < entries; i++) {
        set_sum_add(sum, quotient_value(&lines->quotient, bucket, lines_entry(lines, line, i)));
    }
    *count += entries;
    if (overflow != NULL) *bytes += overflow_size(lines, overflow->capacity);
    return NULL;
}
