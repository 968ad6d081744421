/* Little helpers on bytes and 64-bit words, the same on every endianness. */
#ifndef NDD_BYTES_H
#define NDD_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t rotate_left(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

/* 8 bytes as a little-endian number; compilers make one load of it. */
static inline uint32_t load4_le(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static inline uint64_t load8_le(const uint8_t *bytes) {
    return (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 |
           (uint64_t)bytes[3] << 24 | (uint64_t)bytes[4] << 32 | (uint64_t)bytes[5] << 40 |
           (uint64_t)bytes[6] << 48 | (uint64_t)bytes[7] << 56;
}

/* Up to 8 bytes as a little-endian number, zero-padded. */
static inline uint64_t load_le(const uint8_t *bytes, size_t n) {
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) x |= (uint64_t)bytes[i] << (8 * i);
    return x;
}

/* The 4 or 8 bytes of a number, the lowest first; compilers make one store of them. */
static inline void store4_le(uint8_t *to, uint32_t x) {
    to[0] = (uint8_t)x;
    to[1] = (uint8_t)(x >> 8);
    to[2] = (uint8_t)(x >> 16);
    to[3] = (uint8_t)(x >> 24);
}

static inline void store8_le(uint8_t *to, uint64_t x) {
    store4_le(to, (uint32_t)x);
    store4_le(to + 4, (uint32_t)(x >> 32));
}

static inline int is_ascii_letter(uint8_t c) {
    return (uint8_t)((c | 0x20) - 'a') < 26;
}

static inline int is_ascii_digit(uint8_t c) {
    return (uint8_t)(c - '0') < 10;
}

static inline int is_alphanumeric(uint8_t c) {
    return is_ascii_letter(c) || is_ascii_digit(c);
}

static inline uint8_t ascii_lower(uint8_t c) {
    return (uint8_t)(c - 'A') < 26 ? (uint8_t)(c | 0x20) : c;
}

/* Whether bytes are a word, which is in lower case, in either case of their letters. */
static inline int is_word(const uint8_t *bytes, size_t n, const char *word) {
    size_t i = 0;
    for (; i < n && word[i] != '\0'; i++) {
        if (ascii_lower(bytes[i]) != (uint8_t)word[i]) return 0;
    }
    return i == n && word[i] == '\0';
}

/* The value of a hexadecimal digit, or -1. */
static inline int hex_digit(uint8_t c) {
    if (is_ascii_digit(c)) return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A word of 8 bytes that all are this one. */
#define NDD_BYTES_OF(byte) (UINT64_C(0x0101010101010101) * (byte))

/* ascii_lower of 8 bytes at once, none of them above ASCII: adding carries into the top bit of a byte
 * that is 'A' or more, and of one that is more than 'Z'. */
static inline uint64_t lower8(uint64_t bytes) {
    uint64_t from_a = bytes + NDD_BYTES_OF(0x80 - 'A'), above_z = bytes + NDD_BYTES_OF(0x7f - 'Z');
    return bytes | ((from_a ^ above_z) & NDD_BYTES_OF(0x80)) >> 2;
}

/* White space as HTML counts it: tab, line feed, form feed, carriage return, space. */
static inline int is_html_space(uint8_t c) {
    return c <= ' ' && (UINT64_C(0x100003600) >> c & 1);
}

#endif
