/*
 * The table, its saved form, all pairs and clusters, against plain scans.
 *
 * The sources are part of this program, so that it can make the n-th allocation fail and look
 * inside; what it tests is what the library holds.
 */
#define _DEFAULT_SOURCE

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int64_t allocations_left = -1; /* before one fails, and all after it; negative: none fails */
static int only_one_fails;            /* and those after it do not */

static int may_allocate(void) {
    if (allocations_left < 0) return 1;
    if (allocations_left == 0) {
        if (only_one_fails) allocations_left = -1;
        return 0;
    }
    allocations_left--;
    return 1;
}

static void *test_malloc(size_t n) { return may_allocate() ? malloc(n) : NULL; }
static void *test_calloc(size_t n, size_t size) { return may_allocate() ? calloc(n, size) : NULL; }
static void *test_realloc(void *p, size_t n) { return may_allocate() ? realloc(p, n) : NULL; }

#define malloc test_malloc
#define calloc test_calloc
#define realloc test_realloc
#include "table/answer.c"
#include "base/checksum.c"
#include "bulk/clusters.c"
#include "design/design.c"
#include "design/design_costs.c"
#include "table/documents.c"
#include "bulk/join.c"
#include "design/keying.c"
#include "base/memory.c"
#include "table/numbers.c"
#include "table/pair_sort.c"
#include "bulk/pairs.c"
#include "design/radix.c"
#include "table/table_crowd.c"
#include "table/table_crowd_near.c"
#include "table/table_index.c"
#include "table/table.c"
#include "table/table_format.c"
#include "table/table_lines.c"
#include "table/table_list.c"
#include "table/table_probe.c"
#include "table/trie.c"
#undef malloc
#undef calloc
#undef realloc

static unsigned long long random_state = 0x9e3779b97f4a7c15ULL;

static uint64_t below(uint64_t n) { return random_bits(&random_state) % n; }

static uint64_t flipped(uint64_t value, uint32_t bits) {
    while (bits-- > 0) value ^= UINT64_C(1) << below(64);
    return value;
}

/* Kinds of data: spread, in clusters, crowded in a few bits at one end, the extremes. */
static uint64_t make_value(int kind, const uint64_t *before, size_t n) {
    switch (kind) {
    case 0: return random_bits(&random_state);
    case 1:
        return n < 10 ? random_bits(&random_state) : flipped(before[below(n)], (uint32_t)below(9));
    case 2: return UINT64_C(0xfeedface00000000) | below(1 << 14);
    case 3: return below(1 << 14) << 50 | 0x1234;
    default: return flipped(below(2) ? UINT64_MAX : 0, (uint32_t)below(6));
    }
}

static void make_values(int kind, uint64_t *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i] = make_value(kind, values, i);
}

static void check_valid(const ndd_table *table) {
    const char *reason = "";
    ndd_status status = ndd_table_validate(table, &reason);
    if (status != NDD_OK) fprintf(stderr, "%s\n", reason);
    CHECK(status == NDD_OK);
}

/* ------------------------------------------------------------------------------ the oracle */

struct oracle {
    ndd_match *pairs;
    size_t count, capacity;
};

static int oracle_insert(struct oracle *oracle, uint64_t value, uint64_t document) {
    for (size_t i = 0; i < oracle->count; i++) {
        if (oracle->pairs[i].value == value && oracle->pairs[i].document == document) return 0;
    }
    if (oracle->count == oracle->capacity) {
        oracle->capacity = oracle->capacity * 2 + 16;
        oracle->pairs = realloc(oracle->pairs, oracle->capacity * sizeof *oracle->pairs);
        CHECK(oracle->pairs != NULL);
    }
    oracle->pairs[oracle->count++] = (ndd_match){document, value, 0, 0};
    return 1;
}

static int oracle_remove(struct oracle *oracle, uint64_t value, uint64_t document) {
    for (size_t i = 0; i < oracle->count; i++) {
        if (oracle->pairs[i].value == value && oracle->pairs[i].document == document) {
            oracle->pairs[i] = oracle->pairs[--oracle->count];
            return 1;
        }
    }
    return 0;
}

static int nearer(const void *a, const void *b) {
    const ndd_match *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    if (x->document != y->document) return x->document < y->document ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* The probe of every query gives what a scan gives, for no limit and a few. */
static void check_probes(const ndd_table *table, const struct oracle *oracle,
                         const uint64_t *queries, size_t n, uint32_t k) {
    static const uint64_t limits[] = {0, 1, 3, 1000};
    ndd_match *expected = malloc((oracle->count + 1) * sizeof *expected);
    ndd_answer *answer;
    const uint64_t *offsets;
    const ndd_match *matches;
    CHECK(expected != NULL && ndd_answer_open(&answer) == NDD_OK);
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        CHECK(ndd_table_probe(table, queries, n, limits[l], answer) == NDD_OK);
        ndd_answer_get(answer, &offsets, &matches);
        CHECK(offsets[0] == 0);
        for (size_t i = 0; i < n; i++) {
            size_t count = 0;
            for (size_t j = 0; j < oracle->count; j++) {
                uint32_t distance = (uint32_t)count_bits(oracle->pairs[j].value ^ queries[i]);
                if (distance > k) continue;
                expected[count] = oracle->pairs[j];
                expected[count++].distance = distance;
            }
            qsort(expected, count, sizeof *expected, nearer);
            int cut = limits[l] > 0 && count > limits[l];
            if (cut) count = (size_t)limits[l];
            CHECK(ndd_answer_cut(answer)[i] == cut);
            CHECK(offsets[i + 1] - offsets[i] == count);
            CHECK(count == 0 ||
                  memcmp(expected, matches + offsets[i], count * sizeof *expected) == 0);
        }
    }
    ndd_answer_close(answer);
    free(expected);
}

static ndd_table *table_of(const uint64_t *values, size_t n, uint32_t k) {
    ndd_table *table;
    uint64_t inserted;
    uint64_t *documents = malloc(n * sizeof *documents + 1);
    CHECK(documents != NULL && ndd_table_open(k, &table) == NDD_OK);
    for (size_t i = 0; i < n; i++) documents[i] = i;
    CHECK(ndd_table_insert(table, values, documents, n, &inserted) == NDD_OK && inserted == n);
    free(documents);
    return table;
}

