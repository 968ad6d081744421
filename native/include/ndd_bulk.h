/*
 * ndd_bulk.h - many fingerprints at once: tables in files, all pairs of a set, queries against a stream.
 *
 *     segment  pairs (value, document) -> bytes that are searched where they are, such as a mapped file
 *     design   a number of values       -> the block tables that a table or segment of them has
 *     pairs    a set of fingerprints   -> all pairs within k, and their clusters
 *     batch    queries, and a stream   -> every match, without holding the stream
 *     lmdb     the bytes of a file     -> whether LMDB can be trusted with them
 *
 * The rules of ndd.h hold here too.
 */
#ifndef NDD_BULK_H
#define NDD_BULK_H

#include "ndd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cffi: begin (the binding is made from the lines between the two marks, see native/build_ffi.py) */

/* ------------------------------------------------------------------------------- segments */

/*
 * An immutable table as bytes that are searched where they are, such as a mapped file
 * (src/segment/segment_format.h has their format). Any number of threads may use one at once.
 */
typedef struct ndd_segment ndd_segment;

typedef struct ndd_segment_stats {
    uint64_t values;    /* distinct fingerprints */
    uint64_t documents; /* pairs (value, document) */
    uint64_t bytes;     /* of all */
    uint64_t note;      /* a number of the caller's */
    uint32_t k;         /* the greatest distance it was made for */
    uint32_t blocks;    /* block tables searched by a probe */
    uint32_t keys;      /* buckets visited by a probe */
    uint32_t reserved;  /* 0 */
} ndd_segment_stats;

/* The size of the segment of n pairs, sorted as ndd_sort_pairs does, for distances up to k; and its bytes, into
 * `size` of them. NDD_BAD_ARGUMENT when they are not sorted, or the size is another. scratch is memory for
 * 2 n + 2 numbers; with NULL it is allocated. */
ndd_status ndd_segment_size(const uint64_t *values, const uint64_t *documents, size_t n, uint32_t k,
                            uint64_t *size);
ndd_status ndd_segment_write(const uint64_t *values, const uint64_t *documents, size_t n, uint32_t k,
                             uint64_t note, uint64_t *scratch, uint8_t *bytes, uint64_t size);

/* Opens a segment: its bytes, at an address that is a multiple of 8, must stay as they are until
 * ..._close, which leaves them to the caller. Every byte is read and every rule is proven first;
 * what is cut, altered or of another format or version is refused with the matching status, and
 * *reason (static) says what was found. */
ndd_status ndd_segment_open(const uint8_t *bytes, uint64_t size, ndd_segment **segment,
                            const char **reason);
void ndd_segment_close(ndd_segment *segment);
void ndd_segment_stats_get(const ndd_segment *segment, ndd_segment_stats *stats);

/* As ndd_table_probe in each of several segments, for any k up to that of each, else NDD_BAD_DISTANCE: the matches
 * of values[i] in segments[s] are those of query s * n + i. And in a table, within its own k, unless that is NULL:
 * these are the matches of query count * n + i. *found is how many matches there are in all; it may be NULL. */
ndd_status ndd_segments_probe(const ndd_segment *const *segments, size_t count, const ndd_table *table,
                              const uint64_t *values, size_t n, uint32_t k, uint64_t limit,
                              ndd_answer *answer, uint64_t *found);

/* As ndd_table_has and ndd_table_list. */
void ndd_segment_has(const ndd_segment *segment, const uint64_t *values, const uint64_t *documents,
                     size_t n, uint8_t *found);
void ndd_segment_list(const ndd_segment *segment, uint64_t *values, uint64_t *documents);

/* --------------------------------------------------------------------------------- designs */

/* One block table of a design: what a probe of it looks up (native/src/design/design.h). */
typedef struct ndd_block {
    uint64_t mask;      /* the bits of its key */
    uint64_t flips;     /* those that a probe flips */
    uint32_t threshold; /* the most that it flips at once */
    uint32_t bits;      /* of its key */
    double bytes;       /* expected memory of the block table, of values spread evenly */
} ndd_block;

/* The design that a table of `values` values has: up to `capacity` of its block tables; *count is how
 * many there are, 0 when a probe compares with every value. */
ndd_status ndd_design_get(uint64_t values, uint32_t k, ndd_preset preset, ndd_block *blocks,
                          size_t capacity, uint32_t *count);

/* The same of a segment, whose values are all compared when the one block table has a key of no bits. */
ndd_status ndd_segment_design_get(uint64_t values, uint32_t k, ndd_block *blocks, size_t capacity,
                                  uint32_t *count);

/* ------------------------------------------------------------------------------- all pairs */

/* Pairs of fingerprints, 2 numbers each. */
typedef struct ndd_pairs ndd_pairs;

ndd_status ndd_pairs_open(ndd_pairs **pairs);
void ndd_pairs_close(ndd_pairs *pairs);

/* All pairs (a, b) of n values that lie within k of each other: a < b, each pair once, sorted; a
 * value that occurs more than once gives (a, a) once. */
