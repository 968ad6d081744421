#include "table/documents.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

/* What a chunk has beside its base: NDD_CHUNK_PLACES differences of `width` bytes, 0 for none, then its sets. */
struct extra {
    uint32_t width;
    uint32_t room; /* for so many sets */
    uint64_t words[];
};

static struct chunk *chunk_at(const struct documents *documents, uint32_t place) {
    assert(place < documents->capacity);
    return &documents->chunks[place / NDD_CHUNK_PLACES];
}

static uint32_t width_of(const struct chunk *chunk) {
    return chunk->extra == NULL ? 0 : chunk->extra->width;
}

static size_t extra_size(uint32_t width, uint32_t room) {
    return sizeof(struct extra) + (size_t)width * NDD_CHUNK_PLACES + room * sizeof(struct trie *);
}

/* --------------------------------------------------------------------------- single documents */

static uint64_t difference_at(const struct extra *extra, uint32_t at) {
    const void *from = extra->words;
    switch (extra->width) {
    case 1: return ((const uint8_t *)from)[at];
    case 2: return ((const uint16_t *)from)[at];
    case 4: return ((const uint32_t *)from)[at];
    default: return extra->words[at];
    }
}

static void set_difference(struct extra *extra, uint32_t at, uint64_t difference) {
    void *to = extra->words;
    switch (extra->width) {
    case 1: ((uint8_t *)to)[at] = (uint8_t)difference; break;
    case 2: ((uint16_t *)to)[at] = (uint16_t)difference; break;
    case 4: ((uint32_t *)to)[at] = (uint32_t)difference; break;
    default: extra->words[at] = difference;
    }
}

static uint64_t single_at(const struct chunk *chunk, uint32_t at) {
    return chunk->base + (width_of(chunk) == 0 ? at : difference_at(chunk->extra, at));
}

/* Bytes that a difference takes. */
static uint32_t bytes_for(uint64_t difference) {
    return difference >> 8 == 0 ? 1 : difference >> 16 == 0 ? 2 : difference >> 32 == 0 ? 4 : 8;
}

static int fits(const struct chunk *chunk, uint32_t at, uint64_t document) {
    uint64_t difference = document - chunk->base;
    return width_of(chunk) == 0 ? difference == at : bytes_for(difference) <= width_of(chunk);
}

static void put_single(struct chunk *chunk, uint32_t at, uint64_t document) {
    if (width_of(chunk) > 0) set_difference(chunk->extra, at, document - chunk->base);
}

static struct trie **sets_of(const struct extra *extra) {
    return (struct trie **)(uintptr_t)((const uint8_t *)extra->words + (size_t)extra->width * NDD_CHUNK_PLACES);
}

static struct extra *extra_make(uint32_t width, uint32_t room) {
    struct extra *extra = calloc(1, extra_size(width, room));
    if (extra == NULL) return NULL;
    extra->width = width;
    extra->room = room;
    return extra;
}

/* Makes a spare, in which every chunk fits, if there is none. */
static ndd_status make_spare(struct documents *documents) {
    if (documents->spare == NULL) documents->spare = extra_make(8, NDD_CHUNK_PLACES);
    return documents->spare == NULL ? NDD_NO_MEMORY : NDD_OK;
}

/* Writes what a chunk has beside its base into another extra, as differences from another base. */
static ndd_status rewrite(struct documents *documents, struct chunk *chunk, uint64_t base, struct extra *extra) {
    struct extra *before = chunk->extra;
    if (extra == NULL) return NDD_NO_MEMORY;
    for (uint32_t i = 0; extra->width > 0 && i < NDD_CHUNK_PLACES; i++) {
        set_difference(extra, i, single_at(chunk, i) - base);
    }
    documents->extra_bytes += extra_size(extra->width, extra->room);
    if (before != NULL) {
        memcpy(sets_of(extra), sets_of(before), (size_t)count_bits(chunk->several) * sizeof(struct trie *));
        documents->extra_bytes -= extra_size(before->width, before->room);
        free(before);
    }
    chunk->extra = extra;
    chunk->base = base;
    return NDD_OK;
}

/* Makes a chunk able to hold a document at a place; the others there stay as they are. Places out of use
 * count too: they hold nothing wider than those in use once did. */
static ndd_status make_fit(struct documents *documents, struct chunk *chunk, uint32_t at,
                           uint64_t document) {
    uint64_t least = document, most = document;
    if (fits(chunk, at, document)) return NDD_OK;
    for (uint32_t i = 0; i < NDD_CHUNK_PLACES; i++) {
        uint64_t one = single_at(chunk, i);
        if (i == at || chunk->several >> i & 1) continue;
        least = one < least ? one : least;
        most = one > most ? one : most;
    }
    uint32_t room = chunk->extra == NULL ? 0 : chunk->extra->room;
    return rewrite(documents, chunk, least, extra_make(bytes_for(most - least), room));
}

/* --------------------------------------------------------------------------------------- sets */

static int has_several(const struct documents *documents, uint32_t place) {
    return (int)(chunk_at(documents, place)->several >> place % NDD_CHUNK_PLACES & 1);
}

