/*
 * Sorting and all pairs at sizes where parts no longer fit a cache. And of a few, compared with a scan.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "design/radix.h"
#include "ndd_bulk.h"
#include "values.h"

enum { N = 200000 };

static uint64_t random_value(int kind) {
    uint64_t value = random_bits(&random_state);
    switch (kind) {
    case 0: return value;                                         /* spread */
    case 1: return value % 16 ? value >> 50 | UINT64_C(7) << 60 : value; /* most in one part */
    case 2: return value >> 62 << 31;                             /* few values, often */
    default: return UINT64_MAX - (value & 1);
    }
}

static void test_many_values_are_sorted_by_a_key_and_equals_keep_their_order(void) {
    uint64_t *values = malloc(N * 8), *scratch = malloc(N * 8);
    static const uint64_t masks[] = {UINT64_MAX >> 1, UINT64_C(0xfffffe0000000000), 0xfff,
                                     UINT64_C(0x0ff0000ffff00f00), UINT64_C(0xffffff)};
    CHECK(values != NULL && scratch != NULL);
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        struct block block = {.mask = masks[m]};
        for (uint32_t bit = 0; bit < 64; bit++) { /* a run for each bit, or for a lone stretch */
            if (!(masks[m] >> bit & 1)) continue;
            uint32_t length = 0;
            while (bit + length < 64 && masks[m] >> (bit + length) & 1) length++;
            block.run[block.runs].shift = bit - block.bits;
            block.run[block.runs++].mask = ((UINT64_C(1) << length) - 1) << block.bits;
            block.bits += length;
            bit += length;
        }
        for (int kind = 0; kind < 4; kind++) {
            uint64_t sum = 0;
            /* Bits outside the key tell the order in which equals came, where there are enough. */
            uint64_t outside = ~masks[m];
            int tells = count_bits(outside) >= 18;
            for (uint64_t i = 0; i < N; i++) {
                uint64_t place = 0, left = outside, number = i;
                for (; number != 0 && left != 0; number >>= 1, left &= left - 1) {
                    if (number & 1) place |= left & (0 - left);
                }
                values[i] = (random_value(kind) & masks[m]) | place;
                sum += values[i];
            }
            uint64_t *sorted = radix_sort(values, scratch, N, &block);
            sum -= sorted[0];
            for (size_t i = 1; i < N; i++) {
                uint64_t a = block_key(&block, sorted[i - 1]), b = block_key(&block, sorted[i]);
                CHECK(a < b || (a == b && (!tells || (sorted[i - 1] & outside) < (sorted[i] & outside))));
                sum -= sorted[i];
            }
            CHECK(sum == 0);
        }
    }
    free(values);
    free(scratch);
}

static void test_numbers_are_sorted_as_numbers(void) {
    uint64_t *values = malloc(N * 8), *scratch = malloc(N * 8);
    CHECK(values != NULL && scratch != NULL);
    for (int kind = 0; kind < 4; kind++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < N; i++) sum += values[i] = random_value(kind);
        uint64_t *sorted = radix_sort(values, scratch, N, NULL);
        for (size_t i = 0; i < N; i++) {
            CHECK(i == 0 || sorted[i - 1] <= sorted[i]);
            sum -= sorted[i];
        }
        CHECK(sum == 0);
    }
    free(values);
    free(scratch);
}

/* Every planted pair among very many values is found, once, and nothing that is too far. */
static void test_planted_pairs_are_found_among_many(void) {
    enum { PLANTED = 1000 };
    uint64_t *values = malloc(N * 8), count;
    const uint64_t *found;
    ndd_pairs *pairs;
    CHECK(values != NULL && ndd_pairs_open(&pairs) == NDD_OK);
    for (uint32_t k = 1; k <= 6; k++) {
        ndd_generate(k, 0, N, values);
        for (uint64_t i = 0; i < PLANTED; i++) { /* every second one a bit too far */
            uint64_t flips = 0;
            uint32_t wanted = k + (i & 1);
            while (count_bits(flips) < (int)wanted) flips |= UINT64_C(1) << random_bits(&random_state) % 64;
            values[N - 1 - i] = values[i] ^ flips;
        }
        values[N / 2] = values[N / 2 + 1] = values[N / 2 - 1];
        CHECK(ndd_find_all(values, N, k, pairs) == NDD_OK);
        ndd_pairs_get(pairs, &found, &count);
        uint64_t planted = 0, repeated = 0;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t a = found[2 * i], b = found[2 * i + 1];
            CHECK(i == 0 || found[2 * i - 2] < a || (found[2 * i - 2] == a && found[2 * i - 1] < b));
            CHECK(a <= b && ndd_distance(a, b) <= (int)k);
            planted += ndd_distance(a, b) == (int)k;
            repeated += a == b;
        }
        CHECK(planted >= PLANTED / 2 && repeated == 1);
        CHECK(count <= PLANTED / 2 + 1 + (k > 5 ? 3000 : 200)); /* those by chance */
    }
    ndd_pairs_close(pairs);
    free(values);
}

