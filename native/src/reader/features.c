/*
 * Tokens of the kept blocks become features and shingles, and these a page's value and sketch
 * (docs/reference/fingerprint-spec.md, "Fingerprints").
 */
#include <string.h>

#include "base/bits.h"
#include "hash/hash.h"
#include "reader/reading.h"
#include "hash/simhash.h"
#include "hash/sketch.h"

#define LITTLE_TEXT 80 /* kept tokens: beside fewer of them the title counts */
#define FOREIGN_TEXT 8 /* kept tokens outside of article or main: for so many the title counts once more, */
#define TITLES_MOST 17 /* but not more often than this */
#define READ_ENOUGH 64 /* kept tokens: a page with fewer that are less than an eighth of its words is unread */
#define FEATURES_LEAST 8 /* a page with fewer is not judged by its text */
#define WEIGHT_CAP 480 /* of a distinct word, so that one repeated word does not decide */

/*
 * Which hashes are distinct. Numbers, from 1 up in the order in which the hashes come, stand in slots; what
 * a hash's own slot tells is whether it is new, seen, or finds another there. Which of these is chance, and
 * a processor that guesses wrong loses more time than all the rest takes: so there is no branch on it.
 * Those that find another there wait for the next round, with a table of their size and another seed.
 *
 * The public recipe's hashes can be crafted, all for one slot; so where a hash stands depends on a seed
 * that no page's author can know. The fingerprint never does.
 */
struct round {
    uint32_t *slots;     /* 0 when empty */
    uint64_t *hashes;    /* by number; one more place than there are hashes */
    uint64_t *waits;     /* for the next round; may stand where the round's hashes come from */
    uint64_t multiplier; /* odd */
    int shift;           /* leaves of a product as many bits as number the slots */
    uint32_t next;       /* the number of the next new hash */
    size_t waiting;
};

/* Makes ready for so many hashes; 0 without memory. */
static int round_begin(struct ndd_reader *reader, struct round *round, size_t most) {
    size_t slots = 64;
    round->shift = 64 - 6;
    for (; slots < most + most / 2; slots *= 2) round->shift--;
    reader->slots.n = 0;
    if (!NDD_ROOM(reader, reader->slots, slots)) return 0;
    memset(reader->slots.at, 0, slots * sizeof *reader->slots.at);
    round->slots = reader->slots.at;
    round->multiplier = hash_mix(round->multiplier) | 1;
    round->waiting = 0;
    return 1;
}

static int first_round(struct ndd_reader *reader, struct round *round, size_t most, uint64_t *hashes,
                       uint64_t *waits) {
    round->hashes = hashes;
    round->waits = waits;
    round->next = 1;
    round->multiplier = (uint64_t)(uintptr_t)reader ^ reader->key.k0;
    return round_begin(reader, round, most);
}

/* What stands in a hash's own slot: its number, which it gets if the slot is empty, or another's; the
 * caller counts it among those that wait if *other is 1. */
static inline uint32_t round_add(struct round *round, uint64_t hash, uint32_t *other) {
    uint32_t *slot = &round->slots[hash * round->multiplier >> round->shift];
    uint32_t there = *slot, fresh = there == 0, number = there | (round->next & (0 - fresh));
    *slot = number;
    round->hashes[round->next] = hash;
    round->next += fresh;
    *other = round->hashes[number] != hash;
    round->waits[round->waiting] = hash;
    return number;
}

static inline uint32_t capped(uint32_t weight) {
    return weight < WEIGHT_CAP ? weight : WEIGHT_CAP;
}

/* Adds to the weights of some hashes; in any order the sums are the same, the cap included. step: 1 if each
 * has a weight of its own, 0 if all have the first one. */
static inline void weigh(struct round *shared, uint32_t *sums, uint32_t *wait_weights,
                         const uint64_t *hashes, const uint32_t *weights, size_t step, size_t n) {
    struct round round = *shared;
    for (size_t i = 0; i < n; i++) {
        uint32_t other, weight = weights[i * step];
        sums[round.next] = 0;
        uint32_t number = round_add(&round, hashes[i], &other);
        sums[number] = capped(sums[number] + (weight & (other - 1)));
        wait_weights[round.waiting] = weight;
        round.waiting += other;
    }
    *shared = round;
}

static void sum_words(struct ndd_reader *reader, size_t kept, ndd_page *page) {
    struct round round;
    reader->set.n = reader->waits.n = reader->set_weights.n = 0;
    if (!NDD_ROOM(reader, reader->set, kept + 2) || !NDD_ROOM(reader, reader->waits, kept + 1) ||
        !NDD_ROOM(reader, reader->set_weights, 2 * kept + 3)) return;
    uint32_t *sums = reader->set_weights.at, *weights = sums + kept + 2;
    if (!first_round(reader, &round, kept, reader->set.at, reader->waits.at)) return;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (block->weight == 0) continue;
        weigh(&round, sums, weights, reader->tokens.at + block->first_token, &block->weight, 0, block->tokens);
    }
    while (round.waiting > 0) {
        size_t n = round.waiting;
        if (!round_begin(reader, &round, n)) return;
        weigh(&round, sums, weights, round.waits, weights, 1, n);
    }
    page->features = round.next - 1;
    reader->status = ndd_simhash_weighted(round.hashes + 1, sums + 1, round.next - 1, &page->value);
}

