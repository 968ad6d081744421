/* Characters: UTF-8 in and out, their classes and lower case, and HTML's character references. */
#ifndef NDD_CHARACTERS_H
#define NDD_CHARACTERS_H

#include "ndd.h"
#include "reader/character_table.h"

enum { CHARACTER_SEPARATOR, CHARACTER_WORD, CHARACTER_SPACELESS, CHARACTER_IGNORED };

#define NDD_NOT_A_CHARACTER UINT32_C(0xfffd)

/* A character as text counts it. */
struct character {
    uint32_t lower; /* its code point, in lower case */
    uint16_t kind;  /* CHARACTER_WORD and so on */
    uint16_t taken; /* how many bytes it was */
};

/* The character of a code point, which took no bytes. */
static inline struct character character_of(uint32_t code) {
    if (code > 0x10ffff) code = NDD_NOT_A_CHARACTER;
    const struct character_kind *kind =
        &character_kinds[character_rows[(uint32_t)character_page[code >> 8] << 8 | (code & 255)]];
    struct character found = {(uint32_t)((int32_t)code + kind->lower), kind->kind, 0};
    return found;
}

static inline struct character character_taking(uint32_t code, uint16_t taken) {
    struct character found = character_of(code);
    found.taken = taken;
    return found;
}

/* The character at a place, in strict UTF-8 (RFC 3629). A byte that begins no valid sequence is
 * NDD_NOT_A_CHARACTER alone. at < end. Text that is not ASCII takes its time here, so it is no call. */
static inline struct character character_at(const uint8_t *at, const uint8_t *end) {
    size_t left = (size_t)(end - at);
    uint8_t c = at[0];
    if (c < 0x80) return character_taking(c, 1);
    if (c >= 0xc2 && c < 0xe0 && left >= 2 && (at[1] & 0xc0) == 0x80) {
        return character_taking((uint32_t)(c & 0x1f) << 6 | (at[1] & 0x3f), 2);
    }
    if ((c & 0xf0) == 0xe0 && left >= 3 && (at[1] & 0xc0) == 0x80 && (at[2] & 0xc0) == 0x80) {
        uint32_t x = (uint32_t)(c & 0x0f) << 12 | (uint32_t)(at[1] & 0x3f) << 6 | (at[2] & 0x3f);
        if (x >= 0x800 && (x < 0xd800 || x > 0xdfff)) return character_taking(x, 3);
    }
    if ((c & 0xf8) == 0xf0 && left >= 4 && (at[1] & 0xc0) == 0x80 && (at[2] & 0xc0) == 0x80 &&
        (at[3] & 0xc0) == 0x80) {
        uint32_t x = (uint32_t)(c & 0x07) << 18 | (uint32_t)(at[1] & 0x3f) << 12 |
                     (uint32_t)(at[2] & 0x3f) << 6 | (at[3] & 0x3f);
        if (x >= 0x10000 && x <= 0x10ffff) return character_taking(x, 4);
    }
    return character_taking(NDD_NOT_A_CHARACTER, 1);
}

/* A code point as UTF-8: up to 4 bytes in a number, the first lowest, and how many these are. */
static inline uint32_t character_bytes(uint32_t code, uint32_t *n) {
    if (code < 0x80) {
        *n = 1;
        return code;
    }
    if (code < 0x800) {
        *n = 2;
        return 0x80c0 | code >> 6 | (code & 0x3f) << 8;
    }
    if (code < 0x10000) {
        *n = 3;
        return 0x8080e0 | code >> 12 | (code & 0xfc0) << 2 | (code & 0x3f) << 16;
    }
    *n = 4;
    return 0x808080f0 | code >> 18 | (code & 0x3f000) >> 4 | (code & 0xfc0) << 10 | (code & 0x3f) << 24;
}

/* Writes a code point as UTF-8 and returns how many bytes it took, 1 to 4. */
static inline size_t character_write(uint32_t code, uint8_t *to) {
    uint32_t n, bytes = character_bytes(code, &n);
    for (uint32_t i = 0; i < n; i++) to[i] = (uint8_t)(bytes >> 8 * i);
    return n;
}

/* Reads the character reference at '&'. Returns the bytes it took and its one or two code points
 * (the second 0 when there is one), or 0 when the '&' stands for itself. in_attribute: a name
 * without semicolon that goes on as a word or with '=' is none (HTML, 13.2.5.73). */
size_t character_reference(const uint8_t *at, const uint8_t *end, int in_attribute,
                           uint32_t codes[2]);

#endif
