/* Looking up a stream in the queries of a batch (batch.h), block by block. */
#include <stdlib.h>
#include <string.h>

#include "bulk/batch.h"

#define BLOCK 4096   /* fingerprints filtered at once */
#define TOGETHER 64  /* fingerprints whose neighbours are looked for at once */
#define CROWDED 32   /* with more queries of one key, the table is probed instead */

/* Queries to compare with a fingerprint: those from `at` on. */
struct candidates {
    uint32_t at;
    uint32_t end;
    uint32_t of; /* the fingerprint's place in its block */
};

/* What one thread works with. */
struct ndd_hits {
    ndd_hit *items;
    size_t count, capacity;
    ndd_answer *answer;
    uint64_t values[2 * BLOCK]; /* what is probed next */
    uint64_t positions[2 * BLOCK];
    size_t waiting;
    uint32_t passed[BLOCK];     /* places in a block that pass a half's filter */
    uint64_t near[BLOCK / 64];  /* a bit for each place: whether a query may be near */
    struct candidates found[TOGETHER * (NDD_HALF_BITS + 1)];
};

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

/* ---------------------------------------------------------------------------------- the filter */

static inline void mark_near(ndd_hits *hits, uint32_t place) {
    hits->near[place / 64] |= UINT64_C(1) << place % 64;
}

/* A bitmap over the first bits of a half. */
struct look {
    const uint64_t *bits;
    uint32_t left;  /* value << left >> shift is the key */
    uint32_t shift;
};

static inline uint64_t key_of(const struct look *look, uint64_t value) {
    return value << look->left >> look->shift;
}

static inline void ask_bit(const struct look *look, uint64_t value) {
    prefetch(&look->bits[key_of(look, value) >> 6]);
}

static inline uint32_t is_set(const struct look *look, uint64_t value) {
    uint64_t key = key_of(look, value);
    return (uint32_t)(look->bits[key >> 6] >> (key & 63) & 1);
}

/* Which of a block's `n` values pass; prefetches the bits of those after them too, up to `end`. */
static size_t look_at_all(const struct look *look, const uint64_t *values, size_t n, size_t end,
                          uint32_t *passed) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        ask_bit(look, values[i + NDD_BATCH_AHEAD < end ? i + NDD_BATCH_AHEAD : end - 1]);
        passed[count] = (uint32_t)i;
        count += is_set(look, values[i]);
    }
    return count;
}

/* Of the fingerprints that passed so far, keeps those that pass this bitmap too. */
static size_t look_closer(const struct look *look, const uint64_t *values, uint32_t *passed,
                          size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n && i < NDD_BATCH_AHEAD; i++) ask_bit(look, values[passed[i]]);
    for (size_t i = 0; i < n; i++) {
        uint32_t place = passed[i];
        if (i + NDD_BATCH_AHEAD < n) ask_bit(look, values[passed[i + NDD_BATCH_AHEAD]]);
        passed[count] = place;
        count += is_set(look, values[place]);
    }
    return count;
}

static size_t filter_half(const struct ndd_queries *queries, uint32_t which, const uint64_t *values,
                          size_t n, size_t end, uint32_t *passed) {
    const struct half *half = &queries->halves[which];
    struct look look = {half->bits, which * NDD_HALF_BITS, 64 - queries->key_bits};
    if (half->coarse == NULL) return look_at_all(&look, values, n, end, passed);
    struct look coarse = {half->coarse, which * NDD_HALF_BITS, 64 - half->coarse_bits};
    return look_closer(&look, values, passed, look_at_all(&coarse, values, n, end, passed));
}

/* ---------------------------------------------------------------------------------- the halves */

static void prefetch_near(const struct ndd_queries *queries, const struct half *half, uint64_t key) {
    prefetch(&half->present[key >> 6]);
    for (uint32_t bit = NDD_LINE_BITS; bit < queries->present_bits && half->threshold > 0; bit++) {
        prefetch(&half->present[(key ^ UINT64_C(1) << bit) >> 6]);
    }
}

