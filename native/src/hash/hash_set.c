/*
 * A set of 64-bit hashes that forgets the oldest (see ndd.h).
 *
 * Two open tables: what comes goes into the newer one. When that holds half of what the set may hold, the
 * older one is emptied and they change places, so that nothing is forgotten before as many others have come.
 * A table is searched from a hash's own slot on, in the order of the slots; it grows by a quarter when four
 * fifths of it are taken: 10 to 12.5 bytes a hash.
 *
 * Hashes of links can be crafted; so where one stands depends on a seed that no page's author can know.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hash/hash.h"
#include "ndd.h"

enum { SLOTS_LEAST = 64 };

struct slots {
    uint64_t *slots; /* 0 when empty */
    uint64_t size;
    uint64_t count;
};

struct ndd_hash_set {
    struct slots newer, older;
    uint64_t most; /* in each table */
    uint64_t seed;
};

static uint64_t high_product(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
    return (uint64_t)((wide)a * b >> 64);
#else
    return (a >> 32) * b >> 32; /* of tables of fewer than 2^32 slots */
#endif
}

/* Where a hash stands, or would. The table is not full. */
static uint64_t slot_of(const struct ndd_hash_set *set, const struct slots *table, uint64_t hash) {
    assert(table->count < table->size && hash != 0); /* or it would search for ever */
    uint64_t at = high_product(hash_mix(hash ^ set->seed), table->size);
    while (table->slots[at] != 0 && table->slots[at] != hash) at = at + 1 < table->size ? at + 1 : 0;
    return at;
}

static int holds(const struct ndd_hash_set *set, const struct slots *table, uint64_t hash) {
    return table->count > 0 && table->slots[slot_of(set, table, hash)] != 0;
}

static int grow(const struct ndd_hash_set *set, struct slots *table) {
    uint64_t size = table->size < SLOTS_LEAST ? SLOTS_LEAST : table->size + table->size / 4;
    struct slots larger = {NULL, size, table->count};
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    if (larger.slots == NULL) return 0;
    for (uint64_t i = 0; i < table->size; i++) {
        uint64_t hash = table->slots[i];
        if (hash != 0) larger.slots[slot_of(set, &larger, hash)] = hash;
    }
    free(table->slots);
    *table = larger;
    return 1;
}

/* Rotates the generations: clears the older table and makes it the current one. */
static void turn(struct ndd_hash_set *set) {
    struct slots emptied = set->older;
    if (emptied.slots != NULL) memset(emptied.slots, 0, emptied.size * sizeof *emptied.slots);
    emptied.count = 0;
    set->older = set->newer;
    set->newer = emptied;
}

ndd_status ndd_hash_set_open(uint64_t most, ndd_hash_set **set) {
    if (set == NULL || most < 2 || most > UINT64_C(1) << 32) return NDD_BAD_ARGUMENT;
    struct ndd_hash_set *made = calloc(1, sizeof *made);
    if (made == NULL) return NDD_NO_MEMORY;
    made->most = most / 2;
    made->seed = hash_mix((uint64_t)(uintptr_t)made);
    *set = made;
    return NDD_OK;
}

void ndd_hash_set_close(ndd_hash_set *set) {
    if (set == NULL) return;
    free(set->newer.slots);
    free(set->older.slots);
    free(set);
}

uint64_t ndd_hash_set_missing(const ndd_hash_set *set, const uint64_t *hashes, size_t n) {
    uint64_t missing = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = hashes[i] != 0 ? hashes[i] : 1;
        missing += !holds(set, &set->newer, hash) && !holds(set, &set->older, hash);
    }
    return missing;
}

ndd_status ndd_hash_set_add(ndd_hash_set *set, const uint64_t *hashes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = hashes[i] != 0 ? hashes[i] : 1; /* 0 stands for empty */
        struct slots *table = &set->newer;
        if (holds(set, table, hash)) continue;
        if (table->count == set->most) turn(set);
        if (5 * (table->count + 1) > 4 * table->size && !grow(set, table)) return NDD_NO_MEMORY;
        table->slots[slot_of(set, table, hash)] = hash;
        table->count++;
    }
    return NDD_OK;
}

void ndd_hash_set_stats(const ndd_hash_set *set, uint64_t *listed, uint64_t *bytes) {
    *listed = set->newer.count + set->older.count;
    *bytes = sizeof *set + (set->newer.size + set->older.size) * sizeof *set->newer.slots;
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void ndd_hash_set_list(const ndd_hash_set *set, uint64_t *hashes) {
    const struct slots *both[] = {&set->older, &set->newer};
    for (int which = 0; which < 2; which++) {
        uint64_t *first = hashes;
        for (uint64_t i = 0; i < both[which]->size; i++) {
            if (both[which]->slots[i] != 0) *hashes++ = both[which]->slots[i];
        }
        if (hashes > first) qsort(first, (size_t)(hashes - first), sizeof *first, ascending);
    }
}
