/*
 * Fuzzes the table from both ends. The first byte chooses:
 *   0, 1 of 4: the rest is loaded as a saved table; with 1 the checksums are put right first, so that
 *              what lies behind them is reached. What loads must be valid and save to the same bytes.
 *   2 of 4:    the rest is a list of inserts, removals and probes, compared with a plain list.
 *   3 of 4:    the rest is fingerprints, whose pairs are compared with a scan.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/checksum.h"
#include "ndd.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
uint8_t *fuzz_seed(size_t i, size_t *n);

#define HEADER 64

/* Not assert: this must hold in every build. */
#define MUST(condition)                                                          \
    do {                                                                         \
        if (!(condition)) {                                                      \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
            abort();                                                             \
        }                                                                        \
    } while (0)

static void store_number(uint8_t *bytes, uint64_t number) {
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> (8 * i));
}

static void must_be_valid(const ndd_table *table) {
    const char *reason = "";
    if (ndd_table_validate(table, &reason) != NDD_OK) {
        fprintf(stderr, "%s\n", reason);
        abort();
    }
}

static int bits_between(uint64_t a, uint64_t b) {
    int bits = 0;
    for (uint64_t left = a ^ b; left != 0; left &= left - 1) bits++;
    return bits;
}

/* ------------------------------------------------------------------------------ saved bytes */

static void fuzz_load(const uint8_t *given, size_t n, uint32_t k, int put_right) {
    uint8_t *bytes = malloc(n + 1);
    MUST(bytes != NULL);
    if (n > 0) memcpy(bytes, given, n);
    if (put_right && n >= HEADER + 8) {
        static const uint8_t start[12] = {'N', 'D', 'D', 'T', 'A', 'B', 'L', 'E', 1};
        memcpy(bytes, start, sizeof start);
        store_number(bytes + HEADER - 8, checksum(bytes, HEADER - 8));
        store_number(bytes + n - 8, checksum(bytes, n - 8));
    }
    ndd_table *table = NULL;
    uint64_t note;
    const char *reason = NULL;
    if (ndd_table_load(bytes, n, k, &table, &note, &reason) == NDD_OK) {
        must_be_valid(table);
        MUST(ndd_table_saved_size(table) == n);
        uint8_t *again = malloc(n);
        MUST(again != NULL && ndd_table_save(table, note, again, n) == NDD_OK);
        MUST(memcmp(bytes, again, n) == 0);
        free(again);
        ndd_table_close(table);
    } else {
        MUST(table == NULL && reason != NULL);
    }
    free(bytes);
}

/* --------------------------------------------------------------------------------- operations */

#define MAX_PAIRS 1024

struct list {
    ndd_match pairs[MAX_PAIRS];
    size_t count;
};

static size_t list_find(const struct list *list, uint64_t value, uint64_t document) {
    size_t i = 0;
    while (i < list->count &&
           (list->pairs[i].value != value || list->pairs[i].document != document)) {
        i++;
    }
    return i;
}

static void must_probe(const ndd_table *table, const struct list *list, uint64_t query, uint32_t k,
                       uint64_t limit, ndd_answer *answer) {
    const uint64_t *offsets;
    const ndd_match *matches;
    uint64_t expected = 0;
    MUST(ndd_table_probe(table, &query, 1, limit, answer) == NDD_OK);
    ndd_answer_get(answer, &offsets, &matches);
    for (size_t i = 0; i < list->count; i++) {
        expected += bits_between(list->pairs[i].value, query) <= (int)k;
    }
    if (limit > 0 && expected > limit) expected = limit;
    MUST(offsets[0] == 0 && offsets[1] == expected);
    for (uint64_t i = 0; i < expected; i++) {
        const ndd_match *match = &matches[i], *before = &matches[i - (i > 0)];
        MUST(list_find(list, match->value, match->document) < list->count);
        MUST((int)match->distance == bits_between(match->value, query) && match->distance <= k);
        if (i == 0 || before->distance < match->distance) continue;
        MUST(before->distance == match->distance);
        MUST(before->document < match->document ||
             (before->document == match->document && before->value < match->value));
    }
}

/* Each operation is 4 bytes: what, a document, and two that choose bits of the value. */
static void fuzz_operations(const uint8_t *bytes, size_t n, uint32_t k, ndd_preset preset) {
    static struct list list;
    ndd_table *table;
    ndd_answer *answer;
    uint64_t one;
    int removed;
    list.count = 0;
    MUST(ndd_table_open_as(k, preset, &table) == NDD_OK && ndd_answer_open(&answer) == NDD_OK);
    for (size_t i = 0; i + 4 <= n && i < 4 * 4096; i += 4) {
        uint64_t document = bytes[i + 1] & 15;
        uint64_t value = UINT64_C(1) << (bytes[i + 2] & 63) | UINT64_C(1) << (bytes[i + 3] & 63);
        if (bytes[i + 2] & 64) value = ~value;
        if (bytes[i + 3] & 64) value *= UINT64_C(0x9e3779b97f4a7c15);
        size_t at = list_find(&list, value, document);
        if (bytes[i] < 150) {
            if (list.count == MAX_PAIRS) continue;
            MUST(ndd_table_insert(table, &value, &document, 1, &one) == NDD_OK);
            MUST((one == 1) == (at == list.count));
            if (at == list.count) list.pairs[list.count++] = (ndd_match){document, value, 0, 0};
        } else if (bytes[i] < 210) {
            MUST(ndd_table_remove(table, value, document, &removed) == NDD_OK);
            MUST(removed == (at < list.count));
            if (removed) list.pairs[at] = list.pairs[--list.count];
        } else if (bytes[i] < 254) {
            must_probe(table, &list, value, k, bytes[i] & 3, answer);
        } else { /* makes an index, so that few operations reach it */
            MUST(ndd_table_reserve(table, UINT64_C(600) << (bytes[i + 1] & 3)) == NDD_OK);
        }
    }
    must_be_valid(table);
    ndd_answer_close(answer);
    ndd_table_close(table);
}

