#include "table_lines.h"

#include <stdlib.h>

#define FIRST_OVERFLOW 3

static uint64_t overflow_size(uint32_t capacity) {
    return sizeof(struct overflow) + capacity * sizeof(uint64_t);
}

ndd_status lines_open(struct lines *lines, uint32_t bits) {
    *lines = (struct lines){.bits = bits, .fold = bits < 2 ? 1 : (bits + 1) / 2};
    if (bits + 6 >= sizeof(size_t) * 8) return NDD_NO_MEMORY;
    if (!memory_open(&lines->memory, sizeof(struct line) << bits)) return NDD_NO_MEMORY;
    lines->at = lines->memory.at;
    return NDD_OK;
}

void lines_close(struct lines *lines) {
    if (lines->overflow_bytes > 0) {
        for (size_t i = 0; i >> lines->bits == 0; i++) free(line_overflow(&lines->at[i]));
    }
    memory_close(&lines->memory);
    *lines = (struct lines){0};
}

ndd_status lines_make_room(struct lines *lines, struct line *line) {
    struct overflow *overflow = line_overflow(line);
    uint32_t capacity = FIRST_OVERFLOW;
    uint64_t before = 0;
    if (overflow == NULL) {
        if (line->head < LINE_VALUES) return NDD_OK;
    } else {
        if (overflow->count < overflow->capacity) return NDD_OK;
        before = overflow_size(overflow->capacity);
        capacity = overflow->capacity + overflow->capacity / 2 + 2;
    }
    if (overflow_size(capacity) > SIZE_MAX) return NDD_NO_MEMORY;
    struct overflow *larger = realloc(overflow, (size_t)overflow_size(capacity));
    if (larger == NULL) return NDD_NO_MEMORY;
    if (overflow == NULL) larger->count = 0;
    larger->capacity = capacity;
    line->head = (uint64_t)(uintptr_t)larger;
    lines->overflow_bytes += overflow_size(capacity) - before;
    return NDD_OK;
}

void lines_put(struct line *line, uint64_t value) {
    struct overflow *overflow = line_overflow(line);
    if (overflow == NULL) {
        line->values[line->head++] = value;
    } else {
        overflow->values[overflow->count++] = value;
    }
}

void lines_remove(struct lines *lines, struct line *line, uint64_t value) {
    struct overflow *overflow = line_overflow(line);
    uint32_t inside = line_inside(line), beyond = overflow == NULL ? 0 : overflow->count;
    uint64_t *gap = NULL;
    for (uint32_t i = 0; i < inside && gap == NULL; i++) {
        if (line->values[i] == value) gap = &line->values[i];
    }
    for (uint32_t i = 0; i < beyond && gap == NULL; i++) {
        if (overflow->values[i] == value) gap = &overflow->values[i];
    }
    if (gap == NULL) return;
    if (beyond > 0) {
        *gap = overflow->values[--overflow->count];
    } else {
        *gap = line->values[inside - 1];
        line->head = inside - 1; /* an overflow without values goes, too, just below */
    }
    if (overflow != NULL && overflow->count == 0) {
        lines->overflow_bytes -= overflow_size(overflow->capacity);
        free(overflow);
        line->head = beyond > 0 ? LINE_VALUES : inside - 1;
    }
}

uint64_t lines_bytes(const struct lines *lines) {
    return lines->memory.bytes + lines->overflow_bytes;
}
