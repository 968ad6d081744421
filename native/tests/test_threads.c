/*
 * The thread rule of ndd.h, under ThreadSanitizer: many threads probe, list and validate a table
 * while one changes it under a lock; all pairs are found and pages read beside them.
 *
 * Answers are exact, not only free of races: values are stored in a fixed order, so a probe between
 * two counts of stored values finds the neighbours below the first, none from the second on, and of
 * those between a beginning.
 *
 *     test_threads              the rule is kept
 *     test_threads unlocked     it is broken, which ThreadSanitizer must see (a test of this test)
 */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "ndd_bulk.h"

enum { VALUES = 6000, CENTERS = 300, BATCH = 40, PROBERS = 3, QUERIES = 16, K = 3 };

static uint64_t values[VALUES], documents[VALUES];
static ndd_table *table;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t begun, stored; /* how far inserting has begun, and how far it has come */
static int broken;             /* the probers take no lock */

static uint64_t count_of(const uint64_t *count) {
    pthread_mutex_lock(&count_lock);
    uint64_t now = *count;
    pthread_mutex_unlock(&count_lock);
    return now;
}

static void set_count(uint64_t *count, uint64_t to) {
    pthread_mutex_lock(&count_lock);
    *count = to;
    pthread_mutex_unlock(&count_lock);
}

static void make_values(void) {
    unsigned long long state = 7;
    for (uint64_t i = 0; i < VALUES; i++) {
        values[i] = i < CENTERS ? random_bits(&state) : values[i % 7 == 0 ? 0 : i % CENTERS]; /* a crowd */
        for (uint64_t flips = i < CENTERS ? 0 : i % 4; flips > 0; flips--) {
            values[i] ^= UINT64_C(1) << (random_bits(&state) % 64);
        }
        documents[i] = i;
    }
}

static void check_answer(uint64_t query, const ndd_match *matches, uint64_t n, uint64_t least, uint64_t most) {
    static _Thread_local uint8_t found[VALUES];
    memset(found, 0, sizeof found);
    for (uint64_t i = 0; i < n; i++) {
        CHECK(matches[i].document < most && !found[matches[i].document]);
        CHECK(matches[i].value == values[matches[i].document]);
        CHECK((int)matches[i].distance == ndd_distance(query, matches[i].value) && matches[i].distance <= K);
        found[matches[i].document] = 1;
    }
    int ended = 0;
    for (uint64_t i = 0; i < most; i++) {
        if (ndd_distance(values[i], query) > K) continue;
        CHECK(i >= least || found[i]);
        CHECK(!(ended && found[i]));
        ended |= !found[i];
    }
}

static void *probe(void *argument) {
    unsigned long long state = 11 + *(const unsigned long long *)argument;
    ndd_answer *answer;
    CHECK(ndd_answer_open(&answer) == NDD_OK);
    for (int round = 0; round < 20 || count_of(&stored) < VALUES; round++) {
        uint64_t queries[QUERIES];
        const uint64_t *offsets;
        const ndd_match *matches;
        for (int i = 0; i < QUERIES; i++) queries[i] = values[random_bits(&state) % VALUES];
        uint64_t least = count_of(&stored);
        if (!broken) pthread_rwlock_rdlock(&lock);
        CHECK(ndd_table_probe(table, queries, QUERIES, 0, answer) == NDD_OK);
        if (!broken) pthread_rwlock_unlock(&lock);
        uint64_t most = count_of(&begun);
        ndd_answer_get(answer, &offsets, &matches);
        for (int i = 0; i < QUERIES && !broken; i++) {
            check_answer(queries[i], matches + offsets[i], offsets[i + 1] - offsets[i], least, most);
        }
    }
    ndd_answer_close(answer);
    return NULL;
}

/* Every other function that takes a const table. */
static void *look_over(void *argument) {
    (void)argument;
    static uint64_t listed[2][VALUES];
    const char *reason;
    for (int round = 0; round < 3 || count_of(&stored) < VALUES; round++) {
        ndd_table_stats stats;
        pthread_rwlock_rdlock(&lock);
        ndd_table_stats_get(table, &stats);
        CHECK(ndd_table_validate(table, &reason) == NDD_OK);
        uint8_t found = 0;
        ndd_table_list(table, listed[0], listed[1]);
        if (stats.documents > 0) ndd_table_has(table, listed[0], listed[1], 1, &found);
        CHECK(found == (stats.documents > 0));
        pthread_rwlock_unlock(&lock);
    }
    return NULL;
}

/* What has no handle in common with the table. */
static void *work_apart(void *argument) {
    (void)argument;
    static const char html[] = "<article><p>Some words of a page, <a href='/x?sid=1'>a link</a> &amp; more</article>";
    ndd_reader *reader;
    ndd_pairs *pairs;
    ndd_page first, page;
    uint64_t labels[CENTERS * 2], expected = 0, count;
    const uint64_t *at;
    CHECK(ndd_reader_open(&reader) == NDD_OK && ndd_pairs_open(&pairs) == NDD_OK);
    for (int round = 0; round < 20 || count_of(&stored) < VALUES; round++) {
        ndd_page *into = round == 0 ? &first : &page;
        CHECK(ndd_read_html(reader, (const uint8_t *)html, sizeof html - 1, NULL, 0, (ndd_key){0, 0}, into) == NDD_OK);
        CHECK(round == 0 || memcmp(&first, &page, sizeof page) == 0);
        CHECK(ndd_find_all(values, CENTERS * 2, K, pairs) == NDD_OK);
        CHECK(ndd_find_clusters(values, CENTERS * 2, K, labels) == NDD_OK);
        ndd_pairs_get(pairs, &at, &count);
        if (round == 0) expected = count;
        CHECK(count > 0 && count == expected);
    }
    ndd_pairs_close(pairs);
    ndd_reader_close(reader);
    return NULL;
}

static void insert_all(void) {
    for (uint64_t i = 0; i < VALUES; i += BATCH) {
        uint64_t inserted, other = UINT64_C(1) << 60;
        int removed;
        pthread_rwlock_wrlock(&lock);
        set_count(&begun, i + BATCH);
        CHECK(ndd_table_insert(table, values + i, documents + i, BATCH, &inserted) == NDD_OK && inserted == BATCH);
        CHECK(ndd_table_insert(table, values + i, &other, 1, &inserted) == NDD_OK && inserted == 1);
        CHECK(ndd_table_remove(table, values[i], other, &removed) == NDD_OK && removed);
        pthread_rwlock_unlock(&lock);
        set_count(&stored, i + BATCH);
    }
}

int main(int argc, char **argv) {
    static unsigned long long seeds[PROBERS];
    pthread_t threads[PROBERS + 2];
    broken = argc > 1 && strcmp(argv[1], "unlocked") == 0;
    make_values();
    CHECK(ndd_table_open(K, NDD_AUTO, &table) == NDD_OK);
    for (int i = 0; i < PROBERS; i++) {
        seeds[i] = (unsigned long long)i;
        CHECK(pthread_create(&threads[i], NULL, probe, &seeds[i]) == 0);
    }
    CHECK(pthread_create(&threads[PROBERS], NULL, look_over, NULL) == 0);
    CHECK(pthread_create(&threads[PROBERS + 1], NULL, work_apart, NULL) == 0);
    insert_all();
    for (int i = 0; i < PROBERS + 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    ndd_table_close(table);
    return 0;
}
