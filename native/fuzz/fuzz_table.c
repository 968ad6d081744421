/*
 * A table under any sequence of changes and probes, and pairs of any values.
 *
 *     input = what and preset (1 byte), k (1 byte), operations or values
 *
 * What must hold: the table is a set of pairs, its answers are those of a scan of a plain list; all
 * pairs and clusters are those of a scan.
 */
#include "fuzz.h"
#include "ndd_bulk.h"

enum { PAIRS = 1 }; /* else operations */

static void must_be_valid(const ndd_table *table) {
    const char *reason = "";
    if (ndd_table_validate(table, &reason) != NDD_OK) {
        fprintf(stderr, "%s\n", reason);
        abort();
    }
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
        expected += fuzz_bits_between(list->pairs[i].value, query) <= (int)k;
    }
    if (limit > 0 && expected > limit) expected = limit;
    MUST(offsets[0] == 0 && offsets[1] == expected);
    for (uint64_t i = 0; i < expected; i++) {
        const ndd_match *match = &matches[i], *before = &matches[i - (i > 0)];
        MUST(list_find(list, match->value, match->document) < list->count);
        MUST((int)match->distance == fuzz_bits_between(match->value, query) && match->distance <= k);
        if (i == 0 || before->distance < match->distance) continue;
        MUST(before->distance == match->distance);
        MUST(before->document < match->document ||
             (before->document == match->document && before->value < match->value));
    }
}

static ndd_table *listed_and_made(ndd_table *table, uint32_t k, ndd_preset preset) {
    static uint64_t values[MAX_PAIRS], documents[MAX_PAIRS];
    ndd_table_stats stats;
    ndd_table *made;
    uint64_t inserted;
    ndd_table_stats_get(table, &stats);
    ndd_table_list(table, values, documents);
    MUST(ndd_table_open(k, preset, &made) == NDD_OK);
    MUST(ndd_table_insert(made, values, documents, (size_t)stats.documents, &inserted) == NDD_OK);
    MUST(inserted == stats.documents);
    ndd_table_close(table);
    return made;
}

/* Each operation is 4 bytes: what, a document, and two that choose bits of the value. */
static void fuzz_operations(const uint8_t *bytes, size_t n, uint32_t k, ndd_preset preset) {
    static struct list list;
    ndd_table *table;
    ndd_answer *answer;
    uint64_t one;
    int removed;
    list.count = 0;
    MUST(ndd_table_open(k, preset, &table) == NDD_OK && ndd_answer_open(&answer) == NDD_OK);
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
        } else if (bytes[i] == 254) { /* makes an index, so that few operations reach it */
            MUST(ndd_table_reserve(table, UINT64_C(600) << (bytes[i + 1] & 3)) == NDD_OK);
        } else { /* goes on as another table of the pairs it lists, for another k */
            k = bytes[i + 1] & 15;
            table = listed_and_made(table, k, (ndd_preset)((bytes[i + 1] >> 4) % 2));
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
        MUST(pair[0] <= pair[1] && fuzz_bits_between(pair[0], pair[1]) <= (int)k);
        MUST(i == 0 || before[0] < pair[0] || (before[0] == pair[0] && before[1] < pair[1]));
    }
    for (size_t i = 0; i < length; i++) {
        MUST(labels[i] <= i && labels[labels[i]] == labels[i]);
        for (size_t j = i + 1; j < length; j++) {
            if (fuzz_bits_between(values[i], values[j]) > (int)k) continue;
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
    if (bytes[0] & PAIRS) fuzz_pairs(bytes + 2, n - 2 < 400 ? n - 2 : 400, k);
    else fuzz_operations(bytes + 2, n - 2, k, (ndd_preset)((bytes[0] >> 1) % 2));
    return 0;
}
