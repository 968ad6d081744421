/*
 * ndd.h - the native core of dedup, whole.
 *
 * Two faces, which meet only in a 64-bit fingerprint:
 *
 *     page bytes -> reader -> features -> simhash -> ndd_page        (a page becomes a fingerprint)
 *     fingerprint -> table -> every stored fingerprint within k      (a fingerprint finds its neighbours)
 *
 * Rules kept by every function here:
 *   - A function that can fail returns an ndd_status: 0 (NDD_OK) is success, everything else is an
 *     error that ndd_strerror() puts into words. On an error no output argument has been written,
 *     unless the function says otherwise, and every handle is as it was before the call.
 *   - Handles are opaque. What ..._open made, ..._close frees; closing NULL does nothing.
 *   - Nothing here reads a file, a clock, an environment variable or a global that changes, and
 *     nothing prints. Bytes come in, values go out, the same on every machine and endianness.
 *   - Any bytes are safe: time is linear in their number, memory bounded by a multiple of it (40 for
 *     pages, words kept included; 32 for saved tables).
 */
#ifndef NDD_H
#define NDD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* cffi: begin (the binding is made from the lines between the two marks, see native/build_ffi.py) */

/* ------------------------------------------------------------------------------------ errors */

typedef enum ndd_status {
    NDD_OK = 0,
    NDD_NO_MEMORY = 1,    /* an allocation failed; the handle is as it was */
    NDD_BAD_ARGUMENT = 2, /* an argument outside what the function states */
    NDD_BAD_DISTANCE = 3, /* k outside 0..15 */
    NDD_CUT = 4,          /* a saved table ends before its content does */
    NDD_DAMAGED = 5,      /* a saved table's bytes are not those that were saved */
    NDD_BAD_FORMAT = 6,   /* not a saved table */
    NDD_BAD_VERSION = 7,  /* a saved table of a format version this library does not read */
    NDD_TOO_LARGE = 8     /* more than this structure can hold or this machine can address */
} ndd_status;

/* One English sentence, without a full stop, never NULL; static, not to be freed. */
const char *ndd_strerror(int status);

/* ------------------------------------------------------------------------------------ hashes */

/* A secret that keys every hash of a recipe, so that nobody can craft collisions without it.
 * {0, 0} is the public recipe. */
typedef struct ndd_key {
    uint64_t k0;
    uint64_t k1;
} ndd_key;

/* The recipe's own token hash (docs/fingerprint-spec.md, "Token hash"). */
uint64_t ndd_hash_token(const uint8_t *bytes, size_t n, ndd_key key);

/* Published hashes, for those who compute fingerprints compatible with other tools. */
uint64_t ndd_hash_fnv1(const uint8_t *bytes, size_t n);
uint64_t ndd_hash_fnv1a(const uint8_t *bytes, size_t n);
uint64_t ndd_hash_jenkins(const uint8_t *bytes, size_t n, uint64_t seed); /* lookup3 hashlittle2 */

/* MurmurHash2 by Austin Appleby (2008), the 32-bit one, of little-endian words on every processor.
 * With the seed 0x9747b28c and the top bit off, modulo the number of partitions, it is the partition
 * in which Kafka's own producer puts a record with these bytes for a key. */
uint32_t ndd_hash_murmur2(const uint8_t *bytes, size_t n, uint32_t seed);

/* ----------------------------------------------------------------------------------- simhash */

/* The simhash of n 64-bit hashes (Charikar 2002): bit b is 1 when more than half of the hashes,
 * by weight, have bit b set. A tie gives 0, and so do no hashes. */
uint64_t ndd_simhash(const uint64_t *hashes, size_t n);

/* The same with a weight for each hash. Weights of 0 are allowed. n is at most 2^31. */
ndd_status ndd_simhash_weighted(const uint64_t *hashes, const uint32_t *weights, size_t n,
                                uint64_t *value);

/* Number of differing bits, 0..64. */
int ndd_distance(uint64_t a, uint64_t b);

/* ------------------------------------------------------------------------------------ reader */

/* A sketch of a text's 3-token shingles, the same bytes on every machine (native/src/sketch.h). */
#define NDD_SKETCH_BYTES 33

/* The estimated Jaccard similarity of two texts' sets of shingles, 0 to 1, in steps of 1 / 10000; 1 for
 * sketches of one text. Its standard deviation is .02 at .88, .01 at .95. Any bytes are safe. */
double ndd_similarity(const uint8_t a[33], const uint8_t b[33]);

/* The same of one sketch with each of n, which stand one behind the other. */
void ndd_similarities(const uint8_t *a, const uint8_t *sketches, size_t n, double *similarities);

