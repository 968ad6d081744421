/*
 * A segment: an immutable table as bytes, searched where they are (segment_format.h).
 *
 *     header      k, the numbers, the parts of the design
 *     tables      for each block table of the design:
 *                   starts   where each bucket begins, and where the last one ends
 *                   lows     the low 32 bits of the rest of each value, bucket by bucket
 *                   fars     the bits of the rest above those
 *     several     the values with several documents
 *     documents   of each value, in the order of the first table: 4 bytes each, above the least of them, or 8
 *
 * A value's place in the first table is its rank. Buckets and rests are as quotient.h has them; within
 * a bucket the rests ascend. Nothing is left empty, so a table takes 64 bits for each value, less its
 * key bits, and 32 for each bucket.
 *
 * The rule kept: bytes are believed only after segment_open has read every one of them: each table
 * holds the same distinct values, each in the bucket of its key, and the design finds every
 * difference of at most k bits.
 */
#ifndef NDD_SEGMENT_H
#define NDD_SEGMENT_H

#include "ndd_bulk.h"
#include "segment/segment_format.h"

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
    uint64_t base;  /* the least document, where they have 4 bytes */
    uint32_t width; /* of a document: 4 or 8 bytes */
};

/* The document at a place. */
static inline uint64_t segment_document(const ndd_segment *segment, uint64_t place) {
    if (segment->width == 4) return segment->base + load4_le(segment->documents + 4 * place);
    return load8_le(segment->documents + 8 * place);
}

/* 1, and the rank of a value, if it is there, else 0. */
int segment_find(const ndd_segment *segment, uint64_t value, uint64_t *rank);

/* The documents of the value of a rank: the first of them, and how many there are. */
uint64_t segment_documents(const ndd_segment *segment, uint64_t rank, uint64_t *count);

#endif
