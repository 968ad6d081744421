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

/* The sum of distinct hashes: each is looked for from a slot on that no author of a text can know. */
static uint64_t sum_of_distinct(struct ndd_reader *reader, const uint64_t *hashes, size_t n) {
    size_t slots = 16;
    int shift = 64 - 4;
    for (; slots < 2 * n; slots *= 2) shift--;
    reader->slots.n = 0;
    if (!ROOM(reader, reader->slots, slots)) return 0;
    uint32_t *at = reader->slots.at; /* numbers of hashes, from 1 up; 0: empty */
    memset(at, 0, slots * sizeof *at);
    uint64_t multiplier = hash_mix((uint64_t)(uintptr_t)reader) | 1, sum = 0;
    for (size_t i = 0; i < n; i++) {
        size_t slot = (size_t)(hashes[i] * multiplier >> shift);
        while (at[slot] != 0 && hashes[at[slot] - 1] != hashes[i]) slot = (slot + 1) & (slots - 1);
        if (at[slot] != 0) continue;
        at[slot] = (uint32_t)(i + 1);
        sum += hashes[i];
    }
    return sum;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether eight bytes are ASCII words with single spaces between them, none of them a digit or a control character.
 * *spaces: the highest bit of each byte that is a space. */
static int are_plain(uint64_t bytes, uint64_t *spaces) {
    *spaces = ~((bytes ^ EACH(0x20)) + EACH(0x7f)) & EACH(0x80);
    uint64_t digits = ~((bytes ^ EACH(0x30)) + EACH(0x76)), controls = ~(bytes + EACH(0x60));
    return ((bytes | digits | controls | (*spaces & *spaces << 8)) & EACH(0x80)) == 0;
}

/* Copies a text with one space between its words to words_shown, and the hashes of its numbers to waits; returns
 * how many words there are. */
static uint32_t take_words(struct ndd_reader *reader, const uint8_t *text, size_t n) {
    static const ndd_key no_key = {0, 0};
    reader->words_shown.n = reader->waits.n = 0;
    if (!ROOM(reader, reader->words_shown, n) || !ROOM(reader, reader->waits, n / 2 + 1)) return 0;
    uint8_t *to = reader->words_shown.at, *number = NULL;
    uint64_t *hash = reader->waits.at;
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
            *hash++ = ndd_hash_token(number, (size_t)(to - number), no_key);
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
    if (number != NULL) *hash++ = ndd_hash_token(number, (size_t)(to - number), no_key);
    reader->words_shown.n = (size_t)(to - reader->words_shown.at);
    reader->waits.n = (size_t)(hash - reader->waits.at);
    return words;
}

void excerpt_take(struct ndd_reader *reader, const uint8_t *text, size_t n, ndd_excerpt *excerpt) {
    static const ndd_key no_key = {0, 0};
    excerpt->words = n > 0 ? take_words(reader, text, n) : 0;
    if (excerpt->words == 0) return;
    excerpt->text = (uint32_t)ndd_hash_token(reader->words_shown.at, reader->words_shown.n, no_key);
    excerpt->numbers = (uint32_t)hash_mix(sum_of_distinct(reader, reader->waits.at, reader->waits.n));
    reader->words_shown.n = 0;
}
