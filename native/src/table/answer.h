/*
 * The answer to a batch of probes, of a table or a segment: values found in, matches in order out.
 *
 *     values found, by query -> sorted by distance -> their documents -> matches, at most `limit`
 *
 * The rule kept: matches of a query stand nearest first, then by document, then by value; with a
 * limit they are the first `limit` of that order, and `cut` tells where others were left out.
 */
#ifndef NDD_ANSWER_H
#define NDD_ANSWER_H

#include "base/bytes.h"
#include "ndd.h"

#define NDD_ANSWER_GROUP 256 /* queries whose values are found before they are looked up */

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

/* Documents of a value, ascending. */
struct document_list {
    const void *at;
    uint64_t count;
    uint64_t left;  /* further ones beyond these */
    uint64_t base;  /* what is to be added to those of 4 bytes */
    uint32_t width; /* in bytes, 4 or 8, as they are in a file; 0: numbers of this machine */
    uint64_t one;   /* room for one that lies nowhere as a number */
};

static inline uint64_t document_of(const struct document_list *list, uint64_t i) {
    const uint8_t *bytes = list->at;
    if (list->width == 0) return ((const uint64_t *)list->at)[i];
    return list->width == 4 ? list->base + load4_le(bytes + 4 * i) : load8_le(bytes + 8 * i);
}

/* Where the documents come from: a table or a segment. prefetch_early and prefetch_late are hints, some
 * and a few steps ahead, that those of a value are needed. documents gives the first of them, and 0
 * when there is no such value; more gives the next ones when some are left. */
struct document_source {
    const void *from;
    void (*prefetch_early)(const void *from, uint64_t value);
    void (*prefetch_late)(const void *from, uint64_t value);
    int (*documents)(const void *from, uint64_t value, struct document_list *list);
    void (*more)(const void *from, uint64_t value, struct document_list *list);
};

/* Empties an answer for n queries, and proves the arguments. */
ndd_status answer_begin(ndd_answer *answer, const uint64_t *values, size_t n);

/* Takes a value that was found; those of a query one after the other, each once. */
ndd_status answer_take(ndd_answer *answer, struct found found);

/* Makes matches of what was found for a group of n queries, the first of which is number `query`. */
ndd_status answer_finish(const struct document_source *source, ndd_answer *answer, uint64_t limit,
                         size_t query, size_t n);

#endif
