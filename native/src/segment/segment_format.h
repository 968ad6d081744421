/*
 * A segment's bytes: where each number stands in them, and how a block table of it is read in place.
 * segment.h says what a segment is.
 *
 * Format version 2; numbers are unsigned and little-endian. V distinct values, P pairs, S values with several documents.
 * Each section begins at a multiple of 8 bytes; padding is 0.
 *
 *       0   8     "NDDSEGMT"
 *       8   4     version, 2
 *      12   4     k, the greatest distance it was made for, 0 to 15
 *      16   8     note, a number of the caller's
 *      24   24    V (at most 2^31 - 2), P, S, 8 bytes each
 *      48   4     number of parts, at most 16
 *      52   4     width of a document, 4 or 8 bytes
 *      56   64    the parts of the design, 4 bytes each: width, threshold, key bits, tables; unused ones are 0
 *     120   8     the least document if the width is 4, else 0
 *     128   8     XXH64, seed 0, of the 128 bytes before it
 *     136         for each block table: starts, 4 (2^b + 1) bytes for b key bits: the place of each bucket's first value,
 *                 then V; lows, 4 V bytes: the low 32 bits of each rest; fars, V (32 - b) bits: the higher bits of each
 *                 rest, packed from the lowest bit of the first byte on
 *           16 S  for each value with several documents, by rank: its rank, and the index of its first document
 *        width P  the documents of each value, by rank; those of one value ascending; with width 4 above the least one
 *           8     XXH64 of all bytes before it
 *
 * Parts take a value's bits from the lowest on. The (threshold + 1) of all parts add up to k + 1, so two values within
 * k differ in at most threshold bits of some part. A part of one table has its highest key bits as the key. A part of c
 * tables (threshold 1) leaves out (width - key bits) bits in table i, beginning at bit i times that number or, where this
 * would pass the end, the highest ones; the bits that no table leaves out are flipped one at a time, bit n by table n
 * mod c. Without parts there is one table without key bits. A bucket is key ^ key >> f, f half the number of key bits,
 * rounded up, and at least 1. Values are ordered by bucket, then by rest; the place in the first table is the rank.
 *
 * A reader refuses another magic (NDD_BAD_FORMAT), another version (NDD_BAD_VERSION), fewer bytes (NDD_TRUNCATED), a
 * greater V (NDD_TOO_LARGE), and all else that is not exactly this (NDD_DAMAGED). Checksums find damage, not malice: also
 * order and sums are checked, that the parts find every difference of k bits, and that all tables hold the same values.
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