/* Where in its chunk the set of a place is, or belongs. */
static struct trie **set_at(const struct documents *documents, uint32_t place) {
    const struct chunk *chunk = chunk_at(documents, place);
    uint64_t before = chunk->several & ((UINT64_C(1) << place % NDD_CHUNK_PLACES) - 1);
    return sets_of(chunk->extra) + count_bits(before);
}

/* How many sets of its chunk come after that of a place. */
static size_t sets_after(const struct documents *documents, uint32_t place) {
    return (size_t)count_bits(chunk_at(documents, place)->several >> place % NDD_CHUNK_PLACES >> 1);
}

static ndd_status make_set_room(struct documents *documents, uint32_t place) {
    struct chunk *chunk = chunk_at(documents, place);
    uint32_t count = (uint32_t)count_bits(chunk->several);
    if (chunk->extra != NULL && count < chunk->extra->room) return NDD_OK;
    return rewrite(documents, chunk, chunk->base, extra_make(width_of(chunk), count + count / 2 + 1));
}

static void put_set(struct documents *documents, uint32_t place, struct trie *set) {
    struct trie **at = set_at(documents, place);
    memmove(at + 1, at, sets_after(documents, place) * sizeof(struct trie *));
    *at = set;
    chunk_at(documents, place)->several |= UINT64_C(1) << place % NDD_CHUNK_PLACES;
}

static struct trie *take_set(struct documents *documents, uint32_t place) {
    struct trie **at = set_at(documents, place), *set = *at;
    memmove(at, at + 1, sets_after(documents, place) * sizeof(struct trie *));
    chunk_at(documents, place)->several &= ~(UINT64_C(1) << place % NDD_CHUNK_PLACES);
    return set;
}

static void set_free(struct documents *documents, struct trie *set) {
    documents->extra_bytes -= sizeof *set + set->bytes;
    trie_close(set);
    free(set);
}

static ndd_status set_add(struct trie *set, uint64_t document) {
    ndd_status status = trie_make_room(set, document);
    if (status == NDD_OK) trie_put(set, document);
    return status;
}

/* ------------------------------------------------------------------------------------- places */

static void chunk_close(struct documents *documents, struct chunk *chunk) {
    if (chunk->extra == NULL) return;
    for (int i = count_bits(chunk->several); i > 0; i--) {
        set_free(documents, sets_of(chunk->extra)[i - 1]);
    }
    documents->extra_bytes -= extra_size(chunk->extra->width, chunk->extra->room);
    free(chunk->extra);
    *chunk = (struct chunk){0};
}

static size_t chunks_of(uint64_t places) { return (size_t)((places + NDD_CHUNK_PLACES - 1) / NDD_CHUNK_PLACES); }

void documents_close(struct documents *documents, uint32_t count) {
    for (size_t i = 0; i < chunks_of(count); i++) chunk_close(documents, &documents->chunks[i]);
    free(documents->chunks);
    free(documents->spare);
    *documents = (struct documents){0};
}

ndd_status documents_reserve(struct documents *documents, uint32_t capacity) {
    if (make_spare(documents) != NDD_OK) return NDD_NO_MEMORY;
    if (capacity <= documents->capacity) return NDD_OK;
    size_t count = chunks_of(capacity), before = chunks_of(documents->capacity);
    struct chunk *chunks = realloc(documents->chunks, count * sizeof *chunks);
    if (chunks == NULL) return NDD_NO_MEMORY;
    memset(chunks + before, 0, (count - before) * sizeof *chunks);
    documents->chunks = chunks;
    documents->capacity = capacity;
    return NDD_OK;
}

ndd_status documents_make_room(struct documents *documents, uint32_t place, uint64_t document) {
    struct chunk *chunk = chunk_at(documents, place);
    if (place % NDD_CHUNK_PLACES == 0 && chunk->extra == NULL) chunk->base = document;
    return make_fit(documents, chunk, place % NDD_CHUNK_PLACES, document);
}

void documents_append(struct documents *documents, uint32_t place, uint64_t document) {
    put_single(chunk_at(documents, place), place % NDD_CHUNK_PLACES, document);
}

/* A place with one document gets another. */
static ndd_status add_second(struct documents *documents, uint32_t place, uint64_t document) {
    struct trie *set = malloc(sizeof *set);
    if (set == NULL) return NDD_NO_MEMORY;
    trie_open(set);
    ndd_status status = set_add(set, single_at(chunk_at(documents, place), place % NDD_CHUNK_PLACES));
    if (status == NDD_OK) status = set_add(set, document);
    if (status == NDD_OK) status = make_set_room(documents, place);
    if (status != NDD_OK) {
        trie_close(set);
        free(set);
        return status;
    }
    documents->extra_bytes += sizeof *set + set->bytes;
    put_set(documents, place, set);
    return NDD_OK;
}

ndd_status documents_add(struct documents *documents, uint32_t place, uint64_t document,
                         int *added) {
    *added = 0;
    if (documents_has(documents, place, document)) return NDD_OK;
    ndd_status status;
    if (has_several(documents, place)) {
        struct trie *set = *set_at(documents, place);
        uint64_t before = set->bytes;
        status = set_add(set, document);
        documents->extra_bytes += set->bytes - before;
    } else {
        status = add_second(documents, place, document);
    }
    *added = status == NDD_OK;
    return status;
}

