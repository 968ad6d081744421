/*
 * Tokens of the kept blocks become features, and features a page's three fingerprints
 * (docs/fingerprint-spec.md, "Fingerprints").
 */
#include <string.h>

#include "bits.h"
#include "hash.h"
#include "reading.h"
#include "simhash.h"

#define WEIGHT_CAP 480 /* of a distinct word, so that one repeated word does not decide */

/*
 * A set of hashes by open addressing, in the reader's scratch; 0 marks an empty slot, and a hash of 0
 * is kept beside it. The public recipe's hashes can be crafted, all for one slot; so where a hash
 * stands depends on a seed that no page's author can know. The fingerprint never does.
 *
 * Whether a hash is new, seen, or finds its slot taken by another is chance, and a processor that
 * guesses wrong loses more time than all the rest takes. So a hash is first only compared with the
 * slot that is its own, without a branch; those that find another there wait, and are searched for
 * one after the other.
 */
#define WAITING_MOST 128

struct hash_set {
    uint64_t *slots;
    uint32_t *weights; /* of each slot; NULL when only presence counts */
    size_t mask;
    uint64_t seed;
    int has_zero;
    uint32_t zero_weight;
};

static int set_open(struct ndd_reader *reader, struct hash_set *set, size_t most, int weighted) {
    size_t slots = 64;
    while (slots < 2 * most) slots *= 2;
    reader->set.n = 0;
    reader->set_weights.n = 0;
    if (!ROOM(reader, reader->set, slots)) return 0;
    if (weighted && !ROOM(reader, reader->set_weights, slots)) return 0;
    set->slots = reader->set.at;
    set->weights = weighted ? reader->set_weights.at : NULL;
    set->mask = slots - 1;
    set->seed = hash_mix((uint64_t)(uintptr_t)reader ^ reader->key.k0);
    set->has_zero = 0;
    set->zero_weight = 0;
    memset(set->slots, 0, slots * sizeof *set->slots);
    if (weighted) memset(set->weights, 0, slots * sizeof *set->weights);
    return 1;
}

/* A hash's own slot. */
static inline size_t set_own(const struct hash_set *set, uint64_t hash) {
    return (size_t)hash_fold(hash ^ set->seed, HASH_C1) & set->mask;
}

/* The slot where a hash stands, or the empty one where it will. hash is not 0. */
static size_t set_find(const struct hash_set *set, uint64_t hash) {
    size_t at = set_own(set, hash);
    while (set->slots[at] != 0 && set->slots[at] != hash) at = (at + 1) & set->mask;
    return at;
}

/* Adds to a counter those of the hashes that wait which are new. Returns how many are. */
static uint64_t count_waiting(const struct hash_set *set, const uint64_t *hashes, size_t n,
                              struct bit_counter *counter) {
    uint64_t distinct = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = set_find(set, hashes[i]);
        if (set->slots[at] != 0) continue;
        set->slots[at] = hashes[i];
        bit_counter_add(counter, hashes[i]);
        distinct++;
    }
    return distinct;
}

/* Adds to a counter the distinct ones of all hashes. Returns how many there are. set is empty. */
static uint64_t count_distinct(const struct hash_set *empty, const uint64_t *hashes, size_t n,
                               struct bit_counter *counter) {
    const struct hash_set set = *empty;
    uint64_t distinct = 0, waits[WAITING_MOST];
    size_t waiting = 0;
    uint32_t zero = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = hashes[i], *slot = &set.slots[set_own(&set, hash)], there = *slot;
        uint32_t fresh = there == 0;
        if (hash == 0) {
            zero = 1;
            continue;
        }
        *slot = fresh ? hash : there;
        bit_counter_add_if(counter, hash, fresh);
        distinct += fresh;
        waits[waiting] = hash;
        waiting += !fresh & (there != hash);
        if (waiting == WAITING_MOST) {
            distinct += count_waiting(&set, waits, waiting, counter);
            waiting = 0;
        }
    }
    return distinct + count_waiting(&set, waits, waiting, counter) + zero; /* 0 has no bits to count */
}

static inline uint32_t capped(uint32_t weight) {
    return weight < WEIGHT_CAP ? weight : WEIGHT_CAP;
}

static void weigh_waiting(const struct hash_set *set, const uint64_t *hashes, size_t n,
                          uint32_t weight) {
    for (size_t i = 0; i < n; i++) {
        size_t at = set_find(set, hashes[i]);
        set->slots[at] = hashes[i];
        set->weights[at] = capped(set->weights[at] + weight);
    }
}