/* What one page came to. */
typedef struct ndd_page {
    uint64_t value;      /* simhash of the weighted words of the main content */
    uint8_t sketch[33];  /* of its 3-token shingles */
    uint32_t title;      /* hash of its title, 0 without one */
    uint32_t canonical;  /* hash of the canonical URL that it declares, 0 for none */
    uint32_t features;   /* distinct words behind value */
    uint32_t words;      /* words that a visitor sees */
    uint32_t words_read; /* and how many of them stand in what was read */
    uint64_t text_bytes; /* bytes of visible text, boilerplate included */
    uint64_t data_bytes; /* bytes of inline JSON (script elements of a JSON type) */
    uint64_t invalid_bytes; /* bytes of text that are not UTF-8: the page is in another encoding? */
} ndd_page;

/* The id of the recipe that this reader follows, for example "words-0-4". Static. */
const char *ndd_recipe(void);

/* The version of the Unicode Character Database behind the word and case tables. Static. */
const char *ndd_unicode_version(void);

/* A reader owns the scratch memory of reading pages and keeps it between pages. One thread may be
 * in a reader at a time; different readers are independent. After a page that needed more than
 * 16 MB of scratch the memory is given back. */
typedef struct ndd_reader ndd_reader;

ndd_status ndd_reader_open(ndd_reader **reader);
void ndd_reader_close(ndd_reader *reader);

/* Reads an HTML page: n bytes of UTF-8 (any other bytes count as separators). directory is the
 * path of the page's URL up to and including its last '/', or NULL: it completes a canonical URL that is
 * relative. */
ndd_status ndd_read_html(ndd_reader *reader, const uint8_t *html, size_t n,
                         const uint8_t *directory, size_t directory_length, ndd_key key,
                         ndd_page *page);

/* 1 when nothing in the first 4096 bytes of a page speaks against UTF-8: every "charset" or
 * "encoding" that stands in them before '=' is given that one, there is no NUL and no ESC, as UTF-16
 * and ISO-2022-JP have them, and no byte with which a byte order mark begins. 0: look closer. */
int ndd_seems_utf8(const uint8_t *html, size_t n);

/* Reads plain text: one block without markup or links. */
ndd_status ndd_read_text(ndd_reader *reader, const uint8_t *text, size_t n, ndd_key key,
                         ndd_page *page);

/* Makes the reader also remember the words it reads (on = 1) or not (on = 0, the default). */
void ndd_reader_keep_words(ndd_reader *reader, int on);

/* The words of the last page's main content, when they were kept: a line for each kept block, its
 * weight, a tab, and its tokens with a space between. UTF-8, not terminated; the memory is the
 * reader's and holds until its next page. */
ndd_status ndd_reader_words(ndd_reader *reader, const uint8_t **words, size_t *n);

/* ------------------------------------------------------------------------------------- table */

/*
 * All stored fingerprints within Hamming distance k of a given one, exactly (native/src/table.c
 * tells how). A table is a set of pairs (value, document): each distinct value is stored once,
 * with all its documents; any 64-bit numbers may be either.
 *
 * The thread rule: any number of threads may be inside the functions that take a const table;
 * while one thread is inside another function, no other thread may be inside the same table. A
 * table holds no lock; who shares one brings a lock of many readers or one writer, as dedup/table.py
 * does, and lets go of it between the parts of a large insert. A probe changes nothing but its
 * answer, so probes of several threads share no memory that is written. Different handles have
 * nothing in common.
 */
typedef struct ndd_table ndd_table;

/* What a table saves, memory or time; auto: time while it is small, more and more memory as it
 * grows. Decides how fast a probe is, never what it finds. */
typedef enum ndd_preset { NDD_AUTO = 0, NDD_COMPACT = 1, NDD_FAST = 2 } ndd_preset;

typedef struct ndd_match {
    uint64_t document;
    uint64_t value;
    uint32_t distance;
    uint32_t reserved; /* 0 */
} ndd_match;

typedef struct ndd_table_stats {
    uint64_t values;     /* distinct fingerprints */
    uint64_t documents;  /* pairs (value, document) */
    uint64_t bytes;      /* memory held */
    uint32_t k;
    uint32_t blocks;     /* block tables searched by a probe; 0: a probe scans all values */
    uint32_t keys;       /* buckets visited by a probe */
    uint32_t reserved;   /* 0 */
} ndd_table_stats;

/* An empty table; without a preset, NDD_AUTO. */
ndd_status ndd_table_open(uint32_t k, ndd_table **table);
ndd_status ndd_table_open_as(uint32_t k, ndd_preset preset, ndd_table **table);
void ndd_table_close(ndd_table *table);

/* Makes room for so many distinct values in one step. Optional. */
ndd_status ndd_table_reserve(ndd_table *table, uint64_t values);

/* A hint that so many pairs are inserted soon, by several calls: where the table must grow, it grows
 * for as many of them as were new so far. */
