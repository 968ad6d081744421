/* The table against a plain list: what it finds, inserts and removals, growth. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "instrumented.h"
#include "table/answer.h"
#include "table/table.h"
#include "table_oracle.h"

static void test_a_probe_finds_what_a_scan_finds(void) {
    static const size_t sizes[] = {0, 1, 7, 511, 513, 1100, 5000};
    static uint64_t values[5000], queries[24];
    for (uint32_t k = 0; k <= NDD_MAX_DISTANCE; k += SIZED(3, 1)) {
        for (int kind = 0; kind < 5; kind++) {
            size_t n = sizes[(k + (uint32_t)kind * 3) % 7];
            struct oracle oracle = {0};
            ndd_table *table;
            CHECK(ndd_table_open(k, (ndd_preset)((k + (uint32_t)kind) % 2), &table) == NDD_OK);
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
    for (uint32_t k = 0; k <= 8; k += SIZED(3, 1)) {
        for (int preset = 0; preset < 2; preset++) {
            struct oracle oracle = {0};
            ndd_table *table;
            uint64_t inserted;
            int kind = (int)(k + (uint32_t)preset) % 5;
            CHECK(ndd_table_open(k, (ndd_preset)preset, &table) == NDD_OK);
            make_values(kind == 0 ? 0 : 1, values, N / 2);
            make_values(kind, values + N / 2, N / 2);
            oracle.pairs = malloc(N * sizeof *oracle.pairs);
            CHECK(oracle.pairs != NULL);
            ndd_table_expect(table, values, preset == 1 ? N : 0);
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
        CHECK(table->index.design.count > 0);
        CHECK(ndd_answer_open(&plain) == NDD_OK && ndd_answer_open(&best) == NDD_OK);
        for (int i = 0; i < QUERIES; i++) queries[i] = flipped(values[below(N)], (uint32_t)below(k + 2));
        CHECK(ndd_table_probe(table, queries, QUERIES, 0, best) == NDD_OK);
        without_lanes = 1;
        CHECK(ndd_table_probe(table, queries, QUERIES, 0, plain) == NDD_OK);
        without_lanes = 0;
        check_same(plain, best, QUERIES);
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
            CHECK(ndd_table_open(k, (ndd_preset)(kind % 2), &table) == NDD_OK);
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
    CHECK(ndd_table_open(3, NDD_AUTO, &table) == NDD_OK);
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

/* Three thousand documents of a value, two values at one distance: a limit takes the first of them all. */
static void test_a_limit_takes_the_first_of_very_many_documents(void) {
    const uint64_t queries[] = {5, 7, 4, 0};
    struct oracle oracle = {0};
    ndd_table *table;
    CHECK(ndd_table_open(2, NDD_AUTO, &table) == NDD_OK);
    for (uint64_t i = 0; i < 6500; i++) { /* 6 is as far from 7 as 5 is */
        uint64_t value = i < 3000 ? 5 : i < 6000 ? 4 : 6, inserted;
        uint64_t document = value == 4 ? UINT64_MAX - i * i : value == 5 && i % 2 ? random_bits(&random_state) : i;
        CHECK(ndd_table_insert(table, &value, &document, 1, &inserted) == NDD_OK);
        CHECK((int)inserted == oracle_insert(&oracle, value, document));
    }
    check_valid(table);
    check_probes(table, &oracle, queries, 4, 2);
    while (oracle.count > 0) {
        int removed;
        ndd_match gone = oracle.pairs[below(oracle.count)];
        CHECK(ndd_table_remove(table, gone.value, gone.document, &removed) == NDD_OK && removed);
        CHECK(oracle_remove(&oracle, gone.value, gone.document));
        if (oracle.count % 1000 != 0) continue;
        check_valid(table);
        check_probes(table, &oracle, queries, 4, 2);
    }
    ndd_table_close(table);
    free(oracle.pairs);
}

