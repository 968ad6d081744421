/* Clusters: the connected components of all pairs within distance k, by union-find (join.h). */
#include <stdlib.h>

#include "bulk/join.h"
#include "ndd_bulk.h"
#include "table/numbers.h"

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
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (n > 0 && (values == NULL || labels == NULL)) return NDD_BAD_ARGUMENT;
    struct forest forest = {.parents = NULL};
    numbers_open(&forest.values);
    ndd_status status = plant(&forest, values, n);
    const struct join_rule rule = {k, join_trees, &forest};
    if (status == NDD_OK && k > 0) {
        status = join_all(&rule, forest.values.items, forest.values.count);
    }
    if (status == NDD_OK) status = label(&forest, values, n, labels);
    free(forest.parents);
    numbers_close(&forest.values);
    return status;
}
