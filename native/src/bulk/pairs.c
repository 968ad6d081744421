/*
 * All pairs of fingerprints within distance k, at once or in parts.
 *
 * The rule kept: repeated values are taken out first, so only distinct values are joined (join.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bulk/join.h"
#include "design/radix.h"
#include "ndd_bulk.h"

#define MASKS_MOST 4096

struct pair {
    uint64_t a;
    uint64_t b;
};

struct ndd_pairs {
    struct pair *items;
    size_t count, capacity;
};

ndd_status ndd_pairs_open(ndd_pairs **pairs) {
    ndd_pairs *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return NDD_NO_MEMORY;
    *pairs = opened;
    return NDD_OK;
}

void ndd_pairs_close(ndd_pairs *pairs) {
    if (pairs == NULL) return;
    free(pairs->items);
    free(pairs);
}

void ndd_pairs_get(const ndd_pairs *pairs, const uint64_t **values, uint64_t *count) {
    *values = (const uint64_t *)pairs->items;
    *count = pairs->count;
}

static ndd_status keep_pair(void *context, uint64_t a, uint64_t b) {
    ndd_pairs *pairs = context;
    if (pairs->count == pairs->capacity) {
        size_t capacity = pairs->capacity + pairs->capacity / 2 + 64;
        if (capacity > SIZE_MAX / 2 / sizeof *pairs->items) return NDD_NO_MEMORY;
        struct pair *items = realloc(pairs->items, capacity * sizeof *items);
        if (items == NULL) return NDD_NO_MEMORY;
        pairs->items = items;
        pairs->capacity = capacity;
    }
    pairs->items[pairs->count++] = (struct pair){a, b};
    return NDD_OK;
}

static int compare_pairs(const void *left, const void *right) {
    const struct pair *x = left, *y = right;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b);
}

/* By the first value with a radix sort; then each value's own pairs, which are few. */
static ndd_status sort_pairs(ndd_pairs *pairs) {
    size_t n = pairs->count;
    if (n < 2) return NDD_OK;
    struct pair *items = pairs->items, *other = malloc(n * sizeof *other);
    if (other == NULL) return NDD_NO_MEMORY;
    for (uint32_t shift = 0; shift < 64; shift += 8) {
        size_t starts[256] = {0}, start = 0, largest = 0;
        for (size_t i = 0; i < n; i++) starts[items[i].a >> shift & 255]++;
        for (size_t digit = 0; digit < 256; digit++) {
            size_t count = starts[digit];
            starts[digit] = start;
            start += count;
            if (count > largest) largest = count;
        }
        if (largest == n) continue;
        for (size_t i = 0; i < n; i++) other[starts[items[i].a >> shift & 255]++] = items[i];
        struct pair *sorted = other;
        other = items;
        items = sorted;
    }
    if (items != pairs->items) {
        free(pairs->items);
        pairs->items = items;
        pairs->capacity = n;
    } else {
        free(other);
    }
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && items[to].a == items[from].a; to++) continue;
        if (to - from > 1) qsort(items + from, to - from, sizeof *items, compare_pairs);
    }
    return NDD_OK;
}

/* Removes repeats from sorted values and reports each once; returns how many values are left. */
static ndd_status take_repeated(uint64_t *sorted, size_t n, ndd_pairs *pairs, size_t *distinct) {
    size_t count = 0;
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && sorted[to] == sorted[from]; to++) continue;
        if (to - from > 1) {
            ndd_status status = keep_pair(pairs, sorted[from], sorted[from]);
            if (status != NDD_OK) return status;
        }
        sorted[count++] = sorted[from];
    }
    *distinct = count;
    return NDD_OK;
}

/* Gives the caller what was found, in order; or frees it where that failed. */
static ndd_status hand_over(ndd_status status, ndd_pairs found, ndd_pairs *pairs) {
    if (status == NDD_OK) status = sort_pairs(&found);
    if (status == NDD_OK) {
        free(pairs->items);
        *pairs = found;
    } else {
        free(found.items);
    }
    return status;
}