/* ----------------------------------------------------------------------------------- parts */

static void test_checksum_agrees_with_published_implementations(void) {
    uint8_t bytes[101];
    for (uint8_t i = 0; i < sizeof bytes; i++) bytes[i] = i;
    CHECK(checksum(bytes, 0) == UINT64_C(0xef46db3751d8e999));
    CHECK(checksum((const uint8_t *)"a", 1) == UINT64_C(0xd24ec4f1a98c6e5b));
    CHECK(checksum((const uint8_t *)"abc", 3) == UINT64_C(0x44bc2cf5ad770999));
    CHECK(checksum((const uint8_t *)"abcdefgh", 8) == UINT64_C(0x3ad351775b4634b7));
    CHECK(checksum(bytes, 31) == UINT64_C(0xc346d2b59b4d8ee1));
    CHECK(checksum(bytes, 32) == UINT64_C(0xcbf59c5116ff32b4));
    CHECK(checksum(bytes, 101) == UINT64_C(0xe99038495f85381e));
}

static void test_numbers_are_a_set_under_any_inserts_and_removals(void) {
    struct numbers numbers;
    uint8_t there[512] = {0};
    uint32_t place, count = 0;
    numbers_open(&numbers);
    for (int step = 0; step < 20000; step++) {
        uint64_t number = below(512), key = number * UINT64_C(0x100000001);
        if (numbers_find(&numbers, key, &place)) {
            CHECK(there[number] && numbers.items[place] == key);
            numbers_remove(&numbers, place);
            count--;
        } else {
            CHECK(!there[number] && numbers_make_room(&numbers) == NDD_OK);
            numbers_append(&numbers, key);
            count++;
        }
        there[number] = !there[number];
        CHECK(numbers.count == count);
        if (step % 100 == 0) CHECK(numbers_validate(&numbers) == NULL);
    }
    CHECK(numbers_reserve(&numbers, (uint64_t)NUMBERS_MAX + 1) == NDD_TOO_LARGE);
    numbers_close(&numbers);
}

static int finds(const struct design *design, uint64_t difference, int flips) {
    for (uint32_t i = 0; i < design->count; i++) {
        const struct block *block = &design->blocks[i];
        if (flips ? block_finds(block, difference) : (difference & block->mask) == 0) return 1;
    }
    return 0;
}

static void test_designs_find_every_difference_of_up_to_k_bits(void) {
    static const uint64_t sizes[] = {100,     600,      5000,      100000,    3000000,
                                     70000000, 400000000, 2000000000, 4000000000};
    for (uint32_t k = 0; k <= MAX_DISTANCE; k++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct design probes, pairs;
            CHECK(design_for_probes(&probes, sizes[i], k, (ndd_preset)(i % 3)) == NDD_OK);
            CHECK(design_for_pairs(&pairs, sizes[i], UINT64_MAX, k) == NDD_OK);
            for (uint32_t b = 0; b < probes.count; b++) {
                CHECK(probes.blocks[b].bits <= MAX_KEY_BITS);
                CHECK(count_bits(probes.blocks[b].mask) == (int)probes.blocks[b].bits);
                CHECK((probes.blocks[b].flips & ~probes.blocks[b].mask) == 0);
            }
            for (int round = 0; round < 1000; round++) {
                uint64_t difference = 0;
                /* Some spread, some close together, as if aimed at one block. */
                uint64_t first = below(64), reach = 1 + below(64);
                for (uint32_t bit = 0; bit < k; bit++) {
                    difference |= UINT64_C(1) << (first + below(reach)) % 64;
                }
                CHECK(probes.count == 0 || finds(&probes, difference, 1));
                CHECK(pairs.count == 0 || finds(&pairs, difference, 0));
            }
            design_close(&probes);
            design_close(&pairs);
        }
    }
    struct design design;
    CHECK(design_for_probes(&design, 1000000, 3, NDD_AUTO) == NDD_OK && design.count > 0);
    design_close(&design);
    CHECK(design_for_probes(&design, 10, 3, NDD_AUTO) == NDD_OK && design.count == 0);
}

static void test_a_design_for_few_free_bits_uses_only_those(void) {
    for (int round = 0; round < 200; round++) {
        uint64_t free_bits = random_bits(&random_state) & random_bits(&random_state);
        uint32_t k = (uint32_t)below(5);
        struct design design;
        CHECK(design_for_pairs(&design, 100000, free_bits, k) == NDD_OK);
        for (uint32_t b = 0; b < design.count; b++) {
            CHECK((design.blocks[b].mask & ~free_bits) == 0 && design.blocks[b].mask != 0);
        }
        for (int i = 0; i < 100 && design.count > 0; i++) {
            uint64_t difference = 0;
            for (uint32_t bit = 0; bit < k; bit++) difference |= UINT64_C(1) << below(64);
            CHECK(finds(&design, difference & free_bits, 0));
        }
        design_close(&design);
    }
}

static void test_radix_sort_sorts_by_a_key_and_keeps_the_order_of_equals(void) {
    enum { N = 5000 };
    static const size_t sizes[] = {0, 1, 2, 48, 49, N};
    static uint64_t values[N], scratch[N];
    struct block block;
    set_block(&block, UINT64_C(0x00f0ff0000ffe000), 0, 0);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (uint64_t i = 0; i < N; i++) values[i] = random_bits(&random_state) << 13 | i;
        uint64_t *sorted = radix_sort(values, scratch, sizes[s], &block);
        for (size_t i = 1; i < sizes[s]; i++) {
            uint64_t a = block_key(&block, sorted[i - 1]), b = block_key(&block, sorted[i]);
            CHECK(a < b || (a == b && (sorted[i - 1] & 8191) < (sorted[i] & 8191)));
        }
        sorted = radix_sort(sorted, sorted == values ? scratch : values, sizes[s], NULL);
        for (size_t i = 1; i < sizes[s]; i++) CHECK(sorted[i - 1] < sorted[i]);
    }
}

