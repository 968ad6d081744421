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
    MOST_OF_THE_TEXT = 2, /* times as many tokens inside as outside */
    BESIDE_LEAST = 160    /* tokens with what stands aside or beside; fewer, and text outside of it: it is a box */
};

static uint64_t text_without(const struct ndd_reader *reader, uint32_t hints) {
    uint64_t text = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (in_content(without_hints(block->context, hints)) && !mostly_links(block)) text += block->tokens;
    }
    return text;
}

void wrappers_open(struct ndd_reader *reader) {
    const uint32_t comments = IN_COMMENTS | IN_COMMENTS_INSIDE;
    const uint32_t most = IN_FORM | IN_ASIDE | comments, every = most | IN_BESIDE;
    const uint32_t ways[] = {IN_FORM,  IN_COMMENTS, comments,  IN_FORM | IN_COMMENTS, IN_FORM | comments,
                             IN_FORM | NDD_OF_FORM, IN_ASIDE, most, IN_BESIDE, every};
    uint32_t any = 0, open = 0, tried = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        uint32_t context = reader->blocks.at[i].context;
        any |= (context & IN_FORM) && (context & IN_ASIDE) ? context | NDD_OF_FORM : context;
    }
    if (!(any & every)) return;
    uint64_t outside = text_without(reader, 0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        uint32_t more = ways[i] & any & ~open; /* hints that the page has */
        if (more == 0 || more == tried) continue;
        tried = more;
        uint64_t all = text_without(reader, open | more);
        if (all - outside <= MOST_OF_THE_TEXT * outside) continue;
        if (outside > 0 && ways[i] & (IN_ASIDE | IN_BESIDE) && all < BESIDE_LEAST) continue;
        open |= ways[i];
        outside = all;
    }
    if (open == 0) return;
    reader->open |= open;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        reader->blocks.at[i].context = without_hints(reader->blocks.at[i].context, open);
    }
}