/* Compares up to TOGETHER fingerprints with the queries whose half is near: in steps, so that what a
 * step reads was asked for in the one before. */
NDD_COUNTS_BITS
static void compare_group(const struct ndd_queries *queries, uint32_t which, const uint64_t *values,
                          const uint32_t *places, size_t n, ndd_hits *hits) {
    const struct half *half = &queries->halves[which];
    uint32_t shift = 64 - queries->present_bits, more = queries->present_bits - queries->start_bits;
    uint32_t flips = half->threshold > 0 ? queries->present_bits : 0;
    struct candidates *found = hits->found;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        prefetch_near(queries, half, half_of(values[places[i]], which) >> shift);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t key = half_of(values[places[i]], which) >> shift;
        for (uint32_t bit = 0; bit <= flips; bit++) { /* the last one flips nothing */
            uint64_t near = bit < flips ? key ^ UINT64_C(1) << bit : key;
            if (!(half->present[near >> 6] >> (near & 63) & 1)) continue;
            found[count++] = (struct candidates){(uint32_t)(near >> more), 0, places[i]};
            prefetch(&half->starts[near >> more]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t start = found[i].at;
        found[i].at = half->starts[start];
        found[i].end = half->starts[start + 1];
        if (found[i].end - found[i].at > CROWDED) {
            mark_near(hits, found[i].of);
            found[i].end = found[i].at;
        }
        prefetch(&half->sorted[found[i].at]);
    }
    for (size_t i = 0; i < count; i++) {
        for (uint32_t at = found[i].at; at < found[i].end; at++) {
            if (count_bits(half->sorted[at] ^ values[found[i].of]) <= (int)queries->k) {
                mark_near(hits, found[i].of);
            }
        }
    }
}

/* Marks those of a block that a query may be near. */
static void find_neighbours(const struct ndd_queries *queries, const uint64_t *values, size_t n, size_t end,
                      ndd_hits *hits) {
    uint32_t *passed = hits->passed;
    memset(hits->near, queries->used == 0 ? 0xff : 0, sizeof hits->near);
    for (uint32_t which = 0; which < queries->used; which++) {
        size_t count = filter_half(queries, which, values, n, end, passed);
        if (queries->halves[which].threshold > 1) { /* more to look at than the table does */
            for (size_t i = 0; i < count; i++) mark_near(hits, passed[i]);
            continue;
        }
        for (size_t i = 0; i < count; i += TOGETHER) {
            size_t members = count - i < TOGETHER ? count - i : TOGETHER;
            compare_group(queries, which, values, passed + i, members, hits);
        }
    }
}

/* ----------------------------------------------------------------------------------- the table */

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

/* Waiting are those of a block that are near, in its order. */
static void await_near(const uint64_t *values, size_t n, uint64_t first, ndd_hits *hits) {
    for (size_t word = 0; 64 * word < n; word++) {
        for (uint64_t near = hits->near[word]; near != 0; near &= near - 1) {
            size_t place = 64 * word + lowest_bit(near);
            if (place >= n) break;
            hits->values[hits->waiting] = values[place];
            hits->positions[hits->waiting++] = first + place;
        }
    }
}

ndd_status ndd_queries_probe(const ndd_queries *queries, const uint64_t *values, size_t n,
                             uint64_t first, ndd_hits *hits) {
    if (n > 0 && values == NULL) return NDD_BAD_ARGUMENT;
    ndd_status status = NDD_OK;
    hits->count = 0;
    hits->waiting = 0;
    if (queries->count == 0) return NDD_OK;
    for (size_t from = 0; from < n && status == NDD_OK; from += BLOCK) {
        size_t members = n - from < BLOCK ? n - from : BLOCK;
        find_neighbours(queries, values + from, members, n - from, hits);
        await_near(values + from, members, first + from, hits);
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
