/*
 * Crowds: tables whose values or documents stand close together, against plain scans.
 *
 * The core is built with crowds of some dozens for this, instead of thousands, so that few values make
 * many of them, and with allocations that fail (instrumented.h).
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "hash/hash.h"
#include "instrumented.h"
#include "table/table.h"
#include "values.h"
#include "saved_table.h"

static uint64_t any(void) { return random_bits(&random_state); }

/* ------------------------------------------------------------------------------------- oracle */

enum { MOST = 9000 };

struct list {
    ndd_match pairs[MOST];
    size_t count;
};

static void check_valid(const ndd_table *table) {
    const char *reason = "";
    ndd_status status = ndd_table_validate(table, &reason);
    if (status != NDD_OK) fprintf(stderr, "%s\n", reason);
    CHECK(status == NDD_OK);
}

static void check_probes(const ndd_table *table, const struct list *list, const uint64_t *queries,
                         size_t n, uint32_t k) {
    static const uint64_t limits[] = {0, 1, 7};
    static ndd_match expected[MOST];
    ndd_answer *answer;
    const uint64_t *offsets;
    const ndd_match *matches;
    CHECK(ndd_answer_open(&answer) == NDD_OK);
    for (size_t i = 0; i < n; i++) {
        size_t all = 0;
        for (size_t j = 0; j < list->count; j++) {
            uint32_t distance = (uint32_t)count_bits(list->pairs[j].value ^ queries[i]);
            if (distance > k) continue;
            expected[all] = list->pairs[j];
            expected[all++].distance = distance;
        }
        qsort(expected, all, sizeof *expected, nearer);
        for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
            size_t count = limits[l] > 0 && all > limits[l] ? (size_t)limits[l] : all;
            CHECK(ndd_table_probe(table, &queries[i], 1, limits[l], answer) == NDD_OK);
            ndd_answer_get(answer, &offsets, &matches);
            CHECK(offsets[1] == count && ndd_answer_cut(answer)[0] == (count < all));
            CHECK(count == 0 || memcmp(expected, matches, count * sizeof *expected) == 0);
        }
    }
    ndd_answer_close(answer);
}

static void insert(ndd_table *table, struct list *list, uint64_t value, uint64_t document) {
    uint64_t inserted;
    CHECK(ndd_table_insert(table, &value, &document, 1, &inserted) == NDD_OK);
    if (inserted == 1) list->pairs[list->count++] = (ndd_match){document, value, 0, 0};
}

static size_t crowds_of(const ndd_table *table) {
    size_t crowds = 0;
    for (uint32_t i = 0; i < table->index.design.count; i++) {
        const struct lines *lines = &table->index.lines[i];
        for (uint32_t b = 0; b >> lines->bits == 0; b++) {
            const struct overflow *overflow = line_overflow(lines_at(lines, b));
            crowds += overflow != NULL && overflow_crowd(overflow) != NULL;
        }
    }
    return crowds;
}

/* Kinds of crowds: 16 bits in common, here or there; all but 16; a shell; two shells; a few bits that
 * differ in pairs, so that most of a key tells nothing; and some of each. */
enum { KINDS = 7 };

static uint64_t crowded(int kind) {
    uint64_t centre = UINT64_C(0x9e3779b97f4a7c15);
    switch (kind) {
    case 0: return any() >> 16 | UINT64_C(0xfeed) << 48;
    case 1: return (any() & ~(UINT64_C(0xffff) << 20)) | UINT64_C(0xbeef) << 20;
    case 2: return below(1 << 16) << 30;
    case 3: return flipped(centre, 4 + (uint32_t)below(5));
    case 4: return flipped(below(2) ? UINT64_MAX : 0, (uint32_t)below(7));
    case 5: return below(1 << 16) * UINT64_C(0x0001000000010000) | below(2);
    default: return crowded((int)below(6));
    }
}

/* -------------------------------------------------------------------------------------- tests */

