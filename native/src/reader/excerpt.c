/*
 * A text that a program took from a page, such as a field of an item: what two such texts are compared by (ndd.h,
 * ndd_read_excerpt). White space and digits are Unicode's (White_Space and the separators U+001C to U+001F; Nd).
 */
#include <string.h>

#include "base/bytes.h"
#include "hash/hash.h"
#include "reader/characters.h"
#include "reader/reading.h"

enum { OTHER, SPACE, DIGIT, POINT }; /* kinds of characters; a number goes on with points */

static const uint8_t kinds[256] = {
    [9] = SPACE, [10] = SPACE, [11] = SPACE, [12] = SPACE, [13] = SPACE, [0x1c] = SPACE, [0x1d] = SPACE,
    [0x1e] = SPACE, [0x1f] = SPACE, [32] = SPACE, ['.'] = POINT, [','] = POINT, [':'] = POINT, ['0'] = DIGIT,
    ['1'] = DIGIT, ['2'] = DIGIT, ['3'] = DIGIT, ['4'] = DIGIT, ['5'] = DIGIT, ['6'] = DIGIT, ['7'] = DIGIT,
    ['8'] = DIGIT, ['9'] = DIGIT};

/* The digits 0 beyond ASCII; nine more follow each. */
static const uint32_t zeros[] = {
    0x660,   0x6f0,   0x7c0,   0x966,   0x9e6,   0xa66,   0xae6,   0xb66,   0xbe6,   0xc66,   0xce6,
    0xd66,   0xde6,   0xe50,   0xed0,   0xf20,   0x1040,  0x1090,  0x17e0,  0x1810,  0x1946,  0x19d0,
    0x1a80,  0x1a90,  0x1b50,  0x1bb0,  0x1c40,  0x1c50,  0xa620,  0xa8d0,  0xa900,  0xa9d0,  0xa9f0,
    0xaa50,  0xabf0,  0xff10,  0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450,
    0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0,
    0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0};

/* The kind of a code point from 0x80 on. */
static unsigned kind_of(uint32_t code) {
    if (code < 0x660) return code == 0x85 || code == 0xa0 ? SPACE : OTHER;
    if (code - 0x2000 < 0x60) {
        return code <= 0x200a || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ? SPACE : OTHER;
    }
    if (code == 0x1680 || code == 0x3000) return SPACE;
    if (code - 0x3001 < 0xa620 - 0x3001 || code - 0xac00 < 0xff10 - 0xac00) return OTHER; /* CJK, Hangul */
    size_t low = 0, high = sizeof zeros / sizeof *zeros;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code < zeros[middle]) high = middle;
        else if (code - zeros[middle] < 10) return DIGIT;
        else low = middle + 1;
    }
    return OTHER;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether eight bytes are ASCII words with single spaces between them, none of them a digit or a control character.
 * *spaces: the highest bit of each byte that is a space. */
static int are_plain(uint64_t bytes, uint64_t *spaces) {
    *spaces = ~((bytes ^ EACH(0x20)) + EACH(0x7f)) & EACH(0x80);
    uint64_t digits = ~((bytes ^ EACH(0x30)) + EACH(0x76)), controls = ~(bytes + EACH(0x60));
    return ((bytes | digits | controls | (*spaces & *spaces << 8)) & EACH(0x80)) == 0;
}

static const ndd_key no_key = {0, 0};

/* The hash of one number more. */
static uint64_t with_number(uint64_t numbers, const uint8_t *number, const uint8_t *end) {
    return hash_mix(numbers + ndd_hash_token(number, (size_t)(end - number), no_key));
}

/* Copies a text with one space between its words to words_shown; returns how many words there are. *numbers: a hash
 * of its numbers, one after the other. */
static uint32_t take_words(struct ndd_reader *reader, const uint8_t *text, size_t n, uint64_t *numbers) {
    reader->words_shown.n = 0;
    if (!NDD_ROOM(reader, reader->words_shown, n)) return 0;
    uint8_t *to = reader->words_shown.at, *number = NULL;
    uint32_t words = 0, in_word = 0;
    for (const uint8_t *at = text, *end = text + n; at < end;) {
        uint64_t spaces;
        if (in_word && number == NULL) { /* most of a text */
            while (end - at >= 8 && are_plain(load8_le(at), &spaces)) {
                memcpy(to, at, 8);
                words += (uint32_t)((spaces >> 7) * EACH(1) >> 56);
                to += 8;
                at += 8;
                if (spaces >> 63) { /* it is written before the next word, if there is one */
                    words--;
                    to--;
                    at--;
                    break;
                }
            }
            while (at < end && kinds[*at] == OTHER && *at < 0x80) *to++ = *at++;
            if (at == end) break;
        }
        uint32_t kind = kinds[*at], taken = 1;
        if (*at >= 0x80) {
            struct character character = character_at(at, end);
            taken = character.taken;
            kind = kind_of(character.lower);
        }
        if (number != NULL && kind != DIGIT && kind != POINT) {
            *numbers = with_number(*numbers, number, to);
            number = NULL;
        }
        if (kind == SPACE) {
            in_word = 0;
        } else {
            if (!in_word && words++ > 0) *to++ = ' ';
            in_word = 1;
            if (number == NULL && kind == DIGIT) number = to;
            for (uint32_t i = 0; i < taken; i++) *to++ = at[i];
        }
        at += taken;
    }
    if (number != NULL) *numbers = with_number(*numbers, number, to);
    reader->words_shown.n = (size_t)(to - reader->words_shown.at);
    return words;
}

/* Takes spaces, points and the digits of ASCII out of a text, in place; returns how many bytes are left. */
static size_t take_letters(uint8_t *text, size_t n) {
    uint8_t *to = text;
    for (size_t i = 0; i < n; i++) {
        *to = text[i];
        to += kinds[text[i]] == OTHER;
    }
    return (size_t)(to - text);
}

void excerpt_take(struct ndd_reader *reader, const uint8_t *text, size_t n, ndd_excerpt *excerpt) {
    uint64_t numbers = 0;
    excerpt->words = n > 0 ? take_words(reader, text, n, &numbers) : 0;
    if (excerpt->words == 0) return;
    uint8_t *shown = reader->words_shown.at;
    excerpt->text = (uint32_t)ndd_hash_token(shown, reader->words_shown.n, no_key);
    excerpt->numbers = (uint32_t)numbers;
    excerpt->letters = (uint32_t)ndd_hash_token(shown, take_letters(shown, reader->words_shown.n), no_key);
    reader->words_shown.n = 0;
}
