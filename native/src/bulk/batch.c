/* Indexing the queries of a batch: their table, and the filter (batch.h). */
#include "bulk/batch.h"

#include <stdlib.h>
#include <string.h>

#include "design/design.h"
#include "design/radix.h"

#define LEAST_BITS 20        /* a smaller bitmap is no faster */
#define DENSITY_WANTED 0.008 /* share of a bitmap's bits that are set */
#define COARSE_DENSITY 0.25  /* the same of a coarse one */
#define COARSE_LESS 3        /* bits fewer, or it is no faster */
#define PASSING_MOST 0.6     /* a filter that lets more pass is not worth its reads */
#define SETS_MOST 1.1e9      /* bits to set; more takes longer than most streams */

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

/* Chooses the bits of a half's coarse bitmap, or none. */
static void choose_coarse(const struct ndd_queries *queries, struct half *half) {
    uint32_t bits = LEAST_BITS, threshold = half->threshold;
    double count = (double)queries->count;
    while (bits < NDD_HALF_BITS &&
           count * ball(bits, threshold) > COARSE_DENSITY * (double)(UINT64_C(1) << bits)) bits++;
    half->coarse_bits = bits + COARSE_LESS <= queries->key_bits ? bits : 0;
}

/* Chooses the halves' thresholds and the bits of their bitmaps, or no filter. */
static void choose_filter(struct ndd_queries *queries, uint64_t memory) {
    uint32_t k = queries->k, bits = LEAST_BITS;
    queries->used = k == 0 ? 1 : 2;
    queries->halves[0].threshold = k / 2;
    queries->halves[1].threshold = k == 0 ? 0 : (k - 1) / 2;
    double wanted = DENSITY_WANTED * queries->used, sets = 0;
    while (bits < NDD_HALF_BITS && passing(queries, bits) > wanted &&
           (UINT64_C(1) << (bits + 1)) / 8 * queries->used <= memory) bits++;
    for (uint32_t h = 0; h < queries->used; h++) {
        sets += (double)queries->count * ball(bits, queries->halves[h].threshold);
    }
    queries->key_bits = bits;
    for (uint32_t h = 0; h < queries->used; h++) choose_coarse(queries, &queries->halves[h]);
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

/* The queries of one half, in its order, and the bitmap of the keys near them. */
struct setting {
    uint64_t *bits;
    const uint64_t *sorted;
    uint64_t count;
    uint32_t left; /* value << left >> shift is the key */
    uint32_t shift;
};

/* Does so for all queries, in their order: for each set of flips beyond a line, one pass that goes
 * through the bitmap nearly as it lies. */
static void set_all(const struct setting *setting, uint64_t flips, uint32_t bit, uint32_t left) {
    for (uint64_t i = 0; i < setting->count; i++) {
        uint64_t key = setting->sorted[i] << setting->left >> setting->shift ^ flips;
        if (setting->count - i > NDD_BATCH_AHEAD) {
            uint64_t ahead = setting->sorted[i + NDD_BATCH_AHEAD] << setting->left >> setting->shift ^ flips;
            prefetch(&setting->bits[ahead >> 6]);
        }
        set_near(setting->bits, key, NDD_LINE_BITS, left);
    }
    if (left == 0) return;
    while (bit-- > NDD_LINE_BITS) set_all(setting, flips ^ UINT64_C(1) << bit, bit, left - 1);
}

static void set_bitmap(const struct ndd_queries *queries, uint32_t which, uint64_t *bits,
                       uint32_t key_bits) {
    const struct half *half = &queries->halves[which];
    struct setting setting = {bits, half->sorted, queries->count, which * NDD_HALF_BITS, 64 - key_bits};
    set_all(&setting, 0, key_bits, half->threshold);
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
    size_t coarse = half->coarse_bits == 0 ? 0 : ((size_t)1 << half->coarse_bits) / 8;
    size_t present = ((size_t)1 << queries->present_bits) / 8;
    size_t sorted = (size_t)queries->count * sizeof *half->sorted;
    size_t starts = (((size_t)1 << queries->start_bits) + 1) * sizeof *half->starts;
    if (!memory_open(&half->memory, bits + coarse + present + sorted + starts)) return NDD_NO_MEMORY;
    uint8_t *at = half->memory.at;
    half->bits = (uint64_t *)(void *)at;
    at += bits;
    half->coarse = coarse == 0 ? NULL : (uint64_t *)(void *)at;
    at += coarse;
    half->present = (uint64_t *)(void *)at;
    at += present;
    half->sorted = (uint64_t *)(void *)at;
    at += sorted;
    half->starts = (uint32_t *)(void *)at;
    return NDD_OK;
}

static ndd_status open_half(struct ndd_queries *queries, const uint64_t *values, uint32_t which) {
    struct half *half = &queries->halves[which];
    size_t n = (size_t)queries->count;
    uint64_t *scratch = malloc(n * sizeof *scratch + 1);
    ndd_status status = scratch == NULL ? NDD_NO_MEMORY : place_half(queries, half);
    if (status == NDD_OK) {
        uint32_t low = which == 0 ? NDD_HALF_BITS : 0, shift = 64 - queries->present_bits;
        const struct block block = {.mask = (uint64_t)UINT32_MAX << low, .bits = NDD_HALF_BITS,
                                    .runs = 1, .run = {{UINT32_MAX, low}}};
        if (n > 0) memcpy(half->sorted, values, n * sizeof *values);
        uint64_t *sorted = radix_sort(half->sorted, scratch, n, &block);
        if (sorted == scratch) memcpy(half->sorted, sorted, n * sizeof *sorted);
        set_starts(queries, half, which);
        for (size_t i = 0; i < n; i++) {
            set_bit(half->present, half_of(half->sorted[i], which) >> shift);
        }
        set_bitmap(queries, which, half->bits, queries->key_bits);
        if (half->coarse != NULL) set_bitmap(queries, which, half->coarse, half->coarse_bits);
    }
    free(scratch);
    return status;
}

/* ----------------------------------------------------------------------------------- opening */

static ndd_status fill_table(struct ndd_queries *queries, const uint64_t *values) {
    enum { PIECE = 4096 };
    uint64_t numbers[PIECE], inserted;
    ndd_status status = ndd_table_open(queries->k, NDD_AUTO, &queries->table);
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
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (n > 0 && values == NULL) return NDD_BAD_ARGUMENT;
    if (n > INT32_MAX) return NDD_TOO_LARGE;
    if (n > SIZE_MAX / 16) return NDD_NO_MEMORY;
    struct ndd_queries *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return NDD_NO_MEMORY;
    opened->k = k;
    opened->count = n;
    opened->start_bits = NDD_LINE_BITS; /* a place for each query, and 16 bits */
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
    for (uint32_t h = 0; h < NDD_HALVES; h++) {
        memory_close(&queries->halves[h].memory);
    }
    ndd_table_close(queries->table);
    free(queries);
}
