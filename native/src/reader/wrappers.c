/*
 * Hints that do not count (docs/reference/fingerprint-spec.md, "Wrappers"): where forms, comments or what stands
 * aside hold
 * most of the text of a page, they are its content.
 *
 * Some sites put the whole page into a form, or write "has-comments" on what surrounds everything; in a
 * forum the answers are the content, often inside of a form. Without their text such pages come down to
 * what little stands outside, a notice about cookies say, which is the same on all pages of the site.
 */
#include "reader/reading.h"

enum {
    MOST_OF_THE_TEXT = 2, /* times as many tokens inside as outside; once more if they stand aside or beside */
    BESIDE_LEAST = 160    /* tokens with what stands aside or beside; fewer, and text outside of it: it is a box */
};

#define HINTS 32 /* sets of hints: these are five marks that stand side by side */

/* text: the tokens that would be content if hints did not count, by their hints. */
static uint64_t text_without(const uint64_t text[HINTS], uint32_t hints) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < HINTS; i++) sum += without_hints(i * IN_FORM, hints) == 0 ? text[i] : 0;
    return sum;
}

void wrappers_open(struct ndd_reader *reader) {
    const uint32_t comments = IN_COMMENTS | IN_COMMENTS_INSIDE;
    const uint32_t most = IN_FORM | IN_ASIDE | comments, every = most | IN_BESIDE;
    const uint32_t ways[] = {IN_FORM,  IN_COMMENTS, comments,  IN_FORM | IN_COMMENTS, IN_FORM | comments,
                             IN_FORM | NDD_OF_FORM, IN_ASIDE, most, IN_BESIDE, every};
    uint32_t any = 0, open = 0, tried = 0;
    uint64_t text[HINTS] = {0};
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        uint32_t context = block->context;
        any |= (context & IN_FORM) && (context & IN_ASIDE) ? context | NDD_OF_FORM : context;
        text[context / IN_FORM % HINTS] += in_content(context & ~every) && !mostly_links(block) ? block->tokens : 0;
    }
    if (!(any & every)) return;
    uint64_t outside = text_without(text, 0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        uint32_t more = ways[i] & any & ~open; /* hints that the page has */
        if (more == 0 || more == tried) continue;
        tried = more;
        uint64_t all = text_without(text, open | more);
        uint64_t is_box = (ways[i] & (IN_ASIDE | IN_BESIDE)) != 0;
        if (all - outside <= (MOST_OF_THE_TEXT + is_box) * outside) continue;
        if (outside > 0 && is_box && all < BESIDE_LEAST) continue;
        open |= ways[i];
        outside = all;
    }
    if (open == 0) return;
    reader->open |= open;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        reader->blocks.at[i].context = without_hints(reader->blocks.at[i].context, open);
    }
}
