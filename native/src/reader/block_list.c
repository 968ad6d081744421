/*
 * The list of a page's blocks (docs/reference/fingerprint-spec.md, "List of blocks"): a hash of each, how many words
 * it has, and whether it was read. Whoever crawls a site counts by it on how many of its pages a block stands
 * (ndd_site_count).
 *
 * It is made on demand from what the last page left behind, so a reader that is not asked pays nothing. A page may be
 * made of blocks whose hashes meet in one slot: a list has LISTED_MOST entries, and a search looks at no more.
 */
#include "reader/reading.h"

enum {
    LISTED_MOST = 400,
    LISTED_TOKENS = 3, /* a block with fewer tokens is listed only if they have */
    LISTED_BYTES = 20, /* so many bytes together */
    WORDS_MOST = 0x3fffffff,
    SLOTS = 1024       /* more than twice LISTED_MOST; a power of two */
};

/* Adds those of n blocks that were read (read = 1), or the others; returns 0 once the list is full. */
static int list_blocks(struct ndd_reader *reader, uint32_t *slots, const struct block *blocks, size_t n, uint64_t read) {
    for (size_t i = 0; i < n; i++) {
        const struct block *block = &blocks[i];
        if ((block->weight > 0) != read) continue;
        if (block->tokens < LISTED_TOKENS && block->bytes < LISTED_BYTES) continue;
        uint32_t hash = parts_number(parts_join(reader, 0, block)), at = hash % SLOTS;
        while (slots[at] != 0 && (uint32_t)reader->block_list.at[slots[at] - 1] != hash) at = (at + 1) % SLOTS;
        if (slots[at] != 0) continue;
        uint64_t navigation = (block->context & IN_DROPPED) != 0;
        if (reader->block_list.n == LISTED_MOST) return 0;
        reader->block_list.at[reader->block_list.n++] = 
            read << 63 | navigation << 62 | (uint64_t)(block->tokens & WORDS_MOST) << 32 | hash;
        slots[at] = (uint32_t)reader->block_list.n;
    }
    return 1;
}

static void make_list(struct ndd_reader *reader) {
    uint32_t slots[SLOTS] = {0}; /* the number of an entry, from 1 up */
    reader->block_list.n = 0;
    if (!NDD_ROOM(reader, reader->block_list, LISTED_MOST)) return;
    const struct block *seen = reader->blocks.at, *unseen = reader->unscripted.at;
    int has_room = list_blocks(reader, slots, seen, reader->blocks.n, 1) &&
                   list_blocks(reader, slots, seen, reader->blocks.n, 0);
    if (has_room) list_blocks(reader, slots, unseen, reader->unscripted.n, 0);
}

ndd_status ndd_reader_blocks(ndd_reader *reader, const uint64_t **blocks, size_t *n) {
    if (reader == NULL || blocks == NULL || n == NULL) return NDD_BAD_ARGUMENT;
    make_list(reader);
    *blocks = reader->block_list.at;
    *n = reader->block_list.n;
    return reader->status;
}
