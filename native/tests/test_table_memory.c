/* Tables, pairs and clusters when allocations fail: the n-th, and all after it or only that one. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "instrumented.h"
#include "ndd_bulk.h"
#include "table/table.h"
#include "table_oracle.h"

static void test_an_insert_without_memory_keeps_what_it_counts(void) {
    static uint64_t values[1500], documents[1500];
    make_values(2, values, 1500); /* crowded: buckets beyond their lines */
    for (size_t i = 0; i < 1500; i++) documents[i] = i % 7;
    int64_t fail_at = 0;
    for (ndd_status status = NDD_NO_MEMORY; status != NDD_OK; fail_at += 1 + fail_at / 20) {
        ndd_table *table;
        struct oracle oracle = {0};
        uint64_t inserted = 0, count = 0;
        CHECK(ndd_table_open(3, NDD_AUTO, &table) == NDD_OK);
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
    memcpy(queries, values, sizeof queries);
    for (int call = 0; call < 7; call++) {
        int64_t fail_at = 0;
        for (ndd_status status = NDD_NO_MEMORY; status != NDD_OK; fail_at += 1 + fail_at / 8) {
            CHECK(ndd_answer_open(&answer) == NDD_OK && ndd_pairs_open(&pairs) == NDD_OK);
            ndd_answer *opened_answer = NULL;
            ndd_pairs *opened_pairs = NULL;
            other = NULL;
            ndd_table_stats_get(table, &before);
            allocations_left = fail_at;
            switch (call) {
            case 0: status = ndd_table_open(3, NDD_AUTO, &other); break;
            case 1: status = ndd_answer_open(&opened_answer); break;
            case 2: status = ndd_pairs_open(&opened_pairs); break;
            case 3: status = ndd_table_probe(table, queries, 300, 0, answer); break;
            case 4: status = ndd_find_all(values, N, 3, pairs); break;
            case 5: status = ndd_find_clusters(values, N, 3, labels); break;
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
    ndd_table_close(table);
}

static void test_a_table_without_memory_for_a_better_design_keeps_its_own(void) {
    enum { N = 1200 };
    static uint64_t values[N];
    make_values(0, values, N);
    ndd_table *table = table_of(values, NDD_SCANNED, 3);
    struct oracle oracle = {0};
    CHECK(ndd_table_reserve(table, NDD_SCANNED) == NDD_OK);
    CHECK(numbers_reserve(&table->values, N) == NDD_OK);
    CHECK(documents_reserve(&table->documents, N) == NDD_OK);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t inserted;
        allocations_left = 0;
        CHECK(ndd_table_insert(table, &values[i], &i, 1, &inserted) == NDD_OK);
        allocations_left = -1;
        CHECK(inserted == (i >= NDD_SCANNED) && oracle_insert(&oracle, values[i], i));
    }
    CHECK(table->index.design.count == 0);
    check_valid(table);
    check_probes(table, &oracle, values + 300, 10, 3);
    ndd_table_close(table);
    free(oracle.pairs);
}

/* Whatever fails while an index is rebuilt, the pair is in, and what is within k is found. */
static void test_growth_without_memory_loses_nothing(void) {
    enum { N = 1400 };
    static uint64_t values[N];
    make_values(0, values, N);
    int scanned = 0, kept = 0, grown = 0;
    for (int left = 0; left < 48; left++) {
        only_one_fails = left & 1;
        struct oracle oracle = {0};
        ndd_table *table;
        CHECK(ndd_table_open(3, NDD_AUTO, &table) == NDD_OK);
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

/* The last document comes to stand among others, far from it, which takes memory: for one there is a spare. */
static void test_a_removal_without_memory_is_made_or_changes_nothing(void) {
    enum { N = 2000 };
    static uint64_t values[N];
    int removed, failed = 0;
    make_values(0, values, N);
    ndd_table *table = table_of(values, N, 3);
    for (uint64_t i = 0; i < N / 2; i += 65 + below(8)) {
        allocations_left = 0;
        CHECK(ndd_table_remove(table, values[i], i, &removed) == NDD_OK && removed);
        ndd_status status = ndd_table_remove(table, values[i + 64], i + 64, &removed);
        allocations_left = -1;
        CHECK(status == NDD_OK ? removed : status == NDD_NO_MEMORY && !removed);
        failed += status != NDD_OK;
        check_valid(table);
        CHECK(ndd_table_remove(table, values[i + 64], i + 64, &removed) == NDD_OK && removed == (status != NDD_OK));
        /* With a spare again: that removal made one, or else this does. */
        if (status == NDD_OK) CHECK(ndd_table_reserve(table, 1) == NDD_OK);
    }
    CHECK(failed > 0);
    ndd_table_close(table);
}

int main(void) {
    test_an_insert_without_memory_keeps_what_it_counts();
    test_every_other_call_without_memory_leaves_its_handles_as_they_were();
    test_a_table_without_memory_for_a_better_design_keeps_its_own();
    test_growth_without_memory_loses_nothing();
    test_a_removal_without_memory_is_made_or_changes_nothing();
    return 0;
}