/* The parts of all blocks are all pairs. */
static void test_parts_make_up_all_pairs(void) {
    enum { COUNT = 30000, BLOCKS = 64 };
    static uint64_t values[COUNT], masks[BLOCKS];
    ndd_pairs *all, *parts[BLOCKS + 1];
    const uint64_t *found, *runs[BLOCKS + 1];
    uint64_t counts[BLOCKS + 1], total;
    CHECK(ndd_pairs_open(&all) == NDD_OK && ndd_pairs_open(&parts[0]) == NDD_OK);
    for (uint32_t k = 1; k <= 4; k++) {
        for (size_t i = 0; i < COUNT; i++) {
            uint64_t near = values[i / 2] ^ UINT64_C(1) << random_bits(&random_state) % 64;
            values[i] = i % 3 == 0 ? random_bits(&random_state) : near;
        }
        CHECK(ndd_find_all(values, COUNT, k, all) == NDD_OK);
        size_t distinct = 0;
        uint32_t blocks = 0;
        CHECK(ndd_distinct(values, COUNT, parts[0], &distinct) == NDD_OK);
        CHECK(ndd_pair_blocks(distinct, k, masks, BLOCKS, &blocks) == NDD_OK);
        CHECK(blocks > k && blocks <= BLOCKS && distinct <= COUNT);
        ndd_pairs_get(all, &found, &total);
        uint64_t sum = 0, *merged = malloc(total * 16 + 1);
        for (uint32_t i = 0; i <= blocks; i++) {
            if (i > 0) {
                CHECK(ndd_pairs_open(&parts[i]) == NDD_OK);
                CHECK(ndd_find_part(values, distinct, k, masks, blocks, i - 1, parts[i]) == NDD_OK);
            }
            ndd_pairs_get(parts[i], &runs[i], &counts[i]);
            sum += counts[i];
        }
        CHECK(merged != NULL && sum == total && total > COUNT / 4);
        CHECK(ndd_merge_pairs(runs, counts, blocks + 1, merged) == NDD_OK);
        CHECK(memcmp(merged, found, total * 16) == 0);
        free(merged);
        for (uint32_t i = 1; i <= blocks; i++) ndd_pairs_close(parts[i]);
    }
    ndd_pairs_close(parts[0]);
    ndd_pairs_close(all);
}

static void test_wrong_parts_are_refused(void) {
    static const uint64_t values[] = {1, 3, 7, 5}, none[] = {0}, all[] = {UINT64_MAX};
    ndd_pairs *pairs;
    const uint64_t *found;
    uint64_t count;
    CHECK(ndd_pairs_open(&pairs) == NDD_OK);
    CHECK(ndd_find_part(values, 4, 3, none, 1, 0, pairs) == NDD_OK);
    ndd_pairs_get(pairs, &found, &count);
    CHECK(count == 6);
    CHECK(ndd_find_part(values, 4, 16, none, 1, 0, pairs) == NDD_BAD_DISTANCE);
    CHECK(ndd_find_part(values, 4, 3, all, 1, 0, pairs) == NDD_BAD_ARGUMENT);
    CHECK(ndd_find_part(values, 4, 3, none, 1, 1, pairs) == NDD_BAD_ARGUMENT);
    CHECK(ndd_find_part(NULL, 4, 3, none, 1, 0, pairs) == NDD_BAD_ARGUMENT);
    CHECK(ndd_find_part(NULL, 0, 3, none, 1, 0, pairs) == NDD_OK);
    ndd_pairs_close(pairs);
}

