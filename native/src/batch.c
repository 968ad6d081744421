/*
 * Batch search: many queries, known at once, against a stream of fingerprints that is never held.
 * The batch problem of Manku, Jain and Das Sarma (WWW 2007), section 3.3.
 *
 *     a fingerprint -> filter -> halves -> table of the queries -> matches
 *       all of them    1 or 2 %   those near a query   exact
 *
 * The filter. Cut the 64 bits into two halves with thresholds t_1 + t_2 = k - 1: a pair within k
 * differs by at most t_i bits in one half i (design.h). For each half there is a bitmap over its
 * first `bits` bits with a bit set for every key within t_i of that of a query; a fingerprint whose
 * bits are 0 in both is near no query. That costs two reads at random, which are asked for early
 * enough that many are on their way at once.
 *
 * The halves. What passes is mostly there by chance. So the queries are kept in the order of each
 * half, and those whose half is near are compared as a whole.
 *
 * The rule kept: filter and halves only ever drop what is near no query. What they leave is probed
 * in the table, which alone says what matches; so a filter may be left out, and is, where it would
 * let most of the stream pass.
 */
#include <stdlib.h>
#include <string.h>

#include "design.h"
#include "memory.h"
#include "radix.h"

#define HALVES 2
#define HALF_BITS 32
#define LINE_BITS 9          /* keys that differ only in these share a cache line of a bitmap */
#define LEAST_BITS 20        /* a smaller bitmap is no faster */
#define DENSITY_WANTED 0.008 /* share of a bitmap's bits that are set */
#define PASSING_MOST 0.6     /* a filter that lets more pass is not worth its reads */
#define SETS_MOST 1.1e9       /* bits to set; more takes longer than most streams */
#define AHEAD 32             /* fingerprints whose bits are asked for */
#define BLOCK 4096           /* fingerprints filtered at once */
#define GROUP 64             /* fingerprints whose neighbours are looked for at once */
#define CROWDED 32           /* more queries of one key: the table is asked instead */

struct half {
    uint64_t *bits;       /* of keys near a query: 2^key_bits, or none */
    uint64_t *present;    /* of what the halves of queries begin with: 2^present_bits */
    uint64_t *sorted;     /* the queries by this half */
    uint32_t *starts;     /* queries whose half begins with the bits i: sorted[starts[i]] and on */
    struct memory memory; /* of all that */
    uint32_t threshold;
};

struct ndd_queries {
    ndd_table *table;
    struct half halves[HALVES];
    uint32_t used; /* halves with a bitmap; 0: no filter */
    uint32_t key_bits;
    uint32_t present_bits;
    uint32_t start_bits;
    uint32_t k;
    uint64_t count;
};

/* Queries to compare with a fingerprint: those from `at` on of a half. */
struct candidates {
    const uint64_t *sorted;
    uint32_t at;
    uint32_t end;
    uint32_t of; /* the fingerprint's place in its group */
};

/* A group of fingerprints that passed, and whether a query may be near each. */
struct group {
    uint64_t values[GROUP];
    uint8_t near[GROUP];
    struct candidates found[GROUP * HALVES * (HALF_BITS + 1)];
    size_t count;
};

/* What one thread works with. */
struct ndd_hits {
    ndd_hit *items;
    size_t count, capacity;
    ndd_answer *answer;
    uint64_t values[2 * BLOCK]; /* what is probed next */
    uint64_t positions[2 * BLOCK];
    size_t waiting;
    struct group group;
};

/* A half of a value, at the top of 64 bits. */
static inline uint64_t half_of(uint64_t value, uint32_t half) { return value << half * HALF_BITS; }

static double ball(uint32_t bits, uint32_t threshold) {
    double keys = 0, ways = 1;
    for (uint32_t i = 0; i <= threshold && i <= bits; i++) {
        keys += ways;
        ways = ways * (bits - i) / (i + 1);
    }
    return keys;
}

/* The share of a uniform stream that passes by chance, at most. */
static double passing(const struct ndd_queries *queries, uint32_t bits) {
    double share = 0, keys = (double)(UINT64_C(1) << bits);
    for (uint32_t h = 0; h < queries->used; h++) {
        share += (double)queries->count * ball(bits, queries->halves[h].threshold) / keys;
    }
    return share < 1 ? share : 1;
}

