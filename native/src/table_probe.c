/*
 * Probes: from a fingerprint to the documents of all values within k.
 *
 * All keys of all queries form one stream of buckets to visit. A bucket is asked for when it enters
 * a short queue and read when it leaves it, so that the fetches of many overlap: a probe pays for
 * the distinct lines it touches, not for their latency. The values found by a group of queries are
 * then looked up in the same way: map, place and documents are asked for some steps before each.
 *
 * The rule kept: a value that several blocks find is taken in the first of them only. Within one
 * block a value lies in one bucket, and every key leads to another bucket; so a match is reported
 * once, and nothing needs to be remembered.
 */
#include <stdlib.h>
#include <string.h>

#include "table.h"

struct found {
    uint64_t value;
    uint32_t distance;
    uint32_t query; /* of the group at hand */
};

struct ndd_answer {
    uint64_t *offsets;
    size_t offsets_capacity;
    uint8_t *cut; /* for each query, whether the limit left matches out */
    size_t cut_capacity;
    ndd_match *matches;
    size_t matches_capacity, matches_count;
    struct found *found; /* values of the group of queries at hand */
    size_t found_capacity, found_count;
};

static const uint64_t no_offsets[1] = {0};

ndd_status ndd_answer_open(ndd_answer **answer) {
    ndd_answer *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return NDD_NO_MEMORY;
    *answer = opened;
    return NDD_OK;
}

void ndd_answer_close(ndd_answer *answer) {
    if (answer == NULL) return;
    free(answer->offsets);
    free(answer->cut);
    free(answer->matches);
    free(answer->found);
    free(answer);
}

void ndd_answer_get(const ndd_answer *answer, const uint64_t **offsets,
                    const ndd_match **matches) {
    *offsets = answer->offsets == NULL ? no_offsets : answer->offsets;
    *matches = answer->matches;
}

const uint8_t *ndd_answer_cut(const ndd_answer *answer) { return answer->cut; }

/* Room for `wanted` items of `size` bytes; returns 0 without memory. */
static int answer_room(void **items, size_t *capacity, size_t wanted, size_t size) {
    if (wanted <= *capacity) return 1;
    size_t larger = wanted + *capacity / 2 + 16;
    if (wanted > SIZE_MAX / 2 / size) return 0;
    void *moved = realloc(*items, larger * size);
    if (moved == NULL) return 0;
    *items = moved;
    *capacity = larger;
    return 1;
}

static ndd_status take(ndd_answer *answer, struct found found) {
    void *items = answer->found;
    int room = answer_room(&items, &answer->found_capacity, answer->found_count + 1,
                           sizeof *answer->found);
    answer->found = items;
    if (!room) return NDD_NO_MEMORY;
    answer->found[answer->found_count++] = found;
    return NDD_OK;
}

/* ----------------------------------------------------------- from values found to documents */

/* Within one distance. */
static int match_before(const ndd_match *a, const ndd_match *b) {
    return a->document != b->document ? a->document < b->document : a->value < b->value;
}

static int compare_matches(const void *a, const void *b) {
    const ndd_match *left = a, *right = b;
    return match_before(right, left) - match_before(left, right);
}

static int compare_found(const void *a, const void *b) {
    const struct found *left = a, *right = b;
    if (left->distance != right->distance) return left->distance < right->distance ? -1 : 1;
    return (left->value > right->value) - (left->value < right->value);
}

static void sort_found(struct found *found, size_t n) {
    if (n > 16) {
        qsort(found, n, sizeof *found, compare_found);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        struct found one = found[i];
        size_t j = i;
        for (; j > 0 && compare_found(&one, &found[j - 1]) < 0; j--) found[j] = found[j - 1];
        found[j] = one;
    }
}

static void sort_matches(ndd_match *matches, size_t n) {
    if (n > 16) {
        qsort(matches, n, sizeof *matches, compare_matches);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        ndd_match match = matches[i];
        size_t j = i;
        for (; j > 0 && match_before(&match, &matches[j - 1]); j--) matches[j] = matches[j - 1];
        matches[j] = match;
    }
}

/* Moves matches[0] of a heap, whose top comes last, down to where it belongs. */
static void sift(ndd_match *matches, size_t n) {
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) return;
        if (child + 1 < n && match_before(&matches[child], &matches[child + 1])) child++;
        if (!match_before(&matches[at], &matches[child])) return;
        ndd_match match = matches[at];
        matches[at] = matches[child];
        matches[child] = match;
        at = child;
    }
}

