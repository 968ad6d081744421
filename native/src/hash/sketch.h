/*
 * How alike two texts are: an odd sketch (Mitzenmacher, Pagh, Pham, WWW 2014) of the least hashes of a
 * text's shingles, from which the Jaccard similarity of two texts' sets of shingles is estimated; and a
 * hash of all shingles in their order, which tells whether two texts are the same word for word: the
 * estimate alone takes texts that differ in a word for the same (docs/reference/fingerprint-spec.md, "Sketch").
 *
 *     shingle hash -> one of NDD_SKETCH_PLACES places, by its upper half; each keeps its least lower half
 *     each place that keeps something -> one bit of 256 flips
 *     all shingle hashes of the text (not of the title) -> the digits of one number to the base
 *     NDD_HASH_C0 -> its mixed lower 32 bits
 *
 * In a place both texts keep the same with the probability J (one permutation hashing: Li, Owen, Zhang,
 * NIPS 2012). What only one of them keeps flips a bit in one sketch alone, so the bits that differ tell
 * how many places differ.
 *
 * Invariant: a shingle said twice changes nothing in the estimate, for the least of a place stays
 * the least. So no set of distinct shingles is needed, and a shingle costs a comparison and a product.
 */
#ifndef NDD_SKETCH_H
#define NDD_SKETCH_H

#include <string.h>

#include "hash/hash.h"
#include "ndd.h"

#define NDD_SKETCH_PLACES 255
#define NDD_SKETCH_EMPTY UINT32_C(0xffffffff)

struct sketch {
    uint32_t least[NDD_SKETCH_PLACES];
    uint64_t sequence;
};

static inline void sketch_begin(struct sketch *sketch) {
    memset(sketch->least, 0xff, sizeof sketch->least);
    sketch->sequence = 0;
}

/* The shingles come in the order of the text, with their repetitions. */
static inline void sketch_add(struct sketch *sketch, uint64_t shingle) {
    uint32_t *least = &sketch->least[(shingle >> 32) * NDD_SKETCH_PLACES >> 32];
    uint32_t low = (uint32_t)shingle;
    *least = low < *least ? low : *least;
    sketch->sequence = sketch->sequence * NDD_HASH_C0 + shingle;
}

/* The bytes of a sketch: how many places keep something, then 256 bits, bit b at bit b % 8 of byte 1 + b / 8,
 * then the hash of all shingles, little-endian. */
void sketch_end(const struct sketch *sketch, uint8_t bytes[NDD_SKETCH_BYTES]);

/* Puts another hash in the place of that of all shingles. */
void sketch_mark(uint8_t bytes[NDD_SKETCH_BYTES], uint32_t whole);

#endif