void ndd_table_expect(ndd_table *table, uint64_t pairs);

/* Stores n pairs; *inserted counts those that were not there before. On NDD_NO_MEMORY the first
 * *inserted new pairs stay. */
ndd_status ndd_table_insert(ndd_table *table, const uint64_t *values, const uint64_t *documents,
                            size_t n, uint64_t *inserted);

/* Removes one pair; *removed is 1 if it was there, else 0. */
ndd_status ndd_table_remove(ndd_table *table, uint64_t value, uint64_t document, int *removed);

void ndd_table_stats_get(const ndd_table *table, ndd_table_stats *stats);

/* The answer to one or many probes; reused from call to call. One thread at a time. */
typedef struct ndd_answer ndd_answer;

ndd_status ndd_answer_open(ndd_answer **answer);
void ndd_answer_close(ndd_answer *answer);

/* Finds, for each of n values, every pair whose value lies within the table's k; nearest first,
 * then by document. limit > 0 keeps the first limit matches of each, and ndd_answer_cut tells where
 * it left some out: one byte for each query, 1 if so, else 0. The matches of query i are
 * matches[offsets[i]] to matches[offsets[i + 1] - 1]; the memory is the answer's and holds until
 * its next use. After an error the answer holds nothing. */
ndd_status ndd_table_probe(const ndd_table *table, const uint64_t *values, size_t n,
                           uint64_t limit, ndd_answer *answer);
void ndd_answer_get(const ndd_answer *answer, const uint64_t **offsets, const ndd_match **matches);
const uint8_t *ndd_answer_cut(const ndd_answer *answer);

/* Checks every rule of the structure; NDD_DAMAGED, and *reason names the broken one (static), if
 * one does not hold. For tests and fuzzers, and called by ndd_table_load. */
ndd_status ndd_table_validate(const ndd_table *table, const char **reason);

/* A saved table (docs/table-format.md) as bytes: its size, and the bytes themselves into a buffer
 * of that size. note is a number of the caller's that load gives back. */
uint64_t ndd_table_saved_size(const ndd_table *table);
ndd_status ndd_table_save(const ndd_table *table, uint64_t note, uint8_t *bytes, uint64_t size);

/* Makes a table of saved bytes, for any k. Every byte is covered by a checksum; bytes that are cut,
 * altered or of another format or version are refused with the matching status, and *reason
 * (static, never NULL after an error) says what was found. */
ndd_status ndd_table_load(const uint8_t *bytes, uint64_t size, uint32_t k, ndd_table **table,
                          uint64_t *note, const char **reason);
ndd_status ndd_table_load_as(const uint8_t *bytes, uint64_t size, uint32_t k, ndd_preset preset,
                             ndd_table **table, uint64_t *note, const char **reason);

/* For each of n pairs, found[i] is 1 if the table holds it, else 0. */
void ndd_table_has(const ndd_table *table, const uint64_t *values, const uint64_t *documents,
                   size_t n, uint8_t *found);

/* All pairs of the table, in no order, into two arrays of stats.documents numbers each. */
void ndd_table_list(const ndd_table *table, uint64_t *values, uint64_t *documents);

/* Those of the values at begin .. end - 1, where the places of all are 0 .. stats.values - 1; returns how
 * many they are, and only that where there are no arrays. A removal moves the last value into the gap and
 * an insert takes the place after it: so whoever lists a table part by part from its end on, while it is
 * changed in between, lists every pair that was there all the time. */
uint64_t ndd_table_list_part(const ndd_table *table, uint64_t begin, uint64_t end, uint64_t *values,
                             uint64_t *documents);

/* ------------------------------------------------------------------------------- segments */

/*
 * An immutable table as bytes that are searched where they are, such as a mapped file
 * (docs/segment-format.md). Any number of threads may use one at once.
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

/* Sorts n pairs by value, then by document, and leaves each of them once; *distinct is how many. */
ndd_status ndd_sort_pairs(uint64_t *values, uint64_t *documents, size_t n, size_t *distinct);

/* The bytes, and their size, that ndd_table_save gives of a table of these pairs, which are in order. */
ndd_status ndd_pairs_saved_size(const uint64_t *values, const uint64_t *documents, size_t n,
                                uint64_t *size);
ndd_status ndd_pairs_save(const uint64_t *values, const uint64_t *documents, size_t n, uint64_t note,
                          uint8_t *bytes, uint64_t size);

/* The size of the segment of n pairs, sorted as above, for distances up to k; and its bytes, into
 * `size` of them. NDD_BAD_ARGUMENT when they are not sorted, or the size is another. */
ndd_status ndd_segment_size(const uint64_t *values, const uint64_t *documents, size_t n, uint32_t k,
                            uint64_t *size);
