/*
 * Segments against plain scans of their pairs, and what is refused.
 *
 * The sources are part of this program, so that it can make the n-th allocation fail and look inside.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int64_t allocations_left = -1; /* before one fails, and all after it; negative: none fails */

static int may_allocate(void) {
    if (allocations_left < 0) return 1;
    if (allocations_left == 0) return 0;
    allocations_left--;
    return 1;
}

static void *test_malloc(size_t n) { return may_allocate() ? malloc(n) : NULL; }
static void *test_calloc(size_t n, size_t size) { return may_allocate() ? calloc(n, size) : NULL; }
static void *test_realloc(void *p, size_t n) { return may_allocate() ? realloc(p, n) : NULL; }

#define malloc test_malloc
#define calloc test_calloc
#define realloc test_realloc
#include "table/answer.c"
#include "base/checksum.c"
#include "design/design.c"
#include "design/design_costs.c"
#include "design/keying.c"
#include "table/pair_sort.c"
#include "design/radix.c"
#define SEGMENT_CROWD 64
#include "segment/segment.c"
#include "segment/segment_crowd.c"
#include "segment/segment_write.c"
static uint64_t steps; /* of probes */
#define COUNT_STEPS(n) (steps += (n))
#include "segment/segment_probe.c"
#undef malloc
#undef calloc
#undef realloc

static unsigned long long random_state = 0x9e3779b97f4a7c15ULL;

static uint64_t below(uint64_t n) { return random_bits(&random_state) % n; }

static uint64_t flipped(uint64_t value, uint32_t bits) {
    while (bits-- > 0) value ^= UINT64_C(1) << below(64);
    return value;
}

/* Kinds of data: spread, in clusters, crowded in a few bits at one end or the other, the extremes. */
static uint64_t make_value(int kind, const uint64_t *before, size_t n) {
    switch (kind) {
    case 0: return random_bits(&random_state);
    case 1:
        return n < 10 ? random_bits(&random_state) : flipped(before[below(n)], (uint32_t)below(9));
    case 2: return UINT64_C(0xfeedface00000000) | below(1 << 14);
    case 3: return below(1 << 14) << 50 | 0x1234;
    default: return flipped(below(2) ? UINT64_MAX : 0, (uint32_t)below(6));
    }
}

#define KINDS 5

/* Pairs, sorted, some values with several documents. */
struct pairs {
    uint64_t *values, *documents;
    size_t n;
};

static struct pairs make_pairs(int kind, size_t n) {
    struct pairs pairs = {malloc(n * 8 + 8), malloc(n * 8 + 8), n};
    CHECK(pairs.values != NULL && pairs.documents != NULL);
    for (size_t i = 0; i < n; i++) {
        pairs.values[i] = make_value(kind, pairs.values, i);
        if (i > 0 && below(5) == 0) pairs.values[i] = pairs.values[below(i)];
        pairs.documents[i] = below(2) ? below(40) : random_bits(&random_state);
    }
    CHECK(ndd_sort_pairs(pairs.values, pairs.documents, n, &pairs.n) == NDD_OK);
    return pairs;
}

static void drop_pairs(struct pairs *pairs) {
    free(pairs->values);
    free(pairs->documents);
}

static uint8_t *write_segment(const struct pairs *pairs, uint32_t k, uint64_t note, uint64_t *size) {
    CHECK(ndd_segment_size(pairs->values, pairs->documents, pairs->n, k, size) == NDD_OK);
    uint8_t *bytes = malloc((size_t)*size);
    CHECK(bytes != NULL);
    memset(bytes, 0xa5, (size_t)*size);
    CHECK(ndd_segment_write(pairs->values, pairs->documents, pairs->n, k, note, bytes, *size) == NDD_OK);
    return bytes;
}

static ndd_segment *open_segment(const uint8_t *bytes, uint64_t size) {
    ndd_segment *segment = NULL;
    const char *reason = "";
    ndd_status status = ndd_segment_open(bytes, size, &segment, &reason);
    if (status != NDD_OK) fprintf(stderr, "%s\n", reason);
    CHECK(status == NDD_OK && segment != NULL);
    return segment;
}

