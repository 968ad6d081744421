/*
 * Probes: from a fingerprint to the documents of all values within k.
 *
 * All keys of all queries form one stream of buckets to visit. A bucket is asked for when it enters
 * a short queue and read when it leaves it, so that the fetches of many overlap: a probe pays for
 * the distinct lines it touches, not for their latency.
 *
 * The rule kept: a value that several blocks find is taken in the first of them only. Within one
 * block a value lies in one bucket, and every key leads to another bucket; so a match is reported
 * once, and nothing needs to be remembered.
 */
#include <stdlib.h>

#include "table.h"

struct found {
    uint64_t value;
    uint32_t distance;
};

struct ndd_answer {
    uint64_t *offsets;
    size_t offsets_capacity;
    ndd_match *matches;
    size_t matches_capacity, matches_count;
    struct found *found; /* values of the query at hand */
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
    free(answer->matches);
    free(answer->found);
    free(answer);
}

void ndd_answer_get(const ndd_answer *answer, const uint64_t **offsets,
                    const ndd_match **matches) {
    *offsets = answer->offsets == NULL ? no_offsets : answer->offsets;
    *matches = answer->matches;
}

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

static ndd_status take(ndd_answer *answer, uint64_t value, uint32_t distance) {
    void *items = answer->found;
    int room = answer_room(&items, &answer->found_capacity, answer->found_count + 1,
                           sizeof *answer->found);
    answer->found = items;
    if (!room) return NDD_NO_MEMORY;
    answer->found[answer->found_count++] = (struct found){value, distance};
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
static ndd_status add_match(ndd_answer *answer, size_t group, size_t wanted, ndd_match match) {
    size_t held = answer->matches_count - group;
    if (held < wanted) {
        void *items = answer->matches;
        int room = answer_room(&items, &answer->matches_capacity, answer->matches_count + 1,
                               sizeof *answer->matches);
        answer->matches = items;
        if (!room) return NDD_NO_MEMORY;
        answer->matches[answer->matches_count++] = match;
        if (wanted != SIZE_MAX) raise_last(answer->matches + group, held + 1);
    } else if (match_before(&match, &answer->matches[group])) {
        answer->matches[group] = match;
        sift(answer->matches + group, held);
    }
    return NDD_OK;
}

static ndd_status add_documents(const ndd_table *table, ndd_answer *answer, struct found found,
                                size_t group, size_t wanted) {
    uint32_t place = 0, count = 0;
    if (!numbers_find(&table->values, found.value, &place)) return NDD_DAMAGED;
    const uint64_t *documents = documents_get(&table->documents, place, &count);
    ndd_status status = NDD_OK;
    for (uint32_t i = 0; i < count && status == NDD_OK; i++) {
        ndd_match match = {documents[i], found.value, found.distance, 0};
        status = add_match(answer, group, wanted, match);
    }
    return status;
}

/* The matches of the query at hand: its values by distance, and for each distance the documents. */
static ndd_status finish_query(const ndd_table *table, ndd_answer *answer, uint64_t limit,
                               size_t query) {
    struct found *found = answer->found;
    size_t n = answer->found_count, first = answer->matches_count;
    if (n > 1) qsort(found, n, sizeof *found, compare_found);
    for (size_t i = 0; i < n;) {
        size_t group = answer->matches_count, wanted = SIZE_MAX;
        if (limit > 0) {
            if (group - first >= limit) break;
            if (limit - (group - first) < SIZE_MAX) wanted = (size_t)(limit - (group - first));
        }
        uint32_t distance = found[i].distance;
        for (; i < n && found[i].distance == distance; i++) {
            ndd_status status = add_documents(table, answer, found[i], group, wanted);
            if (status != NDD_OK) return status;
        }
        sort_matches(answer->matches + group, answer->matches_count - group);
    }
    answer->found_count = 0;
    answer->offsets[query + 1] = answer->matches_count;
    return NDD_OK;
}

/* ------------------------------------------------------------------------- finding the values */

#define QUEUE 64 /* buckets on their way; a power of two */

struct visit {
    const struct line *line;
    size_t query;
    uint32_t block;
};

/* A value within k counts in the first block that finds it. */
static int is_first(const struct design *design, uint32_t block, uint64_t difference) {
    for (uint32_t i = 0; i < block; i++) {
        if (block_finds(&design->blocks[i], difference)) return 0;
    }
    return 1;
}

static inline ndd_status compare_values(const ndd_table *table, const uint64_t *values, uint32_t n,
                                        uint64_t query, uint32_t block, ndd_answer *answer) {
    for (uint32_t i = 0; i < n; i++) {
        uint64_t difference = values[i] ^ query;
        uint32_t distance = (uint32_t)count_bits(difference);
        if (distance <= table->k && is_first(&table->index.design, block, difference)) {
            ndd_status status = take(answer, values[i], distance);
            if (status != NDD_OK) return status;
        }
    }
    return NDD_OK;
}

static inline ndd_status read_bucket(const ndd_table *table, const uint64_t *queries,
                                     const struct visit *visit, ndd_answer *answer) {
    const struct line *line = visit->line;
    const struct overflow *overflow = line_overflow(line);
    uint64_t query = queries[visit->query];
    ndd_status status =
        compare_values(table, line->values, line_inside(line), query, visit->block, answer);
    if (status == NDD_OK && overflow != NULL) {
        status = compare_values(table, overflow->values, overflow->count, query, visit->block,
                                answer);
    }
    return status;
}

COUNTS_BITS
static ndd_status probe_index(const ndd_table *table, const uint64_t *queries, size_t n,
                              uint64_t limit, ndd_answer *answer) {
    const struct index *index = &table->index;
    struct visit queue[QUEUE];
    size_t entered = 0, left = 0, at_hand = 0;
    ndd_status status = NDD_OK;
    size_t query = 0;
    uint32_t block = 0, flip = 0, bucket = n > 0 ? index_bucket(index, 0, queries[0]) : 0;
    for (;;) {
        for (; query < n && entered - left < QUEUE; entered++) {
            struct visit *visit = &queue[entered % QUEUE];
            visit->line = &index->lines[block].at[bucket ^ index->flips[flip]];
            visit->query = query;
            visit->block = block;
            prefetch(visit->line);
            if (++flip < index->flips_end[block]) continue;
            if (++block == index->design.count) {
                block = flip = 0;
                if (++query == n) continue;
            }
            bucket = index_bucket(index, block, queries[query]);
        }
        if (left == entered) break;
        /* Read half of the queue, so that the other half is still on its way meanwhile; and what lies
         * beyond a full line is asked for before the first line is read. */
        size_t until = query < n ? left + QUEUE / 2 : entered;
        for (size_t i = left; i < until; i++) {
            const struct overflow *overflow = line_overflow(queue[i % QUEUE].line);
            if (overflow == NULL) continue;
            prefetch(overflow);
            prefetch(overflow->values + LINE_VALUES);
        }
        for (; left < until; left++) {
            const struct visit *visit = &queue[left % QUEUE];
            if (visit->query != at_hand) {
                status = finish_query(table, answer, limit, at_hand++);
                if (status != NDD_OK) return status;
            }
            status = read_bucket(table, queries, visit, answer);
            if (status != NDD_OK) return status;
        }
    }
    return n > 0 ? finish_query(table, answer, limit, at_hand) : NDD_OK;
}

COUNTS_BITS
static ndd_status probe_all(const ndd_table *table, const uint64_t *queries, size_t n,
                            uint64_t limit, ndd_answer *answer) {
    ndd_status status = NDD_OK;
    for (size_t i = 0; i < n && status == NDD_OK; i++) {
        status = compare_values(table, table->values.items, table->values.count, queries[i], 0,
                                answer);
        if (status == NDD_OK) status = finish_query(table, answer, limit, i);
    }
    return status;
}

ndd_status ndd_table_probe(const ndd_table *table, const uint64_t *values, size_t n,
                           uint64_t limit, ndd_answer *answer) {
    if (n > 0 && values == NULL) return NDD_BAD_ARGUMENT;
    if (n == SIZE_MAX) return NDD_TOO_LARGE;
    void *offsets = answer->offsets;
    int room = answer_room(&offsets, &answer->offsets_capacity, n + 1, sizeof *answer->offsets);
    answer->offsets = offsets;
    if (!room) return NDD_NO_MEMORY;
    answer->offsets[0] = 0;
    answer->matches_count = answer->found_count = 0;
    ndd_status status = table->index.design.count > 0
                            ? probe_index(table, values, n, limit, answer)
                            : probe_all(table, values, n, limit, answer);
    if (status != NDD_OK) answer->matches_count = 0;
    return status;
}
