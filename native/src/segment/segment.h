/*
 * A segment: an immutable table as bytes, searched where they are (docs/segment-format.md).
 *
 *     header      k, the numbers, the parts of the design
 *     tables      for each block table of the design:
 *                   starts   where each bucket begins, and where the last one ends
 *                   lows     the low 32 bits of the rest of each value, bucket by bucket
 *                   fars     the bits of the rest above those
 *     several     the values with several documents
 *     documents   of each value, in the order of the first table
 *
 * A value's place in the first table is its rank. Buckets and rests are as keying.h has them; within
 * a bucket the rests ascend. Nothing is left empty, so a table takes 64 bits for each value, less its
 * key bits, and 32 for each bucket.
 *
 * The rule kept: bytes are believed only after segment_open has read every one of them: each table
 * holds the same distinct values, each in the bucket of its key, and the design finds every
 * difference of at most k bits.
 */
#ifndef NDD_SEGMENT_H
#define NDD_SEGMENT_H

#include <string.h>

#include "base/bytes.h"
#include "design/keying.h"
#include "ndd.h"

#define SEGMENT_HEADER 128
#define SEGMENT_TRAILER 8 /* the checksum; also what a read of 8 bytes may touch beyond the fars */
#define SEGMENT_VERSION 1

enum { /* offsets in the header */
    AT_SEGMENT_VERSION = 8,
    AT_SEGMENT_K = 12,
    AT_SEGMENT_NOTE = 16,
    AT_SEGMENT_VALUES = 24,
    AT_SEGMENT_PAIRS = 32,
    AT_SEGMENT_SEVERAL = 40,
    AT_SEGMENT_PARTS = 48,
    AT_SEGMENT_ZERO = 52,
    AT_SEGMENT_PART = 56, /* 4 bytes each */
    AT_SEGMENT_CHECKSUM = 120
};

static const uint8_t segment_magic[8] = {'N', 'D', 'D', 'S', 'E', 'G', 'M', 'T'};

struct segment_table {
    struct keying keying;
    uint32_t bits;         /* of a key */
    uint32_t far_bits;     /* of a rest above its low 32 */
    const uint8_t *starts; /* 4 bytes each */
    const uint32_t *lows;  /* as they are in the file */
    const uint8_t *fars;
};

/* A bucket of very many values (segment_crowd.h). */
struct segment_crowd {
    uint32_t block, bucket;
    uint64_t pivot;
    uint32_t at[65]; /* values at each distance from it */
};

struct segment_crowds {
    struct segment_crowd *list;
    uint32_t count, room;
};

struct ndd_segment {
    const uint8_t *bytes;
    uint64_t size;
    uint64_t note, values, pairs, several_count;
    uint32_t k;
    struct design design;
    struct flips flips;
    struct segment_table *tables; /* one for each block of the design */
    const uint8_t *several;       /* 16 bytes each: rank, and index of the first document */
    const uint8_t *documents;
    struct segment_crowds crowds; /* beside the file */
};

/* Where the tables of a design begin, after the header, and all of it ends. */
uint64_t segment_layout(struct segment_table *tables, const struct design *design, uint64_t values,
                        const uint8_t *bytes);

static inline uint32_t load4_le(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* A number as it is in the file, and back. */
static inline uint32_t as_in_file(uint32_t number) {
    uint8_t bytes[4];
    uint32_t same;
    store4_le(bytes, number);
    memcpy(&same, bytes, 4);
    return same;
}

static inline uint32_t segment_start(const struct segment_table *table, uint64_t bucket) {
    return load4_le(table->starts + 4 * bucket);
}

static inline uint64_t segment_rest(const struct segment_table *table, uint64_t i) {
    uint64_t at = i * table->far_bits, ones = (UINT64_C(1) << table->far_bits) - 1;
    uint64_t far = load8_le(table->fars + at / 8) >> at % 8 & ones;
    return far << 32 | as_in_file(table->lows[i]);
}

/* 1, and the rank of a value, if it is there, else 0. */
int segment_find(const ndd_segment *segment, uint64_t value, uint64_t *rank);

/* The documents of the value of a rank: the first of them, and how many there are. */
uint64_t segment_documents(const ndd_segment *segment, uint64_t rank, uint64_t *count);

#endif