static void test_lines_hold_any_entries_for_any_key(void) {
    enum { N = 700 };
    static const uint64_t masks[] = {1, UINT64_C(0x8000000000000000), 0x7f, UINT64_C(0xfff) << 52,
                                     UINT64_C(0xff00ff) << 20, UINT64_C(0xffffff) << 30,
                                     UINT64_C(0x1ff) << 55 | 0x3ff};
    for (size_t m = 0; m < 4 * sizeof masks / sizeof *masks; m++) {
        struct block block;
        struct lines lines;
        static uint64_t values[N];
        set_block(&block, masks[m / 4], 0, 0);
        block.doubled = (uint32_t)m % 4;
        if (block.bits > 20 && block.doubled > 0) continue; /* memory enough for one */
        CHECK(lines_open(&lines, &block, 64, 3) == NDD_OK);
        CHECK(lines.inside <= BUCKET_MOST && lines_inside(block.bits, block.doubled) == lines.inside);
        for (size_t i = 0; i < N; i++) { /* all in two buckets */
            values[i] = (random_bits(&random_state) & ~block.mask) | (below(2) ? block.mask : 0);
            if (i < 2) values[i] = i == 1 ? UINT64_MAX : ~block.mask;
            uint64_t rest = keying_rest(&lines.keying, values[i]);
            uint32_t bucket = keying_bucket(&lines.keying, values[i]);
            CHECK(rest >> (64 - block.bits) == 0 && bucket >> block.bits == 0);
            CHECK(keying_value(&lines.keying, bucket, rest) == values[i]);
            union line *line = lines_at(&lines, bucket);
            CHECK(lines_make_room(&lines, line, rest) == NDD_OK);
            lines_put(&lines, line, rest);
        }
        for (size_t left = N; left-- > 0;) {
            size_t gone = below(left + 1);
            union line *line = lines_at(&lines, keying_bucket(&lines.keying, values[gone]));
            lines_remove(&lines, line, keying_rest(&lines.keying, values[gone]));
            values[gone] = values[left];
            if (left % 50 != 0) continue;
            struct set_sum sum = {0, 0}, expected = {0, 0};
            uint64_t total = 0, bytes = 0;
            for (size_t i = 0; i < left; i++) set_sum_add(&expected, values[i]);
            for (uint32_t b = 0; b >> block.bits == 0; b++) {
                CHECK(lines_validate(&lines, b, &sum, &total, &bytes) == NULL);
            }
            CHECK(bytes == lines.overflow_bytes && total == left && sum.a == expected.a && sum.b == expected.b);
        }
        CHECK(lines.overflow_bytes == 0);
        lines_close(&lines);
    }
}

static void test_presets_weigh_memory_against_time(void) {
    for (uint32_t k = 1; k <= 7; k++) {
        double bytes[3] = {0, 0, 0};
        for (int preset = 0; preset < 3; preset++) {
            struct design design;
            CHECK(design_for_probes(&design, 100000000, k, (ndd_preset)preset) == NDD_OK);
            for (uint32_t i = 0; i < design.count; i++) {
                bytes[preset] += expect(1e8, design.blocks[i].bits, design.blocks[i].doubled).bytes;
            }
            design_close(&design);
        }
        CHECK(bytes[NDD_COMPACT] <= bytes[NDD_AUTO] && bytes[NDD_AUTO] <= bytes[NDD_FAST]);
        CHECK(k % 4 != 3 || bytes[NDD_COMPACT] < bytes[NDD_FAST]);
    }
}

/* ----------------------------------------------------------------------------------- table */

static void test_a_probe_finds_what_a_scan_finds(void) {
    static const size_t sizes[] = {0, 1, 7, 511, 513, 1100, 5000};
    static uint64_t values[5000], queries[24];
    for (uint32_t k = 0; k <= MAX_DISTANCE; k++) {
        for (int kind = 0; kind < 5; kind++) {
            size_t n = sizes[(k + (uint32_t)kind * 3) % 7];
            struct oracle oracle = {0};
            ndd_table *table;
            CHECK(ndd_table_open_as(k, (ndd_preset)((k + (uint32_t)kind) % 3), &table) == NDD_OK);
            make_values(kind, values, n);
            for (size_t i = 0; i < n; i++) {
                uint64_t inserted, document = below(3) ? i : below(10);
                CHECK(ndd_table_insert(table, &values[i], &document, 1, &inserted) == NDD_OK);
                CHECK((int)inserted == oracle_insert(&oracle, values[i], document));
            }
            check_valid(table);
            for (int i = 0; i < 24; i++) {
                uint64_t near = n > 0 && below(4) ? values[below(n)] : make_value(kind, values, n);
                queries[i] = flipped(near, (uint32_t)below(k + 2));
            }
            queries[0] = 0;
            queries[1] = UINT64_MAX;
            check_probes(table, &oracle, queries, 24, k);
            ndd_table_close(table);
            free(oracle.pairs);
        }
    }
}

static void test_a_probe_of_a_larger_table_finds_what_a_scan_finds(void) {
    enum { N = 36000 };
    static uint64_t values[N], queries[6];
    for (uint32_t k = 0; k <= 8; k++) {
        for (int preset = 0; preset < 3; preset++) {
            struct oracle oracle = {0};
            ndd_table *table;
            uint64_t inserted;
            int kind = (int)(k + (uint32_t)preset) % 5;
            CHECK(ndd_table_open_as(k, (ndd_preset)preset, &table) == NDD_OK);
            make_values(kind == 0 ? 0 : 1, values, N / 2);
            make_values(kind, values + N / 2, N / 2);
            oracle.pairs = malloc(N * sizeof *oracle.pairs);
            CHECK(oracle.pairs != NULL);
            ndd_table_expect(table, preset == 1 ? N : 0);
            for (size_t i = 0; i < N; i += 6000) {
                uint64_t documents[6000];
                for (uint64_t j = 0; j < 6000; j++) {
                    documents[j] = i + j;
                    oracle.pairs[oracle.count++] = (ndd_match){i + j, values[i + j], 0, 0};
                }
                CHECK(ndd_table_insert(table, values + i, documents, 6000, &inserted) == NDD_OK);
                CHECK(inserted == 6000);
            }
            for (int i = 0; i < 6; i++) queries[i] = flipped(values[below(N)], (uint32_t)below(k + 2));
            check_valid(table);
            check_probes(table, &oracle, queries, 6, k);
            for (uint64_t i = 0; i < N - 100; i++) { /* shrinks to almost nothing */
                int removed;
                CHECK(ndd_table_remove(table, values[i], i, &removed) == NDD_OK && removed);
            }
            memmove(oracle.pairs, oracle.pairs + N - 100, 100 * sizeof *oracle.pairs);
            oracle.count = 100;
            check_valid(table);
            check_probes(table, &oracle, queries, 6, k);
            ndd_table_close(table);
            free(oracle.pairs);
        }
    }
}

