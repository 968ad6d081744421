/*
 * ndd.h - the native core of dedup: what every user of it needs. ndd_bulk.h has what searches many
 * fingerprints at once, ndd_resp.h reads what clients of a table service send.
 *
 * Two faces, which meet only in a 64-bit fingerprint:
 *
 *     page bytes -> reader -> features -> simhash -> ndd_page        (a page becomes a fingerprint)
 *     fingerprint -> table -> every stored fingerprint within k      (a fingerprint finds its neighbours)
 *
 * Rules kept by every function here:
 *   - A function that can fail returns an ndd_status: 0 (NDD_OK) is success, everything else is an
 *     error that ndd_strerror() puts into words. On an error no output argument has been written,
 *     unless the function says otherwise, and every handle is unchanged.
 *   - Handles are opaque. What ..._open made, ..._close frees; closing NULL does nothing.
 *   - Nothing here reads a file, a clock, an environment variable or a global that changes, and
 *     nothing prints. Bytes come in, values go out, the same on every machine and endianness.
 *   - Any bytes are safe: time is linear in their number, memory bounded by a multiple of it (40 for
 *     pages, words kept included; 24 for segments, ndd_bulk.h).
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
    NDD_NO_MEMORY = 1,    /* an allocation failed; the handle is unchanged */
    NDD_BAD_ARGUMENT = 2, /* an argument outside what the function states */
    NDD_BAD_DISTANCE = 3, /* k outside 0..15 */
    NDD_TRUNCATED = 4,    /* a segment ends before its content does */
    NDD_DAMAGED = 5,      /* a segment's bytes are not those that were written */
    NDD_BAD_FORMAT = 6,   /* not a segment */
    NDD_BAD_VERSION = 7,  /* a segment of a format version this library does not read */
    NDD_TOO_LARGE = 8     /* more than this structure can hold or this machine can address */
} ndd_status;

/* One English sentence, without a full stop, never NULL; static, not to be freed. */
const char *ndd_strerror(int status);

/* ------------------------------------------------------------------------------------ hashes */

/* A secret that keys every hash of a recipe, so that collisions cannot be crafted without it.
 * {0, 0} is the public recipe. */
typedef struct ndd_key {
    uint64_t k0;
    uint64_t k1;
} ndd_key;

/* The recipe's own token hash (docs/reference/fingerprint-spec.md, "Token hash"). */
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

/* A sketch of a text's 3-token shingles, the same bytes on every machine (native/src/hash/sketch.h). */
#define NDD_SKETCH_BYTES 37

/* The estimated Jaccard similarity of two texts' sets of shingles, 0 to 1, in steps of 1 / 10000; 1 only
 * for texts that are the same word for word (by a hash of 32 bits). Its standard deviation is .02 at .88,
 * .01 at .95. Any bytes are safe. */
double ndd_similarity(const uint8_t a[37], const uint8_t b[37]);

/* The same of one sketch with each of n, which stand one behind the other. */
void ndd_similarities(const uint8_t *a, const uint8_t *sketches, size_t n, double *similarities);

/* Result of reading one page. */
typedef struct ndd_page {
    uint64_t value;      /* simhash of the weighted words of the main content */
    uint8_t sketch[37];  /* of its 3-token shingles, with those of the title where the text is short */
    uint8_t parts[32];   /* eight hashes of 32 bits, of what two pages of similar text may differ in (native/src/reader/parts.c) */
    uint32_t title;      /* hash of its title, 0 without one */
    uint32_t canonical;  /* hash of the canonical URL that it declares, 0 for none */
    uint32_t thing;      /* number of the thing that its structured data names, 0 for none (thing.c) */
    uint32_t features;   /* distinct words behind value; 0 of an unread page */
    uint32_t words;      /* words that a visitor sees, without those of navigation */
    uint32_t words_read; /* and how many of them stand in what was read */
    uint32_t unread;     /* 1: too little of it was read to judge it by its text; value is a hash of all of it */
    uint64_t text_bytes; /* bytes of visible text, boilerplate included */
    uint64_t data_bytes; /* bytes of inline JSON (script elements of a JSON type) */
    uint64_t invalid_bytes; /* bytes of text that are not UTF-8: the page is in another encoding? */
} ndd_page;

/* The id of the recipe that this reader follows, for example "words-0-9". Static. */
const char *ndd_recipe(void);

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