static void raise_last(ndd_match *matches, size_t n) {
    for (size_t at = n - 1; at > 0;) {
        size_t parent = (at - 1) / 2;
        if (!match_before(&matches[parent], &matches[at])) return;
        ndd_match match = matches[at];
        matches[at] = matches[parent];
        matches[parent] = match;
        at = parent;
    }
}

/* Adds one match to a group that holds at most `wanted`, the first by order; past that the group is
 * a heap, so that a million documents of one value cost a bounded memory. */
static ndd_status add_match(ndd_answer *answer, size_t group, size_t wanted, ndd_match match,
                            size_t query) {
    size_t held = answer->matches_count - group;
    if (held < wanted) {
        void *items = answer->matches;
        int room = answer_room(&items, &answer->matches_capacity, answer->matches_count + 1,
                               sizeof *answer->matches);
        answer->matches = items;
        if (!room) return NDD_NO_MEMORY;
        answer->matches[answer->matches_count++] = match;
        if (wanted != SIZE_MAX) raise_last(answer->matches + group, held + 1);
        return NDD_OK;
    }
    answer->cut[query] = 1;
    if (match_before(&match, &answer->matches[group])) {
        answer->matches[group] = match;
        sift(answer->matches + group, held);
    }
    return NDD_OK;
}

static ndd_status add_documents(const ndd_table *table, ndd_answer *answer, struct found found,
                                size_t group, size_t wanted, size_t query) {
    uint32_t place = 0, count = 0;
    if (!numbers_find(&table->values, found.value, &place)) return NDD_DAMAGED;
    const uint64_t *documents = documents_get(&table->documents, place, &count);
    ndd_status status = NDD_OK;
    for (uint32_t i = 0; i < count && status == NDD_OK; i++) {
        ndd_match match = {documents[i], found.value, found.distance, 0};
        status = add_match(answer, group, wanted, match, query);
    }
    return status;
}

#define FOUND_MAP 24 /* found values whose place in the map is asked for, */
#define FOUND_PLACE 12 /* and those whose documents are */

static void ask_for(const ndd_table *table, const ndd_answer *answer, size_t i) {
    if (i + FOUND_MAP < answer->found_count) {
        numbers_prefetch(&table->values, answer->found[i + FOUND_MAP].value);
    }
    if (i + FOUND_PLACE < answer->found_count) {
        uint32_t guess = numbers_guess(&table->values, answer->found[i + FOUND_PLACE].value);
        if (guess != NUMBERS_MAX) documents_prefetch(&table->documents, guess);
    }
}

/* The matches of a query, whose values are found[i] up to found[end]: the values by distance, and
 * for each distance the documents. */
static ndd_status finish_query(const ndd_table *table, ndd_answer *answer, uint64_t limit,
                               size_t query, size_t i, size_t end) {
    struct found *found = answer->found;
    size_t first = answer->matches_count;
    while (i < end) {
        size_t group = answer->matches_count, wanted = SIZE_MAX;
        if (limit > 0) {
            if (group - first >= limit) {
                answer->cut[query] = 1;
                break;
            }
            if (limit - (group - first) < SIZE_MAX) wanted = (size_t)(limit - (group - first));
        }
        uint32_t distance = found[i].distance;
        for (; i < end && found[i].distance == distance; i++) {
            ask_for(table, answer, i);
            ndd_status status = add_documents(table, answer, found[i], group, wanted, query);
            if (status != NDD_OK) return status;
        }
        sort_matches(answer->matches + group, answer->matches_count - group);
    }
    return NDD_OK;
}

/* The matches of a group of n queries, the first of which is number `query`. */
static ndd_status finish_group(const ndd_table *table, ndd_answer *answer, uint64_t limit,
                               size_t query, size_t n) {
    struct found *found = answer->found;
    size_t count = answer->found_count;
    for (size_t i = 0, end; i < count; i = end) { /* those of a query lie together */
        for (end = i + 1; end < count && found[end].query == found[i].query;) end++;
        sort_found(found + i, end - i);
    }
    for (size_t i = 0; i < count && i < FOUND_MAP; i++) {
        numbers_prefetch(&table->values, found[i].value);
    }
    for (size_t j = 0, i = 0; j < n; j++) {
        size_t end = i;
        while (end < count && found[end].query == j) end++;
        ndd_status status = finish_query(table, answer, limit, query + j, i, end);
        if (status != NDD_OK) return status;
        answer->offsets[query + j + 1] = answer->matches_count;
        i = end;
    }
    answer->found_count = 0;
    return NDD_OK;
}

/* ------------------------------------------------------------------------- finding the values */

