/*
 * All pairs of fingerprints within distance k, and the clusters they form.
 *
 * For each block of a design (design.h) the values are sorted by their key; a pair within k has
 * equal keys in some block, so only values side by side are compared. Where data is not spread
 * evenly a group can be large: then its values differ only in the bits outside the key, and the
 * same is done for the group, in a design for those bits.
 *
 * The rule kept: a pair that several blocks bring together counts in the first of them only, at
 * each depth; so every pair is found once, and nothing needs to be remembered. Duplicates go
 * before: what is joined are distinct values.
 */
#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "radix.h"

#define COMPARED 2048 /* a group of so many is compared sooner than a design is looked for */

/* What is done with a pair of distinct values within k. */
typedef ndd_status (*pair_found)(void *context, uint64_t a, uint64_t b);

/* A group being joined, and the ones around it. */
struct join {
    const struct join *around;
    const struct design *design;
    uint32_t block; /* at hand; the ones before have found their pairs */
};

struct join_rule {
    uint32_t k;
    pair_found found;
    void *context;
};

static ndd_status join_group(const struct join_rule *rule, const uint64_t *values, size_t n,
                             uint64_t free_bits, const struct join *around);

static int found_before(const struct join *join, uint64_t difference) {
    for (; join != NULL; join = join->around) {
        for (uint32_t i = 0; i < join->block; i++) {
            if ((difference & join->design->blocks[i].mask) == 0) return 1;
        }
    }
    return 0;
}

static inline ndd_status compare_all(const struct join_rule *rule, const uint64_t *values, size_t n,
                                     const struct join *join) {
    for (size_t i = 0; i + 1 < n; i++) {
        uint64_t value = values[i];
        for (size_t j = i + 1; j < n; j++) {
            uint64_t difference = value ^ values[j];
            if (count_bits(difference) > (int)rule->k || found_before(join, difference)) continue;
            ndd_status status = value < values[j] ? rule->found(rule->context, value, values[j])
                                                  : rule->found(rule->context, values[j], value);
            if (status != NDD_OK) return status;
        }
    }
    return NDD_OK;
}

COUNTS_BITS
static ndd_status compare_group(const struct join_rule *rule, const uint64_t *values, size_t n,
                                const struct join *join) {
    return compare_all(rule, values, n, join);
}

/* Goes over values sorted by the key of the block at hand, group by group. */
COUNTS_BITS
static ndd_status join_sorted(const struct join_rule *rule, const uint64_t *values, size_t n,
                              uint64_t free_bits, const struct join *join) {
    uint64_t mask = join->design->blocks[join->block].mask;
    ndd_status status = NDD_OK;
    for (size_t from = 0, to; from < n && status == NDD_OK; from = to) {
        for (to = from + 1; to < n && ((values[from] ^ values[to]) & mask) == 0; to++) continue;
        status = to - from <= COMPARED
                     ? compare_all(rule, values + from, to - from, join)
                     : join_group(rule, values + from, to - from, free_bits & ~mask, join);
    }
    return status;
}

static ndd_status join_blocks(const struct join_rule *rule, const uint64_t *values, size_t n,
                              uint64_t free_bits, struct join *join) {
    if (n > SIZE_MAX / 32) return NDD_NO_MEMORY;
    struct memory memory;
    if (!memory_open(&memory, 2 * n * sizeof *values)) return NDD_NO_MEMORY;
    uint64_t *scratch = memory.at;
    memcpy(scratch, values, n * sizeof *values);
    uint64_t *sorted = scratch;
    ndd_status status = NDD_OK;
    for (; join->block < join->design->count && status == NDD_OK; join->block++) {
        uint64_t *other = sorted == scratch ? scratch + n : scratch;
        sorted = radix_sort(sorted, other, n, &join->design->blocks[join->block]);
        status = join_sorted(rule, sorted, n, free_bits, join);
    }
    memory_close(&memory);
    return status;
}

/* Finds all pairs of n distinct values that differ only in the free bits, and were not found before.
 * Bits in which none differ are no use as keys: every block of them would bring all together. */
