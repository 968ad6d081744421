/*
 * One block table: for each key, the values that have it, in one cache line or little more.
 *
 * Buckets are lines of 64 bytes, seven whole values and a head. The rule kept: a bucket of up to
 * seven values lies in its line, and the head counts them; the further ones of a fuller bucket are
 * contiguous elsewhere, and the head is their address. A neighbourhood where many fingerprints
 * crowd makes one bucket long, never its neighbours.
 *
 * The number of a key's bucket is the key folded by exclusive or: with one bit flipped it lies far
 * away, but not at a power of two, where caches would evict one line for the next.
 */
#ifndef NDD_TABLE_LINES_H
#define NDD_TABLE_LINES_H

#include "memory.h"
#include "ndd.h"

#define LINE_VALUES 7

struct line {
    uint64_t head;
    uint64_t values[LINE_VALUES];
};

struct overflow {
    uint32_t count;
    uint32_t capacity;
    uint64_t values[];
};

struct lines {
    struct line *at; /* 2^bits */
    struct memory memory;
    uint32_t bits;
    uint32_t fold;
    uint64_t overflow_bytes;
};

static inline struct overflow *line_overflow(const struct line *line) {
    return line->head <= LINE_VALUES ? NULL : (struct overflow *)(uintptr_t)line->head;
}

static inline uint32_t line_inside(const struct line *line) {
    return line->head <= LINE_VALUES ? (uint32_t)line->head : LINE_VALUES;
}

/* The bucket of a key. Linear in the key: that of a ^ b is that of a ^ that of b. */
static inline uint32_t lines_bucket(const struct lines *lines, uint64_t key) {
    return (uint32_t)(key ^ key >> lines->fold);
}

ndd_status lines_open(struct lines *lines, uint32_t bits);
void lines_close(struct lines *lines);

/* Makes room for one more value in a bucket, so that lines_put cannot fail. */
ndd_status lines_make_room(struct lines *lines, struct line *line);
void lines_put(struct line *line, uint64_t value);

/* Removes a value that is there. */
void lines_remove(struct lines *lines, struct line *line, uint64_t value);

uint64_t lines_bytes(const struct lines *lines);

#endif
