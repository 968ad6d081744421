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

/* A set of hashes by open addressing, in the reader's scratch; 0 marks an empty slot, and a hash
 * of 0 is kept beside it. The public recipe's hashes can be crafted, all for one slot; so where a
 * hash stands depends on a seed that no page's author can know. The fingerprint never does. */
struct hash_set {
    uint64_t *slots;
    uint32_t *weights; /* NULL when only presence counts */
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
    return 1;
}

/* The slot of a hash, which is either its own or empty. hash is not 0. */
static size_t set_slot(const struct hash_set *set, uint64_t hash) {
    size_t at = (size_t)hash_fold(hash ^ set->seed, HASH_C1) & set->mask;
    while (set->slots[at] != 0 && set->slots[at] != hash) at = (at + 1) & set->mask;
    return at;
}

/* Whether the hash is new. */
static int set_add(struct hash_set *set, uint64_t hash) {
    if (hash == 0) {
        int fresh = !set->has_zero;
        set->has_zero = 1;
        return fresh;
    }
    size_t at = set_slot(set, hash);
    if (set->slots[at] != 0) return 0;
    set->slots[at] = hash;
    return 1;
}

static void set_weigh(struct hash_set *set, uint64_t hash, uint32_t weight) {
    uint32_t *sum = &set->zero_weight;
    uint32_t before = 0;
    if (hash == 0) {
        before = *sum;
        set->has_zero = 1;
    } else {
        size_t at = set_slot(set, hash);
        sum = &set->weights[at];
        if (set->slots[at] != 0) before = *sum;
        set->slots[at] = hash;
    }
    *sum = before + weight < WEIGHT_CAP ? before + weight : WEIGHT_CAP;
}

/* Moves the features to the front of the set's arrays; returns how many there are. */
static size_t set_pack(struct hash_set *set) {
    size_t n = 0;
    for (size_t at = 0; at <= set->mask; at++) {
        if (set->slots[at] != 0) {
            set->slots[n] = set->slots[at];
            set->weights[n++] = set->weights[at];
        }
    }
    if (set->has_zero) { /* the set is at most half full: there is room */
        set->slots[n] = 0;
        set->weights[n++] = set->zero_weight;
    }
    return n;
}

static void sum_words(struct ndd_reader *reader, size_t kept, ndd_page *page) {
    struct hash_set set;
    if (!set_open(reader, &set, kept, 1)) return;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (block->weight == 0) continue;
        const uint64_t *token = reader->tokens.at + block->first_token;
        for (uint32_t j = 0; j < block->tokens; j++) set_weigh(&set, token[j], block->weight);
    }
    size_t n = set_pack(&set);
    page->features = (uint32_t)n;
    reader->status = ndd_simhash_weighted(set.slots, set.weights, n, &page->value);
}

static void sum_shingles(struct ndd_reader *reader, size_t kept, ndd_page *page) {
    struct hash_set set;
    struct bit_counter counter;
    uint64_t distinct = 0, first = 0, second = 0;
    size_t seen = 0;
    if (!set_open(reader, &set, kept, 0)) return;
    memset(&counter, 0, sizeof counter);
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (block->weight == 0) continue;
        const uint64_t *token = reader->tokens.at + block->first_token;
        for (uint32_t j = 0; j < block->tokens; j++) {
            if (++seen >= 3) {
                uint64_t shingle = hash_shingle(first, second, token[j]);
                if (set_add(&set, shingle)) {
                    bit_counter_add(&counter, shingle);
                    distinct++;
                }
            }
            first = second;
            second = token[j];
        }
    }
    if (seen == 1 || seen == 2) { /* too few for a run of three: one shingle of what there is */
        uint64_t shingle = seen == 1 ? hash_shingle(second, 0, 0) : hash_shingle(first, second, 0);
        bit_counter_add(&counter, shingle);
        distinct = 1;
    }
    page->check = bit_counter_majority(&counter, distinct);
}

static void sum_links(struct ndd_reader *reader, ndd_page *page) {
    struct hash_set set;
    struct bit_counter counter;
    uint64_t distinct = 0;
    if (!set_open(reader, &set, reader->links.n, 0)) return;
    memset(&counter, 0, sizeof counter);
    for (size_t i = 0; i < reader->links.n; i++) {
        if (set_add(&set, reader->links.at[i].hash)) {
            bit_counter_add(&counter, reader->links.at[i].hash);
            distinct++;
        }
    }
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
}