/* Where values are crowded, the work stays near that of comparing all: this ends at all. */
static void test_crowded_values_are_joined_in_time(void) {
    enum { COUNT = 6000 };
    static uint64_t values[COUNT];
    ndd_pairs *pairs;
    const uint64_t *found;
    uint64_t count, expected = 0;
    for (uint64_t i = 0; i < COUNT; i++) values[i] = UINT64_C(0xfeedface) << 32 | i * 2;
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = i + 1; j < COUNT; j++) expected += ndd_distance(values[i], values[j]) <= 6;
    }
    CHECK(ndd_pairs_open(&pairs) == NDD_OK && ndd_find_all(values, COUNT, 6, pairs) == NDD_OK);
    ndd_pairs_get(pairs, &found, &count);
    CHECK(count == expected);
    ndd_pairs_close(pairs);
}

struct pair {
    uint64_t a, b;
};

static int compare_pairs(const void *left, const void *right) {
    const struct pair *x = left, *y = right;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b);
}

/* All pairs and clusters of the values are those that comparing each with each gives. */
static void check_pairs(const uint64_t *values, size_t n, uint32_t k) {
    ndd_pairs *found;
    struct pair *expected = malloc(n * n / 2 * sizeof *expected + 1);
    size_t all = 0;
    const uint64_t *pairs;
    uint64_t count;
    uint64_t *labels = malloc(n * 8 + 1), *parents = malloc(n * 8 + 1);
    CHECK(expected != NULL && labels != NULL && parents != NULL && ndd_pairs_open(&found) == NDD_OK);
    for (size_t i = 0; i < n; i++) parents[i] = i;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            if (count_bits(values[i] ^ values[j]) > (int)k) continue;
            int less = values[i] < values[j];
            expected[all++] = (struct pair){less ? values[i] : values[j], less ? values[j] : values[i]};
            size_t a = i, b = j;
            while (parents[a] != a) a = (size_t)parents[a];
            while (parents[b] != b) b = (size_t)parents[b];
            if (a != b) parents[a < b ? b : a] = a < b ? a : b;
        }
    }
    size_t distinct = 0;
    qsort(expected, all, sizeof *expected, compare_pairs);
    for (size_t i = 0; i < all; i++) {
        if (i == 0 || compare_pairs(&expected[i], &expected[i - 1]) != 0) {
            expected[distinct++] = expected[i];
        }
    }
    CHECK(ndd_find_all(values, n, k, found) == NDD_OK);
    ndd_pairs_get(found, &pairs, &count);
    CHECK(count == distinct);
    CHECK(count == 0 || memcmp(pairs, expected, distinct * sizeof(struct pair)) == 0);
    CHECK(ndd_find_clusters(values, n, k, labels) == NDD_OK);
    for (size_t i = 0; i < n; i++) {
        size_t root = i;
        while (parents[root] != root) root = (size_t)parents[root];
        CHECK(labels[i] == root);
    }
    ndd_pairs_close(found);
    free(expected);
    free(labels);
    free(parents);
}

static void test_all_pairs_and_clusters_are_those_of_a_scan(void) {
    enum { SOME = 3000 };
    static uint64_t values[SOME];
    static const size_t sizes[] = {0, 1, 2, 50, 300};
    for (uint32_t k = 0; k <= NDD_MAX_DISTANCE; k++) {
        for (int kind = 0; kind < 5; kind++) {
            size_t n = sizes[(k + (uint32_t)kind) % 5];
            make_values(kind, values, n);
            check_pairs(values, n, k);
        }
    }
    /* Large enough for block designs; crowded data, so that groups are cut again. */
    for (int kind = 0; kind < 4; kind++) {
        for (uint32_t k = 1; k <= 3; k++) {
            make_values(kind, values, SOME);
            if (kind == 2) { /* one group within a group */
                for (size_t i = 0; i < SOME; i++) values[i] = below(1 << 22) << 20 | 0xabcde;
            }
            check_pairs(values, SOME, k);
        }
    }
    make_values(1, values, SOME);
    for (uint32_t k = 4; k <= 8; k += 2) check_pairs(values, SOME, k);
}

int main(void) {
    test_all_pairs_and_clusters_are_those_of_a_scan();
    test_many_values_are_sorted_by_a_key_and_equals_keep_their_order();
    test_numbers_are_sorted_as_numbers();
    test_planted_pairs_are_found_among_many();
    test_parts_make_up_all_pairs();
    test_wrong_parts_are_refused();
    test_crowded_values_are_joined_in_time();
    return 0;
}