/* Chooses the halves' thresholds and the bits of their bitmaps, or no filter. */
static void choose_filter(struct ndd_queries *queries, uint64_t memory) {
    uint32_t k = queries->k, bits = LEAST_BITS;
    queries->used = k == 0 ? 1 : 2;
    queries->halves[0].threshold = k / 2;
    queries->halves[1].threshold = k == 0 ? 0 : (k - 1) / 2;
    double wanted = DENSITY_WANTED * queries->used, sets = 0;
    while (bits < HALF_BITS && passing(queries, bits) > wanted &&
           (UINT64_C(1) << (bits + 1)) / 8 * queries->used <= memory) bits++;
    for (uint32_t h = 0; h < queries->used; h++) {
        sets += (double)queries->count * ball(bits, queries->halves[h].threshold);
    }
    queries->key_bits = bits;
    if (passing(queries, bits) > PASSING_MOST || sets > SETS_MOST ||
        (UINT64_C(1) << bits) / 8 * queries->used > memory) {
        queries->used = 0;
    }
}

/* ------------------------------------------------------------------------------- the bitmaps */

static inline void set_bit(uint64_t *bits, uint64_t key) {
    bits[key >> 6] |= UINT64_C(1) << (key & 63);
}

/* Sets every key that differs from this one in at most `left` of its bits below `bit`. */
static void set_near(uint64_t *bits, uint64_t key, uint32_t bit, uint32_t left) {
    set_bit(bits, key);
    if (left == 0) return;
    while (bit-- > 0) set_near(bits, key ^ UINT64_C(1) << bit, bit, left - 1);
}

/* The same for all queries, in their order: for each set of flips beyond a line, one pass that
 * goes through the bitmap nearly as it lies. */
static void set_all(const struct ndd_queries *queries, struct half *half, uint32_t which,
                    uint64_t flips, uint32_t bit, uint32_t left) {
    uint32_t shift = 64 - queries->key_bits;
    for (uint64_t i = 0; i < queries->count; i++) {
        if (queries->count - i > AHEAD) {
            uint64_t ahead = half_of(half->sorted[i + AHEAD], which) >> shift ^ flips;
            prefetch(&half->bits[ahead >> 6]);
        }
        set_near(half->bits, half_of(half->sorted[i], which) >> shift ^ flips, LINE_BITS, left);
    }
    if (left == 0) return;
    while (bit-- > LINE_BITS) {
        set_all(queries, half, which, flips ^ UINT64_C(1) << bit, bit, left - 1);
    }
}

/* Where the queries begin whose half begins with some bits. */
static void set_starts(const struct ndd_queries *queries, struct half *half, uint32_t which) {
    uint32_t shift = 64 - queries->start_bits;
    size_t count = (size_t)1 << queries->start_bits, next = 0;
    for (uint32_t i = 0; i < queries->count; i++) {
        size_t start = (size_t)(half_of(half->sorted[i], which) >> shift);
        while (next <= start) half->starts[next++] = i;
    }
    while (next <= count) half->starts[next++] = (uint32_t)queries->count;
}

/* All of a half lies in one piece of memory, as that is in huge pages. */
static ndd_status place_half(const struct ndd_queries *queries, struct half *half) {
    size_t bits = ((size_t)1 << queries->key_bits) / 8;
    size_t present = ((size_t)1 << queries->present_bits) / 8;
    size_t sorted = (size_t)queries->count * sizeof *half->sorted;
    size_t starts = (((size_t)1 << queries->start_bits) + 1) * sizeof *half->starts;
    if (!memory_open(&half->memory, bits + present + sorted + starts)) return NDD_NO_MEMORY;
    uint8_t *at = half->memory.at;
    half->bits = (uint64_t *)(void *)at;
    half->present = (uint64_t *)(void *)(at + bits);
    half->sorted = (uint64_t *)(void *)(at + bits + present);
    half->starts = (uint32_t *)(void *)(at + bits + present + sorted);
    return NDD_OK;
}

