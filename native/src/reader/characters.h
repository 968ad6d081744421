/* Characters: UTF-8 in and out, their classes and lower case, and HTML's character references. */
#ifndef NDD_CHARACTERS_H
#define NDD_CHARACTERS_H

#include "ndd.h"

enum { CHARACTER_SEPARATOR, CHARACTER_WORD, CHARACTER_SPACELESS, CHARACTER_IGNORED };

#define NOT_A_CHARACTER UINT32_C(0xfffd)

/* A character as text counts it. */
struct character {
    uint32_t lower; /* its code point, in lower case */
    uint16_t kind;  /* CHARACTER_WORD and so on */
    uint16_t taken; /* how many bytes it was */
};

/* The character of a code point, which took no bytes. */
struct character character_of(uint32_t code);

/* The character at a place, in strict UTF-8 (RFC 3629). A byte that begins no valid sequence is
 * NOT_A_CHARACTER alone. at < end. */
struct character character_at(const uint8_t *at, const uint8_t *end);

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
