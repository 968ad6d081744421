/*
 * ndd_paper.h - the structures of Manku, Jain and Das Sarma, "Detecting near-duplicates for web
 * crawling" (WWW 2007), as the reference that the tables of ndd.h are measured against: sorted tables
 * of permuted fingerprints (section 3.1) and their compression (3.2). No part of the product has them:
 * the option NDD_PAPER of native/CMakeLists.txt builds them as a library of their own (`make paper`).
 *
 * The rules of ndd.h hold here too.
 */
#ifndef NDD_PAPER_H
#define NDD_PAPER_H

#include "ndd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cffi: begin (tests/paper/paper_library.py declares what stands between the two marks) */

typedef enum ndd_codec {
    NDD_UNCOMPRESSED = 0, /* 8 bytes a fingerprint; for permuted tables only */
    NDD_HUFFMAN = 1,      /* the paper's, section 3.2: blocks of 1024 bytes */
    NDD_ELIAS_FANO = 2    /* smaller, and faster to decode */
} ndd_codec;

/* The reference: sorted tables of permuted fingerprints, in a design of Manku, Jain and Das Sarma
 * (WWW 2007, section 3.1). It cuts the 64 bits into levels[0] blocks and has a table for each choice
 * of levels[0] - k of them to come first; of what is left out, levels[1] blocks are made and chosen
 * from in the same way, and so on. Every level has more than k blocks and no more than there are
 * bits left. At most NDD_PERMUTED_TABLES tables, else NDD_TOO_LARGE. A codec keeps them compressed.
 * Immutable; any number of threads may probe at once. */
#define NDD_PERMUTED_TABLES 4096

typedef struct ndd_permuted ndd_permuted;

/* The values should be distinct: one that occurs twice is found twice. */
ndd_status ndd_permuted_open(const uint64_t *values, size_t n, uint32_t k, const uint32_t *levels,
                             size_t level_count, ndd_codec codec, ndd_permuted **permuted);
void ndd_permuted_close(ndd_permuted *permuted);

/* The prefix of up to `capacity` tables, as a mask of a fingerprint; *count is how many there are, and
 * *bytes their memory. */
void ndd_permuted_get(const ndd_permuted *permuted, uint64_t *prefixes, size_t capacity,
                      uint32_t *count, uint64_t *bytes);

/* Finds, for each of n values, the stored ones within k, each once, in no order; their document is 0.
 * The matches of query i are offsets[i] to offsets[i + 1] - 1 of n + 1 offsets; those from `capacity`
 * on are counted and not written. *candidates counts the fingerprints compared. */
ndd_status ndd_permuted_probe(const ndd_permuted *permuted, const uint64_t *values, size_t n,
                              uint64_t *offsets, ndd_match *matches, size_t capacity,
                              uint64_t *candidates);

/* Sorted fingerprints as few bytes, searched as they are; equal ones are kept. */
typedef struct ndd_compressed ndd_compressed;

/* Compresses n fingerprints, which are in order, or NDD_BAD_ARGUMENT. */
ndd_status ndd_compress(ndd_codec codec, const uint64_t *values, size_t n,
                        ndd_compressed **compressed);

/* Opens such bytes in place; they must stay while the handle does. All of them are checked: what is
 * cut, altered, or of another format or version is refused with the matching status, and *reason
 * (static, never NULL after an error) says what was found. */
ndd_status ndd_compressed_open(const uint8_t *bytes, uint64_t size, ndd_compressed **compressed,
                               const char **reason);
void ndd_compressed_close(ndd_compressed *compressed);

/* The bytes, how many, the codec, and the number of fingerprints. */
void ndd_compressed_get(const ndd_compressed *compressed, const uint8_t **bytes, uint64_t *size,
                        ndd_codec *codec, uint64_t *count);

/* All fingerprints, in order. */
void ndd_compressed_decode(const ndd_compressed *compressed, uint64_t *values);

/* The same piece by piece: decodes whole blocks from *block on (0 at first) while they fit into
 * `capacity` values, which is NDD_COMPRESSED_BLOCK or more; *count of them, 0 at the end, and *block
 * is where to go on. Without values they are only counted. */
#define NDD_COMPRESSED_BLOCK 8192
ndd_status ndd_compressed_next(const ndd_compressed *compressed, uint64_t *block, uint64_t *values,
                               size_t capacity, size_t *count);

/* The fingerprints that share the first prefix_bits (0..64) bits of a value and lie within k (0..64)
 * of it, in order: *count of them; those from `capacity` on are not written. */
ndd_status ndd_compressed_probe(const ndd_compressed *compressed, uint64_t value, uint32_t k,
                                uint32_t prefix_bits, uint64_t *values, size_t capacity,
                                size_t *count);

/* cffi: end */

#ifdef __cplusplus
}
#endif

#endif
