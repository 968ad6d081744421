/*
 * Hints that do not count (docs/fingerprint-spec.md, "Wrappers"): an element that holds nearly all of the
 * page is no form, no navigation and no comment within it, whatever it is called.
 *
 * Some sites put the whole page into a form, or write "has-comments" on what surrounds everything; in a
 * forum the answers are the content. Without their text such pages come down to what little stands
 * outside, a notice about cookies say, which is the same on all pages of the site.
 */
#include "reading.h"
#ifdef NDD_RESEARCH
extern double q[64];
#define Q(i, value) q[i]
#else
#define Q(i, value) value
#endif

enum {
    OUTSIDE_MOST = 80,    /* tokens; with as many outside the content is there, whatever is inside */
    PERCENT_USUAL = 50,   /* of the page's tokens must be inside of a form or comments, */
    PERCENT_STRANGE = 75  /* and of what hardly ever holds a page, such as navigation */
};

static const uint32_t comments = IN_COMMENTS | IN_COMMENTS_INSIDE;

/* The tokens inside of an element, or under a mark: all, and those that would be text of the content. */
struct inside {
    uint32_t context; /* of its last block */
    uint64_t tokens, text;
};

static void add_block(struct inside *inside, const struct block *block, uint32_t without) {
    inside->context = block->context;
    inside->tokens += block->tokens;
    if (!in_content(block->context) && in_content(block->context & ~without) && !mostly_links(block)) {
        inside->text += block->tokens;
    }
}

/* The outermost element with most tokens; of two as large the first. Its blocks stand together. */
static struct inside largest(const struct ndd_reader *reader) {
    struct inside most = {0, 0, 0}, now = {0, 0, 0};
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (!(block->context & IN_OUTERMOST)) continue;
        if (block->context / OUTERMOST_ONE != now.context / OUTERMOST_ONE) now.tokens = now.text = 0;
        add_block(&now, block, IN_OUTERMOST);
        if (now.tokens > most.tokens) most = now;
    }
    return most;
}

static struct inside in_comments(const struct ndd_reader *reader) {
    struct inside all = {0, 0, 0};
    for (size_t i = 0; i < reader->blocks.n; i++) {
        if (reader->blocks.at[i].context & comments) add_block(&all, &reader->blocks.at[i], comments);
    }
    return all;
}

static uint64_t text_outside(const struct ndd_reader *reader) {
    uint64_t text = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        if (is_text(&reader->blocks.at[i])) text += reader->blocks.at[i].tokens;
    }
    return text;
}

static int is_page(const struct ndd_reader *reader, const struct inside *inside, uint64_t outside,
                   uint32_t hints) {
    uint64_t percent = hints & (IN_FORM | IN_COMMENTS) ? PERCENT_USUAL : PERCENT_STRANGE;
    if (hints & IN_COMMENTS && (double)inside->text > Q(4, 2) * (double)outside && (double)inside->tokens > Q(5, .5) * reader->words) return 1;
    return inside->text > outside && (hints & IN_FORM || outside < OUTSIDE_MOST) &&
           inside->tokens * 100 > reader->words * percent;
}

/* Takes marks off: in one outermost element, or everywhere. */
static void take_off(struct ndd_reader *reader, uint32_t marks, int everywhere, uint32_t number) {
    for (size_t i = 0; i < reader->blocks.n; i++) {
        uint32_t *context = &reader->blocks.at[i].context;
        if (everywhere || *context / OUTERMOST_ONE == number) *context &= ~marks;
    }
    for (size_t i = 0; i < reader->links.n; i++) {
        uint32_t *context = &reader->links.at[i].context;
        if (everywhere || *context / OUTERMOST_ONE == number) *context &= ~marks;
    }
}

void wrappers_open(struct ndd_reader *reader) {
    uint64_t outside = text_outside(reader);
    struct inside inside = largest(reader);
    if (is_page(reader, &inside, outside, inside.context)) {
        take_off(reader, IN_OUTERMOST, 0, inside.context / OUTERMOST_ONE);
        outside += inside.text;
    }
    inside = in_comments(reader);
    if (is_page(reader, &inside, outside, IN_COMMENTS)) take_off(reader, comments, 1, 0);
}