/* --------------------------------------------------------------------------------- all pairs */

static void fuzz_pairs(const uint8_t *bytes, size_t n, uint32_t k) {
    enum { MOST = 256 };
    uint64_t values[MOST], labels[MOST], expected = 0, count;
    const uint64_t *pairs;
    ndd_pairs *found;
    size_t length = n / 8 < MOST ? n / 8 : MOST;
    if (length > 0) memcpy(values, bytes, length * 8);
    MUST(ndd_pairs_open(&found) == NDD_OK);
    MUST(ndd_find_all(values, length, k, found) == NDD_OK);
    MUST(ndd_find_clusters(values, length, k, labels) == NDD_OK);
    ndd_pairs_get(found, &pairs, &count);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t *pair = pairs + 2 * i, *before = pairs + 2 * (i - (i > 0));
        MUST(pair[0] <= pair[1] && bits_between(pair[0], pair[1]) <= (int)k);
        MUST(i == 0 || before[0] < pair[0] || (before[0] == pair[0] && before[1] < pair[1]));
    }
    for (size_t i = 0; i < length; i++) {
        MUST(labels[i] <= i && labels[labels[i]] == labels[i]);
        for (size_t j = i + 1; j < length; j++) {
            if (bits_between(values[i], values[j]) > (int)k) continue;
            MUST(labels[i] == labels[j]);
            int first = 1; /* of the same two values */
            for (size_t a = 0; a <= i && first; a++) {
                for (size_t b = a + 1; b < length && first; b++) {
                    if (a == i && b >= j) break;
                    first = !((values[a] == values[i] && values[b] == values[j]) ||
                              (values[a] == values[j] && values[b] == values[i]));
                }
            }
            expected += (uint64_t)first;
        }
    }
    MUST(count == expected);
    ndd_pairs_close(found);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n < 2) return 0;
    uint32_t k = bytes[1] & 15;
    switch (bytes[0] & 3) {
    case 0: fuzz_load(bytes + 2, n - 2, k, 0); break;
    case 1: fuzz_load(bytes + 2, n - 2, k, 1); break;
    case 2: fuzz_operations(bytes + 2, n - 2, k, (ndd_preset)((bytes[0] >> 2) % 3)); break;
    default: fuzz_pairs(bytes + 2, n - 2 < 400 ? n - 2 : 400, k);
    }
    return 0;
}

/* A saved table with values of one and of several documents. */
static uint8_t *saved_seed(size_t documents, size_t *n) {
    ndd_table *table;
    uint64_t inserted;
    if (ndd_table_open(3, &table) != NDD_OK) return NULL;
    for (uint64_t i = 0; i < documents; i++) {
        uint64_t value = i * i % 7 * UINT64_C(0x0123456789abcdef);
        MUST(ndd_table_insert(table, &value, &i, 1, &inserted) == NDD_OK);
    }
    uint64_t size = ndd_table_saved_size(table);
    uint8_t *bytes = malloc((size_t)size + 2);
    MUST(bytes != NULL && ndd_table_save(table, documents, bytes + 2, size) == NDD_OK);
    ndd_table_close(table);
    bytes[0] = (uint8_t)(documents & 1);
    bytes[1] = 3;
    *n = (size_t)size + 2;
    return bytes;
}

uint8_t *fuzz_seed(size_t i, size_t *n) {
    static const size_t documents[] = {0, 1, 2, 5, 11, 40};
    if (i < sizeof documents / sizeof *documents) return saved_seed(documents[i], n);
    if (i >= 16) return NULL;
    /* Operations and fingerprints: bytes that look random. */
    *n = 2 + 4 * (size_t)(1 << (i - 4));
    uint8_t *bytes = malloc(*n);
    uint64_t state = i * UINT64_C(0x9e3779b97f4a7c15);
    MUST(bytes != NULL);
    for (size_t j = 0; j < *n; j++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[j] = (uint8_t)(state >> 56);
    }
    bytes[0] = (uint8_t)(i % 3 == 0 ? 3 : 2 + 4 * (i % 3));
    bytes[1] = (uint8_t)(i % 5 * 3);
    if (i == 10 && *n > 8) bytes[2] = 255; /* with an index from the start */
    return bytes;
}
