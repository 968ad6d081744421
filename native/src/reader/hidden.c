/*
 * What is hidden (docs/fingerprint-spec.md, "Hidden content"): left out, as a visitor does not see it, unless
 * it holds most of the page.
 *
 * Some sites hide the whole content until a script or a click shows it: a page that fades in, one that a
 * server sends in pieces, an accordion. What stands outside, a notice that scripts are needed say, is the
 * same on all pages of the site.
 */
#include <string.h>

#include "reader/reading.h"

static uint64_t text_of(const struct ndd_reader *reader, uint32_t hidden) {
    uint64_t text = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if ((block->context & IN_HIDDEN) == hidden && is_text(block)) text += block->tokens;
    }
    return text;
}

static void show_all(struct ndd_reader *reader) {
    for (size_t i = 0; i < reader->blocks.n; i++) reader->blocks.at[i].context &= ~(uint32_t)IN_HIDDEN;
    reader->open |= IN_HIDDEN;
}

static void leave_out(struct ndd_reader *reader) {
    size_t kept = 0;
    uint64_t text_bytes = reader->text_bytes;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (block->context & IN_HIDDEN) {
            uint64_t end = i + 1 < reader->blocks.n ? block[1].first_byte : text_bytes;
            reader->text_bytes -= end - block->first_byte;
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
        uint64_t hidden = text_of(reader, IN_HIDDEN), seen = text_of(reader, 0);
        if (hidden > seen && 2 * hidden > reader->tokens.n) show_all(reader);
        else leave_out(reader);
    }
    uint64_t words = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) words += reader->blocks.at[i].tokens;
    reader->words = (uint32_t)words;
}
