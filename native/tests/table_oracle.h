/* A plain list of pairs, scanned: what a table must find, for the tests of tables. */
#ifndef TABLE_ORACLE_H
#define TABLE_ORACLE_H

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "values.h"

static inline void check_valid(const ndd_table *table) {
    const char *reason = "";
    ndd_status status = ndd_table_validate(table, &reason);
    if (status != NDD_OK) fprintf(stderr, "%s\n", reason);
    CHECK(status == NDD_OK);
}

struct oracle {
    ndd_match *pairs;
    size_t count, capacity;
};

static inline int oracle_insert(struct oracle *oracle, uint64_t value, uint64_t document) {
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

static inline int oracle_remove(struct oracle *oracle, uint64_t value, uint64_t document) {
    for (size_t i = 0; i < oracle->count; i++) {
        if (oracle->pairs[i].value == value && oracle->pairs[i].document == document) {
            oracle->pairs[i] = oracle->pairs[--oracle->count];
            return 1;
        }
    }
    return 0;
}

/* The probe of every query gives what a scan gives, for no limit and a few. */
static inline void check_probes(const ndd_table *table, const struct oracle *oracle,
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

/* A table of these distinct values, each with its place as its document. */
static inline ndd_table *table_of(const uint64_t *values, size_t n, uint32_t k) {
    ndd_table *table;
    uint64_t inserted;
    uint64_t *documents = malloc(n * sizeof *documents + 1);
    CHECK(documents != NULL && ndd_table_open(k, NDD_AUTO, &table) == NDD_OK);
    for (size_t i = 0; i < n; i++) documents[i] = i;
    CHECK(ndd_table_insert(table, values, documents, n, &inserted) == NDD_OK && inserted == n);
    free(documents);
    return table;
}

#endif