static void test_a_trie_is_an_ordered_set_under_any_changes(void) {
    enum { N = 4096 };
    static uint8_t there[N];
    for (int kind = 0; kind < 4; kind++) {
        struct trie trie;
        uint64_t count = 0;
        memset(there, 0, sizeof there);
        trie_open(&trie);
        for (int step = 0; step < 30000; step++) {
            /* Grows to most of them, then shrinks to few. */
            uint64_t i = step < N ? (uint64_t)step : below(N);
            uint64_t number = kind == 0   ? i
                              : kind == 1 ? hash_mix(i)
                              : kind == 2 ? UINT64_MAX - (i << (i % 40))
                                          : (i & 63) << 58 | i >> 6;
            if (kind == 2) number = i < 2048 ? UINT64_MAX - i : i << 30;
            if (there[i] && (step > 12000 || below(2))) {
                CHECK(trie_has(&trie, number) && trie_remove(&trie, number));
                there[i] = 0;
                count--;
            } else if (!there[i] && step < 20000) {
                CHECK(!trie_has(&trie, number) && !trie_remove(&trie, number));
                CHECK(trie_make_room(&trie, number) == NDD_OK);
                trie_put(&trie, number);
                there[i] = 1;
                count++;
            }
            CHECK(trie.count == count);
            if (step % 500 != 0) continue;
            CHECK(trie_validate(&trie) == NULL);
            uint64_t from = 0, seen = 0, before = 0;
            uint32_t length;
            const uint64_t *run;
            while ((run = trie_run(&trie, from, &length)) != NULL) {
                for (uint32_t at = 0; at < length; at++, seen++) {
                    CHECK(run[at] >= from && (seen == 0 || run[at] > before));
                    before = run[at];
                }
                if (before == UINT64_MAX) break;
                from = before + 1;
            }
            CHECK(seen == count);
        }
        for (uint64_t i = 0; i < 1000; i++) { /* room alone changes nothing that is found */
            CHECK(trie_make_room(&trie, any()) == NDD_OK);
        }
        CHECK(trie_validate(&trie) == NULL && trie.count == count);
        trie_close(&trie);
    }
}

static void test_probes_of_crowds_find_what_a_scan_finds(void) {
    static struct list list;
    for (uint32_t k = 0; k <= 9; k += SIZED(3, 1)) {
        size_t crowds = 0;
        for (int kind = 0; kind < KINDS; kind++) {
            uint64_t queries[16];
            ndd_table *table;
            list.count = 0;
            CHECK(ndd_table_open(k, (ndd_preset)((k + (uint32_t)kind) % 3 % 2), &table) == NDD_OK);
            for (int i = 0; i < 3000; i++) insert(table, &list, crowded(kind), below(3) ? below(9) : any());
            check_valid(table);
            crowds += crowds_of(table);
            for (int i = 0; i < 16; i++) {
                uint64_t near = below(3) ? list.pairs[below(list.count)].value : crowded(kind);
                queries[i] = flipped(near, (uint32_t)below(k + 2));
            }
            queries[0] = UINT64_C(0x9e3779b97f4a7c15);
            queries[1] = 0;
            queries[2] = UINT64_MAX;
            check_probes(table, &list, queries, 16, k);
            for (int round = 0; round < 3; round++) { /* shrinks, and grows again */
                size_t left = round == 1 ? 1500 : 8;
                while (list.count > left) {
                    size_t i = below(list.count);
                    int removed;
                    ndd_match gone = list.pairs[i];
                    list.pairs[i] = list.pairs[--list.count];
                    CHECK(ndd_table_remove(table, gone.value, gone.document, &removed) == NDD_OK);
                    CHECK(removed);
                }
                check_valid(table);
                check_probes(table, &list, queries, 4, k);
                for (int i = 0; round == 0 && i < 2500; i++) insert(table, &list, crowded(kind), any());
                check_valid(table);
                check_probes(table, &list, queries + 4, 4, k);
            }
            CHECK(crowds_of(table) == 0);
            ndd_table_close(table);
        }
        CHECK(crowds > 0);
    }
}

static void test_a_crowd_that_became_another_is_found_in(void) {
    static struct list list;
    uint64_t queries[12];
    ndd_table *table;
    list.count = 0;
    CHECK(ndd_table_open(3, NDD_AUTO, &table) == NDD_OK);
    for (int i = 0; i < 900; i++) insert(table, &list, crowded(2), (uint64_t)i);
    for (int i = 0; i < 5000; i++) insert(table, &list, UINT64_C(0xabc) << 52 | any() >> 12, any());
    for (int i = 0; i < 2500; i++) insert(table, &list, flipped(UINT64_C(0xabcd) << 48, 6), any());
    CHECK(crowds_of(table) > 0);
    for (int i = 0; i < 12; i++) {
        queries[i] = flipped(list.pairs[below(list.count)].value, (uint32_t)below(4));
    }
    check_valid(table);
    check_probes(table, &list, queries, 12, 3);
    ndd_table_close(table);
}