ndd_status ndd_find_all(const uint64_t *values, size_t n, uint32_t k, ndd_pairs *pairs) {
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (n > 0 && values == NULL) return NDD_BAD_ARGUMENT;
    if (n > SIZE_MAX / 32) return NDD_NO_MEMORY;
    ndd_pairs found = {NULL, 0, 0};
    struct memory copy, scratch;
    ndd_status status = memory_open(&copy, n * sizeof *values + 1) ? NDD_OK : NDD_NO_MEMORY;
    if (!memory_open(&scratch, n * sizeof *values + 1)) status = NDD_NO_MEMORY;
    if (status == NDD_OK) {
        size_t distinct = 0;
        if (n > 0) memcpy(copy.at, values, n * sizeof *values);
        uint64_t *sorted = radix_sort(copy.at, scratch.at, n, NULL);
        status = take_repeated(sorted, n, &found, &distinct);
        memory_close(sorted == copy.at ? &scratch : &copy); /* what is no longer needed goes first */
        const struct join_rule rule = {k, keep_pair, &found};
        if (status == NDD_OK && k > 0) {
            status = join_all(&rule, sorted, distinct);
        }
    }
    memory_close(&copy);
    memory_close(&scratch);
    return hand_over(status, found, pairs);
}

/* ---------------------------------------------------------------------------------- in parts */

ndd_status ndd_distinct(uint64_t *values, size_t n, ndd_pairs *repeated, size_t *distinct) {
    if (n > 0 && values == NULL) return NDD_BAD_ARGUMENT;
    if (n > SIZE_MAX / 32) return NDD_NO_MEMORY;
    struct memory scratch;
    if (!memory_open(&scratch, n * sizeof *values + 1)) return NDD_NO_MEMORY;
    uint64_t *sorted = radix_sort(values, scratch.at, n, NULL);
    if (sorted != values) memcpy(values, sorted, n * sizeof *values);
    memory_close(&scratch);
    repeated->count = 0;
    return take_repeated(values, n, repeated, distinct);
}

ndd_status ndd_pair_blocks(uint64_t values, uint32_t k, uint64_t *masks, size_t capacity,
                           uint32_t *count) {
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    struct design design;
    ndd_status status = design_for_pairs(&design, values, UINT64_MAX, k);
    if (status != NDD_OK) return status;
    *count = design.count;
    for (uint32_t i = 0; i < design.count && i < capacity; i++) masks[i] = design.blocks[i].mask;
    design_close(&design);
    return NDD_OK;
}

ndd_status ndd_find_part(const uint64_t *values, size_t n, uint32_t k, const uint64_t *masks,
                         uint32_t count, uint32_t block, ndd_pairs *pairs) {
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if ((n > 0 && values == NULL) || masks == NULL || block >= count ||
        count > MASKS_MOST) {
        return NDD_BAD_ARGUMENT;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (masks[i] == UINT64_MAX) return NDD_BAD_ARGUMENT; /* no key has 64 bits */
    }
    struct design design;
    if (design_of_masks(&design, masks, count) != NDD_OK) return NDD_NO_MEMORY;
    ndd_pairs found = {NULL, 0, 0};
    const struct join_rule rule = {k, keep_pair, &found};
    ndd_status status = k > 0 ? join_block(&rule, values, n, &design, block) : NDD_OK;
    design_close(&design);
    return hand_over(status, found, pairs);
}

/* The runs as a heap, by the pair that each is at. */
struct run {
    const struct pair *at, *end;
};

static void sift_runs(struct run *heap, size_t count, size_t i) {
    struct run run = heap[i];
    for (size_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && compare_pairs(heap[child + 1].at, heap[child].at) < 0) child++;
        if (compare_pairs(run.at, heap[child].at) <= 0) break;
        heap[i] = heap[child];
    }
    heap[i] = run;
}

ndd_status ndd_merge_pairs(const uint64_t *const *runs, const uint64_t *counts, size_t n,
                           uint64_t *merged) {
    struct run *heap = malloc(n * sizeof *heap + 1);
    if (heap == NULL) return NDD_NO_MEMORY;
    struct pair *out = (struct pair *)(void *)merged;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct pair *run = (const struct pair *)(const void *)runs[i];
        if (counts[i] > 0) heap[count++] = (struct run){run, run + counts[i]};
    }
    for (size_t i = count; i-- > 0;) sift_runs(heap, count, i);
    while (count > 0) {
        *out++ = *heap[0].at++;
        if (heap[0].at == heap[0].end) heap[0] = heap[--count];
        if (count > 0) sift_runs(heap, count, 0);
    }
    free(heap);
    return NDD_OK;
}
