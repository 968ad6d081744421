/*
 * What a page says it is (docs/fingerprint-spec.md, "Identity"): a hash of its title, and one of the URL that
 * it declares to be its own. 0 stands for nothing said.
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

uint32_t identity_canonical(const struct ndd_reader *reader, const uint8_t *href, size_t n) {
    uint64_t hash;
    return target_hash(reader, href, n, &hash) ? upper_half(hash) : 0;
}
