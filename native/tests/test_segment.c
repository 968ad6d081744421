/* Segments against plain scans of their pairs, and what a probe costs. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "instrumented.h"
#include "segment/segment.h"
#include "segments.h"

#define KINDS 5

/* The probe of every query gives what a scan of the pairs gives, for no limit and a few. */
static void check_probes(const ndd_segment *segment, const struct pairs *pairs,
                         const uint64_t *queries, size_t n, uint32_t k) {
    static const uint64_t limits[] = {0, 1, 3, 1000};
    ndd_match *expected = malloc((pairs->n + 1) * sizeof *expected);
    ndd_answer *answer;
    const uint64_t *offsets;
    const ndd_match *matches;
    CHECK(expected != NULL && ndd_answer_open(&answer) == NDD_OK);
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        CHECK(probe_segment(segment, queries, n, k, limits[l], answer) == NDD_OK);
        ndd_answer_get(answer, &offsets, &matches);
        CHECK(offsets[0] == 0);
        for (size_t i = 0; i < n; i++) {
            size_t count = 0;
            for (size_t j = 0; j < pairs->n; j++) {
                uint32_t distance = (uint32_t)count_bits(pairs->values[j] ^ queries[i]);
                if (distance > k) continue;
                expected[count++] = (ndd_match){pairs->documents[j], pairs->values[j], distance, 0};
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

static void test_a_probe_finds_what_a_scan_finds(void) {
    static const size_t sizes[] = {0, 1, 2, 30, 700, 4000};
    enum { QUERIES = 40 };
    for (uint32_t k = 0; k <= NDD_MAX_DISTANCE; k += SIZED(3, 1)) {
        for (int kind = 0; kind < KINDS; kind++) {
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                if (sizes[s] == 4000 && (k + (uint32_t)kind) % 4 != 0) continue;
                struct pairs pairs = make_pairs(kind, sizes[s]);
                uint64_t size, queries[QUERIES];
                uint8_t *bytes = write_segment(&pairs, k, 7, &size);
                ndd_segment *segment = open_segment(bytes, size);
                for (size_t i = 0; i < QUERIES; i++) {
                    queries[i] = make_value(kind, pairs.values, 0);
                    if (pairs.n > 0 && i % 4 > 0) {
                        queries[i] = flipped(pairs.values[below(pairs.n)], (uint32_t)below(k + 2));
                    }
                }
                queries[0] = 0;
                queries[1] = UINT64_MAX;
                check_probes(segment, &pairs, queries, QUERIES, k);
                check_probes(segment, &pairs, queries, QUERIES, (uint32_t)below(k + 1));
                ndd_segment_close(segment);
                free(bytes);
                drop_pairs(&pairs);
            }
        }
    }
}

static void test_larger_segments_have_keys(void) {
    enum { N = 60000, QUERIES = 12 };
    for (uint32_t k = 1; k <= 7; k += 2) {
        struct pairs pairs = make_pairs(1, N);
        uint64_t size, queries[QUERIES];
        uint8_t *bytes = write_segment(&pairs, k, 0, &size);
        ndd_segment *segment = open_segment(bytes, size);
        CHECK(segment->design.blocks[0].bits > 0);
        for (size_t i = 0; i < QUERIES; i++) {
            queries[i] = flipped(pairs.values[below(pairs.n)], (uint32_t)below(k + 2));
        }
        check_probes(segment, &pairs, queries, QUERIES, k);
        ndd_segment_close(segment);
        free(bytes);
        drop_pairs(&pairs);
    }
}

/* Probes a segment of these distinct values, and gives the probe_steps and the matches. */
static uint64_t count_steps(const uint64_t *values, size_t n, uint32_t k, uint64_t query,
                            uint64_t *matched) {
    struct pairs pairs = {malloc(n * 8), malloc(n * 8), n};
    uint64_t size;
    ndd_answer *answer;
    const uint64_t *offsets;
    const ndd_match *matches;
    CHECK(pairs.values != NULL && pairs.documents != NULL && ndd_answer_open(&answer) == NDD_OK);
    memcpy(pairs.values, values, n * 8);
    for (size_t i = 0; i < n; i++) pairs.documents[i] = i;
    CHECK(ndd_sort_pairs(pairs.values, pairs.documents, n, NULL, &pairs.n) == NDD_OK);
    uint8_t *bytes = write_segment(&pairs, k, 0, &size);
    ndd_segment *segment = open_segment(bytes, size);
    probe_steps = 0;
    CHECK(probe_segment(segment, &query, 1, k, 0, answer) == NDD_OK);
    uint64_t taken = probe_steps;
    ndd_answer_get(answer, &offsets, &matches);
    *matched = offsets[1];
    uint64_t expected = 0;
    for (size_t i = 0; i < pairs.n; i++) {
        expected += count_bits(pairs.values[i] ^ query) <= (int)k;
    }
    CHECK(expected == *matched);
    ndd_segment_close(segment);
    ndd_answer_close(answer);
    free(bytes);
    drop_pairs(&pairs);
    return taken;
}

static void test_a_hot_neighbourhood_costs_about_what_it_answers(void) {
    enum { BITS = 19, N = 1 << BITS }; /* compared with all, they would be 32,768 probe_steps and more */
    static uint64_t values[2 * N];
    uint64_t spread_matches, hot_matches, far_matches;
    for (size_t i = 0; i < N; i++) values[i] = random_bits(&random_state);
    uint64_t query = random_bits(&random_state);
    uint64_t usual = count_steps(values, N, 3, query, &spread_matches);
    for (int place = 0; place < 64 - BITS; place += SIZED(64, 27)) { /* N values that differ in BITS bits only */
        uint64_t center = random_bits(&random_state);
        for (size_t i = 0; i < N; i++) values[N + i] = center ^ i << place;
        uint64_t hot = count_steps(values, 2 * N, 3, center ^ 5ULL << place, &hot_matches);
        CHECK(hot_matches >= 1 + 19 + 171 + 969);
        CHECK(hot < 16 * hot_matches + 2 * usual);
        /* From elsewhere it is not noticed. */
        CHECK(count_steps(values, 2 * N, 3, query, &far_matches) < 3 * usual + 100);
    }
}

static void test_the_extremes_cost_no_more_than_others(void) {
    enum { N = 1 << 15 };
    static uint64_t values[N];
    uint64_t matches;
    for (size_t i = 0; i < N; i++) values[i] = random_bits(&random_state);
    uint64_t usual = count_steps(values, N, 6, random_bits(&random_state), &matches);
    values[0] = 0;
    values[1] = UINT64_MAX;
    CHECK(count_steps(values, N, 6, 0, &matches) < 2 * usual && matches == 1);
    CHECK(count_steps(values, N, 6, UINT64_MAX, &matches) < 2 * usual && matches == 1);
}

static void test_every_processor_finds_the_same(void) {
    enum { QUERIES = 100 };
    struct pairs pairs = make_pairs(1, 20000);
    uint64_t size, queries[QUERIES];
    uint8_t *bytes = write_segment(&pairs, 4, 0, &size);
    ndd_segment *segment = open_segment(bytes, size);
    ndd_answer *plain, *lanes;
    CHECK(ndd_answer_open(&plain) == NDD_OK && ndd_answer_open(&lanes) == NDD_OK);
    for (size_t i = 0; i < QUERIES; i++) queries[i] = flipped(pairs.values[below(pairs.n)], 3);
    CHECK(probe_segment(segment, queries, QUERIES, 4, 0, lanes) == NDD_OK);
    without_lanes = 1;
    CHECK(probe_segment(segment, queries, QUERIES, 4, 0, plain) == NDD_OK);
    without_lanes = 0;
    check_same(plain, lanes, QUERIES);
    ndd_answer_close(plain);
    ndd_answer_close(lanes);
    ndd_segment_close(segment);
    free(bytes);
    drop_pairs(&pairs);
}

static void test_segments_are_probed_together_as_each_alone(void) {
    for (int kind = 0; kind < KINDS; kind++) {
        struct pairs few = make_pairs(kind, 300), many = make_pairs(kind, 3000);
        uint64_t few_size, many_size;
        uint8_t *few_bytes = write_segment(&few, 3, 0, &few_size);
        uint8_t *many_bytes = write_segment(&many, 3, 0, &many_size);
        ndd_segment *const open[2] = {open_segment(few_bytes, few_size),
                                      open_segment(many_bytes, many_size)};
        const ndd_segment *const both[2] = {open[0], open[1]};
        ndd_answer *alone, *together;
        CHECK(ndd_answer_open(&alone) == NDD_OK && ndd_answer_open(&together) == NDD_OK);
        const uint64_t *at, *ends;
        const ndd_match *one, *all;
        uint64_t values[300], queries[2 * 300 * 10];
        size_t n = many.n < 300 ? many.n : 300;
        for (size_t i = 0; i < n; i++) values[i] = flipped(many.values[i * many.n / n], (uint32_t)(i % 5));
        for (uint64_t limit = 0; limit < 3; limit++) {
            for (size_t some = n; some > 0; some = some == 1 ? 0 : 1) { /* one, or more than a group */
                CHECK(ndd_segments_probe(both, 2, NULL, values, some, 3, limit, together, NULL) == NDD_OK);
                ndd_answer_get(together, &ends, &all);
                int fits = ends[2 * some] <= sizeof queries / sizeof *queries;
                if (fits) ndd_answer_queries(together, 2 * some, queries);
                for (size_t query = 0; query < 2 * some; query++) {
                    const ndd_segment *which = both[query / some];
                    CHECK(probe_segment(which, values + query % some, 1, 3, limit, alone) == NDD_OK);
                    ndd_answer_get(alone, &at, &one);
                    CHECK(ends[query + 1] - ends[query] == at[1]);
                    CHECK(ndd_answer_cut(together)[query] == ndd_answer_cut(alone)[0]);
                    for (uint64_t j = 0; j < at[1]; j++) {
                        CHECK(all[ends[query] + j].document == one[j].document);
                        CHECK(all[ends[query] + j].value == one[j].value);
                        CHECK(all[ends[query] + j].distance == one[j].distance);
                        CHECK(!fits || queries[ends[query] + j] == query);
                    }
                }
            }
        }
        CHECK(ndd_segments_probe(both, 2, NULL, values, 1, 4, 0, together, NULL) == NDD_BAD_DISTANCE);
        CHECK(ndd_segments_probe(NULL, 0, NULL, values, 1, 3, 0, together, NULL) == NDD_OK);
        ndd_answer_get(together, &ends, &all);
        CHECK(ends[0] == 0);
        ndd_answer_close(alone);
        ndd_answer_close(together);
        for (int which = 0; which < 2; which++) ndd_segment_close(open[which]);
        free(few_bytes);
        free(many_bytes);
        drop_pairs(&few);
        drop_pairs(&many);
    }
}

static void test_a_table_is_probed_with_segments_as_alone(void) {
    for (int kind = 0; kind < KINDS; kind++) {
        struct pairs pairs = make_pairs(kind, 900), in_table = {pairs.values, pairs.documents, pairs.n / 3};
        struct pairs in_file = {pairs.values + in_table.n, pairs.documents + in_table.n, pairs.n - in_table.n};
        uint64_t size, stored, values[300];
        uint8_t *bytes = write_segment(&in_file, 3, 0, &size);
        ndd_segment *segment = open_segment(bytes, size);
        const ndd_segment *twice[2] = {segment, segment};
        ndd_table *table;
        ndd_answer *alone, *together;
        const uint64_t *at, *ends;
        const ndd_match *one, *all;
        CHECK(ndd_table_open(2, NDD_AUTO, &table) == NDD_OK);
        CHECK(ndd_answer_open(&alone) == NDD_OK && ndd_answer_open(&together) == NDD_OK);
        CHECK(ndd_table_insert(table, in_table.values, in_table.documents, in_table.n, &stored) ==
              NDD_OK);
        size_t n = pairs.n < 300 ? pairs.n : 300;
        for (size_t i = 0; i < n; i++) values[i] = flipped(pairs.values[i * pairs.n / n], (uint32_t)(i % 5));
        for (size_t count = 0; count <= 2; count++) {
            for (uint64_t limit = 0; limit < 3; limit++) {
                CHECK(ndd_segments_probe(twice, count, table, values, n, 3, limit, together, NULL) == NDD_OK);
                ndd_answer_get(together, &ends, &all);
                for (size_t query = 0; query < (count + 1) * n; query++) {
                    const uint64_t *value = values + query % n;
                    ndd_status status = query < count * n ? probe_segment(segment, value, 1, 3, limit, alone)
                                                          : ndd_table_probe(table, value, 1, limit, alone);
                    CHECK(status == NDD_OK);
                    ndd_answer_get(alone, &at, &one);
                    CHECK(ends[query + 1] - ends[query] == at[1]);
                    CHECK(ndd_answer_cut(together)[query] == ndd_answer_cut(alone)[0]);
                    CHECK(at[1] == 0 || memcmp(all + ends[query], one, at[1] * sizeof *one) == 0);
                }
            }
        }
        CHECK(ndd_segments_probe(twice, 2, table, values, 1, 4, 0, together, NULL) == NDD_BAD_DISTANCE);
        CHECK(ndd_segments_probe(NULL, 0, NULL, values, 1, 3, 0, together, NULL) == NDD_OK);
        ndd_answer_close(alone);
        ndd_answer_close(together);
        ndd_table_close(table);
        ndd_segment_close(segment);
        free(bytes);
        drop_pairs(&pairs);
    }
}

static void test_a_segment_tells_what_it_holds(void) {
    for (int kind = 0; kind < KINDS; kind++) {
        struct pairs pairs = make_pairs(kind, 3000);
        uint64_t size;
        uint8_t *bytes = write_segment(&pairs, 3, 99, &size), *found = malloc(pairs.n * 2);
        ndd_segment *segment = open_segment(bytes, size);
        ndd_segment_stats stats;
        ndd_segment_stats_get(segment, &stats);
        CHECK(stats.documents == pairs.n && stats.k == 3 && stats.note == 99 && stats.bytes == size);
        CHECK(stats.values <= pairs.n && stats.values > 0 && stats.keys >= stats.blocks);
        uint64_t *values = malloc(pairs.n * 8), *documents = malloc(pairs.n * 8);
        CHECK(values != NULL && documents != NULL && found != NULL);
        ndd_segment_list(segment, values, documents);
        ndd_segment_has(segment, values, documents, pairs.n, found);
        for (size_t i = 0; i < pairs.n; i++) CHECK(found[i] == 1);
        size_t distinct;
        CHECK(ndd_sort_pairs(values, documents, pairs.n, NULL, &distinct) == NDD_OK && distinct == pairs.n);
        CHECK(memcmp(values, pairs.values, pairs.n * 8) == 0);
        CHECK(memcmp(documents, pairs.documents, pairs.n * 8) == 0);
        for (size_t i = 0; i < pairs.n; i++) { /* neighbours of pairs: held only if another pair is it */
            values[i] = i % 2 ? flipped(values[i], 1) : values[i];
            documents[i] += 1 - i % 2;
        }
        ndd_segment_has(segment, values, documents, pairs.n, found);
        for (size_t i = 0; i < pairs.n; i++) {
            int held = 0;
            for (size_t j = 0; j < pairs.n; j++) {
                held |= pairs.values[j] == values[i] && pairs.documents[j] == documents[i];
            }
            CHECK(found[i] == held);
        }
        ndd_segment_close(segment);
        free(values);
        free(documents);
        free(found);
        free(bytes);
        drop_pairs(&pairs);
    }
}

int main(void) {
    test_a_probe_finds_what_a_scan_finds();
    test_larger_segments_have_keys();
    test_a_hot_neighbourhood_costs_about_what_it_answers();
    test_the_extremes_cost_no_more_than_others();
    test_every_processor_finds_the_same();
    test_segments_are_probed_together_as_each_alone();
    test_a_table_is_probed_with_segments_as_alone();
    test_a_segment_tells_what_it_holds();
    return 0;
}