static ndd_status open_half(struct ndd_queries *queries, const uint64_t *values, uint32_t which) {
    struct half *half = &queries->halves[which];
    size_t n = (size_t)queries->count;
    uint64_t *scratch = malloc(n * sizeof *scratch + 1);
    ndd_status status = scratch == NULL ? NDD_NO_MEMORY : place_half(queries, half);
    if (status == NDD_OK) {
        uint32_t low = which == 0 ? HALF_BITS : 0, shift = 64 - queries->present_bits;
        const struct block block = {.mask = (uint64_t)UINT32_MAX << low, .bits = HALF_BITS,
                                    .runs = 1, .run = {{UINT32_MAX, low}}};
        if (n > 0) memcpy(half->sorted, values, n * sizeof *values);
        uint64_t *sorted = radix_sort(half->sorted, scratch, n, &block);
        if (sorted == scratch) memcpy(half->sorted, sorted, n * sizeof *sorted);
        set_starts(queries, half, which);
        for (size_t i = 0; i < n; i++) {
            set_bit(half->present, half_of(half->sorted[i], which) >> shift);
        }
        set_all(queries, half, which, 0, queries->key_bits, half->threshold);
    }
    free(scratch);
    return status;
}

/* ----------------------------------------------------------------------------------- opening */

static ndd_status fill_table(struct ndd_queries *queries, const uint64_t *values) {
    enum { PIECE = 4096 };
    uint64_t numbers[PIECE], inserted;
    ndd_status status = ndd_table_open(queries->k, &queries->table);
    if (status == NDD_OK) status = ndd_table_reserve(queries->table, queries->count);
    for (uint64_t i = 0; i < queries->count && status == NDD_OK; i += PIECE) {
        uint64_t n = queries->count - i < PIECE ? queries->count - i : PIECE;
        for (uint64_t j = 0; j < n; j++) numbers[j] = i + j;
        status = ndd_table_insert(queries->table, values + i, numbers, (size_t)n, &inserted);
    }
    return status;
}

