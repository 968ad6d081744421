/*
 * Batch search: many queries, known at once, against a stream of fingerprints that is never held.
 * The batch problem of Manku, Jain and Das Sarma (WWW 2007), section 3.3.
 *
 *     a fingerprint -> look -> look closer -> halves -> table of the queries -> matches
 *       all of them     1/3        1 or 2 %   those near a query       exact
 *
 * The filter. Cut the 64 bits into two halves with thresholds t_1 + t_2 = k - 1: a pair within k
 * differs by at most t_i bits in one half i (design.h). For each half there is a bitmap over its
 * first `key_bits` bits with a bit set for every key within t_i of that of a query; a fingerprint
 * whose bits are 0 in both is near no query. A large bitmap does not fit into the caches, so a coarse one
 * with fewer bits of the key is read first. All these reads are random, and prefetched early enough that
 * many are in flight at once.
 *
 * The halves. What passes the filter passes mostly by chance. So the queries are kept in the order of each
 * half, and those whose half is near are compared as a whole.
 *
 * The rule kept: filter and halves only ever drop what is near no query. What they leave is probed
 * in the table, which alone says what matches; so a filter may be left out, and is, where it would
 * let most of the stream pass.
 *
 * batch.c indexes the queries, batch_probe.c looks them up.
 */
#ifndef NDD_BATCH_H
#define NDD_BATCH_H

#include "base/bits.h"
#include "base/memory.h"
#include "ndd_bulk.h"

#define NDD_HALVES 2
#define NDD_HALF_BITS 32
#define NDD_LINE_BITS 9 /* keys that differ only in these share a cache line of a bitmap */
#define NDD_BATCH_AHEAD 32    /* random reads that are prefetched before the first is used */

struct half {
    uint64_t *bits;       /* of keys near a query: 2^key_bits */
    uint64_t *coarse;     /* the same for the first coarse_bits of a key; NULL: not looked at */
    uint64_t *present;    /* of what the halves of queries begin with: 2^present_bits */
    uint64_t *sorted;     /* the queries by this half */
    uint32_t *starts;     /* queries whose half begins with the bits i: sorted[starts[i]] and on */
    struct memory memory; /* of all that */
    uint32_t threshold;
    uint32_t coarse_bits; /* 0: not looked at */
};

struct ndd_queries {
    ndd_table *table;
    struct half halves[NDD_HALVES];
    uint32_t used; /* halves with a bitmap; 0: no filter */
    uint32_t key_bits;
    uint32_t present_bits;
    uint32_t start_bits;
    uint32_t k;
    uint64_t count;
};

/* A half of a value, at the top of 64 bits. */
static inline uint64_t half_of(uint64_t value, uint32_t half) { return value << half * NDD_HALF_BITS; }

#endif
