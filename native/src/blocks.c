/*
 * Which blocks are main content, and what their words weigh (docs/fingerprint-spec.md, "Blocks").
 *
 * This is the one place of scoring: the scan gathers facts about blocks, here they are judged.
 */
#include "reading.h"
#ifdef NDD_RESEARCH
extern double q[64];
#define Q(i, value) q[i]
#else
#define Q(i, value) value
#endif

enum {
    WEIGHT_LEAST = 2,
    WEIGHT_MOST = 30,
    KEPT_LEAST = 20,     /* fewer kept tokens: the page counts whole */
    MAIN_LEAST = 80,     /* what article or main must hold to be believed, in tokens */
    MAIN_PERCENT = 15    /* and in percent of all tokens */
};

static uint32_t weight_of(const struct block *block) {
    if (block->tokens < WEIGHT_LEAST) return WEIGHT_LEAST;
    return (uint32_t)(block->tokens < WEIGHT_MOST ? block->tokens : WEIGHT_MOST);
}

/* Whether article and main elements hold enough of the page to leave out everything else. */
static int main_holds_the_text(const struct ndd_reader *reader) {
    uint64_t inside = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if ((block->context & IN_MAIN) && is_text(block)) inside += block->tokens;
    }
    return inside >= MAIN_LEAST && inside * 100 >= reader->words * (uint64_t)MAIN_PERCENT;
}

/* A heading is worth what stands under it: as much as the next block that is none. */
static void weigh_headings(struct ndd_reader *reader) {
    uint32_t below = WEIGHT_LEAST;
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

static uint64_t tokens_of(const struct ndd_reader *reader, uint32_t needed) {
    uint64_t tokens = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (in_content(block->context) && (block->context & needed) == needed) tokens += block->tokens;
    }
    return tokens;
}

/* The links outside the content go, as do those without a target; lists of links stay, they are what a
 * listing is. */
static void keep_links(struct ndd_reader *reader, uint32_t needed) {
    size_t links = 0;
    for (size_t i = 0; i < reader->links.n; i++) {
        const struct link *link = &reader->links.at[i];
        uint64_t hash;
        if (!in_content(link->context) || (link->context & needed) != needed) continue;
        if (target_hash(reader, link->href, link->length, &hash)) reader->links.at[links++].hash = hash;
    }
    reader->links.n = links;
}

/* What stands from the last copyright sign to the end of the page. */
static void leave_notice(struct ndd_reader *reader) {
    uint64_t tail = 0;
    for (size_t i = reader->blocks.n; i > 0; i--) {
        struct block *block = &reader->blocks.at[i - 1];
        if (block->weight == 0) continue;
        tail += block->tokens;
        if ((double)tail > Q(9, 100)) return;
        if (!(block->context & IN_NOTICE)) continue;
        if ((double)(tokens_kept(reader) - tail) < Q(10, 0)) return;
        for (; i <= reader->blocks.n; i++) reader->blocks.at[i - 1].weight = 0;
        return;
    }
}

/* Short text between lists of links. */
static void leave_between(struct ndd_reader *reader, uint32_t needed) {
    int before = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        struct block *block = &reader->blocks.at[i];
        int text = block->weight > 0, dense = !text && (mostly_links(block) || !in_content(block->context));
        if (text && block->tokens <= Q(11, 0) && (before || Q(12,0) == 0) && !(block->context & IN_HEADING)) {
            size_t j = i + 1;
            int after = j < reader->blocks.n && reader->blocks.at[j].weight == 0;
            if (j == reader->blocks.n) after = 1;
            if (Q(12, 0) == 0 ? after || before : after) { block->weight = 0; continue; }
        }
        before = !text || i == 0;
        (void)needed; (void)dense;
    }
}

void blocks_weigh(struct ndd_reader *reader) {
    wrappers_open(reader);
    uint32_t needed = main_holds_the_text(reader) ? IN_MAIN : 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        struct block *block = &reader->blocks.at[i];
        int keep = is_text(block) && (block->context & needed) == needed;
        block->weight = keep ? weight_of(block) : 0;
    }
    if (Q(11, 0) > 0) leave_between(reader, needed);
    if ((double)tokens_kept(reader) < Q(6, .3) * (double)tokens_of(reader, needed) || tokens_kept(reader) < KEPT_LEAST) {
        for (size_t i = 0; i < reader->blocks.n; i++) {
            struct block *block = &reader->blocks.at[i];
            if (in_content(block->context) && (block->context & needed) == needed) block->weight = weight_of(block);
        }
    }
    if (Q(9, 100) > 0) leave_notice(reader);
    weigh_headings(reader);
    repeats_leave(reader);
    if (Q(7, 1) == 0 && tokens_kept(reader) < KEPT_LEAST) {
        for (size_t i = 0; i < reader->blocks.n; i++) {
            struct block *block = &reader->blocks.at[i];
            if (in_content(block->context)) block->weight = WEIGHT_MOST;
        }
    }
    keep_links(reader, needed);
}