ndd_status ndd_queries_open(const uint64_t *values, size_t n, uint32_t k, uint64_t memory,
                            ndd_queries **queries) {
    if (k > MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (n > 0 && values == NULL) return NDD_BAD_ARGUMENT;
    if (n > INT32_MAX) return NDD_TOO_LARGE;
    if (n > SIZE_MAX / 16) return NDD_NO_MEMORY;
    struct ndd_queries *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return NDD_NO_MEMORY;
    opened->k = k;
    opened->count = n;
    opened->start_bits = LINE_BITS; /* a place for each query, and 16 bits */
    while (opened->start_bits < 28 && (UINT64_C(1) << opened->start_bits) < n) opened->start_bits++;
    opened->present_bits = opened->start_bits + 4;
    choose_filter(opened, memory);
    ndd_status status = fill_table(opened, values);
    for (uint32_t h = 0; h < opened->used && status == NDD_OK; h++) {
        status = open_half(opened, values, h);
    }
    if (status != NDD_OK) {
        ndd_queries_close(opened);
        return status;
    }
    *queries = opened;
    return NDD_OK;
}

void ndd_queries_close(ndd_queries *queries) {
    if (queries == NULL) return;
    for (uint32_t h = 0; h < HALVES; h++) {
        memory_close(&queries->halves[h].memory);
    }
    ndd_table_close(queries->table);
    free(queries);
}

void ndd_queries_stats_get(const ndd_queries *queries, ndd_queries_stats *stats) {
    ndd_table_stats table;
    ndd_table_stats_get(queries->table, &table);
    *stats = (ndd_queries_stats){
        .queries = queries->count,
        .bytes = table.bytes,
        .passing = queries->used == 0 ? 1 : passing(queries, queries->key_bits),
        .k = queries->k,
        .filter_bits = queries->used == 0 ? 0 : queries->key_bits,
    };
    for (uint32_t h = 0; h < queries->used; h++) stats->bytes += queries->halves[h].memory.bytes;
}

ndd_status ndd_hits_open(ndd_hits **hits) {
    ndd_hits *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return NDD_NO_MEMORY;
    ndd_status status = ndd_answer_open(&opened->answer);
    if (status != NDD_OK) {
        free(opened);
        return status;
    }
    *hits = opened;
    return NDD_OK;
}

void ndd_hits_close(ndd_hits *hits) {
    if (hits == NULL) return;
    ndd_answer_close(hits->answer);
    free(hits->items);
    free(hits);
}

void ndd_hits_get(const ndd_hits *hits, const ndd_hit **items, uint64_t *count) {
    *items = hits->items;
    *count = hits->count;
}

/* ----------------------------------------------------------------------------------- probing */

/* Which of values[from .. to - 1] pass the filter; asks for the bits of those after them too. */
static size_t filter_values(const struct ndd_queries *queries, const uint64_t *values, size_t from,
                            size_t to, size_t n, uint32_t *passed) {
    const uint64_t *high = queries->halves[0].bits;
    const uint64_t *low = queries->used > 1 ? queries->halves[1].bits : high;
    /* With one bitmap both reads are of the same key. */
    uint32_t shift = 64 - queries->key_bits, left = queries->used > 1 ? HALF_BITS : 0;
    size_t count = 0;
    for (size_t i = from; i < to; i++) {
        uint64_t ahead = values[i + AHEAD < n ? i + AHEAD : n - 1];
        prefetch(&high[ahead >> shift >> 6]);
        prefetch(&low[ahead << left >> shift >> 6]);
        uint64_t h = values[i] >> shift, l = values[i] << left >> shift;
        passed[count] = (uint32_t)(i - from);
        count += (high[h >> 6] >> (h & 63) | low[l >> 6] >> (l & 63)) & 1;
    }
    return count;
}

static inline int passes(const struct ndd_queries *queries, uint32_t which, uint64_t value) {
    uint64_t key = half_of(value, which) >> (64 - queries->key_bits);
    return (int)(queries->halves[which].bits[key >> 6] >> (key & 63) & 1);
}

static void prefetch_near(const struct ndd_queries *queries, uint64_t value) {
    for (uint32_t h = 0; h < queries->used; h++) {
        const struct half *half = &queries->halves[h];
        if (half->threshold > 1 || !passes(queries, h, value)) continue;
        uint64_t key = half_of(value, h) >> (64 - queries->present_bits);
        prefetch(&half->present[key >> 6]);
        for (uint32_t bit = LINE_BITS; bit < queries->present_bits && half->threshold > 0; bit++) {
            prefetch(&half->present[(key ^ UINT64_C(1) << bit) >> 6]);
        }
    }
}

static inline void look_for(const struct ndd_queries *queries, const struct half *half,
                            uint64_t key, uint32_t of, struct group *group) {
    if (!(half->present[key >> 6] >> (key & 63) & 1)) return;
    uint32_t start = (uint32_t)(key >> (queries->present_bits - queries->start_bits));
    prefetch(&half->starts[start]);
    group->found[group->count++] = (struct candidates){half->sorted, start, 0, of};
}

static void look_near(const struct ndd_queries *queries, uint32_t which, uint32_t of,
                      struct group *group) {
    const struct half *half = &queries->halves[which];
    if (group->near[of] || !passes(queries, which, group->values[of])) return;
    if (half->threshold > 1) { /* more lookups than the table takes */
        group->near[of] = 1;
        return;
    }
    uint64_t key = half_of(group->values[of], which) >> (64 - queries->present_bits);
    look_for(queries, half, key, of, group);
    for (uint32_t bit = 0; bit < queries->present_bits && half->threshold > 0; bit++) {
        look_for(queries, half, key ^ UINT64_C(1) << bit, of, group);
    }
}

/* Finds out which fingerprints of a group may be near a query: in steps, so that what a step reads
 * was asked for in the one before. */
COUNTS_BITS
static void compare_group_halves(const struct ndd_queries *queries, struct group *group, size_t n) {
    memset(group->near, 0, sizeof group->near);
    group->count = 0;
    for (uint32_t i = 0; i < n; i++) prefetch_near(queries, group->values[i]);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t h = 0; h < queries->used; h++) look_near(queries, h, i, group);
    }
    for (size_t i = 0; i < group->count; i++) {
        struct candidates *found = &group->found[i];
        const uint32_t *starts = queries->halves[0].sorted == found->sorted
                                     ? queries->halves[0].starts : queries->halves[1].starts;
        uint32_t start = found->at;
        found->at = starts[start];
        found->end = starts[start + 1];
        if (found->end - found->at > CROWDED) {
            group->near[found->of] = 1;
            found->end = found->at;
        }
        prefetch(&found->sorted[found->at]);
    }
    for (size_t i = 0; i < group->count; i++) {
        const struct candidates *found = &group->found[i];
        for (uint32_t at = found->at; at < found->end; at++) {
            int distance = count_bits(found->sorted[at] ^ group->values[found->of]);
            group->near[found->of] |= distance <= (int)queries->k;
        }
    }
}

