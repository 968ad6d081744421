/*
 * Where the page's own text begins (docs/reference/fingerprint-spec.md, "Headline"): at the heading that says the
 * title. What stands
 * above it is of the site.
 *
 * Many sites put a column of links, a notice or a search above the content, in elements that say nothing about it. Beside
 * little text such a box decides, and it is the same on all pages of the site.
 */
#include "reader/reading.h"

enum {
    TITLE_MOST = 64,    /* tokens of the title that are compared */
    HEADING_MOST = 32,  /* tokens of a heading; a longer one says more than a title */
    HEADINGS_MOST = 64, /* headings that are compared: the time stays linear */
    ABOVE_MOST = 80     /* tokens of text above the headline, as of a notice; more are left out only beside more below */
};

/* How many tokens the longest run has that a heading shares with the title. */
static size_t shared_run(const uint64_t *title, size_t n, const uint64_t *heading, size_t m) {
    size_t longest = 0, runs[HEADING_MOST + 1] = {0}; /* that end at each of the heading's tokens, from 1 up */
    for (size_t i = 0; i < n; i++) {
        for (size_t j = m; j > 0; j--) {
            runs[j] = title[i] == heading[j - 1] ? runs[j - 1] + 1 : 0;
            if (runs[j] > longest) longest = runs[j];
        }
    }
    return longest;
}

/* The number of the headline's block; 0 also if there is none. */
static size_t find_headline(const struct ndd_reader *reader) {
    size_t n = reader->title_tokens.n < TITLE_MOST ? reader->title_tokens.n : TITLE_MOST, best = 0, at = 0, seen = 0;
    for (size_t i = 0; n > 0 && i < reader->blocks.n && seen < HEADINGS_MOST; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (!(block->context & IN_TOP) || block->context & IN_DROPPED || block->tokens > HEADING_MOST) continue;
        size_t run = shared_run(reader->title_tokens.at, n, reader->tokens.at + block->first_token, block->tokens);
        seen++;
        if (2 * run < block->tokens || run <= best) continue;
        best = run;
        at = i;
    }
    return at;
}

void headline_begin(struct ndd_reader *reader) {
    size_t headline = find_headline(reader);
    uint64_t text[2] = {0, 0}; /* above, and from the headline on */
    for (size_t i = 0; headline > 0 && i < reader->blocks.n; i++) {
        if (is_text(&reader->blocks.at[i])) text[i >= headline] += reader->blocks.at[i].tokens;
    }
    if (text[0] > ABOVE_MOST && text[0] > text[1]) return;
    for (size_t i = 0; i < headline; i++) reader->blocks.at[i].context |= IN_ABOVE;
}
