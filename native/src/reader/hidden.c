/*
 * What is hidden (docs/reference/fingerprint-spec.md, "Hidden content"): left out, as a visitor does not see it, unless
 * it holds most of the text.
 *
 * Some sites hide the whole content until a script or a click shows it: a page that fades in, one that a
 * server sends in pieces, an accordion; or show it to a browser without scripts alone, where all others ask for data. What
 * stands outside, a notice that scripts are needed say, is the same on all pages of the site.
 */
#include <string.h>

#include "reader/reading.h"

enum {
    MOST_OF_THE_TEXT = 2, /* times as many tokens hidden as seen */
    UNSCRIPTED_LEAST = 80 /* tokens for a browser without scripts; fewer ask for a browser with them */
};

/* Whether what is hidden holds most of the text, and more than the seen links of a list, say. */
static int holds_most(const struct ndd_reader *reader) {
    uint64_t hidden = 0, unscripted = 0, seen = 0, links = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (!in_content(block->context)) continue;
        if (mostly_links(block)) links += block->context & IN_HIDDEN ? 0 : block->tokens;
        else if (!(block->context & IN_HIDDEN)) seen += block->tokens;
        else if (block->context & IN_UNSCRIPTED) unscripted += block->tokens;
        else hidden += block->tokens;
    }
    if (unscripted >= UNSCRIPTED_LEAST) hidden += unscripted;
    return hidden > MOST_OF_THE_TEXT * seen && hidden > links;
}

static void show_all(struct ndd_reader *reader) {
    for (size_t i = 0; i < reader->blocks.n; i++) reader->blocks.at[i].context &= ~(uint32_t)IN_HIDDEN;
    reader->open |= IN_HIDDEN;
}

static void leave_out(struct ndd_reader *reader) {
    size_t kept = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (block->context & IN_HIDDEN) {
            reader->text_bytes -= block->bytes;
            parts_hidden(reader, block);
            if (NDD_ROOM(reader, reader->hidden, 1)) reader->hidden.at[reader->hidden.n++] = *block;
        } else {
            reader->blocks.at[kept++] = *block;
        }
    }
    reader->blocks.n = kept;
}

void hidden_settle(struct ndd_reader *reader) {
    uint32_t any = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) any |= reader->blocks.at[i].context;
    if (any & IN_HIDDEN) {
        if (holds_most(reader)) show_all(reader);
        else leave_out(reader);
    }
    uint64_t words = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) words += reader->blocks.at[i].tokens;
    reader->words = (uint32_t)words;
}