#ifndef QUEUE
#define QUEUE 32 /* buckets on their way; a power of two */
#define ASKED 20 /* after so many more, what lies beyond one is asked for */
#endif
#define GROUP 256 /* queries whose values are found before they are looked up */

struct visit {
    const union line *line;
    uint64_t rest; /* of the query */
    uint32_t flip;
    uint32_t query;
};

#if defined(__GNUC__) || defined(__clang__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* A value within k counts in the first block that finds it. */
INLINE int is_first(const struct design *design, uint32_t block, uint64_t difference) {
    for (uint32_t i = 0; i < block; i++) {
        if (block_finds(&design->blocks[i], difference)) return 0;
    }
    return 1;
}

#if defined(__GNUC__) || defined(__clang__)
INLINE uint32_t count_lane_bits(uint32_t x) { return (uint32_t)__builtin_popcount(x); }
#else
INLINE uint32_t count_lane_bits(uint32_t x) { return (uint32_t)count_bits(x); }
#endif

/* Whether one of 16 numbers is within `most` bits of another. A loop that compilers turn into a few
 * instructions, where the processor has them. */
INLINE int any_near(const uint32_t *numbers, uint32_t other, uint32_t most) {
    uint32_t any = 0;
    for (int i = 0; i < LINE_LANES; i++) any |= count_lane_bits(numbers[i] ^ other) <= most;
    return any != 0;
}

/* Which of n numbers, at most 16, are: a bit for each. */
INLINE uint32_t which_near(const uint32_t *numbers, uint32_t n, uint32_t other, uint32_t most) {
    uint32_t near = 0;
    for (uint32_t i = 0; i < n; i++) {
        near |= (uint32_t)(count_lane_bits(numbers[i] ^ other) <= most) << i;
    }
    return near;
}

/* Takes the values within k of n entries, at most 16, those from `from` on. Seldom called, and apart,
 * so that what is called always stays small. */
COUNTS_BITS
static ndd_status take_near(const ndd_table *table, const uint32_t *entries, uint32_t room,
                            uint32_t from, uint32_t n, const struct visit *visit, uint64_t query,
                            ndd_answer *answer) {
    const struct flip *flip = &table->index.flips[visit->flip];
    const struct lines *lines = &table->index.lines[flip->block];
    uint32_t near = which_near(entries + from, n, (uint32_t)visit->rest, table->k - flip->bits);
    for (; near != 0; near &= near - 1) {
        uint32_t i = from + lowest_bit(near);
        uint64_t rest = (uint64_t)entry_far(entries, room, lines->far_bytes, i) << 32 | entries[i];
        uint32_t distance = (uint32_t)count_bits(rest ^ visit->rest) + flip->bits;
        if (distance > table->k) continue;
        uint64_t difference = flip->difference | pieces_spread(&lines->rest, rest ^ visit->rest);
        if (!is_first(&table->index.design, flip->block, difference)) continue;
        ndd_status status = take(answer, (struct found){query ^ difference, distance, visit->query});
        if (status != NDD_OK) return status;
    }
    return NDD_OK;
}

INLINE ndd_status read_bucket(const ndd_table *table, const uint64_t *queries,
                              const struct visit *visit, ndd_answer *answer) {
    const struct flip *flip = &table->index.flips[visit->flip];
    const struct lines *lines = &table->index.lines[flip->block];
    const struct overflow *overflow = line_overflow(visit->line);
    const uint32_t *lanes = visit->line->lanes;
    uint32_t most = table->k - flip->bits, low = (uint32_t)visit->rest;
    uint32_t inside = line_inside(lines, visit->line), first = 0, after = LINE_LANES - 2;
    uint64_t query = queries[visit->query];
    /* The lanes that hold no entry may look near; only entries are taken. The first line has two
     * lanes less for them. */
    for (; first < inside; lanes += LINE_LANES, first = after, after += LINE_LANES) {
        if (!any_near(lanes, low, most)) continue;
        uint32_t end = after < inside ? after : inside;
        ndd_status status = take_near(table, line_lows(visit->line), lines->inside, first,
                                      end - first, visit, query, answer);
        if (status != NDD_OK) return status;
    }
    if (overflow == NULL) return NDD_OK;
    for (uint32_t i = 0; i < overflow->count; i += LINE_LANES) {
        uint32_t left = overflow->count - i;
        if (left >= LINE_LANES && !any_near(overflow->entries + i, low, most)) continue;
        ndd_status status = take_near(table, overflow->entries, overflow->capacity, i,
                                      left < LINE_LANES ? left : LINE_LANES, visit, query, answer);
        if (status != NDD_OK) return status;
    }
    return NDD_OK;
}

