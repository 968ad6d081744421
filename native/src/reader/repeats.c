/*
 * A kept block that repeats an earlier one is left out (docs/reference/fingerprint-spec.md, "Blocks"): a page
 * that says something twice says it once.
 *
 * The set holds, for each distinct block, half of a hash of its tokens and its number; equal halves
 * are compared token by token, so the hash decides nothing. Its seed is secret to authors of
 * pages, so that blocks cannot be crafted to share a slot.
 */
#include <string.h>

#include "hash/hash.h"
#include "reader/reading.h"

#define REPEAT_LEAST 4 /* tokens: shorter blocks are labels, and may well be said twice */

static uint64_t hash_of(const struct ndd_reader *reader, const struct block *block, uint64_t seed) {
    const uint64_t *token = reader->tokens.at + block->first_token;
    uint64_t sum = 0, factor = seed; /* products that need not wait for each other */
    for (uint32_t i = 0; i < block->tokens; i++) sum += (token[i] ^ seed) * (factor += NDD_HASH_C0);
    return hash_fold(sum, NDD_HASH_C1);
}

static int same_tokens(const struct ndd_reader *reader, const struct block *a, const struct block *b) {
    const uint64_t *tokens = reader->tokens.at;
    return a->tokens == b->tokens && memcmp(tokens + a->first_token, tokens + b->first_token,
                                            a->tokens * sizeof *tokens) == 0;
}

void repeats_leave(struct ndd_reader *reader) {
    size_t room = 64, mask;
    while (room < 2 * reader->blocks.n) room *= 2;
    mask = room - 1;
    reader->set.n = 0;
    if (!NDD_ROOM(reader, reader->set, room)) return;
    uint64_t *slots = reader->set.at; /* number + 1 in the lower half, 0 when empty */
    memset(slots, 0, room * sizeof *slots);
    uint64_t seed = hash_mix((uint64_t)(uintptr_t)reader ^ reader->key.k1);
    for (size_t i = 0; i < reader->blocks.n; i++) {
        struct block *block = &reader->blocks.at[i];
        if (block->weight == 0 || block->tokens < REPEAT_LEAST) continue;
        uint64_t hash = hash_of(reader, block, seed);
        size_t at = (size_t)hash & mask;
        for (; slots[at] != 0; at = (at + 1) & mask) {
            const struct block *other = &reader->blocks.at[(uint32_t)slots[at] - 1];
            if ((slots[at] ^ hash) >> 32 == 0 && same_tokens(reader, block, other)) break;
        }
        if (slots[at] == 0) {
            slots[at] = (hash & ~UINT64_C(0xffffffff)) | (uint64_t)(i + 1);
            continue;
        }
        block->weight = 0;
    }
}
