/*
 * The list of a page's blocks (docs/reference/fingerprint-spec.md, "List of blocks"): a hash of each, how many words
 * it has, and whether it was read; and the same of all other text, which is hidden or too short for a block. Whoever crawls
 * a site counts by it on how many of its pages a block stands (ndd_site_count).
 *
 * It is made on demand from what the last page left behind. A page may be
 * made of blocks whose hashes meet in one slot: a list has LISTED_MOST entries, and a search looks at no more.
 */
#include "base/bytes.h"
#include "hash/hash.h"
#include "reader/reading.h"

enum {
    LISTED_MOST = 400,
    LISTED_TOKENS = 3, /* what has fewer tokens is listed together with what follows, unless they have */
    LISTED_BYTES = 20, /* so many bytes together */
    RUN_ENDS = 8,      /* every so many-th of these ends what is listed together, by its hash: on all pages the same */
    PASSED_BYTES = 6,  /* of text that is passed by, which count for one word */
    PASSED_MOST = 4096,
    WORDS_MOST = 0x3fffffff,
    SLOTS = 1024       /* more than twice LISTED_MOST; a power of two */
};

/* Short pieces of text that follow each other, listed as one. */
struct run {
    uint64_t sum, words;
};

static uint64_t entry_of(uint64_t read, uint64_t words, uint32_t hash) {
    return read << 63 | (words & WORDS_MOST) << 32 | hash;
}

void block_list_pass(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end, const uint8_t *page_end) {
    while (at < end && is_html_space(*at)) at++;
    while (at < end && is_html_space(end[-1])) end--;
    size_t n = (size_t)(end - at);
    if (n == 0 || reader->passed.n == PASSED_MOST || !NDD_ROOM(reader, reader->passed, 1)) return;
    uint64_t hash = page_end - end >= 16 ? hash_token_padded(at, n, reader->key) : ndd_hash_token(at, n, reader->key);
    uint32_t half = (uint32_t)(hash >> 32);
    reader->passed.at[reader->passed.n++] = entry_of(0, (n + PASSED_BYTES - 1) / PASSED_BYTES, half + !half);
}

/* Adds an entry, unless one has its hash; nothing once the list is full. */
static void list(struct ndd_reader *reader, uint32_t *slots, uint64_t entry) {
    uint32_t hash = (uint32_t)entry, at = hash % SLOTS;
    while (slots[at] != 0 && (uint32_t)reader->block_list.at[slots[at] - 1] != hash) at = (at + 1) % SLOTS;
    if (slots[at] != 0 || reader->block_list.n == LISTED_MOST) return;
    reader->block_list.at[reader->block_list.n++] = entry;
    slots[at] = (uint32_t)reader->block_list.n;
}

static void end_run(struct ndd_reader *reader, uint32_t *slots, struct run *run) {
    if (run->words > 0) list(reader, slots, entry_of(0, run->words, parts_number(run->sum)));
    *run = (struct run){0, 0};
}

/* Adds what is short to a run, and ends that before what is not. */
static void list_unread(struct ndd_reader *reader, uint32_t *slots, struct run *run, uint64_t entry, int is_short) {
    if (!is_short) {
        end_run(reader, slots, run);
        list(reader, slots, entry);
        return;
    }
    run->sum = run->sum * NDD_HASH_C0 + (uint32_t)entry;
    run->words += entry >> 32 & WORDS_MOST;
    if ((uint32_t)entry % RUN_ENDS == 0) end_run(reader, slots, run);
}

/* Adds those of n blocks that were read (read = 1), or the others. */
static void list_blocks(struct ndd_reader *reader, uint32_t *slots, const struct block *blocks, size_t n, uint64_t read,
                        struct run *run) {
    for (size_t i = 0; i < n; i++) {
        const struct block *block = &blocks[i];
        if ((block->weight > 0) != read || block->tokens == 0) continue;
        int is_short = block->tokens < LISTED_TOKENS && block->bytes < LISTED_BYTES;
        if (read && is_short) continue;
        uint64_t entry = entry_of(read, block->tokens, parts_number(parts_join(reader, 0, block)));
        if (read) list(reader, slots, entry);
        else list_unread(reader, slots, run, entry, is_short);
    }
}

ndd_status ndd_reader_blocks(ndd_reader *reader, const uint64_t **blocks, size_t *n) {
    if (reader == NULL || blocks == NULL || n == NULL) return NDD_BAD_ARGUMENT;
    uint32_t slots[SLOTS] = {0}; /* the number of an entry, from 1 up */
    struct run run = {0, 0};
    reader->block_list.n = 0;
    if (!NDD_ROOM(reader, reader->block_list, LISTED_MOST)) return reader->status;
    list_blocks(reader, slots, reader->blocks.at, reader->blocks.n, 1, &run);
    list_blocks(reader, slots, reader->blocks.at, reader->blocks.n, 0, &run);
    list_blocks(reader, slots, reader->hidden.at, reader->hidden.n, 0, &run);
    for (size_t i = 0; i < reader->passed.n; i++) {
        uint64_t entry = reader->passed.at[i];
        list_unread(reader, slots, &run, entry, (entry >> 32 & WORDS_MOST) < LISTED_TOKENS);
    }
    end_run(reader, slots, &run);
    *blocks = reader->block_list.at;
    *n = reader->block_list.n;
    return reader->status;
}
