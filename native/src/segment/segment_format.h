/*
 * A segment's bytes: where each number stands in them, and how a block table of it is read in place.
 * docs/reference/segment-format.md is the format, segment.h says what a segment is.
 */
#ifndef NDD_SEGMENT_FORMAT_H
#define NDD_SEGMENT_FORMAT_H

#include <string.h>

#include "base/bytes.h"
#include "design/quotient.h"

#define NDD_SEGMENT_HEADER 136
#define NDD_SEGMENT_TRAILER 8 /* the checksum; also what a read of 8 bytes may touch beyond the fars */
#define NDD_SEGMENT_VERSION 2 /* 1 had documents of 8 bytes only */

enum { /* offsets in the header */
    AT_SEGMENT_VERSION = 8,
    AT_SEGMENT_K = 12,
    AT_SEGMENT_NOTE = 16,
    AT_SEGMENT_VALUES = 24,
    AT_SEGMENT_PAIRS = 32,
    AT_SEGMENT_SEVERAL = 40,
    AT_SEGMENT_PARTS = 48,
    AT_SEGMENT_WIDTH = 52,
    AT_SEGMENT_PART = 56, /* 4 bytes each */
    AT_SEGMENT_BASE = 120,
    AT_SEGMENT_CHECKSUM = 128
};

static const uint8_t segment_magic[8] = {'N', 'D', 'D', 'S', 'E', 'G', 'M', 'T'};

struct segment_table {
    struct quotient quotient;
    uint32_t bits;         /* of a key */
    uint32_t far_bits;     /* of a rest above its low 32 */
    const uint8_t *starts; /* 4 bytes each */
    const uint32_t *lows;  /* as they are in the file */
    const uint8_t *fars;
};

static inline uint64_t padded(uint64_t bytes) { return (bytes + 7) & ~UINT64_C(7); }

/* Where the tables of a design begin, after the header, and all of it ends. */
uint64_t segment_layout(struct segment_table *tables, const struct design *design, uint64_t values,
                        const uint8_t *bytes);

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

#endif