/* 1 when nothing in the first 4096 bytes of a page contradicts UTF-8: every "charset=" or "encoding="
 * in them names it, there is no NUL (as in UTF-16) and no ESC (as in ISO-2022-JP), and no byte order mark
 * begins the page. 0: the encoding must be detected. */
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

#define NDD_IN_HEADING 2

/* The tokens with a digit in the last page's main content, by their hashes and in their order. Each run of them is
 * a word, the tokens of the run, and a 0. The word is the one behind the run in its block, else the token before it
 * (1: none); in a first heading, which names the page, NDD_IN_HEADING. No token's hash is 0 here. The memory is the
 * reader's and holds until its next page. */
ndd_status ndd_reader_numbers(ndd_reader *reader, const uint64_t **hashes, size_t *n);

/* The other words of the last page's main content, a hash for each block in their order: of all its words in the upper 32
 * bits; in the lower ones without the title's, if it is a short block that has some of them, as a line that says where one
 * is (0: none is left). Without the first headings, and without the line or two above a lower one that says the title where
 * these do not. The memory is the reader's and holds until its next page. */
ndd_status ndd_reader_texts(ndd_reader *reader, const uint64_t **hashes, size_t *n);

/* The blocks of the last page (docs/reference/fingerprint-spec.md, "List of blocks"): the hash of each in the lower
 * 32 bits, the number of its words in the next 30, bit 63 set if it was read. At most 400, no two with one hash. The memory is the reader's and holds until its next page. */
ndd_status ndd_reader_blocks(ndd_reader *reader, const uint64_t **blocks, size_t *n);

/* Makes the reader also gather where the links of the next page lead, and of that one only: address is the
 * page's URL, n bytes that must stay until the page was read. Plain text has no links. */
void ndd_reader_keep_links(ndd_reader *reader, const uint8_t *address, size_t n);

/* The distinct hashes of the targets of the last page's links, n[0] in all, none if they were not asked for,
 * without session and tracking parameters, and none to the page itself (native/src/reader/links.c). The first
 * n[1] are those of its main content and its pagination; the first n[2] of these lead to other sites, all that
 * follow stay on the page's site. Links outside of the main content to other sites are left out. *own is the
 * hash that a link to the page would have, 0 without an address. The memory is the reader's and holds until its
 * next page. */
void ndd_reader_links(const ndd_reader *reader, const uint64_t **links, size_t n[3], uint64_t *own);

/* ---------------------------------------------------------------------------------- hash set */

/* A set of 64-bit hashes, of links say, that holds at most `most` of them (2 to 2^32; 10 to 12.5 bytes each)
 * and forgets the oldest: one is remembered at least until most / 2 others have come. 0 counts as 1. One
 * thread at a time may be in a set. */
typedef struct ndd_hash_set ndd_hash_set;

ndd_status ndd_hash_set_open(uint64_t most, ndd_hash_set **set);
void ndd_hash_set_close(ndd_hash_set *set);

/* How many of n hashes the set does not hold. */
uint64_t ndd_hash_set_missing(const ndd_hash_set *set, const uint64_t *hashes, size_t n);

/* Adds n hashes, or makes them young again. On NDD_NO_MEMORY the first of them may have been added. */
ndd_status ndd_hash_set_add(ndd_hash_set *set, const uint64_t *hashes, size_t n);

/* All its hashes, the older ones first and each of the two parts sorted, so that equal sets are listed alike in
 * every process; *listed is how many they are (one that is young again counts twice), *bytes the memory held. */
void ndd_hash_set_stats(const ndd_hash_set *set, uint64_t *listed, uint64_t *bytes);
void ndd_hash_set_list(const ndd_hash_set *set, uint64_t *hashes);

/* ------------------------------------------------------------------------------- blocks of a site */

/* On how many pages of a site each block of text stands, in `sets` sets of NDD_SITE_SET bytes behind one more, all of
 * which the caller owns; zeros are a site of which nothing is known. A set holds eight blocks and four titles: 2,500
 * sets (160 kB) count the blocks of a site of any size (native/src/hash/site_blocks.c). sets: 1 to 2^20. Any bytes are
 * a valid site. One thread at a time. */
#define NDD_SITE_SET 64

/* Counts the blocks of a page (as ndd_reader_blocks lists them; as little-endian bytes, 8 for each). If a page of this
 * title was counted before (of a page without title, 0, one with the same blocks), only those count that no page had,
 * and for which there is room. Returns the number of pages counted so far, one for each title. */
