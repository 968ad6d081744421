/*
 * Which blocks are main content, and what their words weigh (docs/fingerprint-spec.md, "Blocks").
 *
 * This is the one place of scoring: the scan gathers facts about blocks, here they are judged.
 */
#include "reading.h"

enum {
    WEIGHT_LEAST = 2,
    WEIGHT_MOST = 30,
    KEPT_LEAST = 20,     /* fewer kept tokens: the page counts whole */
    MAIN_LEAST = 80,     /* what article or main must hold to be believed, in tokens */
    MAIN_PERCENT = 15    /* and in percent of all tokens */
};

#include <stdlib.h>
#include <stdio.h>
static int P(const char *name, int value) {
    const char *s = getenv(name);
    return s ? atoi(s) : value;
}
static int in_content(uint32_t context) {
    if (context & (IN_DROPPED | IN_DROPPED_INSIDE | IN_COMMENTS | IN_COMMENTS_INSIDE)) return 0;
    return !(context & (IN_HEADER | IN_HEADER_INSIDE)) || (context & IN_MAIN) != 0;
}

static int mostly_links(const struct block *block) {
    return 2 * (uint64_t)block->link_tokens > block->tokens;
}

static int is_text(const struct block *block) {
    return in_content(block->context) && !mostly_links(block);
}

static void clear(struct ndd_reader *reader, uint32_t number, uint32_t marks) {
    for (size_t i = 0; i < reader->blocks.n; i++) {
        struct block *block = &reader->blocks.at[i];
        if (!number || block->context / HINT_ONE == number) block->context &= ~marks;
    }
    for (size_t i = 0; i < reader->links.n; i++) {
        struct link *link = &reader->links.at[i];
        if (!number || link->context / HINT_ONE == number) link->context &= ~marks;
    }
}

static void unwrap(struct ndd_reader *reader) {
    uint64_t outside = 0, most = 0, most_text = 0, all = 0, text = 0;
    uint32_t wrapper = 0, number = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        uint32_t now = block->context & OUTERMOST ? block->context / HINT_ONE : 0;
        if (is_text(block)) outside += block->tokens;
        if (now != number) all = text = 0;
        number = now;
        if (!now) continue;
        all += block->tokens;
        if (!is_text(block) && !mostly_links(block) && in_content(block->context & ~(uint32_t)OUTERMOST)) text += block->tokens;
        if (all > most) {
            most = all;
            most_text = text;
            wrapper = block->context;
        }
    }
    uint64_t whole = reader->tokens.n;
    uint64_t kmost = (uint64_t)P("KMOST", 80);
    int form = (wrapper & IN_FORM) != 0;
    if (P("WRAP", 1) && wrapper &&
        (form ? most * 100 > (uint64_t)P("FSHARE", 50) * whole && most_text * (uint64_t)P("FNUM", 1) > outside
              : most * 100 >= (uint64_t)P("SHARE", 75) * whole && outside < kmost && most_text >= (uint64_t)P("TIMES", 4) * outside)) {
        if (P("SAY", 0)) fprintf(stderr, "WRAP %x form=%d all=%d text=%d outside=%d whole=%d\n", wrapper & 0xfff, form, (int)most, (int)most_text, (int)outside, (int)whole);
        clear(reader, wrapper / HINT_ONE, OUTERMOST);
        outside += most_text;
    }
    if (!P("COMM", 1)) return;
    uint64_t comments = 0;
    uint32_t marks = IN_COMMENTS | IN_COMMENTS_INSIDE;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (!is_text(block) && !mostly_links(block) && in_content(block->context & ~marks)) comments += block->tokens;
    }
    if (comments > 0 && comments * 100 >= (uint64_t)P("CSHARE", 50) * whole && outside < kmost && comments >= (uint64_t)P("CTIMES", 4) * outside) {
        if (P("SAY", 0)) fprintf(stderr, "COMM comments=%d outside=%d whole=%d\n", (int)comments, (int)outside, (int)whole);
        clear(reader, 0, marks);
    }
}

static uint16_t weight_of(const struct block *block) {
    if (block->tokens < WEIGHT_LEAST) return WEIGHT_LEAST;
    return (uint16_t)(block->tokens < WEIGHT_MOST ? block->tokens : WEIGHT_MOST);
}

/* Whether article and main elements hold enough of the page to leave out everything else. */
static int main_holds_the_text(const struct ndd_reader *reader) {
    uint64_t inside = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if ((block->context & IN_MAIN) && is_text(block)) inside += block->tokens;
    }
    return inside >= MAIN_LEAST && inside * 100 >= reader->tokens.n * (uint64_t)MAIN_PERCENT;
}

/* A heading is worth what stands under it: as much as the next block that is none. */
static void weigh_headings(struct ndd_reader *reader) {
    uint16_t below = WEIGHT_LEAST;
    for (size_t i = reader->blocks.n; i > 0; i--) {
        struct block *block = &reader->blocks.at[i - 1];
        if (!(block->context & IN_HEADING)) below = block->weight > 0 ? block->weight : WEIGHT_LEAST;
        else if (block->weight > 0) block->weight = below;
    }
}

static uint64_t tokens_kept(const struct ndd_reader *reader) {
    uint64_t kept = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        if (reader->blocks.at[i].weight > 0) kept += reader->blocks.at[i].tokens;
    }
    return kept;
}

/* The links outside the content go; lists of links stay, they are what a listing is. */
static void keep_links(struct ndd_reader *reader, uint32_t needed) {
    size_t links = 0;
    for (size_t i = 0; i < reader->links.n; i++) {
        const struct link *link = &reader->links.at[i];
        if (in_content(link->context) && (link->context & needed) == needed) {
            uint64_t hash;
            if (target_hash(reader, link->href, link->length, &hash)) reader->links.at[links++].hash = hash;
        }
    }
    reader->links.n = links;
}

void blocks_weigh(struct ndd_reader *reader) {
    unwrap(reader);
    uint32_t needed = main_holds_the_text(reader) ? IN_MAIN : 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        struct block *block = &reader->blocks.at[i];
        int keep = is_text(block) && (block->context & needed) == needed;
        block->weight = keep ? weight_of(block) : 0;
    }
    weigh_headings(reader);
    repeats_leave(reader);
    if (tokens_kept(reader) < KEPT_LEAST) {
        for (size_t i = 0; i < reader->blocks.n; i++) reader->blocks.at[i].weight = WEIGHT_MOST;
    }
    keep_links(reader, needed);
}
