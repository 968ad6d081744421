/*
 * Quotienting: a block table splits a value into the number of its bucket and the rest, and stores only
 * the rest.
 *
 * A bucket's number is the key, folded by exclusive or. The rule kept: the number determines all key
 * bits, so the rest is only the other bits, brought together, and both give the value back. Folding
 * spreads the keys of a probe: those that differ in one bit would otherwise lie a power of two apart,
 * where caches would evict one line for the next.
 */
#ifndef NDD_QUOTIENT_H
#define NDD_QUOTIENT_H

#include "design/design.h"

#define NDD_MAX_PIECES 4 /* runs of consecutive bits in a key, or outside it */

/* Bits of a value brought together, or put back where they were. */
struct pieces {
    uint64_t mask[NDD_MAX_PIECES]; /* where they are when brought together */
    uint32_t shift[NDD_MAX_PIECES];
    uint32_t count;
};

struct quotient {
    struct pieces key, rest;
    uint32_t fold;
};

struct quotient quotient_of(const struct block *block);

static inline uint64_t pieces_gather(const struct pieces *pieces, uint64_t value) {
    uint64_t bits = value >> pieces->shift[0] & pieces->mask[0];
    for (uint32_t i = 1; i < pieces->count; i++) bits |= value >> pieces->shift[i] & pieces->mask[i];
    return bits;
}

static inline uint64_t pieces_spread(const struct pieces *pieces, uint64_t bits) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < pieces->count; i++) value |= (bits & pieces->mask[i]) << pieces->shift[i];
    return value;
}

/* The bucket of a value. Linear: that of a ^ b is that of a ^ that of b. */
static inline uint32_t quotient_bucket(const struct quotient *quotient, uint64_t value) {
    uint64_t key = pieces_gather(&quotient->key, value);
    return (uint32_t)(key ^ key >> quotient->fold);
}

/* The rest of a value: the bits that its bucket's number does not determine. */
static inline uint64_t quotient_rest(const struct quotient *quotient, uint64_t value) {
    return pieces_gather(&quotient->rest, value);
}

static inline uint64_t quotient_value(const struct quotient *quotient, uint32_t bucket, uint64_t rest) {
    return pieces_spread(&quotient->key, bucket ^ bucket >> quotient->fold) |
           pieces_spread(&quotient->rest, rest);
}

/* A key that a probe looks up: that of its value, with some bits flipped. */
struct flip {
    uint64_t difference; /* the bits of the value */
    uint32_t bucket;     /* by exclusive or, from the bucket of the value to that of the key */
    uint16_t bits;       /* their number */
    uint16_t block;
};

/* The keys of all blocks of a design. */
struct flips {
    struct flip *list;
    uint32_t *end; /* those of block i end before list[end[i]], 0 is the first */
};

ndd_status flips_open(struct flips *flips, const struct design *design);
void flips_close(struct flips *flips);

static inline uint32_t flips_begin(const struct flips *flips, uint32_t block) {
    return block == 0 ? 0 : flips->end[block - 1];
}

#endif