/* Adds a weight to that of each hash. The sums are the same in any order, the cap included. */
static void weigh(struct hash_set *shared, const uint64_t *hashes, size_t n, uint32_t weight) {
    const struct hash_set set = *shared;
    uint64_t waits[WAITING_MOST];
    size_t waiting = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = hashes[i];
        if (hash == 0) {
            shared->has_zero = 1;
            shared->zero_weight = capped(shared->zero_weight + weight);
            continue;
        }
        size_t at = set_own(&set, hash);
        uint64_t there = set.slots[at];
        uint32_t other = (there != 0) & (there != hash);
        set.slots[at] = there != 0 ? there : hash;
        set.weights[at] = capped(set.weights[at] + (weight & (other - 1)));
        waits[waiting] = hash;
        waiting += other;
        if (waiting == WAITING_MOST) {
            weigh_waiting(&set, waits, waiting, weight);
            waiting = 0;
        }
    }
    weigh_waiting(&set, waits, waiting, weight);
}

/* Moves the features to the front of the set's arrays; returns how many there are. */
static size_t set_pack(const struct hash_set *shared) {
    const struct hash_set set = *shared;
    size_t n = 0;
    for (size_t at = 0; at <= set.mask; at++) {
        uint64_t hash = set.slots[at];
        set.slots[n] = hash;
        set.weights[n] = set.weights[at];
        n += hash != 0;
    }
    if (set.has_zero) { /* the set is at most half full: there is room */
        set.slots[n] = 0;
        set.weights[n++] = set.zero_weight;
    }
    return n;
}

static void sum_words(struct ndd_reader *reader, size_t kept, ndd_page *page) {
    struct hash_set set;
    if (!set_open(reader, &set, kept, 1)) return;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (block->weight == 0) continue;
        weigh(&set, reader->tokens.at + block->first_token, block->tokens, block->weight);
    }
    size_t n = set_pack(&set);
    page->features = (uint32_t)n;
    reader->status = ndd_simhash_weighted(set.slots, set.weights, n, &page->value);
}

/* Puts the shingles of the kept tokens in place of all tokens, whose last use this is; returns how many. */
static size_t shingles(struct ndd_reader *reader) {
    uint64_t *to = reader->tokens.at, first = 0, second = 0;
    size_t seen = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (block->weight == 0) continue;
        const uint64_t *token = reader->tokens.at + block->first_token;
        for (uint32_t j = 0; j < block->tokens; j++) {
            uint64_t third = token[j];
            if (++seen >= 3) *to++ = hash_shingle(first, second, third);
            first = second;
            second = third;
        }
    }
    if (seen == 1) *to++ = hash_shingle(second, 0, 0); /* too few for a run of three */
    if (seen == 2) *to++ = hash_shingle(first, second, 0);
    return (size_t)(to - reader->tokens.at);
}

static void sum_shingles(struct ndd_reader *reader, size_t kept, ndd_page *page) {
    struct hash_set set;
    struct bit_counter counter;
    if (!set_open(reader, &set, kept, 0)) return;
    memset(&counter, 0, sizeof counter);
    size_t n = shingles(reader);
    uint64_t distinct = count_distinct(&set, reader->tokens.at, n, &counter);
    page->check = bit_counter_majority(&counter, distinct);
}

static void sum_links(struct ndd_reader *reader, ndd_page *page) {
    struct hash_set set;
    struct bit_counter counter;
    size_t n = reader->links.n;
    reader->tokens.n = 0;
    if (!ROOM(reader, reader->tokens, n) || !set_open(reader, &set, n, 0)) return;
    memset(&counter, 0, sizeof counter);
    for (size_t i = 0; i < n; i++) reader->tokens.at[i] = reader->links.at[i].hash;
    uint64_t distinct = count_distinct(&set, reader->tokens.at, n, &counter);
    page->link_count = (uint32_t)distinct;
    page->links = bit_counter_majority(&counter, distinct);
}

void features_sum(struct ndd_reader *reader, ndd_page *page) {
    size_t kept = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        if (reader->blocks.at[i].weight > 0) kept += reader->blocks.at[i].tokens;
    }
    memset(page, 0, sizeof *page);
    sum_words(reader, kept, page);
    if (reader->status == NDD_OK) sum_shingles(reader, kept, page);
    if (reader->status == NDD_OK) sum_links(reader, page);
    page->text_bytes = reader->text_bytes;
    page->data_bytes = reader->data_bytes;
    page->invalid_bytes = reader->invalid_bytes;
}
