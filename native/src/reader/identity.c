/*
 * What a page says it is (docs/reference/fingerprint-spec.md, "Identity"): a hash of its title, one of the URL that
 * it declares to be its own, and the number of the thing that it is about (thing.c). 0 stands for nothing said.
 */
#include <string.h>

#include "base/bytes.h"
#include "reader/characters.h"
#include "reader/reading.h"

#define TITLE_BYTES 1024 /* what is longer counts by its beginning */

static uint32_t upper_half(uint64_t hash) {
    uint32_t half = (uint32_t)(hash >> 32);
    return half != 0 ? half : 1;
}

/* Adds a character of a title, white space as one blank and none at the beginning. */
static size_t add(uint8_t *title, size_t length, uint32_t code) {
    if (code > ' ' && code != 0xa0) return length + character_write(code, title + length);
    if (length == 0 || title[length - 1] == ' ') return length;
    title[length] = ' ';
    return length + 1;
}

uint32_t identity_title(const struct ndd_reader *reader, const uint8_t *text, size_t n) {
    uint8_t title[TITLE_BYTES + 8];
    const uint8_t *end = text + n;
    size_t length = 0;
    while (text < end && length <= TITLE_BYTES - 8) {
        uint32_t codes[2];
        size_t taken = *text == '&' ? character_reference(text, end, 0, codes) : 0;
        if (taken > 0) {
            length = add(title, length, codes[0]);
            if (codes[1] != 0) length = add(title, length, codes[1]);
        } else if (*text <= ' ' || (*text == 0xc2 && end - text > 1 && text[1] == 0xa0)) {
            length = add(title, length, ' ');
            taken = *text <= ' ' ? 1 : 2;
        } else {
            title[length++] = *text;
            taken = 1;
        }
        text += taken;
    }
    if (length > 0 && title[length - 1] == ' ') length--;
    return length > 0 ? upper_half(ndd_hash_token(title, length, reader->key)) : 0;
}

void identity_canonical(struct ndd_reader *reader, const uint8_t *href, size_t n) {
    uint64_t hash;
    if (reader->canonical != 0 || !target_hash(reader, href, n, &hash)) return;
    reader->canonical = upper_half(hash);
    target_hash_path(reader, href, n, &reader->identifiers.declared_path);
}

void identity_open_graph(struct ndd_reader *reader, const uint8_t *url, size_t n) {
    struct identifiers *found = &reader->identifiers;
    uint64_t hash;
    if (found->open_graph != 0 || !target_hash(reader, url, n, &hash)) return;
    found->open_graph = upper_half(hash);
    target_hash_path(reader, url, n, &found->open_graph_path);
}

/* What a link declares counts before what is meant for other sites' previews. */
void identity_settle(struct ndd_reader *reader, ndd_page *page) {
    struct identifiers *found = &reader->identifiers;
    if (reader->canonical == 0) {
        reader->canonical = found->open_graph;
        found->declared_path = found->open_graph_path;
    }
    page->title = reader->title;
    page->canonical = reader->canonical;
    page->thing = thing_of(reader);
}
