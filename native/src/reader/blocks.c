/*
 * Which blocks are main content, and what their words weigh (docs/reference/fingerprint-spec.md, "Blocks").
 *
 * This is the one place of scoring: the scan gathers facts about blocks, here they are judged. A weight
 * only says how much a word counts in value; the sketch takes all kept words alike, so that a long
 * licence never outweighs a short table of facts.
 */
#include "reader/reading.h"

enum {
    WEIGHT_LEAST = 2,
    WEIGHT_MOST = 30,
    KEPT_LEAST = 20,     /* fewer kept tokens, */
    KEPT_PERCENT = 30,   /* or fewer percent of the content: it is a list of links, and these count */
    MAIN_LEAST = 80,     /* what one article or main must hold for all of them to be believed, in tokens */
    MAIN_PERCENT = 15,   /* and in percent of all tokens */
    LABEL_MOST = 16,     /* tokens of a text between two blocks left out that is none of its own */
    NOTICE_MOST = 100,   /* tokens from the last copyright sign to the page's end */
    PARAGRAPH = 36       /* tokens of a block behind it that is text of the page: of a notice such blocks are short */
};

static uint32_t weight_of(const struct block *block) {
    if (block->tokens < WEIGHT_LEAST) return WEIGHT_LEAST;
    return (uint32_t)(block->tokens < WEIGHT_MOST ? block->tokens : WEIGHT_MOST);
}

/* Whether article and main elements hold enough of the page to leave out everything else. */
static int main_holds_the_text(struct ndd_reader *reader) {
    uint64_t inside = 0, of_one = 0, most = 0;
    uint32_t one = 0;
    reader->has_main = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (!(block->context & IN_MAIN) || !in_content(block->context)) continue;
        reader->has_main = IN_MAIN;
        if (block->main != one) of_one = 0;
        one = block->main;
        if (!mostly_links(block)) {
            inside += block->tokens;
            of_one += block->tokens;
        }
        if (of_one > most) most = of_one;
    }
    return most >= MAIN_LEAST && inside * 100 >= reader->words * (uint64_t)MAIN_PERCENT;
}

/* Keeps the text of the content, and with_links its lists of links, too. */
static void keep(struct ndd_reader *reader, uint32_t needed, int with_links) {
    for (size_t i = 0; i < reader->blocks.n; i++) {
        struct block *block = &reader->blocks.at[i];
        int kept = stands_where(block, needed) && (with_links || !mostly_links(block));
        block->weight = kept ? weight_of(block) : 0;
    }
}

/* A few words between two lists of links, or at an end of them, are of the lists: a label, a separator. */
static void leave_labels(struct ndd_reader *reader) {
    struct block *blocks = reader->blocks.at;
    size_t n = reader->blocks.n;
    for (size_t i = 0; i < n; i++) {
        if (blocks[i].weight == 0 || blocks[i].tokens > LABEL_MOST || blocks[i].context & IN_HEADING) continue;
        int before = i == 0 || blocks[i - 1].weight == 0, after = i + 1 == n || blocks[i + 1].weight == 0;
        if (before && after) blocks[i].weight = 0;
    }
}

static uint64_t tokens_kept(const struct ndd_reader *reader) {
    uint64_t kept = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        if (reader->blocks.at[i].weight > 0) kept += reader->blocks.at[i].tokens;
    }
    return kept;
}

/* A page whose content is a list of links says what they say. Where hardly any text is kept, that is all of the
 * content; where the text is less than a share of it, what article and main elements hold. Elsewhere a box of links
 * that no element marks would decide: it is the same on all pages of a site. */
static void keep_lists(struct ndd_reader *reader, uint32_t needed) {
    uint64_t kept = tokens_kept(reader), content = 0, main = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (!stands_where(block, needed)) continue;
        content += block->weight == 0 ? entry_tokens(block) : block->tokens;
        if (block->context & IN_MAIN) main += block->tokens;
    }
    reader->listed = kept < KEPT_LEAST;
    if (reader->listed) keep(reader, needed, 1);
    else if (kept * 100 < content * KEPT_PERCENT && main >= KEPT_LEAST) keep(reader, IN_MAIN, 1);
}

/* What little stands from the last copyright sign on: whose page it is, and under which licence. A sign above
 * a heading and most of the text is of a column that stands before the content in the page. */
static void leave_notice(struct ndd_reader *reader) {
    uint64_t tokens = 0, all = tokens_kept(reader);
    uint32_t heading = 0;
    for (size_t i = reader->blocks.n; i > 0; i--) {
        struct block *block = &reader->blocks.at[i - 1];
        if (block->weight == 0) continue;
        tokens += block->tokens;
        heading |= block->context & IN_HEADING;
        int is_text_behind = block->tokens >= PARAGRAPH && !(block->context & IN_NOTICE);
        if (tokens > NOTICE_MOST || is_text_behind || (heading && 2 * tokens > all)) return;
        if (!(block->context & IN_NOTICE)) continue;
        for (; i <= reader->blocks.n; i++) {
            block = &reader->blocks.at[i - 1];
            block->weight = 0;
        }
        return;
    }
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

void blocks_weigh(struct ndd_reader *reader) {
    wrappers_open(reader);
    headline_begin(reader);
    uint32_t needed = main_holds_the_text(reader) ? IN_MAIN : 0;
    keep(reader, needed, 0);
    leave_labels(reader);
    keep_lists(reader, needed);
    leave_notice(reader);
    weigh_headings(reader);
    repeats_leave(reader);
    links_settle(reader, needed);
}
