/*
 * Batch search under failing allocations, and the memory of its filter.
 * (What it finds is compared with a scan in tests/core/test_batch.py.)
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bulk/batch.h"
#include "check.h"
#include "instrumented.h"
#include "ndd_bulk.h"

enum { N = 3000 };

static uint64_t values[N], stream[4 * N];

/* Matches found, or the status of what failed. */
static ndd_status search(uint64_t *count) {
    ndd_queries *queries = NULL;
    ndd_hits *hits = NULL;
    const ndd_hit *items;
    ndd_status status = ndd_queries_open(values, N, 3, 1 << 20, &queries);
    if (status == NDD_OK) status = ndd_hits_open(&hits);
    for (int turn = 0; turn < 2 && status == NDD_OK; turn++) {
        status = ndd_queries_probe(queries, stream, 4 * N, 0, hits);
        if (status != NDD_OK) {
            ndd_hits_get(hits, &items, count);
            CHECK(*count == 0);
        }
    }
    if (status == NDD_OK) ndd_hits_get(hits, &items, count);
    ndd_hits_close(hits);
    ndd_queries_close(queries);
    return status;
}

static void test_every_allocation_may_fail(void) {
    uint64_t expected = 0, count = 0;
    ndd_generate(1, 0, N, values);
    ndd_generate(2, 0, 4 * N, stream);
    for (size_t i = 0; i < N; i++) stream[3 * i] = values[i] ^ UINT64_C(5) << i % 60;
    CHECK(search(&expected) == NDD_OK && expected == N);
    int64_t failures = 0;
    for (;; failures++) {
        allocations_left = failures;
        ndd_status status = search(&count);
        allocations_left = -1;
        if (status == NDD_OK) break;
        CHECK(status == NDD_NO_MEMORY);
    }
    CHECK(count == expected && failures > 8);
}

static void test_bad_arguments_are_refused(void) {
    ndd_queries *queries = NULL;
    ndd_hits *hits;
    uint64_t value = 1;
    CHECK(ndd_queries_open(&value, 1, 16, 0, &queries) == NDD_BAD_DISTANCE && queries == NULL);
    CHECK(ndd_queries_open(NULL, 1, 3, 0, &queries) == NDD_BAD_ARGUMENT && queries == NULL);
    CHECK(ndd_queries_open(NULL, 0, 3, 0, &queries) == NDD_OK && ndd_hits_open(&hits) == NDD_OK);
    CHECK(ndd_queries_probe(queries, NULL, 1, 0, hits) == NDD_BAD_ARGUMENT);
    CHECK(ndd_queries_probe(queries, NULL, 0, 0, hits) == NDD_OK);
    ndd_queries_close(queries);
    ndd_queries_close(NULL);
    ndd_hits_close(hits);
    ndd_hits_close(NULL);
}

static void test_the_filter_keeps_to_its_memory(void) {
    for (uint32_t k = 0; k <= 6; k++) {
        for (int bits = 10; bits <= 30; bits += 4) {
            ndd_queries *queries;
            CHECK(ndd_queries_open(values, N, k, UINT64_C(1) << bits, &queries) == NDD_OK);
            CHECK(queries->used == 0 || queries->used * (UINT64_C(1) << queries->key_bits) / 8 <= UINT64_C(1) << bits);
            ndd_queries_close(queries);
        }
    }
}

int main(void) {
    test_every_allocation_may_fail();
    test_bad_arguments_are_refused();
    test_the_filter_keeps_to_its_memory();
    return 0;
}
