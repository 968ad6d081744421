#include "table_lines.h"

#include <stdlib.h>

#define FIRST_OVERFLOW 4

/* Bytes of an entry beside its low 32 bits, for keys of so many bits. */
static uint32_t far_bytes_of(uint32_t key_bits) {
    return key_bits >= 24 ? 1 : key_bits >= 16 ? 2 : 4;
}

uint32_t lines_inside(uint32_t key_bits, uint32_t doubled) {
    return (((uint32_t)LINE_LANES << doubled) - 2) * 4 / (4 + far_bytes_of(key_bits));
}

uint64_t overflow_size(const struct lines *lines, uint32_t capacity) {
    return sizeof(struct overflow) + (uint64_t)capacity * (4 + lines->far_bytes);
}

ndd_status lines_open(struct lines *lines, const struct block *block) {
    uint32_t bits = block->bits;
    *lines = (struct lines){.bits = bits, .keying = keying_of(block)};
    lines->far_bytes = far_bytes_of(bits);
    lines->doubled = block->doubled;
    lines->inside = lines_inside(bits, block->doubled);
    if (bits + lines->doubled + 6 >= sizeof(size_t) * 8) return NDD_NO_MEMORY;
    if (!memory_open(&lines->memory, sizeof(union line) << (bits + lines->doubled))) {
        return NDD_NO_MEMORY;
    }
    lines->at = lines->memory.at;
    return NDD_OK;
}

void lines_close(struct lines *lines) {
    if (lines->overflow_bytes > 0) {
        for (size_t i = 0; i >> lines->bits == 0; i++) free(line_overflow(lines_at(lines, (uint32_t)i)));
    }
    memory_close(&lines->memory);
    *lines = (struct lines){0};
}

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
        memmove(larger->entries + capacity, larger->entries + before,
                (size_t)before * lines->far_bytes);
    }
    larger->capacity = capacity;
    line->head = (uint64_t)(uintptr_t)larger;
    lines->overflow_bytes += overflow_size(lines, capacity);
    if (before > 0) lines->overflow_bytes -= overflow_size(lines, before);
    return NDD_OK;
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

uint64_t lines_entry(const struct lines *lines, const union line *line, uint32_t i) {
    const struct overflow *overflow = line_overflow(line);
    uint32_t inside = line_inside(lines, line);
    if (i < inside) return load_entry(lines, line_lows(line), lines->inside, i);
    return load_entry(lines, overflow->entries, overflow->capacity, i - inside);
}

void lines_put(const struct lines *lines, union line *line, uint64_t rest) {
    struct overflow *overflow = line_overflow(line);
    if (overflow == NULL) {
        store_entry(lines, line_entries(line), lines->inside, (uint32_t)line->head++, rest);
    } else {
        store_entry(lines, overflow->entries, overflow->capacity, overflow->count++, rest);
    }
}

/* Entry i of a bucket becomes another. */
static void replace_entry(const struct lines *lines, union line *line, uint32_t i, uint64_t rest) {
    struct overflow *overflow = line_overflow(line);
    uint32_t inside = line_inside(lines, line);
    if (i < inside) {
        store_entry(lines, line_entries(line), lines->inside, i, rest);
    } else {
        store_entry(lines, overflow->entries, overflow->capacity, i - inside, rest);
    }
}

void lines_remove(struct lines *lines, union line *line, uint64_t rest) {
    struct overflow *overflow = line_overflow(line);
    uint32_t inside = line_inside(lines, line);
    uint32_t count = inside + (overflow == NULL ? 0 : overflow->count), gap = 0;
    while (gap < count && lines_entry(lines, line, gap) != rest) gap++;
    if (gap == count) return;
    replace_entry(lines, line, gap, lines_entry(lines, line, count - 1));
    if (overflow == NULL) {
        line->head--;
        return;
    }
    /* An overflow may be without values, after lines_make_room; then one inside went. */
    if (overflow->count > 0) {
        overflow->count--;
    } else {
        inside--;
    }
    if (overflow->count == 0) {
        lines->overflow_bytes -= overflow_size(lines, overflow->capacity);
        free(overflow);
        line->head = inside;
    }
}

uint64_t lines_bytes(const struct lines *lines) {
    return lines->memory.bytes + lines->overflow_bytes;
}
