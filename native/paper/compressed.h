/*
 * Compressed sorted fingerprints, for compressed.c and the two codecs.
 *
 * Format, version 1. Numbers are unsigned and little-endian; checksums are XXH64 with seed 0.
 *
 *     0   8   "NDDSORTD"
 *     8   4   version: 1
 *     12  4   codec: 1 huffman, 2 elias-fano
 *     16  8   n, the number of fingerprints
 *     24  24  huffman: blocks B, 0, 0; elias-fano: the smallest, the largest, the low bits L; all 0 when n is 0
 *     48  8   0
 *     56  8   checksum of the 56 bytes before
 *     64      the body; none when n is 0
 *         8   checksum of all bytes before
 *
 * huffman: 65 code lengths of 0 to 12 bits, for symbol 0 (equal to the one before) and h + 1 (bit h is the highest that
 * differs), padded to 72 bytes; B keys of 8 bytes, the last fingerprint of each block; B blocks of 1024 bytes. A block is
 * its first fingerprint (8 bytes), the number of further ones (2 bytes), and for each its code and the bits below the
 * one that differs, from the most significant bit on. Codes are canonical: shorter first, then by symbol.
 *
 * elias-fano: 8-byte words, bits from the least significant on. With s = the largest less the smallest and
 * H = floor(s / 2^L) + 1 buckets: for each 4096 bits of the bucket part, the number of zeros before them; the L low bits
 * of each number less the smallest; and for each bucket a one for each of its numbers and a zero. L begins as the number
 * of bits in floor(s / n), at most 63, and is lowered by one as long as floor(s / 2^(L-1)) - floor(s / 2^L) <= n.
 *
 * A codec writes and reads a body; the header, the checksum and the size of all are compressed.c's.
 * The rule kept: bytes are believed only after ..._validate has decoded every fingerprint of them,
 * and then the same bytes decode and search without a fault.
 */
#ifndef NDD_COMPRESSED_H
#define NDD_COMPRESSED_H

#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "paper/ndd_paper.h"

#define NDD_PAPER_HEADER 64
#define NDD_PAPER_TRAILER 8 /* the checksum; also what a read of 8 bytes may touch beyond a body */

#define NDD_BLOCK_BYTES 1024
#define NDD_CODE_BITS 12 /* of the longest Huffman code */
#define NDD_LENGTHS_BYTES 72 /* of the code lengths, before the blocks */
#define NDD_CODE_SYMBOLS 65   /* 0: equal to the one before; h + 1: first differs from it in bit h */

struct huffman {
    uint8_t lengths[NDD_CODE_SYMBOLS];
    uint16_t codes[NDD_CODE_SYMBOLS];
    uint16_t table[1 << NDD_CODE_BITS]; /* next bits -> symbol << 4 | length; 0: no code */
};

struct ndd_compressed {
    const uint8_t *bytes;
    uint8_t *owned; /* the same, or NULL when they are the caller's */
    uint64_t size;
    ndd_codec codec;
    uint64_t count;      /* fingerprints */
    uint64_t numbers[3]; /* of the codec, in the header */
    struct huffman *huffman;
};

/* Where matches go: those beyond the capacity are counted only. */
struct sink {
    uint64_t query;
    uint32_t k;
    uint64_t *values;
    size_t capacity, count;
    uint64_t compared;
};

static inline void sink_take(struct sink *sink, uint64_t value) {
    sink->compared++;
    if ((uint32_t)count_bits(value ^ sink->query) > sink->k) return;
    if (sink->count < sink->capacity) sink->values[sink->count] = value;
    sink->count++;
}

/* Bits needed to write a number; 0 for 0. */
static inline uint32_t bit_length(uint64_t number) {
    uint32_t bits = 0;
    for (uint32_t step = 32; step > 0; step /= 2) {
        if (number >> step != 0) {
            bits += step;
            number >>= step;
        }
    }
    return bits + (number != 0);
}

/* What a codec offers. `n` is at least 1 and the values are sorted.
 *   plan:     fills numbers[] and whatever the handle needs; gives the size of the body.
 *   write:    the body, all of whose bytes were 0.
 *   body:     its size by numbers[]; 0 if they are impossible.
 *   validate: NULL, or what is wrong in a body of that size; memory: no memory was left.
 *   blocks:   how many blocks, which are decoded one by one.
 *   inside:   the number of values in a block, at most NDD_COMPRESSED_BLOCK.
 *   decode:   the values of a block.
 *   search:   those from low to high, in order, into the sink. */
struct codec {
    ndd_status (*plan)(ndd_compressed *compressed, const uint64_t *values, uint64_t *body);
    void (*write)(const ndd_compressed *compressed, const uint64_t *values, uint8_t *body);
    uint64_t (*body)(const ndd_compressed *compressed);
    const char *(*validate)(ndd_compressed *compressed, int *memory);
    uint64_t (*blocks)(const ndd_compressed *compressed);
    size_t (*inside)(const ndd_compressed *compressed, uint64_t block);
    void (*decode)(const ndd_compressed *compressed, uint64_t block, uint64_t *values);
    void (*search)(const ndd_compressed *compressed, uint64_t low, uint64_t high, struct sink *sink);
};

/* Puts the values from low to high into the sink; there may be no values at all. */
void compressed_search(const ndd_compressed *compressed, uint64_t low, uint64_t high,
                       struct sink *sink);

extern const struct codec codec_huffman, codec_elias_fano;

#endif