static int nearer(const void *a, const void *b) {
    const ndd_match *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    if (x->document != y->document) return x->document < y->document ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

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
        CHECK(ndd_segment_probe(segment, queries, n, k, limits[l], answer) == NDD_OK);
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

/* ------------------------------------------------------------------------------------- probes */

static void test_a_probe_finds_what_a_scan_finds(void) {
    static const size_t sizes[] = {0, 1, 2, 30, 700, 4000};
    enum { QUERIES = 40 };
    for (uint32_t k = 0; k <= MAX_DISTANCE; k++) {
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

/* Probes a segment of these distinct values, and gives the steps and the matches. */
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
    CHECK(ndd_sort_pairs(pairs.values, pairs.documents, n, &pairs.n) == NDD_OK);
    uint8_t *bytes = write_segment(&pairs, k, 0, &size);
    ndd_segment *segment = open_segment(bytes, size);
    steps = 0;
    CHECK(ndd_segment_probe(segment, &query, 1, k, 0, answer) == NDD_OK);
    uint64_t taken = steps;
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
    enum { BITS = 19, N = 1 << BITS }; /* compared with all, they would be 32,768 steps and more */
    static uint64_t values[2 * N];
    uint64_t spread_matches, hot_matches, far_matches;
    for (size_t i = 0; i < N; i++) values[i] = random_bits(&random_state);
    uint64_t query = random_bits(&random_state);
    uint64_t usual = count_steps(values, N, 3, query, &spread_matches);
    for (int place = 0; place < 64 - BITS; place += 27) { /* N values that differ in BITS bits only */
        uint64_t center = random_bits(&random_state);
        for (size_t i = 0; i < N; i++) values[N + i] = center ^ i << place;
        uint64_t hot = count_steps(values, 2 * N, 3, center ^ 5ULL << place, &hot_matches);
        CHECK(hot_matches >= 1 + 19 + 171 + 969);
        CHECK(hot < 16 * hot_matches + 2 * usual);
        /* From elsewhere it is not noticed. */
        CHECK(count_steps(values, 2 * N, 3, query, &far_matches) < 3 * usual + 100);
    }
}

static void test_the_centre_of_a_shell_costs_next_to_nothing(void) {
    enum { N = 1 << 16 };
    static uint64_t values[N];
    uint64_t centre = random_bits(&random_state), matches;
    for (size_t i = 0; i < N;) { /* 4 to some 30 bits away from it */
        uint64_t difference = random_bits(&random_state) & random_bits(&random_state);
        if (i & 1) difference &= random_bits(&random_state);
        if (count_bits(difference) > 3) values[i++] = centre ^ difference;
    }
    CHECK(count_steps(values, N, 3, centre, &matches) < 400 && matches == 0);
    CHECK(count_steps(values, N, 3, ~centre, &matches) < 400 && matches == 0);
    CHECK(count_steps(values, N, 6, centre ^ 1, &matches) > 0); /* and what matches is found */
    CHECK(matches > 0);
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
#ifdef COUNTS_LANES
    if (!processor_counts_lanes()) return;
    enum { QUERIES = 100 };
    struct pairs pairs = make_pairs(1, 20000);
    uint64_t size, queries[QUERIES];
    uint8_t *bytes = write_segment(&pairs, 4, 0, &size);
    ndd_segment *segment = open_segment(bytes, size);
    ndd_answer *plain, *lanes;
    CHECK(ndd_answer_open(&plain) == NDD_OK && ndd_answer_open(&lanes) == NDD_OK);
    for (size_t i = 0; i < QUERIES; i++) queries[i] = flipped(pairs.values[below(pairs.n)], 3);
    struct search one = {segment, queries, 4, plain}, other = {segment, queries, 4, lanes};
    CHECK(find_values_plain(&one, QUERIES) == NDD_OK && find_values_lanes(&other, QUERIES) == NDD_OK);
    CHECK(plain->found_count > QUERIES / 2 && plain->found_count == lanes->found_count);
    CHECK(memcmp(plain->found, lanes->found, plain->found_count * sizeof *plain->found) == 0);
    ndd_answer_close(plain);
    ndd_answer_close(lanes);
    ndd_segment_close(segment);
    free(bytes);
    drop_pairs(&pairs);
#endif
}

static void test_a_design_finds_every_difference(void) {
    static const uint64_t sizes[] = {1, 1000, 100000, 10000000, 1000000000};
    for (uint32_t k = 0; k <= MAX_DISTANCE; k++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct part parts[MAX_DISTANCE + 1];
            struct design design;
            uint32_t count;
            CHECK(design_for_segment(sizes[s], k, parts, &count) == NDD_OK);
            CHECK(design_of_parts(&design, parts, count, k) == NDD_OK);
            for (int i = 0; i < 3000; i++) {
                uint64_t difference = flipped(0, i == 0 ? 0 : (uint32_t)below(k + 1));
                if (i % 3 == 0) difference &= UINT64_C(0x00ffff) << below(48); /* all in one place */
                int found = 0;
                for (uint32_t b = 0; b < design.count; b++) {
                    found |= block_finds(&design.blocks[b], difference);
                }
                CHECK(found);
            }
            design_close(&design);
        }
    }
}

static void test_parts_that_do_not_find_all_are_refused(void) {
    static const struct {
        struct part parts[2];
        uint32_t count, k;
    } wrong[] = {
        {{{32, 1, 16, 1}, {32, 0, 16, 1}}, 2, 3},   /* too little */
        {{{32, 2, 16, 1}, {32, 1, 16, 1}}, 2, 3},   /* too much */
        {{{33, 1, 16, 1}, {32, 1, 16, 1}}, 2, 3},   /* more than 64 bits */
        {{{32, 1, 33, 1}, {32, 1, 16, 1}}, 2, 3},   /* more key bits than bits */
        {{{32, 1, 32, 1}, {32, 1, 16, 1}}, 2, 3},   /* more than a bucket has a number for */
        {{{32, 1, 0, 1}, {32, 1, 16, 1}}, 2, 3},    /* no key */
        {{{32, 1, 16, 0}, {32, 1, 16, 1}}, 2, 3},   /* no table */
        {{{32, 1, 16, 5}, {32, 1, 16, 1}}, 2, 3},   /* too many */
        {{{32, 2, 16, 2}, {32, 0, 16, 1}}, 2, 3},   /* two tables share one threshold only */
        {{{2, 2, 1, 1}, {32, 0, 16, 1}}, 2, 3},     /* a threshold of all bits */
        {{{32, 4, 31, 1}, {32, 0, 16, 1}}, 2, 5},   /* too many keys */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct design design;
        CHECK(design_of_parts(&design, wrong[i].parts, wrong[i].count, wrong[i].k) == NDD_DAMAGED);
        CHECK(design.blocks == NULL);
    }
    struct design right;
    struct part halves[] = {{32, 1, 16, 1}, {32, 1, 16, 2}};
    CHECK(design_of_parts(&right, halves, 2, 3) == NDD_OK && right.count == 3);
    design_close(&right);
}

/* ------------------------------------------------------------------------------ what it holds */

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
        CHECK(ndd_sort_pairs(values, documents, pairs.n, &distinct) == NDD_OK && distinct == pairs.n);
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

static void test_pairs_out_of_order_are_refused(void) {
    uint64_t size, bytes[64], values[] = {5, 4}, same[] = {5, 5}, documents[] = {1, 1}, falling[] = {2, 1};
    CHECK(ndd_segment_size(values, documents, 2, 3, &size) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_size(same, documents, 2, 3, &size) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_size(same, falling, 2, 3, &size) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_size(values, documents, 1, 16, &size) == NDD_BAD_DISTANCE);
    CHECK(ndd_segment_size(NULL, documents, 1, 3, &size) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_size(values, documents, 1, 3, &size) == NDD_OK && size <= sizeof bytes);
    CHECK(ndd_segment_write(values, documents, 1, 3, 0, (uint8_t *)bytes, size - 1) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_write(values, documents, 1, 3, 0, NULL, size) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_write(values, documents, 1, 3, 0, (uint8_t *)bytes, size) == NDD_OK);
    ndd_segment *segment = open_segment((uint8_t *)bytes, size);
    ndd_answer *answer;
    CHECK(ndd_answer_open(&answer) == NDD_OK);
    CHECK(ndd_segment_probe(segment, values, 1, 4, 0, answer) == NDD_BAD_DISTANCE);
    CHECK(ndd_segment_probe(segment, NULL, 1, 3, 0, answer) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_probe(segment, NULL, 0, 3, 0, answer) == NDD_OK);
    ndd_answer_close(answer);
    ndd_segment_close(segment);
    ndd_segment_close(NULL);
}

/* -------------------------------------------------------------------------------------- damage */

static ndd_status open_copy(const uint8_t *bytes, uint64_t size, const char **reason) {
    uint8_t *copy = malloc((size_t)size + 1); /* of exactly its size, for the sanitizer */
    ndd_segment *segment = NULL;
    CHECK(copy != NULL);
    memcpy(copy, bytes, (size_t)size);
    copy = realloc(copy, size > 0 ? (size_t)size : 1);
    ndd_status status = ndd_segment_open(copy, size, &segment, reason);
    CHECK((status == NDD_OK) == (segment != NULL) && (status == NDD_OK || **reason != '\0'));
    ndd_segment_close(segment);
    free(copy);
    return status;
}

static void test_every_flipped_bit_and_every_cut_is_refused(void) {
    struct pairs pairs = make_pairs(1, 60);
    uint64_t size;
    const char *reason = "";
    uint8_t *bytes = write_segment(&pairs, 3, 0, &size);
    CHECK(open_copy(bytes, size, &reason) == NDD_OK);
    for (uint64_t i = 0; i < 8 * size; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        ndd_status status = open_copy(bytes, size, &reason);
        CHECK(status == NDD_DAMAGED || status == NDD_BAD_FORMAT || status == NDD_BAD_VERSION);
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (uint64_t n = 0; n < size; n++) {
        CHECK(open_copy(bytes, n, &reason) == NDD_CUT);
    }
    free(bytes);
    drop_pairs(&pairs);
}

static void put_right(uint8_t *bytes, uint64_t size) {
    store8(bytes + AT_SEGMENT_CHECKSUM, checksum(bytes, AT_SEGMENT_CHECKSUM));
    store8(bytes + size - 8, checksum(bytes, (size_t)size - 8));
}

/* Changes 4 bytes, puts the checksums right, and undoes it. */
static const char *broken(uint8_t *bytes, uint64_t size, const uint8_t *at, uint32_t number) {
    const char *reason = "";
    uint8_t *to = bytes + (at - bytes), before[4];
    memcpy(before, to, 4);
    store4_le(to, number);
    put_right(bytes, size);
    CHECK(open_copy(bytes, size, &reason) != NDD_OK);
    memcpy(to, before, 4);
    put_right(bytes, size);
    return reason;
}

#define NAMES(what, at, number) CHECK(strcmp(broken(bytes, size, at, number), what) == 0)

static uint64_t count_values(const struct pairs *pairs) {
    struct pair_counts counts;
    CHECK(count_pairs(pairs->values, pairs->documents, pairs->n, &counts));
    return counts.values;
}

static void test_the_rule_that_is_broken_is_named(void) {
    struct pairs pairs = make_pairs(0, 6000);
    while (count_values(&pairs) % 2 == 0) pairs.n--; /* an odd number, so that there is a gap */
    uint64_t size;
    uint8_t *bytes = write_segment(&pairs, 7, 0, &size);
    ndd_segment *segment = open_segment(bytes, size);
    const struct segment_table *table = &segment->tables[1];
    CHECK(segment->design.count > 1 && segment->several_count > 2 && segment->values % 2 == 1);
    NAMES("the first bytes are not those of a segment", bytes, 0);
    NAMES("the format version is not 1", bytes + 8, 2);
    NAMES("the distance is out of range", bytes + AT_SEGMENT_K, 16);
    NAMES("a reserved field is not 0", bytes + AT_SEGMENT_ZERO, 1);
    NAMES("a reserved field is not 0", bytes + AT_SEGMENT_PART + 60, 1);
    NAMES("the design has too many parts", bytes + AT_SEGMENT_PARTS, 17);
    NAMES("the design does not find all that it must", bytes + AT_SEGMENT_K, 4);
    NAMES("there are fewer bytes than the header states", bytes + AT_SEGMENT_PAIRS, 9000);
    NAMES("there are more bytes than the header states", bytes + AT_SEGMENT_PAIRS, 10);
    NAMES("there are more values than a segment can hold", bytes + AT_SEGMENT_VALUES, 0x7fffffff);
    NAMES("the buckets do not hold all values", table->starts, 1);
    NAMES("the buckets overlap", table->starts + 8, 6000);
    NAMES("what lies between two sections is not 0", (const uint8_t *)(table->lows + segment->values), 1);
    const uint8_t *low = (const uint8_t *)(table->lows + 17);
    NAMES("the tables hold different values", low, load4_le(low) ^ 1);
    CHECK(segment_start(table, 1) > 1);
    CHECK(broken(bytes, size, (const uint8_t *)(table->lows + 1), load4_le((const uint8_t *)table->lows)));
    NAMES("the documents are miscounted", segment->several + 8, 1 + (uint32_t)load8_le(segment->several + 8));
    NAMES("the values with several documents are not in order", segment->several, 0x7fffffff);
    const uint8_t *first = segment->documents + 8 * load8_le(segment->several + 8);
    NAMES("the documents of a value are not in order", first + 4, 0xffffffff);
    ndd_segment_close(segment);
    free(bytes);
    drop_pairs(&pairs);
}

/* --------------------------------------------------------------------------------- memory */

static void test_calls_without_memory_change_nothing(void) {
    struct pairs pairs = make_pairs(1, 2000);
    uint64_t size, other;
    uint8_t *bytes = write_segment(&pairs, 3, 0, &size), *again = malloc((size_t)size);
    CHECK(again != NULL);
    for (int call = 0; call < 5; call++) {
        int64_t fail_at = 0;
        for (ndd_status status = NDD_NO_MEMORY; status != NDD_OK; fail_at++) {
            ndd_segment *segment = call == 4 ? open_segment(bytes, size) : NULL;
            ndd_answer *answer = NULL;
            const char *reason = "";
            size_t distinct = 0;
            CHECK(ndd_answer_open(&answer) == NDD_OK);
            allocations_left = fail_at;
            switch (call) {
            case 0: status = ndd_sort_pairs(pairs.values, pairs.documents, pairs.n, &distinct); break;
            case 1: status = ndd_segment_size(pairs.values, pairs.documents, pairs.n, 3, &other); break;
            case 2:
                status = ndd_segment_write(pairs.values, pairs.documents, pairs.n, 3, 0, again, size);
                break;
            case 3: status = ndd_segment_open(bytes, size, &segment, &reason); break;
            default: status = ndd_segment_probe(segment, pairs.values, 300, 3, 0, answer);
            }
            allocations_left = -1;
            CHECK(status == NDD_OK || status == NDD_NO_MEMORY);
            CHECK(fail_at > 0 || status == NDD_NO_MEMORY);
            ndd_answer_close(answer);
            ndd_segment_close(segment);
        }
    }
    CHECK(memcmp(bytes, again, (size_t)size) == 0);
    free(bytes);
    free(again);
    drop_pairs(&pairs);
}

int main(void) {
    test_a_probe_finds_what_a_scan_finds();
    test_larger_segments_have_keys();
    test_a_hot_neighbourhood_costs_about_what_it_answers();
    test_the_centre_of_a_shell_costs_next_to_nothing();
    test_the_extremes_cost_no_more_than_others();
    test_every_processor_finds_the_same();
    test_a_design_finds_every_difference();
    test_parts_that_do_not_find_all_are_refused();
    test_a_segment_tells_what_it_holds();
    test_pairs_out_of_order_are_refused();
    test_every_flipped_bit_and_every_cut_is_refused();
    test_the_rule_that_is_broken_is_named();
    test_calls_without_memory_change_nothing();
    return 0;
}