static void test_every_processor_finds_the_same_values(void) {
    enum { N = 30000, QUERIES = 200 };
    static uint64_t values[N];
    uint64_t queries[QUERIES];
    for (uint32_t k = 1; k <= 7; k += 2) {
        ndd_answer *plain, *best;
        make_values(1, values, N);
        for (size_t i = 0; i < N; i++) values[i] ^= i << 40; /* mostly distinct */
        ndd_table *table = table_of(values, N, k);
        finder *find = best_finder(table);
        CHECK(table->index.design.count > 0);
        CHECK(ndd_answer_open(&plain) == NDD_OK && ndd_answer_open(&best) == NDD_OK);
        for (int i = 0; i < QUERIES; i++) queries[i] = flipped(values[below(N)], (uint32_t)below(k + 2));
        CHECK(find_values_plain(table, queries, QUERIES, plain) == NDD_OK);
        CHECK(find(table, queries, QUERIES, best) == NDD_OK);
        CHECK(plain->found_count > 0 && plain->found_count == best->found_count);
        CHECK(memcmp(plain->found, best->found, plain->found_count * sizeof *plain->found) == 0);
        ndd_answer_close(plain);
        ndd_answer_close(best);
        ndd_table_close(table);
    }
}

static void test_inserts_and_removals_keep_every_rule(void) {
    for (int kind = 0; kind < 5; kind++) {
        for (uint32_t k = 0; k <= 9; k += 3) {
            struct oracle oracle = {0};
            ndd_table *table;
            ndd_table_stats stats;
            uint64_t pool[700], queries[8];
            CHECK(ndd_table_open_as(k, (ndd_preset)(kind % 3), &table) == NDD_OK);
            if (kind % 2) CHECK(ndd_table_reserve(table, 5000) == NDD_OK); /* an index at once */
            make_values(kind, pool, 700);
            for (int step = 0; step < 4000; step++) {
                uint64_t value = pool[below(700)], document = below(6), inserted;
                int removed, growing = step < 2500;
                if (below(10) < (growing ? 7 : 2)) {
                    CHECK(ndd_table_insert(table, &value, &document, 1, &inserted) == NDD_OK);
                    CHECK((int)inserted == oracle_insert(&oracle, value, document));
                } else {
                    CHECK(ndd_table_remove(table, value, document, &removed) == NDD_OK);
                    CHECK(removed == oracle_remove(&oracle, value, document));
                }
                if (step % 500 != 0) continue;
                check_valid(table);
                for (int i = 0; i < 8; i++) queries[i] = flipped(pool[below(700)], k);
                check_probes(table, &oracle, queries, 8, k);
                ndd_table_stats_get(table, &stats);
                CHECK(stats.documents == oracle.count && stats.k == k);
            }
            while (oracle.count > 0) {
                int removed;
                ndd_match pair = oracle.pairs[oracle.count - 1];
                CHECK(ndd_table_remove(table, pair.value, pair.document, &removed) == NDD_OK);
                CHECK(removed && oracle_remove(&oracle, pair.value, pair.document));
            }
            check_valid(table);
            ndd_table_stats_get(table, &stats);
            CHECK(stats.values == 0 && stats.documents == 0);
            ndd_table_close(table);
            free(oracle.pairs);
        }
    }
}

static void test_one_value_may_have_very_many_documents(void) {
    enum { N = 200000 };
    uint64_t *values = calloc(N, 8), *documents = malloc(N * 8), inserted;
    const uint64_t *offsets, query = 1;
    const ndd_match *matches;
    ndd_table *table;
    ndd_answer *answer;
    CHECK(values != NULL && documents != NULL && ndd_answer_open(&answer) == NDD_OK);
    for (uint64_t i = 0; i < N; i++) documents[i] = i * 7919 % N;
    CHECK(ndd_table_open(3, &table) == NDD_OK);
    CHECK(ndd_table_insert(table, values, documents, N, &inserted) == NDD_OK && inserted == N);
    CHECK(ndd_table_insert(table, values, documents, N, &inserted) == NDD_OK && inserted == 0);
    check_valid(table);
    CHECK(ndd_table_probe(table, &query, 1, 0, answer) == NDD_OK);
    ndd_answer_get(answer, &offsets, &matches);
    CHECK(offsets[1] == N);
    for (uint64_t i = 0; i < N; i++) CHECK(matches[i].document == i && matches[i].distance == 1);
    CHECK(ndd_table_probe(table, &query, 1, 10, answer) == NDD_OK);
    ndd_answer_get(answer, &offsets, &matches);
    CHECK(offsets[1] == 10);
    for (uint64_t i = 0; i < 10; i++) CHECK(matches[i].document == i);
    for (uint64_t i = 0; i < N; i++) {
        int removed;
        CHECK(ndd_table_remove(table, 0, documents[i], &removed) == NDD_OK && removed);
    }
    check_valid(table);
    ndd_table_close(table);
    ndd_answer_close(answer);
    free(values);
    free(documents);
}