uint32_t ndd_site_count(uint8_t *site, uint64_t sets, uint32_t title, const uint8_t *blocks, size_t n);

/* What a page has of its site's blocks, those of pages that were counted so far. */
typedef struct ndd_site_share {
    uint32_t read;  /* words of its blocks that were read */
    uint32_t template; /* those of them in blocks that stand on more than `template_above` pages */
    uint32_t shared; /* shingles (runs of three words) of those that stand on more than `shared_above` pages */
    uint32_t fresh;  /* words of those that were read, and stand on none */
    uint32_t left;   /* words of those that were not read, and stand on none */
    uint32_t pages; /* the least number of pages on which such a block of the template stands; 0: there is none */
} ndd_site_share;

void ndd_site_tell(const uint8_t *site, uint64_t sets, const uint8_t *blocks, size_t n, uint32_t template_above,
                   uint32_t shared_above, ndd_site_share *share);

/* How many blocks are counted. */
uint32_t ndd_site_blocks(const uint8_t *site);

/* Adds all that is known of a site to an empty one, with more sets. */
void ndd_site_copy(const uint8_t *from, uint64_t from_sets, uint8_t *to, uint64_t to_sets);

/* ------------------------------------------------------------------------------------- table */

/*
 * All stored fingerprints within Hamming distance k of a given one, exactly (native/src/table/table.c
 * tells how). A table is a set of pairs (value, document): each distinct value is stored once,
 * with all its documents; any 64-bit numbers may be either.
 *
 * The thread rule: any number of threads may be inside the functions that take a const table;
 * while one thread is inside another function, no other thread may be inside the same table. A
 * table holds no lock; a program that shares one uses a read-write lock, as dedup/core/table.py does, and
 * releases it between the parts of a large insert. A probe changes nothing but its answer, so probes of
 * several threads share no memory that is written. Different handles have nothing in common.
 */
typedef struct ndd_table ndd_table;

/* What a table is optimised for, memory or time; auto: time while it is small, memory more and more as
 * it grows. This decides how fast a probe is, never what it finds. */
typedef enum ndd_preset { NDD_AUTO = 0, NDD_COMPACT = 1 } ndd_preset;

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

/* Makes an empty table. */
ndd_status ndd_table_open(uint32_t k, ndd_preset preset, ndd_table **table);
void ndd_table_close(ndd_table *table);

/* Makes room for `values` distinct values in one step. Optional. */
ndd_status ndd_table_reserve(ndd_table *table, uint64_t values);

/* A hint that n pairs with these values will be inserted by the next calls: if the table must grow for
 * those of them that are new, it does so now, once. A call that was not announced announces itself. */
void ndd_table_expect(ndd_table *table, const uint64_t *values, size_t n);

/* Stores n pairs; *inserted counts those that were not there before. On NDD_NO_MEMORY the first
 * *inserted new pairs stay. */
ndd_status ndd_table_insert(ndd_table *table, const uint64_t *values, const uint64_t *documents,
                            size_t n, uint64_t *inserted);

/* Removes one pair; *removed is 1 if it was there, else 0. Only a second removal in a row without any
 * memory may end in NDD_NO_MEMORY, and then nothing has changed. */
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

/* The query of each match of an answer to n queries, into as many numbers as there are matches. */
void ndd_answer_queries(const ndd_answer *answer, size_t n, uint64_t *queries);

/* Checks every rule of the structure; NDD_DAMAGED, and *reason names the broken one (static), if
 * one does not hold. For tests and fuzzers. */
ndd_status ndd_table_validate(const ndd_table *table, const char **reason);

/* For each of n pairs, found[i] is 1 if the table holds it, else 0. */
void ndd_table_has(const ndd_table *table, const uint64_t *values, const uint64_t *documents,
                   size_t n, uint8_t *found);

/* All pairs of the table, in no order, into two arrays of stats.documents numbers each. */
void ndd_table_list(const ndd_table *table, uint64_t *values, uint64_t *documents);

/* Sorts n pairs by value, then by document, and leaves each of them once; *distinct is how many. scratch is memory
 * for 2 n numbers; with NULL it is allocated. (A segment of all pairs, for k = 0, is a table saved: ndd_bulk.h.) */
ndd_status ndd_sort_pairs(uint64_t *values, uint64_t *documents, size_t n, uint64_t *scratch,
                          size_t *distinct);

/* cffi: end */

#ifdef __cplusplus
}
#endif

#endif