ndd_status ndd_find_all(const uint64_t *values, size_t n, uint32_t k, ndd_pairs *pairs);

/* The pairs found last: *count pairs at *values, 2 * count numbers; the memory is the handle's. */
void ndd_pairs_get(const ndd_pairs *pairs, const uint64_t **values, uint64_t *count);

/* Connected components of the graph of those pairs: labels[i] is the smallest index of a value in
 * the component of values[i]. Components chain: two members may lie further apart than k. */
ndd_status ndd_find_clusters(const uint64_t *values, size_t n, uint32_t k, uint64_t *labels);

/* The same in parts, for several threads. ndd_distinct sorts n values, moves one of
 * each to the front, *distinct of them, and gives (x, x) for each that occurred more than once. */
ndd_status ndd_distinct(uint64_t *values, size_t n, ndd_pairs *repeated, size_t *distinct);

/* Up to `capacity` masks such that two values within k are equal under at least one of them, chosen for
 * a set of `values` values; *count is how many there are, 0 when comparing all pairs is faster. */
ndd_status ndd_pair_blocks(uint64_t values, uint32_t k, uint64_t *masks, size_t capacity,
                           uint32_t *count);

/* Of n distinct values, in any order, the pairs whose first such mask is masks[block]. */
ndd_status ndd_find_part(const uint64_t *values, size_t n, uint32_t k, const uint64_t *masks,
                         uint32_t count, uint32_t block, ndd_pairs *pairs);

/* Merges n sorted runs of counts[i] pairs, which lie side by side, into one of them all. */
ndd_status ndd_merge_pairs(const uint64_t *const *runs, const uint64_t *counts, size_t n,
                           uint64_t *merged);

/* ----------------------------------------------------------------------------------- batch */

/*
 * Many queries, known at once, against a stream of fingerprints that is never held: the batch
 * problem of Manku, Jain and Das Sarma (WWW 2007), section 3.3, exactly (native/src/bulk/batch.h tells
 * how). Any number of threads may probe the same queries at once, each with hits of its own.
 */
typedef struct ndd_queries ndd_queries;

typedef struct ndd_hit {
    uint64_t query;    /* index of the query */
    uint64_t position; /* of the fingerprint in the stream */
    uint32_t distance;
    uint32_t reserved; /* 0 */
} ndd_hit;

/* n queries, fewer than 2^31, repeated ones too. memory is what the filter's bitmaps may
 * take, in bytes; coarse ones (an eighth at most) and the table of the queries come on top. */
ndd_status ndd_queries_open(const uint64_t *values, size_t n, uint32_t k, uint64_t memory,
                            ndd_queries **queries);
void ndd_queries_close(ndd_queries *queries);

/* The matches of a piece of the stream; reused from call to call. One thread at a time. */
typedef struct ndd_hits ndd_hits;

ndd_status ndd_hits_open(ndd_hits **hits);
void ndd_hits_close(ndd_hits *hits);

/* Finds every pair of a query and one of the next n fingerprints that lie within k of each other;
 * values[0] has the position `first`. Sorted by position, then distance, then query. The memory is
 * the handle's and holds until its next use. After an error it holds nothing. */
ndd_status ndd_queries_probe(const ndd_queries *queries, const uint64_t *values, size_t n,
                             uint64_t first, ndd_hits *hits);
void ndd_hits_get(const ndd_hits *hits, const ndd_hit **items, uint64_t *count);

/* Numbers first .. first + n - 1 of the stream of splitmix64 (Steele, Lea and Flood, OOPSLA 2014)
 * from a seed: spread evenly, all different, any of them at once. For measuring and testing. */
void ndd_generate(uint64_t seed, uint64_t first, size_t n, uint64_t *values);

/* ------------------------------------------------------------------------------------ lmdb */

/* What a sound documents.mdb holds (native/src/lmdb/pages.c). */
typedef struct ndd_lmdb {
    uint64_t documents;      /* records in the tree "documents" */
    uint64_t records_sum;    /* the XOR of their first 8 bytes, big-endian */
    uint64_t page;           /* bytes of a page; the first two are the meta pages */
    uint64_t transaction[2]; /* the number of each meta page's transaction */
    uint64_t state_at[2];    /* and where the record "state" in force after it is: its place in the file, */
    uint64_t state_size[2];  /* and its size; 0 where an older one cannot be read any more */
} ndd_lmdb;

/* Verifies the pages of an LMDB file, those of the state before the last transaction if `older`, in time linear
 * in their number; takes a bit of memory a page.
 * NDD_DAMAGED, and the reason in `room` bytes, for a file that is cut or altered; NDD_BAD_VERSION for one of
 * another LMDB. */
ndd_status ndd_lmdb_check(const uint8_t *bytes, uint64_t size, int older, ndd_lmdb *found, char *reason,
                          size_t room);

/* cffi: end */

#ifdef __cplusplus
}
#endif

#endif