static void test_a_table_that_was_loaded_goes_on_as_the_one_that_was_saved(void) {
    static uint64_t values[3000];
    for (int kind = 0; kind < 5; kind++) {
        make_values(kind, values, 3000);
        ndd_table *table, *loaded;
        CHECK(ndd_table_open(3, &table) == NDD_OK);
        struct oracle oracle = {0};
        for (size_t i = 0; i < 3000; i++) {
            uint64_t document = below(50), inserted;
            CHECK(ndd_table_insert(table, &values[i], &document, 1, &inserted) == NDD_OK);
            (void)oracle_insert(&oracle, values[i], document);
        }
        uint64_t size = ndd_table_saved_size(table), note = 0, inserted;
        uint8_t *bytes = malloc((size_t)size), *again = malloc((size_t)size);
        const char *reason = NULL;
        CHECK(bytes != NULL && again != NULL);
        CHECK(ndd_table_save(table, UINT64_MAX - 5, bytes, size) == NDD_OK);
        for (uint32_t k = 0; k <= 15; k += 5) {
            CHECK(ndd_table_load(bytes, size, k, &loaded, &note, &reason) == NDD_OK);
            CHECK(note == UINT64_MAX - 5);
            check_probes(loaded, &oracle, values + 100, 5, k);
            CHECK(ndd_table_saved_size(loaded) == size);
            CHECK(ndd_table_save(loaded, note, again, size) == NDD_OK);
            CHECK(memcmp(bytes, again, (size_t)size) == 0);
            CHECK(ndd_table_insert(loaded, values, values, 3000, &inserted) == NDD_OK);
            check_valid(loaded);
            ndd_table_close(loaded);
        }
        CHECK(ndd_table_save(table, 0, bytes, size - 1) == NDD_BAD_ARGUMENT);
        ndd_table_close(table);
        free(bytes);
        free(again);
        free(oracle.pairs);
    }
}

/* Pairs that follow a load, or a large insert, find room and a design that serves, in every preset. */
static void test_inserts_after_a_load_or_a_large_insert_make_nothing_anew(void) {
    enum { N = 6000, MORE = N / 32 };
    static uint64_t values[N + MORE], documents[N + MORE];
    make_values(0, values, N + MORE);
    for (uint32_t preset = NDD_AUTO; preset <= NDD_FAST; preset++) {
        ndd_table *tables[2];
        uint64_t inserted, note;
        const char *reason;
        CHECK(ndd_table_open_as(3, (ndd_preset)preset, &tables[0]) == NDD_OK);
        CHECK(ndd_table_insert(tables[0], values, documents, N, &inserted) == NDD_OK);
        uint64_t size = ndd_table_saved_size(tables[0]);
        uint8_t *bytes = malloc((size_t)size);
        CHECK(bytes != NULL && ndd_table_save(tables[0], 1, bytes, size) == NDD_OK);
        CHECK(ndd_table_load_as(bytes, size, 3, (ndd_preset)preset, &tables[1], &note, &reason) == NDD_OK);
        for (int i = 0; i < 2; i++) {
            uint64_t made = tables[i]->index_made;
            uint32_t capacity = tables[i]->values.capacity;
            CHECK(tables[i]->index.design.count > 0);
            CHECK(ndd_table_insert(tables[i], values + N, documents, MORE, &inserted) == NDD_OK);
            CHECK(inserted == MORE && tables[i]->index_made == made);
            CHECK(tables[i]->values.capacity == capacity);
            check_valid(tables[i]);
            ndd_table_close(tables[i]);
        }
        free(bytes);
    }
}

/* Calls of any size make the arrays grow seldom: what they cost is shared by many inserts. */
static void test_small_calls_do_not_make_a_table_grow_often(void) {
    enum { N = 60000, EACH = 200 };
    static uint64_t values[N], documents[N];
    make_values(0, values, N);
    for (uint32_t preset = NDD_AUTO; preset <= NDD_FAST; preset++) {
        ndd_table *table;
        uint64_t inserted, grown = 0;
        CHECK(ndd_table_open_as(3, (ndd_preset)preset, &table) == NDD_OK);
        for (size_t i = 0; i < N; i += EACH) {
            uint32_t capacity = table->values.capacity;
            CHECK(ndd_table_insert(table, values + i, documents, EACH, &inserted) == NDD_OK);
            grown += i >= N / 4 && table->values.capacity != capacity;
        }
        CHECK(grown <= 5 && table->index_made <= 12);
        ndd_table_close(table);
    }
}

/* --------------------------------------------------------------------------------- refusals */

static void put_sums(uint8_t *bytes, size_t size) {
    store_le(bytes + AT_CHECKSUM, checksum(bytes, AT_CHECKSUM), 8);
    store_le(bytes + size - TRAILER, checksum(bytes, size - TRAILER), 8);
}

static ndd_status load_status(const uint8_t *bytes, size_t size) {
    ndd_table *table = NULL;
    uint64_t note = 4711;
    const char *reason = NULL;
    uint8_t *exact = malloc(size + 1);
    CHECK(exact != NULL);
    if (size > 0) memcpy(exact, bytes, size);
    ndd_status status = ndd_table_load(exact, size, 3, &table, &note, &reason);
    if (status != NDD_OK) {
        CHECK(table == NULL && note == 4711 && reason != NULL && reason[0] != '\0');
    }
    ndd_table_close(table);
    free(exact);
    return status;
}