int documents_remove(struct documents *documents, uint32_t place, uint64_t document) {
    if (!documents_has(documents, place, document)) return 0;
    if (documents_count(documents, place) == 1) return 2;
    struct trie *set = *set_at(documents, place);
    uint64_t before = set->bytes;
    uint32_t left;
    (void)trie_remove(set, document);
    documents->extra_bytes += set->bytes - before;
    if (set->count > 1) return 1;
    uint64_t one = *trie_run(set, 0, &left);
    struct chunk *chunk = chunk_at(documents, place);
    if (make_fit(documents, chunk, place % NDD_CHUNK_PLACES, one) == NDD_OK) { /* or else it stays a set of one */
        set_free(documents, take_set(documents, place));
        put_single(chunk, place % NDD_CHUNK_PLACES, one);
    }
    return 1;
}

ndd_status documents_move_last(struct documents *documents, uint32_t place, uint32_t last) {
    struct chunk *chunk = chunk_at(documents, place);
    uint64_t document = single_at(chunk_at(documents, last), last % NDD_CHUNK_PLACES);
    int moves = place != last, moves_set = moves && has_several(documents, last);
    ndd_status status = NDD_OK;
    if (moves_set) {
        status = make_set_room(documents, place);
    } else if (moves) {
        status = make_fit(documents, chunk, place % NDD_CHUNK_PLACES, document);
    }
    if (status != NDD_OK) {
        if (documents->spare == NULL) return status;
        (void)rewrite(documents, chunk, 0, documents->spare);
        documents->spare = NULL;
    }
    if (has_several(documents, place)) set_free(documents, take_set(documents, place));
    if (moves_set) {
        put_set(documents, place, take_set(documents, last));
    } else if (moves) {
        put_single(chunk, place % NDD_CHUNK_PLACES, document);
    }
    if (last % NDD_CHUNK_PLACES == 0) chunk_close(documents, chunk_at(documents, last));
    (void)make_spare(documents);
    return NDD_OK;
}

int documents_has(const struct documents *documents, uint32_t place, uint64_t document) {
    if (has_several(documents, place)) return trie_has(*set_at(documents, place), document);
    return single_at(chunk_at(documents, place), place % NDD_CHUNK_PLACES) == document;
}

uint64_t documents_count(const struct documents *documents, uint32_t place) {
    return has_several(documents, place) ? (*set_at(documents, place))->count : 1;
}

const uint64_t *documents_run(const struct documents *documents, uint32_t place, uint64_t from,
                              uint32_t *count, uint64_t *one) {
    if (has_several(documents, place)) return trie_run(*set_at(documents, place), from, count);
    *count = 1;
    *one = single_at(chunk_at(documents, place), place % NDD_CHUNK_PLACES);
    return *one >= from ? one : NULL;
}

uint64_t documents_bytes(const struct documents *documents) {
    uint64_t spare = documents->spare == NULL ? 0 : extra_size(documents->spare->width, documents->spare->room);
    return chunks_of(documents->capacity) * sizeof *documents->chunks + documents->extra_bytes + spare;
}

/* ---------------------------------------------------------------------------------- validation */

static const char *validate_chunk(const struct chunk *chunk, uint32_t used, uint64_t *pairs, uint64_t *bytes) {
    uint32_t sets = (uint32_t)count_bits(chunk->several);
    *pairs += used - sets;
    if (used < NDD_CHUNK_PLACES && chunk->several >> used != 0) return "a place out of use has documents";
    if (used == 0 && chunk->extra != NULL) return "a chunk out of use has memory";
    if (chunk->extra == NULL) return sets == 0 ? NULL : "a chunk has no room for its sets";
    if (sets > chunk->extra->room) return "a chunk has more sets than room";
    *bytes += extra_size(chunk->extra->width, chunk->extra->room);
    for (uint32_t i = 0; i < sets; i++) {
        const struct trie *set = sets_of(chunk->extra)[i];
        const char *reason = trie_validate(set);
        if (reason != NULL) return reason;
        if (set->count == 0) return "a set of documents is empty";
        *pairs += set->count;
        *bytes += sizeof *set + set->bytes;
    }
    return NULL;
}

const char *documents_validate(const struct documents *documents, uint32_t count,
                               uint64_t *pairs) {
    uint64_t bytes = 0;
    *pairs = 0;
    if (count > documents->capacity) return "more places than there is room for";
    for (uint32_t at = 0; at < documents->capacity; at += NDD_CHUNK_PLACES) {
        uint32_t used = count <= at ? 0 : count - at < NDD_CHUNK_PLACES ? count - at : NDD_CHUNK_PLACES;
        const char *reason = validate_chunk(chunk_at(documents, at), used, pairs, &bytes);
        if (reason != NULL) return reason;
        if (documents->capacity - at <= NDD_CHUNK_PLACES) break;
    }
    return bytes == documents->extra_bytes ? NULL : "the memory of the documents is miscounted";
}
