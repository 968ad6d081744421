/*
 * The documents of each value of a table, kept beside the values, place by place.
 *
 * 64 places are a chunk. Documents given in order of insertion, as an append-only store gives them, need
 * no memory of their own: that of place i is the chunk's base + i. Where one is not, the chunk keeps the
 * differences from its base, each in as few bytes as its widest one takes: 1, 2, 4 or 8.
 *
 * The rule kept: every place in use has at least one document. A single one stands in its chunk; several
 * stand in an ordered set of their own, and the chunk has the sets of its places in order.
 */
#ifndef NDD_DOCUMENTS_H
#define NDD_DOCUMENTS_H

#include "base/memory.h"
#include "table/trie.h"

#define NDD_CHUNK_PLACES 64 /* places; `several` has a bit for each */

struct chunk {
    uint64_t base;
    uint64_t several;    /* the places that have sets */
    struct extra *extra; /* NULL: every document is base + i, and no place has a set */
};

struct documents {
    struct chunk *chunks;
    uint32_t capacity;    /* places */
    uint64_t extra_bytes; /* memory held by the chunks' differences and by the sets, */
    struct extra *spare;  /* and for a removal when there is no more */
};

/* count is the number of places in use. */
void documents_close(struct documents *documents, uint32_t count);

ndd_status documents_reserve(struct documents *documents, uint32_t capacity);

/* Makes room for the first document of a new place, the one after those in use, so that documents_append
 * of it cannot fail. */
ndd_status documents_make_room(struct documents *documents, uint32_t place, uint64_t document);
void documents_append(struct documents *documents, uint32_t place, uint64_t document);

/* Adds a document to a place; *added is 0 if it was there. */
ndd_status documents_add(struct documents *documents, uint32_t place, uint64_t document,
                         int *added);

/* Removes a document from a place: 0 if it is not there, 1 if others stay, 2 if it was the only
 * one, which is left for documents_move_last to take away. */
int documents_remove(struct documents *documents, uint32_t place, uint64_t document);

/* Moves what belongs to the last place to another, whose only document was removed. It takes memory only
 * when documents far from each other come together, and has a spare for that: it may fail when there was
 * no memory since an earlier removal. Then nothing has changed. */
ndd_status documents_move_last(struct documents *documents, uint32_t place, uint32_t last);

/* A hint that the documents of this place are asked for soon. */
static inline void documents_prefetch(const struct documents *documents, uint32_t place) {
    prefetch(&documents->chunks[place / NDD_CHUNK_PLACES]);
}

/* Whether a place has this document. */
int documents_has(const struct documents *documents, uint32_t place, uint64_t document);

/* How many a place has. */
uint64_t documents_count(const struct documents *documents, uint32_t place);

/* The first document of a place that is not below `from`, and those after it that lie in one piece
 * with it, in order; *count is how many. NULL if there is none. A single one is put into *one. */
const uint64_t *documents_run(const struct documents *documents, uint32_t place, uint64_t from,
                              uint32_t *count, uint64_t *one);

uint64_t documents_bytes(const struct documents *documents);

/* NULL, or the rule that does not hold; *pairs is the number of documents of all places. */
const char *documents_validate(const struct documents *documents, uint32_t count, uint64_t *pairs);

#endif