static void test_every_flipped_bit_and_every_cut_is_refused(void) {
    uint64_t values[] = {5, 5, 5, 77, UINT64_MAX}, documents[] = {1, 2, 3, 2, 0}, inserted;
    ndd_table *table;
    CHECK(ndd_table_open(3, &table) == NDD_OK);
    CHECK(ndd_table_insert(table, values, documents, 5, &inserted) == NDD_OK && inserted == 5);
    size_t size = (size_t)ndd_table_saved_size(table);
    uint8_t bytes[256];
    CHECK(size == 64 + 3 * 8 + 16 + 5 * 8 + 8 && size < sizeof bytes);
    CHECK(ndd_table_save(table, 9, bytes, size) == NDD_OK);
    CHECK(load_status(bytes, size) == NDD_OK);
    for (size_t cut = 0; cut < size; cut++) CHECK(load_status(bytes, cut) == NDD_CUT);
    for (size_t i = 0; i < 8 * size; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        CHECK(load_status(bytes, size) == (i < 64   ? NDD_BAD_FORMAT
                                           : i < 96 ? NDD_BAD_VERSION
                                                    : NDD_DAMAGED));
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    bytes[size] = 0;
    CHECK(load_status(bytes, size + 1) == NDD_DAMAGED);
    ndd_table_close(table);
}

static void test_bytes_with_right_checksums_and_wrong_content_are_refused(void) {
    uint64_t values[] = {5, 5, 5, 77, UINT64_MAX}, documents[] = {1, 2, 3, 2, 0}, inserted;
    static const struct {
        size_t at;
        uint64_t number;
        ndd_status status;
    } wrongs[] = {
        {AT_ZEROS, 1, NDD_DAMAGED},           {AT_VALUES, 4, NDD_CUT},
        {AT_VALUES, 2, NDD_DAMAGED},          {AT_VALUES, UINT64_MAX, NDD_CUT},
        {AT_VALUES, UINT64_MAX / 8 + 2, NDD_CUT}, {AT_PAIRS, UINT64_MAX / 8 - 3, NDD_CUT},
        {AT_SEVERAL, UINT64_MAX / 16, NDD_CUT},   {64, 77, NDD_DAMAGED},
        {64, 78, NDD_DAMAGED},                {88, 1, NDD_DAMAGED},
        {88, 3, NDD_DAMAGED},                 {88, UINT64_MAX, NDD_DAMAGED},
        {96, 0, NDD_DAMAGED},                 {96, 1, NDD_DAMAGED},
        {96, 2, NDD_DAMAGED},                 {96, 4, NDD_DAMAGED},
        {96, UINT64_MAX, NDD_DAMAGED},        {104, 2, NDD_DAMAGED},
        {104, 9, NDD_DAMAGED},                {112, 1, NDD_DAMAGED},
        {72, 78, NDD_OK},                     {88, 1, NDD_DAMAGED},
    };
    ndd_table *table;
    CHECK(ndd_table_open(3, &table) == NDD_OK);
    CHECK(ndd_table_insert(table, values, documents, 5, &inserted) == NDD_OK);
    size_t size = (size_t)ndd_table_saved_size(table);
    uint8_t bytes[256], wrong[256];
    CHECK(ndd_table_save(table, 9, bytes, size) == NDD_OK);
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        memcpy(wrong, bytes, size);
        store_le(wrong + wrongs[i].at, wrongs[i].number, 8);
        put_sums(wrong, size);
        CHECK(load_status(wrong, size) == wrongs[i].status);
    }
    ndd_table_close(table);
}

static void test_arguments_outside_what_is_stated_are_refused(void) {
    ndd_table *table = NULL, *loaded = NULL;
    ndd_answer *answer;
    ndd_pairs *pairs;
    uint64_t number = 0;
    const char *reason = NULL;
    CHECK(ndd_table_open(16, &table) == NDD_BAD_DISTANCE && table == NULL);
    CHECK(ndd_table_open_as(3, (ndd_preset)3, &table) == NDD_BAD_ARGUMENT && table == NULL);
    CHECK(ndd_table_open(15, &table) == NDD_OK);
    CHECK(ndd_answer_open(&answer) == NDD_OK && ndd_pairs_open(&pairs) == NDD_OK);
    CHECK(ndd_table_insert(table, NULL, &number, 1, &number) == NDD_BAD_ARGUMENT);
    CHECK(ndd_table_probe(table, NULL, 1, 0, answer) == NDD_BAD_ARGUMENT);
    CHECK(ndd_table_probe(table, NULL, 0, 0, answer) == NDD_OK);
    CHECK(ndd_table_reserve(table, UINT64_C(1) << 40) == NDD_TOO_LARGE);
    CHECK(ndd_table_load(NULL, 0, 16, &loaded, &number, &reason) == NDD_BAD_DISTANCE);
    CHECK(ndd_table_load(NULL, 8, 3, &loaded, &number, &reason) == NDD_BAD_ARGUMENT);
    CHECK(ndd_table_load(NULL, 0, 3, &loaded, &number, &reason) == NDD_CUT);
    CHECK(ndd_find_all(&number, 1, 16, pairs) == NDD_BAD_DISTANCE);
    CHECK(ndd_find_all(NULL, 1, 3, pairs) == NDD_BAD_ARGUMENT);
    CHECK(ndd_find_all(NULL, 0, 3, pairs) == NDD_OK);
    CHECK(ndd_find_clusters(&number, 1, 16, &number) == NDD_BAD_DISTANCE);
    CHECK(ndd_find_clusters(NULL, 1, 3, &number) == NDD_BAD_ARGUMENT);
    CHECK(ndd_find_clusters(NULL, 0, 3, NULL) == NDD_OK);
    const uint64_t *offsets;
    const ndd_match *matches;
    ndd_answer_get(answer, &offsets, &matches);
    CHECK(offsets[0] == 0);
    ndd_table_close(table);
    ndd_table_close(NULL);
    ndd_answer_close(answer);
    ndd_answer_close(NULL);
    ndd_pairs_close(pairs);
    ndd_pairs_close(NULL);
}

/* ---------------------------------------------------------------------- failing allocations */

static void test_an_insert_without_memory_keeps_what_it_counts(void) {
    static uint64_t values[1500], documents[1500];
    make_values(2, values, 1500); /* crowded: buckets beyond their lines */
    for (size_t i = 0; i < 1500; i++) documents[i] = i % 7;
    int64_t fail_at = 0;
    for (ndd_status status = NDD_NO_MEMORY; status != NDD_OK; fail_at += 1 + fail_at / 20) {
        ndd_table *table;
        struct oracle oracle = {0};
        uint64_t inserted = 0, count = 0;
        CHECK(ndd_table_open(3, &table) == NDD_OK);
        allocations_left = fail_at;
        status = ndd_table_insert(table, values, documents, 1500, &inserted);
        allocations_left = -1;
        CHECK(status == NDD_OK || status == NDD_NO_MEMORY);
        for (size_t i = 0; i < 1500 && count < inserted; i++) {
            count += (uint64_t)oracle_insert(&oracle, values[i], documents[i]);
        }
        check_valid(table);
        check_probes(table, &oracle, values, 4, 3);
        /* It goes on where it stopped. */
        CHECK(ndd_table_insert(table, values, documents, 1500, &inserted) == NDD_OK);
        for (size_t i = 0; i < 1500; i++) (void)oracle_insert(&oracle, values[i], documents[i]);
        check_valid(table);
        check_probes(table, &oracle, values, 4, 3);
        ndd_table_close(table);
        free(oracle.pairs);
    }
    CHECK(fail_at > 20);
}

