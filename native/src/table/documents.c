#include "table/documents.h"

#include <stdlib.h>
#include <string.h>

static size_t several_words(uint64_t capacity) { return (size_t)((capacity + 63) / 64); }

static int has_several(const struct documents *documents, uint32_t place) {
    return (int)(documents->several[place / 64] >> place % 64 & 1);
}

static void set_several(struct documents *documents, uint32_t place, int on) {
    uint64_t bit = UINT64_C(1) << place % 64;
    if (on) {
        documents->several[place / 64] |= bit;
    } else {
        documents->several[place / 64] &= ~bit;
    }
}

static struct trie *set_at(const struct documents *documents, uint32_t place) {
    return (struct trie *)(uintptr_t)documents->entries[place];
}

static void set_free(struct documents *documents, struct trie *set) {
    documents->set_bytes -= sizeof *set + set->bytes;
    trie_close(set);
    free(set);
}

void documents_close(struct documents *documents, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (has_several(documents, i)) set_free(documents, set_at(documents, i));
    }
    free(documents->entries);
    free(documents->several);
    *documents = (struct documents){0};
}

ndd_status documents_reserve(struct documents *documents, uint32_t capacity) {
    if (capacity <= documents->capacity) return NDD_OK;
    uint64_t *entries = realloc(documents->entries, (size_t)capacity * sizeof *entries);
    if (entries == NULL) return NDD_NO_MEMORY;
    documents->entries = entries;
    size_t words = several_words(capacity), before = several_words(documents->capacity);
    uint64_t *several = realloc(documents->several, words * sizeof *several);
    if (several == NULL) return NDD_NO_MEMORY;
    memset(several + before, 0, (words - before) * sizeof *several);
    documents->several = several;
    documents->capacity = capacity;
    return NDD_OK;
}

void documents_append(struct documents *documents, uint32_t place, uint64_t document) {
    documents->entries[place] = document;
}

static ndd_status set_add(struct trie *set, uint64_t document) {
    ndd_status status = trie_make_room(set, document);
    if (status == NDD_OK) trie_put(set, document);
    return status;
}

/* A place with one document gets another. */
static ndd_status add_second(struct documents *documents, uint32_t place, uint64_t document) {
    struct trie *set = malloc(sizeof *set);
    if (set == NULL) return NDD_NO_MEMORY;
    trie_open(set);
    ndd_status status = set_add(set, documents->entries[place]);
    if (status == NDD_OK) status = set_add(set, document);
    if (status != NDD_OK) {
        trie_close(set);
        free(set);
        return status;
    }
    documents->set_bytes += sizeof *set + set->bytes;
    documents->entries[place] = (uint64_t)(uintptr_t)set;
    set_several(documents, place, 1);
    return NDD_OK;
}

ndd_status documents_add(struct documents *documents, uint32_t place, uint64_t document,
                         int *added) {
    *added = 0;
    if (documents_has(documents, place, document)) return NDD_OK;
    ndd_status status;
    if (has_several(documents, place)) {
        struct trie *set = set_at(documents, place);
        uint64_t before = set->bytes;
        status = set_add(set, document);
        documents->set_bytes += set->bytes - before;
    } else {
        status = add_second(documents, place, document);
    }
    *added = status == NDD_OK;
    return status;
}

int documents_remove(struct documents *documents, uint32_t place, uint64_t document) {
    if (!has_several(documents, place)) return documents->entries[place] == document ? 2 : 0;
    struct trie *set = set_at(documents, place);
    uint64_t before = set->bytes;
    uint32_t left;
    if (!trie_remove(set, document)) return 0;
    documents->set_bytes += set->bytes - before;
    if (set->count == 1) {
        documents->entries[place] = *trie_run(set, 0, &left);
        set_several(documents, place, 0);
        set_free(documents, set);
    }
    return 1;
}

void documents_move_last(struct documents *documents, uint32_t place, uint32_t last) {
    documents->entries[place] = documents->entries[last];
    set_several(documents, place, has_several(documents, last));
    set_several(documents, last, 0);
}

int documents_has(const struct documents *documents, uint32_t place, uint64_t document) {
    if (!has_several(documents, place)) return documents->entries[place] == document;
    return trie_has(set_at(documents, place), document);
}

uint64_t documents_count(const struct documents *documents, uint32_t place) {
    return has_several(documents, place) ? set_at(documents, place)->count : 1;
}

const uint64_t *documents_run(const struct documents *documents, uint32_t place, uint64_t from,
                              uint32_t *count) {
    if (has_several(documents, place)) return trie_run(set_at(documents, place), from, count);
    *count = 1;
    return documents->entries[place] >= from ? &documents->entries[place] : NULL;
}

uint64_t documents_bytes(const struct documents *documents) {
    return documents->capacity * sizeof(uint64_t) +
           several_words(documents->capacity) * sizeof(uint64_t) + documents->set_bytes;
}

const char *documents_validate(const struct documents *documents, uint32_t count,
                               uint64_t *pairs) {
    uint64_t total = 0, set_bytes = 0;
    if (count > documents->capacity) return "more places than there is room for";
    for (uint32_t i = 0; i < documents->capacity; i++) {
        if (!has_several(documents, i)) {
            total += i < count;
            continue;
        }
        if (i >= count) return "a place out of use has documents";
        const struct trie *set = set_at(documents, i);
        if (set->count < 2) return "a set of documents has fewer than two";
        const char *reason = trie_validate(set);
        if (reason != NULL) return reason;
        total += set->count;
        set_bytes += sizeof *set + set->bytes;
    }
    if (set_bytes != documents->set_bytes) return "the memory of the documents is miscounted";
    *pairs = total;
    return NULL;
}
