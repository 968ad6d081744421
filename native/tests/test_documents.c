/* The documents of a table's places: any documents, in any order, with and without memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hash/hash.h"
#include "instrumented.h"
#include "table/documents.h"
#include "values.h"

enum { PLACES = 200, MOST = 3 };

/* What the places hold, each in a list of its own. */
struct model {
    uint64_t of[PLACES][MOST];
    uint32_t counts[PLACES], count;
};

/* The n-th document of a kind: as an append-only store gives them, with gaps, in one or another range, any. */
static uint64_t document_of(int kind, uint64_t n) {
    uint64_t random = random_bits(&random_state);
    switch (kind) {
    case 0: return 1000 + n;
    case 1: return UINT64_MAX - 3 + n;
    case 2: return 5 * n;
    case 3: return (UINT64_C(1) << 40) + (random & 0xfffff);
    case 4: return random >> (random & 63);
    default: return n % 7 == 0 ? random : n;
    }
}

static int model_has(const struct model *model, uint32_t place, uint64_t document) {
    for (uint32_t i = 0; i < model->counts[place]; i++) {
        if (model->of[place][i] == document) return 1;
    }
    return 0;
}

static void check_places(const struct documents *documents, const struct model *model) {
    uint64_t pairs, all = 0;
    CHECK(documents_validate(documents, model->count, &pairs) == NULL);
    for (uint32_t place = 0; place < model->count; place++) {
        uint64_t from = 0, one, seen = 0;
        uint32_t run;
        all += model->counts[place];
        CHECK(documents_count(documents, place) == model->counts[place]);
        for (uint32_t i = 0; i < model->counts[place]; i++) {
            CHECK(documents_has(documents, place, model->of[place][i]));
        }
        while (seen < model->counts[place]) {
            const uint64_t *at = documents_run(documents, place, from, &run, &one);
            CHECK(at != NULL && at[0] >= from);
            for (uint32_t i = 0; i < run; i++) CHECK(model_has(model, place, at[i]));
            from = at[run - 1] + 1;
            seen += run;
        }
        CHECK(seen == model->counts[place]);
    }
    CHECK(pairs == all);
}

static void append(struct documents *documents, struct model *model, uint64_t document) {
    uint32_t place = model->count;
    int64_t left = allocations_left;
    if (documents_reserve(documents, place + 1) != NDD_OK) return;
    if (documents_make_room(documents, place, document) != NDD_OK) {
        CHECK(left >= 0);
        return;
    }
    documents_append(documents, place, document);
    model->of[place][0] = document;
    model->counts[place] = 1;
    model->count++;
}

static void add(struct documents *documents, struct model *model, uint32_t place, uint64_t document) {
    int added, has = model_has(model, place, document);
    if (model->counts[place] == MOST) return;
    ndd_status status = documents_add(documents, place, document, &added);
    CHECK(added == (status == NDD_OK && !has) && (status == NDD_OK || allocations_left >= 0));
    if (added) model->of[place][model->counts[place]++] = document;
}

static void remove_one(struct documents *documents, struct model *model, uint32_t place) {
    uint32_t *count = &model->counts[place], i = (uint32_t)below(*count), last = model->count - 1;
    uint64_t document = model->of[place][i];
    if (!model_has(model, place, ~document)) CHECK(documents_remove(documents, place, ~document) == 0);
    if (*count > 1) {
        CHECK(documents_remove(documents, place, document) == 1);
        model->of[place][i] = model->of[place][--*count];
        return;
    }
    CHECK(documents_remove(documents, place, document) == 2);
    if (documents_move_last(documents, place, last) != NDD_OK) {
        CHECK(allocations_left >= 0);
        return;
    }
    memcpy(model->of[place], model->of[last], sizeof model->of[last]);
    *count = model->counts[last];
    model->count--;
}

static void test_places_keep_their_documents_with_and_without_memory(void) {
    for (int kind = 0; kind < 12; kind++) { /* the second six with allocations that fail */
        static struct model model;
        struct documents documents = {0};
        uint64_t n = 0;
        model.count = 0;
        for (int step = 0; step < SIZED(20000, 6000); step++) {
            int shrinks = step / 500 % 2;
            uint32_t place = model.count == 0 ? 0 : (uint32_t)below(model.count);
            allocations_left = kind >= 6 && below(4) == 0 ? (int64_t)below(3) : -1;
            if (model.count == 0 || (model.count < PLACES && below(8) >= (shrinks ? 6 : 3))) {
                append(&documents, &model, document_of(kind % 6, n++));
            } else if (below(3) == 0) {
                add(&documents, &model, place, document_of(kind % 6, n++));
            } else {
                remove_one(&documents, &model, place);
            }
            allocations_left = -1;
            if (step % 64 == 0) check_places(&documents, &model);
        }
        check_places(&documents, &model);
        documents_close(&documents, model.count);
    }
}

static void test_documents_in_order_of_insertion_take_no_memory_of_their_own(void) {
    static const struct {
        uint64_t step, bytes; /* from one document to the next; a place takes at most */
    } rows[] = {{1, 1}, {3, 2}, {1000, 3}, {1000000, 5}, {UINT64_C(1) << 40, 9}};
    enum { N = 6400 };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct documents documents = {0};
        CHECK(documents_reserve(&documents, N) == NDD_OK);
        for (uint32_t i = 0; i < N; i++) {
            CHECK(documents_make_room(&documents, i, 77 + i * rows[row].step) == NDD_OK);
            documents_append(&documents, i, 77 + i * rows[row].step);
        }
        CHECK(documents_bytes(&documents) < N * rows[row].bytes);
        for (uint32_t i = 0; i < N; i++) CHECK(documents_has(&documents, i, 77 + i * rows[row].step));
        documents_close(&documents, N);
    }
}

static void test_a_place_with_one_document_left_gives_its_set_back(void) {
    enum { N = 640 };
    struct documents documents = {0};
    CHECK(documents_reserve(&documents, N) == NDD_OK);
    for (uint32_t i = 0; i < N; i++) {
        CHECK(documents_make_room(&documents, i, i) == NDD_OK);
        documents_append(&documents, i, i);
    }
    uint64_t with_sets = 0;
    for (int removes = 0; removes < 2; removes++) {
        for (uint32_t i = 0; i < N; i++) {
            int added = 1;
            CHECK(removes ? documents_remove(&documents, i, i) == 1
                          : documents_add(&documents, i, N + i, &added) == NDD_OK && added);
        }
        if (!removes) with_sets = documents_bytes(&documents);
    }
    CHECK(documents_bytes(&documents) < with_sets / 3);
    for (uint32_t i = 0; i < N; i++) CHECK(documents_has(&documents, i, N + i));
    documents_close(&documents, N);
}

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
            CHECK(trie_make_room(&trie, random_bits(&random_state)) == NDD_OK);
        }
        CHECK(trie_validate(&trie) == NULL && trie.count == count);
        trie_close(&trie);
    }
}

int main(void) {
    test_a_trie_is_an_ordered_set_under_any_changes();
    test_places_keep_their_documents_with_and_without_memory();
    test_documents_in_order_of_insertion_take_no_memory_of_their_own();
    test_a_place_with_one_document_left_gives_its_set_back();
    return 0;
}