static void test_every_other_call_without_memory_leaves_its_handles_as_they_were(void) {
    enum { N = 6000 };
    static uint64_t values[N], labels[N], queries[300];
    make_values(1, values, N);
    for (size_t i = 0; i < N; i++) values[i] ^= i; /* mostly distinct */
    ndd_table *table = table_of(values, N, 3), *other = NULL;
    ndd_answer *answer;
    ndd_pairs *pairs;
    ndd_table_stats before, after;
    uint64_t size = ndd_table_saved_size(table), note;
    uint8_t *bytes = malloc((size_t)size);
    const char *reason;
    CHECK(bytes != NULL && ndd_table_save(table, 1, bytes, size) == NDD_OK);
    memcpy(queries, values, sizeof queries);
    for (int call = 0; call < 9; call++) {
        int64_t fail_at = 0;
        for (ndd_status status = NDD_NO_MEMORY; status != NDD_OK; fail_at += 1 + fail_at / 8) {
            CHECK(ndd_answer_open(&answer) == NDD_OK && ndd_pairs_open(&pairs) == NDD_OK);
            ndd_answer *opened_answer = NULL;
            ndd_pairs *opened_pairs = NULL;
            other = NULL;
            ndd_table_stats_get(table, &before);
            allocations_left = fail_at;
            switch (call) {
            case 0: status = ndd_table_open(3, &other); break;
            case 1: status = ndd_answer_open(&opened_answer); break;
            case 2: status = ndd_pairs_open(&opened_pairs); break;
            case 3: status = ndd_table_probe(table, queries, 300, 0, answer); break;
            case 4: status = ndd_table_save(table, 1, bytes, size); break;
            case 5: status = ndd_table_load(bytes, size, 6, &other, &note, &reason); break;
            case 6: status = ndd_find_all(values, N, 3, pairs); break;
            case 7: status = ndd_find_clusters(values, N, 3, labels); break;
            default: status = ndd_table_reserve(table, N * 4);
            }
            allocations_left = -1;
            CHECK(status == NDD_OK || (status == NDD_NO_MEMORY && other == NULL));
            ndd_table_stats_get(table, &after);
            CHECK(after.documents == before.documents && after.values == before.values);
            if (fail_at < 20) check_valid(table);
            ndd_answer_close(answer);
            ndd_answer_close(opened_answer);
            ndd_pairs_close(pairs);
            ndd_pairs_close(opened_pairs);
            ndd_table_close(other);
        }
        CHECK(fail_at > 1);
    }
    free(bytes);
    ndd_table_close(table);
}

static void test_a_table_without_memory_for_a_better_design_keeps_its_own(void) {
    enum { N = 1200 };
    static uint64_t values[N];
    make_values(0, values, N);
    ndd_table *table = table_of(values, SCANNED, 3);
    struct oracle oracle = {0};
    CHECK(ndd_table_reserve(table, SCANNED) == NDD_OK);
    CHECK(numbers_reserve(&table->values, N) == NDD_OK);
    CHECK(documents_reserve(&table->documents, N) == NDD_OK);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t inserted;
        allocations_left = 0;
        CHECK(ndd_table_insert(table, &values[i], &i, 1, &inserted) == NDD_OK);
        allocations_left = -1;
        CHECK(inserted == (i >= SCANNED) && oracle_insert(&oracle, values[i], i));
    }
    CHECK(table->index.design.count == 0);
    check_valid(table);
    check_probes(table, &oracle, values + 300, 10, 3);
    ndd_table_close(table);
    free(oracle.pairs);
}

/* Whatever fails while an index is made anew, the pair is in, and what is within k is found. */
static void test_growth_without_memory_loses_nothing(void) {
    enum { N = 1400 };
    static uint64_t values[N];
    make_values(0, values, N);
    int scanned = 0, kept = 0, grown = 0;
    for (int left = 0; left < 48; left++) {
        only_one_fails = left & 1;
        struct oracle oracle = {0};
        ndd_table *table;
        CHECK(ndd_table_open(3, &table) == NDD_OK);
        CHECK(numbers_reserve(&table->values, N) == NDD_OK);
        CHECK(documents_reserve(&table->documents, N) == NDD_OK);
        uint64_t made = 0;
        for (uint64_t i = 0; i < N; i++) {
            uint64_t inserted;
            int grows = table->values.count == table->index_limit && table->index.design.count > 0;
            if (grows) {
                made = table->index_room;
                allocations_left = left / 2;
            }
            CHECK(ndd_table_insert(table, &values[i], &i, 1, &inserted) == NDD_OK && inserted == 1);
            allocations_left = -1;
            CHECK(oracle_insert(&oracle, values[i], i));
            if (!grows) continue;
            scanned += table->index.design.count == 0;
            kept += table->index.design.count > 0 && table->index_room == made;
            grown += table->index_room > made;
            check_valid(table);
        }
        check_probes(table, &oracle, values + 300, 10, 3);
        ndd_table_close(table);
        free(oracle.pairs);
    }
    only_one_fails = 0;
    CHECK(scanned > 0 && kept > 0 && grown > 0);
}

/* --------------------------------------------------------------------------------- validate */

static const char *broken_rule(const ndd_table *table) {
    const char *reason = NULL;
    CHECK(ndd_table_validate(table, &reason) == NDD_DAMAGED && reason != NULL);
    return reason;
}

