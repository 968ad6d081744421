/* The reader's public functions: each leads a page through scan, blocks and features. */
#include "reader/reading.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_MOST ((size_t)1 << 31) /* tokens are counted in 32 bits */

const char *ndd_recipe(void) {
    return "words-0-9";
}

ndd_status ndd_reader_open(ndd_reader **reader) {
    if (reader == NULL) return NDD_BAD_ARGUMENT;
    struct ndd_reader *made = calloc(1, sizeof *made);
    if (made == NULL) return NDD_NO_MEMORY;
    *reader = made;
    return NDD_OK;
}

void ndd_reader_close(ndd_reader *reader) {
    if (reader == NULL) return;
    scratch_drop(reader);
    free(reader);
}

void ndd_reader_keep_words(ndd_reader *reader, int on) {
    reader->keep_words = on;
}

static ndd_status begin(struct ndd_reader *reader, const uint8_t *bytes, size_t n, ndd_key key,
                        const ndd_page *page) {
    if (reader == NULL || page == NULL || (bytes == NULL && n > 0)) return NDD_BAD_ARGUMENT;
    if (n > PAGE_MOST) {
        reader->address = NULL; /* which was for this page only */
        return NDD_TOO_LARGE;
    }
    scratch_trim(reader);
    reader->tokens.n = reader->blocks.n = reader->hidden.n = reader->passed.n = 0;
    reader->links.n = reader->targets.n = 0;
    reader->open = 0;
    reader->own_target = 0;
    reader->words_kept.n = reader->words_shown.n = 0;
    reader->key = key;
    reader->status = NDD_OK;
    reader->title = reader->canonical = 0;
    memset(&reader->identifiers, 0, sizeof reader->identifiers);
    memset(&reader->parts, 0, sizeof reader->parts);
    reader->digits.n = reader->title_tokens.n = 0;
    reader->token_number = 0;
    reader->text_bytes = reader->data_bytes = reader->invalid_bytes = 0;
    reader->directory = NULL;
    reader->directory_length = 0;
    reader->context = 0;
    reader->mains = 0;
    reader->token_length = 0;
    reader->run = 0;
    reader->in_block = 0;
    reader->notice = 0;
    return NDD_OK;
}

/* html: NULL of plain text. */
static ndd_status finish(struct ndd_reader *reader, const uint8_t *html, size_t n, ndd_page *page) {
    ndd_page made = {0}; /* of plain text nothing is unread */
    if (reader->status == NDD_OK) {
        hidden_settle(reader);
        blocks_weigh(reader);
        features_sum(reader, &made);
        identity_settle(reader, &made);
        parts_settle(reader, &made);
        if (html != NULL) features_whole(reader, html, n, &made);
    }
    reader->address = NULL;
    if (reader->status == NDD_OK) *page = made;
    else reader->targets.n = 0;
    return reader->status;
}

ndd_status ndd_read_html(ndd_reader *reader, const uint8_t *html, size_t n,
                         const uint8_t *directory, size_t directory_length, ndd_key key,
                         ndd_page *page) {
    ndd_status status = begin(reader, html, n, key, page);
    if (status != NDD_OK) return status;
    reader->directory = directory;
    reader->directory_length = directory != NULL ? directory_length : 0;
    if (n > 0) reader_scan(reader, html, n);
    return finish(reader, html != NULL ? html : (const uint8_t *)"", n, page);
}

ndd_status ndd_read_text(ndd_reader *reader, const uint8_t *text, size_t n, ndd_key key,
                         ndd_page *page) {
    ndd_status status = begin(reader, text, n, key, page);
    if (status != NDD_OK) return status;
    if (n > 0) words_plain(reader, text, text + n);
    words_end_block(reader);
    return finish(reader, NULL, 0, page);
}

static void show(struct ndd_reader *reader, const uint8_t *bytes, size_t n) {
    if (!NDD_ROOM(reader, reader->words_shown, n)) return;
    memcpy(reader->words_shown.at + reader->words_shown.n, bytes, n);
    reader->words_shown.n += n;
}

static void show_weight(struct ndd_reader *reader, unsigned weight) {
    uint8_t digits[8];
    size_t at = sizeof digits;
    digits[--at] = '\t';
    do digits[--at] = (uint8_t)('0' + weight % 10);
    while ((weight /= 10) > 0);
    show(reader, digits + at, sizeof digits - at);
}

ndd_status ndd_reader_words(ndd_reader *reader, const uint8_t **words, size_t *n) {
    if (reader == NULL || words == NULL || n == NULL || !reader->keep_words) return NDD_BAD_ARGUMENT;
    reader->words_shown.n = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        if (block->weight == 0) continue;
        show_weight(reader, block->weight);
        show(reader, reader->words_kept.at + block->first_word, block->end_word - block->first_word - 1);
        show(reader, (const uint8_t *)"\n", 1);
    }
    if (reader->status != NDD_OK) return reader->status;
    *words = reader->words_shown.at;
    *n = reader->words_shown.n;
    return NDD_OK;
}
