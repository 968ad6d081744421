/*
 * The documents of each value of a table, kept beside the values, place by place.
 *
 * The rule kept: every place has at least one document. A single one stands in the array itself;
 * several stand in an ordered set of their own, whose address the array then holds. `several` has a bit
 * for each place that says which.
 */
#ifndef NDD_DOCUMENTS_H
#define NDD_DOCUMENTS_H

#include "table/trie.h"

struct documents {
    uint64_t *entries;  /* a document, or the address of a struct trie */
    uint64_t *several;  /* bits */
    uint32_t capacity;
    uint64_t set_bytes; /* memory held by the sets */
};

/* count is the number of places in use. */
void documents_close(struct documents *documents, uint32_t count);

ndd_status documents_reserve(struct documents *documents, uint32_t capacity);

/* Puts the first document of a new place, for which there is room. */
void documents_append(struct documents *documents, uint32_t place, uint64_t document);

/* Adds a document to a place; *added is 0 if it was there. */
ndd_status documents_add(struct documents *documents, uint32_t place, uint64_t document,
                         int *added);

/* Removes a document from a place: 0 if it is not there, 1 if others stay, 2 if it was the only
 * one, which is left for documents_move_last to take away. */
int documents_remove(struct documents *documents, uint32_t place, uint64_t document);

/* Moves what belongs to the last place to another, whose only document was removed. */
void documents_move_last(struct documents *documents, uint32_t place, uint32_t last);

/* A hint that the documents of this place are asked for soon. */
static inline void documents_prefetch(const struct documents *documents, uint32_t place) {
    prefetch(&documents->entries[place]);
    prefetch(&documents->several[place / 64]);
}

/* Whether a place has this document. */
int documents_has(const struct documents *documents, uint32_t place, uint64_t document);

/* How many a place has. */
uint64_t documents_count(const struct documents *documents, uint32_t place);

/* The first document of a place that is not below `from`, and those after it that lie in one piece
 * with it, in order; *count is how many. NULL if there is none. */
const uint64_t *documents_run(const struct documents *documents, uint32_t place, uint64_t from,
                              uint32_t *count);

uint64_t documents_bytes(const struct documents *documents);

/* NULL, or the rule that does not hold; *pairs is the number of documents of all places. */
const char *documents_validate(const struct documents *documents, uint32_t count, uint64_t *pairs);

#endif