static ndd_status join_group(const struct join_rule *rule, const uint64_t *values, size_t n,
                             uint64_t free_bits, const struct join *around) {
    if (n <= COMPARED) return compare_group(rule, values, n, around);
    uint64_t differing = 0;
    for (size_t i = 1; i < n; i++) differing |= values[0] ^ values[i];
    if (found_before(around, differing)) return NDD_OK;
    free_bits &= differing;
    struct design design;
    ndd_status status = design_for_pairs(&design, n, free_bits, rule->k);
    if (status != NDD_OK) return status;
    struct join join = {around, &design, 0};
    status = design.count == 0 ? compare_group(rule, values, n, around)
                               : join_blocks(rule, values, n, free_bits, &join);
    design_close(&design);
    return status;
}

/* ------------------------------------------------------------------------------- all pairs */

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

/* Takes what stands twice in sorted values away, and reports it; returns how many stay. */
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

ndd_status ndd_find_all(const uint64_t *values, size_t n, uint32_t k, ndd_pairs *pairs) {
    if (k > MAX_DISTANCE) return NDD_BAD_DISTANCE;
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
            status = join_group(&rule, sorted, distinct, UINT64_MAX, NULL);
        }
    }
    memory_close(&copy);
    memory_close(&scratch);
    if (status == NDD_OK) status = sort_pairs(&found);
    if (status != NDD_OK) {
        free(found.items);
        return status;
    }
    free(pairs->items);
    *pairs = found;
    return NDD_OK;
}

/* -------------------------------------------------------------------------------- clusters */

/* Distinct values stand in the order in which they first occur, so the smallest place of a cluster
 * is that of its smallest index. Each place points to one that is smaller, or to itself. */
struct forest {
    struct numbers values;
    uint32_t *parents;
};

static uint32_t find_root(uint32_t *parents, uint32_t place) {
    while (parents[place] != place) {
        parents[place] = parents[parents[place]]; /* halves the way for the next */
        place = parents[place];
    }
    return place;
}

static ndd_status join_trees(void *context, uint64_t a, uint64_t b) {
    struct forest *forest = context;
    uint32_t place_a = 0, place_b = 0;
    (void)numbers_find(&forest->values, a, &place_a);
    (void)numbers_find(&forest->values, b, &place_b);
    uint32_t root_a = find_root(forest->parents, place_a);
    uint32_t root_b = find_root(forest->parents, place_b);
    if (root_a < root_b) forest->parents[root_b] = root_a;
    if (root_b < root_a) forest->parents[root_a] = root_b;
    return NDD_OK;
}

static ndd_status plant(struct forest *forest, const uint64_t *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t place;
        if (numbers_find(&forest->values, values[i], &place)) continue;
        ndd_status status = numbers_make_room(&forest->values);
        if (status != NDD_OK) return status;
        numbers_append(&forest->values, values[i]);
    }
    forest->parents = malloc((size_t)forest->values.count * sizeof *forest->parents + 1);
    if (forest->parents == NULL) return NDD_NO_MEMORY;
    for (uint32_t i = 0; i < forest->values.count; i++) forest->parents[i] = i;
    return NDD_OK;
}

/* Labels by root: a root's label is the index where its value first occurs. */
static ndd_status label(struct forest *forest, const uint64_t *values, size_t n, uint64_t *labels) {
    uint64_t *first = malloc((size_t)forest->values.count * sizeof *first + 1);
    if (first == NULL) return NDD_NO_MEMORY;
    uint32_t known = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t place = 0;
        (void)numbers_find(&forest->values, values[i], &place);
        if (place == known) first[known++] = i;
        labels[i] = first[find_root(forest->parents, place)];
    }
    free(first);
    return NDD_OK;
}

ndd_status ndd_find_clusters(const uint64_t *values, size_t n, uint32_t k, uint64_t *labels) {
    if (k > MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (n > 0 && (values == NULL || labels == NULL)) return NDD_BAD_ARGUMENT;
    struct forest forest = {.parents = NULL};
    numbers_open(&forest.values);
    ndd_status status = plant(&forest, values, n);
    const struct join_rule rule = {k, join_trees, &forest};
    if (status == NDD_OK && k > 0) {
        status = join_group(&rule, forest.values.items, forest.values.count, UINT64_MAX, NULL);
    }
    if (status == NDD_OK) status = label(&forest, values, n, labels);
    free(forest.parents);
    numbers_close(&forest.values);
    return status;
}