/* A sequence of tokens on its way to shingles. */
struct sequence {
    uint64_t first, second; /* the last two tokens */
    size_t seen;
};

static inline void add_tokens(struct sketch *sketch, struct sequence *sequence, const uint64_t *tokens, size_t n) {
    uint64_t first = sequence->first, second = sequence->second;
    size_t seen = sequence->seen;
    for (size_t i = 0; i < n; i++) {
        uint64_t third = tokens[i];
        if (++seen >= 3) sketch_add(sketch, hash_shingle(first, second, third));
        first = second;
        second = third;
    }
    *sequence = (struct sequence){first, second, seen};
}

/* Too few for a run of three. */
static void end_tokens(struct sketch *sketch, const struct sequence *sequence) {
    if (sequence->seen == 1) sketch_add(sketch, hash_shingle(sequence->second, 0, 0));
    else if (sequence->seen == 2) sketch_add(sketch, hash_shingle(sequence->first, sequence->second, 0));
}

/* The title tells pages of little text apart: its runs, and all of it as one more, or several. The hash of the whole
 * text is without it. */
static void add_title(const struct ndd_reader *reader, struct sketch *sketch, size_t times) {
    struct sequence title = {0, 0, 0};
    uint64_t whole = 0;
    add_tokens(sketch, &title, reader->title_tokens.at, reader->title_tokens.n);
    end_tokens(sketch, &title);
    for (size_t i = 0; i < reader->title_tokens.n; i++) whole = whole * NDD_HASH_C0 + reader->title_tokens.at[i];
    for (size_t i = 0; title.seen > 0 && i < times; i++) sketch_add(sketch, hash_shingle(whole, i, 1));
    sketch->sequence = 0;
}

/* own: how many of the kept tokens stand in article or main, if the page has one. */
static void sum_shingles(struct ndd_reader *reader, size_t kept, size_t own, ndd_page *page) {
    struct sketch sketch;
    struct sequence text = {0, 0, 0};
    sketch_begin(&sketch);
    size_t titles = 1 + (kept - own) / FOREIGN_TEXT;
    if (kept > 0 && own < LITTLE_TEXT) add_title(reader, &sketch, titles < TITLES_MOST ? titles : TITLES_MOST);
    for (size_t next = 0; next < reader->blocks.n;) {
        struct block block = take_blocks(reader, &next, 0);
        if (block.weight > 0) add_tokens(&sketch, &text, reader->tokens.at + block.first_token, block.tokens);
    }
    end_tokens(&sketch, &text);
    sketch_end(&sketch, page->sketch);
}

void features_sum(struct ndd_reader *reader, ndd_page *page) {
    size_t kept = 0, words = 0, own = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i]; /* without branches: there are many blocks */
        size_t tokens = block->tokens, of_main = (block->context & IN_MAIN) != 0, is_kept = block->weight > 0;
        words += tokens * !(block->context & IN_DROPPED);
        kept += tokens * is_kept;
        own += tokens * (is_kept & of_main);
    }
    memset(page, 0, sizeof *page);
    sum_words(reader, kept, page);
    sum_shingles(reader, kept, reader->listed && kept >= LITTLE_TEXT ? 0 : reader->has_main ? own : kept, page);
    page->words = (uint32_t)words;
    page->words_read = (uint32_t)kept;
    page->text_bytes = reader->text_bytes;
    page->data_bytes = reader->data_bytes;
    page->invalid_bytes = reader->invalid_bytes;
}

/* All words of the page, in their order, those of navigation among them; and what is not running text. */
static uint64_t hash_of_words(const struct ndd_reader *reader, const ndd_page *page) {
    uint64_t sum = 0;
    for (size_t i = 0; i < reader->tokens.n; i++) sum = sum * NDD_HASH_C0 + reader->tokens.at[i];
    return hash_mix(sum * NDD_HASH_C0 + ndd_hash_token(page->parts, 20, reader->key));
}

void features_whole(const struct ndd_reader *reader, const uint8_t *html, size_t n, ndd_page *page) {
    page->unread = page->words_read < READ_ENOUGH && 8 * (uint64_t)page->words_read < page->words;
    if (n == 0 || (!page->unread && page->features >= FEATURES_LEAST)) return;
    int by_words = page->unread && page->words >= READ_ENOUGH;
    uint64_t whole = by_words ? hash_of_words(reader, page) : ndd_hash_token(html, n, reader->key);
    sketch_mark(page->sketch, (uint32_t)whole);
    if (!page->unread) return;
    page->value = whole;
    page->features = 0;
}
