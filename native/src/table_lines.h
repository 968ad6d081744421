/*
 * One block table: for each key, the values that have it, in one cache line or little more.
 *
 * A bucket's number tells all key bits of the values in it, and an entry holds only the others, its
 * rest (keying.h): the low 32 bits of that, which a probe compares
 * first, in an array of their own, and the one, two or four bytes above them after those. A bucket
 * is one line of 64 bytes, or two, four or eight side by side, which cost little more to fetch than
 * one. One has room for a head and 11, 9 or 7 entries; the more key bits, the more entries.
 *
 * The rule kept: a bucket of as many entries as that or fewer lies in its lines, and the head counts
 * them; the further ones of a fuller bucket are contiguous elsewhere, and the head is their
 * address. A neighbourhood where many fingerprints crowd makes one bucket long, never its
 * neighbours.
 */
#ifndef NDD_TABLE_LINES_H
#define NDD_TABLE_LINES_H

#include <string.h>

#include "keying.h"
#include "memory.h"
#include "ndd.h"

#define LINE_LANES 16
#define BUCKET_MOST 255 /* a head beyond this is an address */

union line {
    uint64_t head;
    uint32_t lanes[LINE_LANES]; /* of a bucket's first line two for the head, then the entries */
};

struct overflow {
    uint32_t count;
    uint32_t capacity; /* even */
    uint32_t entries[];
};

struct lines {
    union line *at; /* of 2^bits buckets */
    struct memory memory;
    uint32_t bits;      /* of a key */
    uint32_t doubled;   /* a bucket is 2^doubled lines */
    uint32_t inside;    /* entries that those have room for */
    uint32_t far_bytes; /* of an entry, beside its low 32 bits */
    struct keying keying;
    uint64_t overflow_bytes;
};

static inline uint32_t line_inside(const struct lines *lines, const union line *line) {
    return line->head <= BUCKET_MOST ? (uint32_t)line->head : lines->inside;
}

static inline struct overflow *line_overflow(const union line *line) {
    return line->head <= BUCKET_MOST ? NULL : (struct overflow *)(uintptr_t)line->head;
}

static inline uint32_t *line_entries(union line *line) { return line->lanes + 2; }
static inline const uint32_t *line_lows(const union line *line) { return line->lanes + 2; }

/* What an entry holds beside its low 32 bits; `room` is how many entries the array is made for. */
static inline uint32_t entry_far(const uint32_t *entries, uint32_t room, uint32_t far_bytes,
                                 uint32_t i) {
    const uint8_t *far = (const uint8_t *)(entries + room);
    uint16_t half;
    if (far_bytes == 1) return far[i];
    if (far_bytes == 4) return entries[room + i];
    memcpy(&half, far + 2 * i, 2);
    return half;
}

static inline union line *lines_at(const struct lines *lines, uint32_t bucket) {
    return lines->at + ((size_t)bucket << lines->doubled);
}

/* Asks for the lines of a bucket. */
static inline void lines_prefetch(const struct lines *lines, const union line *line) {
    for (uint32_t i = 0; i >> lines->doubled == 0; i++) prefetch(line + i);
}

/* Entries of a bucket of 2^doubled lines whose keys have so many bits. */
uint32_t lines_inside(uint32_t key_bits, uint32_t doubled);

/* Block tables for a block whose key bits are few enough runs. */
ndd_status lines_open(struct lines *lines, const struct block *block);
void lines_close(struct lines *lines);

/* Makes room for one more value in a bucket, so that lines_put cannot fail. */
ndd_status lines_make_more(struct lines *lines, union line *line);
static inline ndd_status lines_make_room(struct lines *lines, union line *line) {
    return line->head < lines->inside ? NDD_OK : lines_make_more(lines, line);
}
void lines_put(const struct lines *lines, union line *line, uint64_t rest);

/* Removes an entry that is there. */
void lines_remove(struct lines *lines, union line *line, uint64_t rest);

uint64_t lines_bytes(const struct lines *lines);

/* The rest that entry i of a bucket holds. */
uint64_t lines_entry(const struct lines *lines, const union line *line, uint32_t i);
uint64_t overflow_size(const struct lines *lines, uint32_t capacity);

#endif