ndd_status ndd_segment_write(const uint64_t *values, const uint64_t *documents, size_t n, uint32_t k,
                             uint64_t note, uint8_t *bytes, uint64_t size);

/* Opens a segment: its bytes, at an address that is a multiple of 8, must stay as they are until
 * ..._close, which leaves them to the caller. Every byte is read and every rule is proven first;
 * what is cut, altered or of another format or version is refused with the matching status, and
 * *reason (static) says what was found. */
ndd_status ndd_segment_open(const uint8_t *bytes, uint64_t size, ndd_segment **segment,
                            const char **reason);
void ndd_segment_close(ndd_segment *segment);
void ndd_segment_stats_get(const ndd_segment *segment, ndd_segment_stats *stats);

/* As ndd_table_probe, for any k up to that of the segment, else NDD_BAD_DISTANCE. */
ndd_status ndd_segment_probe(const ndd_segment *segment, const uint64_t *values, size_t n, uint32_t k,
                             uint64_t limit, ndd_answer *answer);

/* As ndd_table_has and ndd_table_list. */
void ndd_segment_has(const ndd_segment *segment, const uint64_t *values, const uint64_t *documents,
                     size_t n, uint8_t *found);
void ndd_segment_list(const ndd_segment *segment, uint64_t *values, uint64_t *documents);

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

/* The same in parts, for several threads or less memory. ndd_distinct sorts n values, moves one of
 * each to the front, *distinct of them, and gives (x, x) for what was there more than once. */
ndd_status ndd_distinct(uint64_t *values, size_t n, ndd_pairs *repeated, size_t *distinct);

/* Up to `capacity` masks such that every pair of so many values within k is equal under one of them;
 * *count is how many there are, 0 when comparing all pairs is sooner done. */
ndd_status ndd_pair_blocks(uint64_t values, uint32_t k, uint64_t *masks, size_t capacity,
                           uint32_t *count);

/* Of n distinct values, in any order, the pairs whose first such mask is masks[block]; with a split
 * other than 0 only those with a < split <= b. More than `most` are NDD_TOO_LARGE. */
ndd_status ndd_find_part(const uint64_t *values, size_t n, uint32_t k, const uint64_t *masks,
                         uint32_t count, uint32_t block, uint64_t split, size_t most,
                         ndd_pairs *pairs);

/* Merges n sorted runs of counts[i] pairs, which lie side by side, into one of them all. */
ndd_status ndd_merge_pairs(const uint64_t *const *runs, const uint64_t *counts, size_t n,
                           uint64_t *merged);

/* Clusters of n places, where places[2 * i] and places[2 * i + 1] are connected: each place has a
 * parent that is smaller, or itself, as all have in the beginning. Flattened, it is the smallest place
 * of the cluster. */
ndd_status ndd_connect(uint64_t *parents, uint64_t n, const uint64_t *places, size_t pairs);
void ndd_flatten(uint64_t *parents, uint64_t n);

/* ----------------------------------------------------------------------------------- batch */

/*
 * Many queries, known at once, against a stream of fingerprints that is never held: the batch
 * problem of Manku, Jain and Das Sarma (WWW 2007), section 3.3, exactly (native/src/batch.c tells
 * how). Any number of threads may probe the same queries at once, each with hits of its own.
 */
typedef struct ndd_queries ndd_queries;

typedef struct ndd_queries_stats {
    uint64_t queries;
    uint64_t bytes;       /* memory held */
    double passing;       /* share of a uniform stream that passes the filter by chance; 1: no filter */
    uint32_t k;
    uint32_t filter_bits; /* of a key of the filter; 0: no filter */
} ndd_queries_stats;

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
void ndd_queries_stats_get(const ndd_queries *queries, ndd_queries_stats *stats);

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

/* --------------------------------------------- the paper's designs, and compressed fingerprints */

/* One block table of a design: what a probe of it looks up (native/src/design.h). */
typedef struct ndd_block {
    uint64_t mask;      /* the bits of its key */
    uint64_t flips;     /* those that a probe flips, */
    uint32_t threshold; /* at most so many at once */
    uint32_t bits;      /* of its key */
    double bytes;       /* expected memory of the block table, of values spread evenly */
    double visit_ns;    /* estimated time of one key among many, on one common machine */
} ndd_block;

/* The design that a table of so many values has: up to `capacity` of its block tables; *count is how
 * many there are, 0 when a probe had better compare with every value. */
ndd_status ndd_design_get(uint64_t values, uint32_t k, ndd_preset preset, ndd_block *blocks,
                          size_t capacity, uint32_t *count);

/* The same of a segment, whose values are all compared when the one block table has a key of no bits. */
ndd_status ndd_segment_design_get(uint64_t values, uint32_t k, ndd_block *blocks, size_t capacity,
                                  uint32_t *count);

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