/* Finds the values of n queries, a group of at most GROUP. */
INLINE ndd_status find_values(const ndd_table *table, const uint64_t *queries, uint32_t n,
                              ndd_answer *answer) {
    const struct index *index = &table->index;
    struct visit queue[QUEUE];
    size_t entered = 0, asked = 0, left = 0;
    uint32_t query = 0, block = 0, flip = 0;
    const struct lines *lines = &index->lines[0];
    uint32_t bucket = lines_bucket(lines, queries[0]);
    uint64_t rest = lines_rest(lines, queries[0]);
    while (query < n || left < entered) {
        if (query < n) {
            const union line *line = lines_at(lines, bucket ^ index->flips[flip].bucket);
            lines_prefetch(lines, line);
            queue[entered++ % QUEUE] = (struct visit){line, rest, flip, query};
            if (++flip == index->flips_end[block]) {
                if (++block == index->design.count) {
                    block = flip = 0;
                    query++;
                }
                if (query < n) {
                    lines = &index->lines[block];
                    bucket = lines_bucket(lines, queries[query]);
                    rest = lines_rest(lines, queries[query]);
                }
            }
        }
        /* What lies beyond the lines of a bucket is asked for before it is read, too. */
        if (asked < entered && (query == n || entered - asked > ASKED)) {
            const struct overflow *overflow = line_overflow(queue[asked++ % QUEUE].line);
            if (overflow != NULL) {
                prefetch(overflow);
                prefetch(overflow->entries + LINE_LANES);
            }
        }
        if (left < asked && (query == n || entered - left == QUEUE)) {
            ndd_status status = read_bucket(table, queries, &queue[left++ % QUEUE], answer);
            if (status != NDD_OK) return status;
        }
    }
    return NDD_OK;
}

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define COUNTS_LANES 1
__attribute__((target("avx512vpopcntdq,avx512vl,avx512bw,popcnt")))
static ndd_status find_values_lanes(const ndd_table *table, const uint64_t *queries, uint32_t n,
                                    ndd_answer *answer) {
    return find_values(table, queries, n, answer);
}
#endif

COUNTS_BITS
static ndd_status find_values_plain(const ndd_table *table, const uint64_t *queries, uint32_t n,
                                    ndd_answer *answer) {
    return find_values(table, queries, n, answer);
}

/* Without an index: compares with every value. */
COUNTS_BITS
static ndd_status scan_values(const ndd_table *table, const uint64_t *queries, uint32_t n,
                              ndd_answer *answer) {
    const uint64_t *values = table->values.items;
    for (uint32_t query = 0; query < n; query++) {
        for (uint32_t i = 0; i < table->values.count; i++) {
            uint32_t distance = (uint32_t)count_bits(values[i] ^ queries[query]);
            if (distance > table->k) continue;
            ndd_status status = take(answer, (struct found){values[i], distance, query});
            if (status != NDD_OK) return status;
        }
    }
    return NDD_OK;
}

typedef ndd_status finder(const ndd_table *, const uint64_t *, uint32_t, ndd_answer *);

static finder *best_finder(const ndd_table *table) {
    if (table->index.design.count == 0) return scan_values;
#ifdef COUNTS_LANES
    if (__builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw")) {
        return find_values_lanes;
    }
#endif
    return find_values_plain;
}

ndd_status ndd_table_probe(const ndd_table *table, const uint64_t *values, size_t n,
                           uint64_t limit, ndd_answer *answer) {
    if (n > 0 && values == NULL) return NDD_BAD_ARGUMENT;
    if (n == SIZE_MAX) return NDD_TOO_LARGE;
    void *offsets = answer->offsets, *cut = answer->cut;
    int room = answer_room(&offsets, &answer->offsets_capacity, n + 1, sizeof *answer->offsets) &&
               answer_room(&cut, &answer->cut_capacity, n + 1, 1);
    answer->offsets = offsets;
    answer->cut = cut;
    answer->matches_count = answer->found_count = 0;
    if (!room) return NDD_NO_MEMORY;
    answer->offsets[0] = 0;
    memset(answer->cut, 0, n + 1);
    finder *find = best_finder(table);
    ndd_status status = NDD_OK;
    for (size_t i = 0; i < n && status == NDD_OK; i += GROUP) {
        size_t group = n - i < GROUP ? n - i : GROUP;
        status = find(table, values + i, (uint32_t)group, answer);
        if (status == NDD_OK) status = finish_group(table, answer, limit, i, group);
    }
    if (status != NDD_OK) answer->matches_count = 0;
    return status;
}
