/*
 * A saved table of any bytes.
 *
 *     input = flags and k (1 byte), the saved table
 *
 * With the flag the checksums are put right first, so that what lies behind them is reached. What
 * loads must be valid, hold what its bytes say by ndd.h, answer as a scan of them
 * does, save to the same bytes, and still do so after changes that are taken back.
 */
#include "base/checksum.h"
#include "fuzz.h"
#include "../tests/saved_table.h"

enum { PUT_RIGHT = 16 }; /* below it: k */

#define HEADER 64
#define PROBES 24           /* of those that are compared with a scan */
#define MEMORY_FIXED 65536
#define MEMORY_MULTIPLE 32

static void store_number(uint8_t *bytes, uint64_t number) {
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> (8 * i));
}

static void put_right(uint8_t *bytes, size_t n) {
    static const uint8_t start[12] = {'N', 'D', 'D', 'T', 'A', 'B', 'L', 'E', 1};
    if (n < HEADER + 8) return;
    memcpy(bytes, start, sizeof start);
    store_number(bytes + HEADER - 8, checksum(bytes, HEADER - 8));
    store_number(bytes + n - 8, checksum(bytes, n - 8));
}

static void must_be_valid(const ndd_table *table) {
    const char *reason = "";
    if (ndd_table_validate(table, &reason) != NDD_OK) {
        fprintf(stderr, "%s\n", reason);
        abort();
    }
}

static int by_order(const void *a, const void *b) {
    const ndd_match *left = a, *right = b;
    if (left->distance != right->distance) return left->distance < right->distance ? -1 : 1;
    if (left->document != right->document) return left->document < right->document ? -1 : 1;
    return left->value < right->value ? -1 : left->value > right->value;
}

/* The pairs of a file that is right, taken from its bytes. */
static size_t pairs_of(const uint8_t *bytes, ndd_match *pairs) {
    uint64_t values = fuzz_number(bytes + 24), several = fuzz_number(bytes + 40);
    const uint8_t *value = bytes + HEADER, *lists = value + 8 * values;
    const uint8_t *document = lists + 16 * several, *list = lists;
    size_t count = 0;
    for (uint64_t i = 0; i < values; i++) {
        uint64_t own = 1;
        if (list < document && fuzz_number(list) == i) {
            own = fuzz_number(list + 8);
            list += 16;
        }
        for (; own > 0; own--, count++) {
            pairs[count].value = fuzz_number(value + 8 * i);
            pairs[count].document = fuzz_number(document + 8 * count);
            pairs[count].reserved = 0;
        }
    }
    return count;
}

static void must_probe(const ndd_table *table, ndd_match *pairs, size_t count, uint64_t query,
                       uint32_t k, ndd_answer *answer) {
    const uint64_t *offsets;
    const ndd_match *matches;
    size_t within = 0;
    for (size_t i = 0; i < count; i++) {
        pairs[i].distance = (uint32_t)fuzz_bits_between(pairs[i].value, query);
        within += pairs[i].distance <= k;
    }
    if (count > 1) qsort(pairs, count, sizeof *pairs, by_order);
    MUST(ndd_table_probe(table, &query, 1, 0, answer) == NDD_OK);
    ndd_answer_get(answer, &offsets, &matches);
    MUST(offsets[0] == 0 && offsets[1] == within);
    if (within > 0) MUST(memcmp(matches, pairs, within * sizeof *pairs) == 0);
}

static void must_save(const ndd_table *table, uint64_t note, const uint8_t *bytes, size_t n) {
    MUST(saved_size_of(table) == n);
    uint8_t *again = malloc(n);
    MUST(again != NULL && save_table(table, note, again, n) == NDD_OK);
    MUST(memcmp(bytes, again, n) == 0);
    free(again);
}

static void must_hold(ndd_table *table, uint64_t note, const uint8_t *bytes, size_t n, uint32_t k) {
    ndd_table_stats stats;
    ndd_answer *answer;
    must_be_valid(table);
    must_save(table, note, bytes, n);
    MUST(note == fuzz_number(bytes + 16));
    ndd_match *pairs = malloc(n / 8 * sizeof *pairs);
    MUST(pairs != NULL && ndd_answer_open(&answer) == NDD_OK);
    size_t count = pairs_of(bytes, pairs);
    ndd_table_stats_get(table, &stats);
    MUST(stats.values == fuzz_number(bytes + 24) && stats.documents == count && stats.k == k);
    for (size_t i = 0; i < PROBES; i++) {
        uint64_t query = i * UINT64_C(0x9e3779b97f4a7c15);
        if (count > 0) query = pairs[query % count].value ^ (i > 2 ? UINT64_C(1) << (query >> 58) : 0);
        must_probe(table, pairs, count, query, k, answer);
    }
    ndd_answer_close(answer);
    for (size_t i = 0; i < count && i < 8; i++) { /* gone and put back, nothing has changed */
        uint64_t one;
        int removed;
        MUST(ndd_table_remove(table, pairs[i].value, pairs[i].document, &removed) == NDD_OK && removed);
        MUST(ndd_table_insert(table, &pairs[i].value, &pairs[i].document, 1, &one) == NDD_OK && one);
    }
    must_be_valid(table);
    must_save(table, note, bytes, n);
    free(pairs);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n < 1) return 0;
    uint32_t k = bytes[0] & 15;
    uint8_t *saved = fuzz_exact(bytes + 1, n - 1, 0);
    if (bytes[0] & PUT_RIGHT) put_right(saved, n - 1);
    ndd_table *table = NULL;
    uint64_t note = 0;
    const char *reason = NULL;
    fuzz_count_memory();
    ndd_status status = ndd_table_load(saved, n - 1, k, NDD_AUTO, &table, &note, &reason);
    MUST(fuzz_memory_taken() <= MEMORY_FIXED + MEMORY_MULTIPLE * n);
    if (status == NDD_OK) {
        must_hold(table, note, saved, n - 1, k);
        ndd_table_close(table);
    } else {
        MUST(table == NULL && note == 0 && reason != NULL && *reason != '\0');
    }
    fuzz_drop(saved, 0);
    return 0;
}