/* Leaves of those that passed the ones that may be near a query. */
static size_t keep_near(const struct ndd_queries *queries, const uint64_t *values, uint32_t *passed,
                        size_t n, struct group *group) {
    size_t count = 0;
    for (size_t from = 0; from < n; from += GROUP) {
        size_t members = n - from < GROUP ? n - from : GROUP;
        for (size_t i = 0; i < members; i++) group->values[i] = values[passed[from + i]];
        compare_group_halves(queries, group, members);
        for (size_t i = 0; i < members; i++) {
            passed[count] = passed[from + i];
            count += group->near[i];
        }
    }
    return count;
}

static ndd_status probe_waiting(const struct ndd_queries *queries, ndd_hits *hits) {
    const uint64_t *offsets;
    const ndd_match *matches;
    size_t n = hits->waiting;
    hits->waiting = 0;
    ndd_status status = ndd_table_probe(queries->table, hits->values, n, 0, hits->answer);
    if (status != NDD_OK) return status;
    ndd_answer_get(hits->answer, &offsets, &matches);
    if (offsets[n] > SIZE_MAX / 4 / sizeof *hits->items - hits->count) return NDD_NO_MEMORY;
    size_t count = hits->count + (size_t)offsets[n];
    if (count > hits->capacity) {
        size_t capacity = count + count / 2;
        ndd_hit *items = realloc(hits->items, capacity * sizeof *items);
        if (items == NULL) return NDD_NO_MEMORY;
        hits->items = items;
        hits->capacity = capacity;
    }
    for (size_t i = 0; i < n; i++) {
        for (uint64_t m = offsets[i]; m < offsets[i + 1]; m++) {
            hits->items[hits->count++] =
                (ndd_hit){matches[m].document, hits->positions[i], matches[m].distance, 0};
        }
    }
    return NDD_OK;
}

ndd_status ndd_queries_probe(const ndd_queries *queries, const uint64_t *values, size_t n,
                             uint64_t first, ndd_hits *hits) {
    if (n > 0 && values == NULL) return NDD_BAD_ARGUMENT;
    uint32_t passed[BLOCK];
    ndd_status status = NDD_OK;
    hits->count = 0;
    hits->waiting = 0;
    if (queries->count == 0) return NDD_OK;
    for (size_t from = 0; from < n && status == NDD_OK; from += BLOCK) {
        size_t to = n - from < BLOCK ? n : from + BLOCK, count = to - from;
        if (queries->used > 0) {
            count = filter_values(queries, values, from, to, n, passed);
            count = keep_near(queries, values + from, passed, count, &hits->group);
        } else {
            for (uint32_t i = 0; i < count; i++) passed[i] = i;
        }
        for (size_t i = 0; i < count; i++) {
            hits->values[hits->waiting] = values[from + passed[i]];
            hits->positions[hits->waiting++] = first + from + passed[i];
        }
        if (hits->waiting >= BLOCK) status = probe_waiting(queries, hits);
    }
    if (status == NDD_OK && hits->waiting > 0) status = probe_waiting(queries, hits);
    if (status != NDD_OK) hits->count = 0;
    return status;
}

/* -------------------------------------------------------------------------------- a stream */

void ndd_generate(uint64_t seed, uint64_t first, size_t n, uint64_t *values) {
    for (size_t i = 0; i < n; i++) {
        uint64_t z = seed + (first + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        values[i] = z ^ z >> 31;
    }
}