static void test_validate_names_the_rule_that_is_broken(void) {
    static uint64_t values[3000];
    make_values(0, values, 3000);
    ndd_table *table = table_of(values, 3000, 3);
    uint64_t one = 1, inserted;
    CHECK(ndd_table_insert(table, values, &one, 1, &inserted) == NDD_OK && inserted == 1);
    check_valid(table);
    CHECK(table->index.design.count > 1);
    table->pairs++;
    CHECK(strcmp(broken_rule(table), "the documents are miscounted") == 0);
    table->pairs--;
    table->values.items[7] ^= 1;
    CHECK(strcmp(broken_rule(table), "a number is not in the map") == 0);
    table->values.items[7] ^= 1;
    table->documents.set_bytes++;
    CHECK(strcmp(broken_rule(table), "the memory of the documents is miscounted") == 0);
    table->documents.set_bytes--;
    struct lines *lines = &table->index.lines[1];
    union line *line = index_line(&table->index, 1, values[5]);
    for (int i = 6; line->head > lines->inside; i++) { /* a bucket that lies in its lines */
        CHECK(i < 3000);
        line = index_line(&table->index, 1, values[i]);
    }
    CHECK(line->head > 0);
    line->head--;
    CHECK(strcmp(broken_rule(table), "the index has not as many values as the table") == 0);
    line->head++;
    line_entries(line)[0] ^= 1;
    CHECK(strcmp(broken_rule(table), "the index has other values") == 0);
    line_entries(line)[0] ^= 1;
    uint64_t head = line->head;
    line->head = lines->inside + 1;
    CHECK(strcmp(broken_rule(table), "a bucket is fuller than its lines") == 0);
    line->head = head;
    lines->overflow_bytes += 8;
    CHECK(strcmp(broken_rule(table), "the memory of the buckets is miscounted") == 0);
    lines->overflow_bytes -= 8;
    check_valid(table);
    ndd_table_close(table);
}

/* -------------------------------------------------------------------------------- all pairs */

static void check_pairs(const uint64_t *values, size_t n, uint32_t k) {
    ndd_pairs *found, expected = {NULL, 0, 0};
    const uint64_t *pairs;
    uint64_t count;
    uint64_t *labels = malloc(n * 8 + 1), *parents = malloc(n * 8 + 1);
    CHECK(labels != NULL && parents != NULL && ndd_pairs_open(&found) == NDD_OK);
    for (size_t i = 0; i < n; i++) parents[i] = i;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            if (count_bits(values[i] ^ values[j]) > (int)k) continue;
            int less = values[i] < values[j];
            CHECK(keep_pair(&expected, less ? values[i] : values[j],
                            less ? values[j] : values[i]) == NDD_OK);
            size_t a = i, b = j;
            while (parents[a] != a) a = (size_t)parents[a];
            while (parents[b] != b) b = (size_t)parents[b];
            if (a != b) parents[a < b ? b : a] = a < b ? a : b;
        }
    }
    size_t distinct = 0;
    if (expected.count > 0) {
        qsort(expected.items, expected.count, sizeof *expected.items, compare_pairs);
    }
    for (size_t i = 0; i < expected.count; i++) {
        if (i == 0 || compare_pairs(&expected.items[i], &expected.items[i - 1]) != 0) {
            expected.items[distinct++] = expected.items[i];
        }
    }
    CHECK(ndd_find_all(values, n, k, found) == NDD_OK);
    ndd_pairs_get(found, &pairs, &count);
    CHECK(count == distinct);
    CHECK(count == 0 || memcmp(pairs, expected.items, distinct * sizeof(struct pair)) == 0);
    CHECK(ndd_find_clusters(values, n, k, labels) == NDD_OK);
    for (size_t i = 0; i < n; i++) {
        size_t root = i;
        while (parents[root] != root) root = (size_t)parents[root];
        CHECK(labels[i] == root);
    }
    ndd_pairs_close(found);
    free(expected.items);
    free(labels);
    free(parents);
}

static void test_all_pairs_and_clusters_are_those_of_a_scan(void) {
    enum { N = 3000 };
    static uint64_t values[N];
    static const size_t sizes[] = {0, 1, 2, 50, 300};
    for (uint32_t k = 0; k <= MAX_DISTANCE; k++) {
        for (int kind = 0; kind < 5; kind++) {
            size_t n = sizes[(k + (uint32_t)kind) % 5];
            make_values(kind, values, n);
            check_pairs(values, n, k);
        }
    }
    /* Large enough for block designs; crowded data, so that groups are cut again. */
    for (int kind = 0; kind < 4; kind++) {
        for (uint32_t k = 1; k <= 3; k++) {
            make_values(kind, values, N);
            if (kind == 2) { /* one group within a group */
                for (size_t i = 0; i < N; i++) values[i] = below(1 << 22) << 20 | 0xabcde;
            }
            check_pairs(values, N, k);
        }
    }
    make_values(1, values, N);
    for (uint32_t k = 4; k <= 8; k += 2) check_pairs(values, N, k);
}

int main(void) {
    test_checksum_agrees_with_published_implementations();
    test_numbers_are_a_set_under_any_inserts_and_removals();
    test_designs_find_every_difference_of_up_to_k_bits();
    test_a_design_for_few_free_bits_uses_only_those();
    test_radix_sort_sorts_by_a_key_and_keeps_the_order_of_equals();
    test_lines_hold_any_entries_for_any_key();
    test_presets_weigh_memory_against_time();
    test_a_probe_finds_what_a_scan_finds();
    test_a_probe_of_a_larger_table_finds_what_a_scan_finds();
    test_every_processor_finds_the_same_values();
    test_inserts_and_removals_keep_every_rule();
    test_one_value_may_have_very_many_documents();
    test_a_table_that_was_loaded_goes_on_as_the_one_that_was_saved();
    test_inserts_after_a_load_or_a_large_insert_make_nothing_anew();
    test_small_calls_do_not_make_a_table_grow_often();
    test_every_flipped_bit_and_every_cut_is_refused();
    test_bytes_with_right_checksums_and_wrong_content_are_refused();
    test_arguments_outside_what_is_stated_are_refused();
    test_an_insert_without_memory_keeps_what_it_counts();
    test_every_other_call_without_memory_leaves_its_handles_as_they_were();
    test_a_table_without_memory_for_a_better_design_keeps_its_own();
    test_growth_without_memory_loses_nothing();
    test_validate_names_the_rule_that_is_broken();
    test_all_pairs_and_clusters_are_those_of_a_scan();
    return 0;
}
