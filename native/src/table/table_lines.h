/*
 * One block table: for each key, the values that have it, in one cache line or little more.
 *
 * A bucket's number tells all key bits of the values in it, and an entry holds only the others, its
 * rest (quotient.h): the low 32 bits of that, which a probe compares
 * first, in an array of their own, and the one, two or four bytes above them after those. A bucket
 * is one line of 64 bytes, or up to eight side by side, which cost little more to fetch than one. One
 * has room for a head and 11, 9 or 7 entries; the more key bits, the more entries.
 *
 * The rule kept: a bucket of at most that many entries fits into its lines, and the head counts
 * them; the further ones of a fuller bucket stand elsewhere in one piece, and the head is their address.
 * Many fingerprints close together make one bucket long, never its neighbours. A long one is compared
 * sixteen at a time, 200,000 in some 15 us: an index of its own was hardly faster (measured), unless
 * all key bits of that many random values were the same.
 */
#ifndef NDD_TABLE_LINES_H
#define NDD_TABLE_LINES_H

#include <string.h>

#include "base/memory.h"
#include "design/bucket_layout.h"
#include "design/quotient.h"
#include "ndd.h"

#define NDD_BUCKET_MOST 255 /* a head beyond this is an address */

union line {
    uint64_t head;
    uint32_t lanes[NDD_LINE_LANES]; /* of a bucket's first line NDD_HEAD_LANES for the head, then the entries */
};

struct overflow {
    uint32_t count;
    uint32_t capacity; /* even */
};

/* The entries that follow it in memory. */
static inline uint32_t *overflow_entries(const struct overflow *overflow) {
    return (uint32_t *)((uintptr_t)overflow + sizeof *overflow);
}

struct lines {
    union line *at; /* of 2^bits buckets */
    struct memory memory;
    uint32_t bits;      /* of a key */
    uint32_t lines;     /* of a bucket */
    uint32_t inside;    /* entries that those have room for */
    uint32_t far_bytes; /* of an entry, beside its low 32 bits */
    struct quotient quotient;
    uint64_t overflow_bytes;
};

static inline uint32_t line_inside(const struct lines *lines, const union line *line) {
    return line->head <= NDD_BUCKET_MOST ? (uint32_t)line->head : lines->inside;
}

static inline struct overflow *line_overflow(const union line *line) {
    return line->head <= NDD_BUCKET_MOST ? NULL : (struct overflow *)(uintptr_t)line->head;
}

static inline uint32_t *line_entries(union line *line) { return line->lanes + NDD_HEAD_LANES; }
static inline const uint32_t *line_lows(const union line *line) { return line->lanes + NDD_HEAD_LANES; }

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
    return lines->at + (size_t)bucket * lines->lines;
}

/* Prefetches the lines of a bucket. */
static inline void lines_prefetch(const struct lines *lines, const union line *line) {
    for (uint32_t i = 0; i < lines->lines; i++) prefetch(line + i);
}

/* An empty block table; the key bits of the block are at most NDD_MAX_PIECES runs. */
ndd_status lines_open(struct lines *lines, const struct block *block);
void lines_close(struct lines *lines);

/* Makes room for one more value in a bucket, so that lines_put of it cannot fail. */
ndd_status lines_make_more(struct lines *lines, union line *line);
static inline ndd_status lines_make_room(struct lines *lines, union line *line) {
    return line->head < lines->inside ? NDD_OK : lines_make_more(lines, line);
}
void lines_put(const struct lines *lines, union line *line, uint64_t rest);

/* Removes an entry, which is there. */
void lines_remove(struct lines *lines, union line *line, uint64_t rest);

uint64_t lines_bytes(const struct lines *lines);

/* The rule that a bucket breaks, or NULL; what it holds is added to the sum and the counts. */
struct set_sum;
const char *lines_validate(const struct lines *lines, uint32_t bucket, struct set_sum *sum,
                           uint64_t *count, uint64_t *bytes);

#endif