/* Pairs that follow a large insert find room and a design that serves, in every preset. */
static void test_inserts_after_a_large_insert_rebuild_nothing(void) {
    enum { N = 6000, MORE = N / 32 };
    static uint64_t values[N + MORE], documents[N + MORE];
    make_values(0, values, N + MORE);
    for (uint32_t preset = NDD_AUTO; preset <= NDD_COMPACT; preset++) {
        ndd_table *table;
        uint64_t inserted;
        CHECK(ndd_table_open(3, (ndd_preset)preset, &table) == NDD_OK);
        CHECK(ndd_table_insert(table, values, documents, N, &inserted) == NDD_OK);
        uint64_t made = table->index_made;
        uint32_t capacity = table->values.capacity;
        CHECK(table->index.design.count > 0);
        CHECK(ndd_table_insert(table, values + N, documents, MORE, &inserted) == NDD_OK);
        CHECK(inserted == MORE && table->index_made == made && table->values.capacity == capacity);
        check_valid(table);
        ndd_table_close(table);
    }
}

/* Calls of any size make the arrays grow seldom: what they cost is shared by many inserts. */
static void test_small_calls_do_not_make_a_table_grow_often(void) {
    enum { N = 60000, EACH = 200 };
    static uint64_t values[N], documents[N];
    make_values(0, values, N);
    for (uint32_t preset = NDD_AUTO; preset <= NDD_COMPACT; preset++) {
        ndd_table *table;
        uint64_t inserted, grown = 0;
        CHECK(ndd_table_open(3, (ndd_preset)preset, &table) == NDD_OK);
        for (size_t i = 0; i < N; i += EACH) {
            uint32_t capacity = table->values.capacity;
            CHECK(ndd_table_insert(table, values + i, documents, EACH, &inserted) == NDD_OK);
            grown += i >= N / 4 && table->values.capacity != capacity;
        }
        CHECK(grown <= 5 && table->index_made <= 12);
        ndd_table_close(table);
    }
}

/* One call makes room once, for the values in it that are new, however often each occurs: the table is then
 * as one that was told their number. */
static void test_a_table_grown_by_one_call_has_the_design_of_one_made_for_it(void) {
    enum { N = 300000, STEP = 16384 };
    static uint64_t values[N], documents[N];
    for (int repeats = 1; repeats <= 3; repeats += 2) {
        uint64_t distinct = N / (uint64_t)repeats, inserted;
        ndd_table *grown, *told;
        make_values(0, values, distinct);
        for (size_t i = 0; i < N; i++) {
            values[i] = values[i % distinct];
            documents[i] = i;
        }
        CHECK(ndd_table_open(3, NDD_AUTO, &grown) == NDD_OK && ndd_table_open(3, NDD_AUTO, &told) == NDD_OK);
        CHECK(ndd_table_reserve(told, distinct) == NDD_OK);
        ndd_table_expect(grown, values, N);
        for (size_t i = 0; i < N; i += STEP) {
            size_t n = N - i < STEP ? N - i : STEP;
            CHECK(ndd_table_insert(grown, values + i, documents + i, n, &inserted) == NDD_OK);
        }
        CHECK(grown->values.count == distinct && grown->index_made == 1);
        CHECK(grown->values.capacity >= distinct && grown->values.capacity < distinct + distinct / 16);
        CHECK(grown->index.design.count == told->index.design.count);
        for (uint32_t i = 0; i < told->index.design.count; i++) {
            CHECK(grown->index.design.blocks[i].mask == told->index.design.blocks[i].mask);
        }
        uint32_t capacity = grown->values.capacity;
        CHECK(ndd_table_insert(grown, values, documents, N, &inserted) == NDD_OK && inserted == 0);
        CHECK(grown->values.capacity == capacity && grown->index_made == 1); /* nothing was new */
        check_valid(grown);
        ndd_table_close(grown);
        ndd_table_close(told);
    }
}

int main(void) {
    test_a_probe_finds_what_a_scan_finds();
    test_a_probe_of_a_larger_table_finds_what_a_scan_finds();
    test_every_processor_finds_the_same_values();
    test_inserts_and_removals_keep_every_rule();
    test_one_value_may_have_very_many_documents();
    test_a_limit_takes_the_first_of_very_many_documents();
    test_inserts_after_a_large_insert_rebuild_nothing();
    test_small_calls_do_not_make_a_table_grow_often();
    test_a_table_grown_by_one_call_has_the_design_of_one_made_for_it();
    return 0;
}
