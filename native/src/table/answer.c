#include "table/answer.h"

#include <stdlib.h>
#include <string.h>

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

void ndd_answer_queries(const ndd_answer *answer, size_t n, uint64_t *queries) {
    for (size_t i = 0; i < n; i++) {
        for (uint64_t j = answer->offsets[i]; j < answer->offsets[i + 1]; j++) queries[j] = i;
    }
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

ndd_status answer_take(ndd_answer *answer, struct found found) {
    void *items = answer->found;
    int room = answer_room(&items, &answer->found_capacity, answer->found_count + 1,
                           sizeof *answer->found);
    answer->found = items;
    if (!room) return NDD_NO_MEMORY;
    answer->found[answer->found_count++] = found;
    return NDD_OK;
}

/* ----------------------------------------------------------- from values found to documents */

/* The order of matches at one distance. */
static int match_before(const ndd_match *a, const ndd_match *b) {
    return a->document != b->document ? a->document < b->document : a->value < b->value;
}

static int compare_matches(const void *a, const void *b) {
    const ndd_match *left = a, *right = b;
    return match_before(right, left) - match_before(left, right);
}

/* Sorts values by distance, in place and in linear time: ten thousand lie near each other in a crowd. Those
 * at one distance are in no order, for their documents are sorted. */
static void sort_found(struct found *found, size_t n) {
    size_t next[65], end[65] = {0}, before = 0;
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            struct found one = found[i];
            size_t j = i;
            for (; j > 0 && one.distance < found[j - 1].distance; j--) found[j] = found[j - 1];
            found[j] = one;
        }
        return;
    }
    for (size_t i = 0; i < n; i++) end[found[i].distance]++;
    for (size_t distance = 0; distance < 65; distance++) {
        next[distance] = before;
        end[distance] = before += end[distance];
    }
    for (size_t distance = 0; distance < 65; distance++) {
        while (next[distance] < end[distance]) {
            struct found one = found[next[distance]];
            while (one.distance != distance) { /* to where it belongs, and on with what was there */
                size_t place = next[one.distance]++;
                struct found moved = found[place];
                found[place] = one;
                one = moved;
            }
            found[next[distance]++] = one;
        }
    }
}

static int is_sorted(const ndd_match *matches, size_t n) {
    size_t i = 1;
    while (i < n && match_before(&matches[i - 1], &matches[i])) i++;
    return i >= n;
}

static void sort_matches(ndd_match *matches, size_t n) {
    if (n > 16) {
        if (is_sorted(matches, n)) return; /* as those of one value are */
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

/* Moves matches[0] of a heap, whose top is the last in order, down to where it belongs. */
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

/* Whether a group holds as many as are wanted, and all of them come before a match. */
static int is_left_out(const ndd_answer *answer, size_t group, size_t wanted,
                       const ndd_match *match) {
    return answer->matches_count - group >= wanted && !match_before(match, &answer->matches[group]);
}

/* Adds one match, which is not left out, to a group of at most `wanted`, the first by order. A full group
 * is a heap, so that a million documents of one value take bounded memory. */
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
    answer->matches[group] = match;
    sift(answer->matches + group, held);
    return NDD_OK;
}

/* Documents ascend: once one of them is left out by the limit, so are all after it. */
static ndd_status add_documents(const struct document_source *source, ndd_answer *answer, struct found found,
                                size_t group, size_t wanted, size_t query) {
    struct document_list list;
    if (!source->documents(source->from, found.value, &list)) return NDD_DAMAGED;
    for (;;) {
        for (uint64_t i = 0; i < list.count; i++) {
            ndd_match match = {document_of(&list, i), found.value, found.distance, 0};
            if (is_left_out(answer, group, wanted, &match)) {
                answer->cut[query] = 1;
                return NDD_OK;
            }
            ndd_status status = add_match(answer, group, wanted, match, query);
            if (status != NDD_OK) return status;
        }
        if (list.left == 0) return NDD_OK;
        source->more(source->from, found.value, &list);
    }
}

#define FOUND_EARLY 24 /* found values ahead of which the place is prefetched */
#define FOUND_SOON 12  /* the same of the documents */

static void ask_for(const struct document_source *source, const ndd_answer *answer, size_t i) {
    if (i + FOUND_EARLY < answer->found_count) {
        source->prefetch_early(source->from, answer->found[i + FOUND_EARLY].value);
    }
    if (i + FOUND_SOON < answer->found_count) {
        source->prefetch_late(source->from, answer->found[i + FOUND_SOON].value);
    }
}

/* The matches of a query, whose values are found[i] up to found[end]: the values by distance, and
 * for each distance the documents. */
static ndd_status finish_query(const struct document_source *source, ndd_answer *answer, uint64_t limit,
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
            ask_for(source, answer, i);
            ndd_status status = add_documents(source, answer, found[i], group, wanted, query);
            if (status != NDD_OK) return status;
        }
        sort_matches(answer->matches + group, answer->matches_count - group);
    }
    return NDD_OK;
}

ndd_status answer_finish(const struct document_source *source, ndd_answer *answer, uint64_t limit,
                         size_t query, size_t n) {
    struct found *found = answer->found;
    size_t count = answer->found_count;
    for (size_t i = 0, end; i < count; i = end) { /* those of a query lie together */
        for (end = i + 1; end < count && found[end].query == found[i].query;) end++;
        sort_found(found + i, end - i);
    }
    for (size_t i = 0; i < count && i < FOUND_EARLY; i++) {
        source->prefetch_early(source->from, found[i].value);
    }
    for (size_t j = 0, i = 0; j < n; j++) {
        size_t end = i;
        while (end < count && found[end].query == j) end++;
        ndd_status status = finish_query(source, answer, limit, query + j, i, end);
        if (status != NDD_OK) return status;
        answer->offsets[query + j + 1] = answer->matches_count;
        i = end;
    }
    answer->found_count = 0;
    return NDD_OK;
}

ndd_status answer_begin(ndd_answer *answer, const uint64_t *values, size_t n) {
    if (n > 0 && values == NULL) return NDD_BAD_ARGUMENT;
    if (n == SIZE_MAX) return NDD_TOO_LARGE;
    void *offsets = answer->offsets, *cut = answer->cut;
    int room = answer_room(&offsets, &answer->offsets_capacity, n + 1, sizeof *answer->offsets) &&
               answer_room(&cut, &answer->cut_capacity, n + 1, 1);
    answer->offsets = offsets;
    answer->cut = cut;
    answer->matches_count = answer->found_count = 0;
    if (!room) return NDD_NO_MEMORY;
    memset(answer->offsets, 0, (n + 1) * sizeof *answer->offsets);
    memset(answer->cut, 0, n + 1);
    return NDD_OK;
}
