/*
 * How many entries fit into a bucket of a table: the costs of a design and the table's lines count
 * by the same rule.
 *
 * A bucket is one to NDD_MAX_BUCKET_LINES cache lines. Its first 8 bytes are the head; each entry takes 4 bytes for the
 * low 32 bits of its rest (quotient.h) and 1, 2 or 4 for the bits above: the more key bits, the fewer.
 */
#ifndef NDD_BUCKET_LAYOUT_H
#define NDD_BUCKET_LAYOUT_H

#include <stdint.h>

#define NDD_LINE_LANES 16 /* numbers of 32 bits in a cache line */
#define NDD_LINE_BYTES 64
#define NDD_HEAD_LANES 2
#define NDD_MAX_BUCKET_LINES 8

/* Bytes of an entry beside its low 32 bits. */
static inline uint32_t bucket_far_bytes(uint32_t key_bits) {
    return key_bits >= 24 ? 1 : key_bits >= 16 ? 2 : 4;
}

/* Entries that a bucket of `lines` lines has room for. */
static inline uint32_t bucket_entries(uint32_t key_bits, uint32_t lines) {
    return (NDD_LINE_LANES * lines - NDD_HEAD_LANES) * 4 / (4 + bucket_far_bytes(key_bits));
}

#endif