static void test_crowds_without_memory_lose_nothing(void) {
    static struct list list;
    for (int64_t fail_at = 0; fail_at < 120; fail_at++) {
        int kind = (int)(fail_at % KINDS);
        uint64_t queries[3], inserted;
        ndd_table *table;
        list.count = 0;
        CHECK(ndd_table_open(3, NDD_AUTO, &table) == NDD_OK);
        for (int i = 0; i < 560; i++) insert(table, &list, crowded(kind), (uint64_t)i);
        for (int i = 0; i < 1000; i++) {
            uint64_t value = crowded(kind), document = below(4);
            allocations_left = fail_at % 40 + i % 3;
            ndd_status status = ndd_table_insert(table, &value, &document, 1, &inserted);
            CHECK(status == NDD_OK || (status == NDD_NO_MEMORY && inserted == 0));
            if (i % 5 == 0) {
                int removed;
                size_t at = below(list.count);
                ndd_match gone = list.pairs[at];
                CHECK(ndd_table_remove(table, gone.value, gone.document, &removed) == NDD_OK);
                CHECK(removed);
                list.pairs[at] = list.pairs[--list.count];
            }
            allocations_left = -1;
            if (inserted == 1) list.pairs[list.count++] = (ndd_match){document, value, 0, 0};
            if (i % 250 == 0) check_valid(table);
        }
        check_valid(table);
        for (int i = 0; i < 3; i++) queries[i] = flipped(list.pairs[below(list.count)].value, 2);
        check_probes(table, &list, queries, 3, 3);
        ndd_table_close(table);
    }
}

static void test_a_limit_takes_the_first_of_very_many_documents(void) {
    static struct list list;
    static uint64_t values[MOST], documents[MOST];
    const uint64_t queries[] = {5, 7, 4, 0};
    ndd_table *table;
    list.count = 0;
    CHECK(ndd_table_open(2, NDD_AUTO, &table) == NDD_OK);
    for (uint64_t i = 0; i < 3000; i++) insert(table, &list, 5, i % 2 ? any() : i);
    for (uint64_t i = 0; i < 3000; i++) insert(table, &list, 4, UINT64_MAX - i * i);
    for (uint64_t i = 0; i < 500; i++) insert(table, &list, 6, i); /* as far from 7 as 5 is */
    check_valid(table);
    check_probes(table, &list, queries, 4, 2);
    uint64_t size = saved_size_of(table), note;
    uint8_t *bytes = malloc((size_t)size);
    const char *reason;
    ndd_table *loaded;
    CHECK(bytes != NULL && save_table(table, 3, bytes, size) == NDD_OK);
    CHECK(ndd_table_load(bytes, size, 2, NDD_AUTO, &loaded, &note, &reason) == NDD_OK && note == 3);
    check_probes(loaded, &list, queries, 4, 2);
    ndd_table_list(loaded, values, documents);
    for (size_t i = 0; i < list.count; i++) {
        uint8_t found;
        ndd_table_has(table, &values[i], &documents[i], 1, &found);
        CHECK(found);
    }
    ndd_table_close(loaded);
    while (list.count > 0) {
        int removed;
        size_t i = below(list.count);
        ndd_match gone = list.pairs[i];
        list.pairs[i] = list.pairs[--list.count];
        CHECK(ndd_table_remove(table, gone.value, gone.document, &removed) == NDD_OK && removed);
        if (list.count % 1000 == 0) {
            check_valid(table);
            check_probes(table, &list, queries, 4, 2);
        }
    }
    free(bytes);
    ndd_table_close(table);
}

int main(void) {
    random_state = 0x2545f4914f6cdd1dULL;
    test_a_trie_is_an_ordered_set_under_any_changes();
    test_probes_of_crowds_find_what_a_scan_finds();
    test_a_crowd_that_became_another_is_found_in();
    test_crowds_without_memory_lose_nothing();
    test_a_limit_takes_the_first_of_very_many_documents();
    return 0;
}
