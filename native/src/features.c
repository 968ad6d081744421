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
 * A set of hashes by open addressing, in the reader's scratch: numbers, from 1 up in the order in which
 * the hashes came, stand in the slots. The public recipe's hashes can be crafted, all for one slot; so
 * where a hash stands depends on a seed that no page's author can know. The fingerprint never does.
 *
 * Whether a hash is new, seen, or finds its slot taken by another is chance, and a processor that
 * guesses wrong loses more time than all the rest takes. So a hash is first only compared with the
 * slot that is its own, without a branch; those that find another there wait, and are searched for
 * one after the other.
 */
#define WAITING_MOST 128

struct hash_set {
    uint32_t *slots;   /* 0 when empty */
    uint64_t *hashes;  /* by number; one more place than there are hashes */
    uint32_t next;     /* the number of the next new hash */
    size_t mask;
    uint64_t seed;
};

/* An empty set that takes so many hashes, and keeps them where it is told. */
static int set_open(struct ndd_reader *reader, struct hash_set *set, size_t most, uint64_t *hashes) {
    size_t slots = 64;
    while (slots < 2 * most) slots *= 2;
    reader->slots.n = 0;
    if (!ROOM(reader, reader->slots, slots)) return 0;
    memset(reader->slots.at, 0, slots * sizeof *reader->slots.at);
    set->slots = reader->slots.at;
    set->hashes = hashes;
    set->next = 1;
    set->mask = slots - 1;
    set->seed = hash_mix((uint64_t)(uintptr_t)reader ^ reader->key.k0) | 1;
    return 1;
}

/* A hash's own slot. */
static inline size_t set_own(const struct hash_set *set, uint64_t hash) {
    return (size_t)(hash * set->seed >> 32) & set->mask;
}

/* What stands in a hash's own slot: its number, which it gets if the slot is empty, or another's. */
static inline uint32_t set_first(struct hash_set *set, uint64_t hash) {
    uint32_t *slot = &set->slots[set_own(set, hash)], there = *slot;
    uint32_t fresh = there == 0, number = there | (set->next & (0 - fresh));
    *slot = number;
    set->hashes[set->next] = hash;
    set->next += fresh;
    return number;
}

/* A hash's number, wherever it stands. */
static uint32_t set_find(struct hash_set *set, uint64_t hash) {
    size_t at = set_own(set, hash);
    for (; set->slots[at] != 0; at = (at + 1) & set->mask) {
        if (set->hashes[set->slots[at]] == hash) return set->slots[at];
    }
    set->hashes[set->next] = hash;
    return set->slots[at] = set->next++;
}

static inline uint32_t capped(uint32_t weight) {
    return weight < WEIGHT_CAP ? weight : WEIGHT_CAP;
}

struct waiting {
    size_t n;
    uint64_t hashes[WAITING_MOST];
    uint32_t weights[WAITING_MOST];
};

static void weigh_waiting(struct hash_set *set, uint32_t *weights, struct waiting *waiting) {
    for (size_t i = 0; i < waiting->n; i++) {
        uint32_t before = set->next, number = set_find(set, waiting->hashes[i]);
        uint32_t weight = number < before ? weights[number] : 0;
        weights[number] = capped(weight + waiting->weights[i]);
    }
    waiting->n = 0;
}

/* Sums the weights of each distinct word; in any order the sums are the same, the cap included. */
static void weigh(const struct ndd_reader *reader, struct hash_set *shared, uint32_t *weights) {
    struct hash_set set = *shared;
    struct waiting waiting;
    waiting.n = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        const uint64_t *token = reader->tokens.at + block->first_token;
        uint32_t weight = block->weight;
        if (weight == 0) continue;
        for (uint32_t j = 0; j < block->tokens; j++) {
            uint64_t hash = token[j];
            weights[set.next] = 0;
            uint32_t number = set_first(&set, hash);
            uint32_t other = set.hashes[number] != hash, sum = weights[number] + (weight & (other - 1));
            weights[number] = capped(sum);
            waiting.hashes[waiting.n] = hash;
            waiting.weights[waiting.n] = weight;
            waiting.n += other;
            if (waiting.n == WAITING_MOST) weigh_waiting(&set, weights, &waiting);
        }
    }
    weigh_waiting(&set, weights, &waiting);
    *shared = set;
}

static void sum_words(struct ndd_reader *reader, size_t kept, ndd_page *page) {
    struct hash_set set;
    reader->set.n = reader->set_weights.n = 0;
    if (!ROOM(reader, reader->set, kept + 2) || !ROOM(reader, reader->set_weights, kept + 2)) return;
    if (!set_open(reader, &set, kept, reader->set.at)) return;
    weigh(reader, &set, reader->set_weights.at);
    page->features = set.next - 1;
    reader->status = ndd_simhash_weighted(set.hashes + 1, reader->set_weights.at + 1, set.next - 1,
                                          &page->value);
}

/* Adds a hash, now or when those that wait are searched for. */
static inline void set_add(struct hash_set *set, uint64_t *waits, size_t *waiting, uint64_t hash) {
    uint32_t number = set_first(set, hash);
    waits[*waiting] = hash;
    *waiting += set->hashes[number] != hash;
    if (*waiting == WAITING_MOST) {
        for (size_t i = 0; i < WAITING_MOST; i++) set_find(set, waits[i]);
        *waiting = 0;
    }
}

/* The distinct shingles of the kept tokens take the place of all tokens, whose last use this is. */
static void sum_shingles(struct ndd_reader *reader, size_t kept, ndd_page *page) {
    struct hash_set set;
    uint64_t waits[WAITING_MOST], first = 0, second = 0;
    size_t waiting = 0, seen = 0;
    if (!set_open(reader, &set, kept, reader->tokens.at)) return;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (block->weight == 0) continue;
        const uint64_t *token = reader->tokens.at + block->first_token;
        for (uint32_t j = 0; j < block->tokens; j++) {
            uint64_t third = token[j];
            if (++seen >= 3) set_add(&set, waits, &waiting, hash_shingle(first, second, third));
            first = second;
            second = third;
        }
    }
    for (size_t i = 0; i < waiting; i++) set_find(&set, waits[i]);
    if (seen == 1) page->check = hash_shingle(second, 0, 0); /* too few for a run of three */
    else if (seen == 2) page->check = hash_shingle(first, second, 0);
    else if (seen > 2) page->check = ndd_simhash(set.hashes + 1, set.next - 1);
}

static void sum_links(struct ndd_reader *reader, ndd_page *page) {
    struct hash_set set;
    uint64_t waits[WAITING_MOST];
    size_t n = reader->links.n, waiting = 0;
    reader->set.n = 0;
    if (!ROOM(reader, reader->set, n + 2) || !set_open(reader, &set, n, reader->set.at)) return;
    for (size_t i = 0; i < n; i++) set_add(&set, waits, &waiting, reader->links.at[i].hash);
    for (size_t i = 0; i < waiting; i++) set_find(&set, waits[i]);
    page->link_count = set.next - 1;
    page->links = ndd_simhash(set.hashes + 1, set.next - 1);
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
