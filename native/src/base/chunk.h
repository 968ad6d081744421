/*
 * Bytes looked at 16 at a time, where the processor is known to do that (SSE2, part of x86-64).
 *
 * Every function here has a portable twin that asks the bytes one by one and gives the same answer;
 * NDD_PORTABLE builds with the twins alone (the tests do, and compare). Nothing is read outside the
 * bytes a function is given: where fewer than 16 are left, the twin takes over.
 */
#ifndef NDD_CHUNK_H
#define NDD_CHUNK_H

#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"

#define NDD_CHUNK_BYTES 16

#if !defined(NDD_PORTABLE) && (defined(__SSE2__) || defined(_M_X64))
#define NDD_CHUNKS 1
#include <emmintrin.h>

static inline __m128i chunk_at(const uint8_t *at) {
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

static inline __m128i chunk_is(__m128i bytes, char c) {
    return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c));
}

/* Bytes from first to first + count - 1. */
static inline __m128i chunk_within(__m128i bytes, char first, char count) {
    __m128i above = _mm_sub_epi8(bytes, _mm_set1_epi8(first));
    return _mm_cmpeq_epi8(_mm_min_epu8(above, _mm_set1_epi8((char)(count - 1))), above);
}

/* ASCII letters and digits. */
static inline __m128i chunk_alphanumeric(__m128i bytes) {
    return _mm_or_si128(chunk_within(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 26), chunk_within(bytes, '0', 10));
}

static inline void chunk_store(uint8_t *to, __m128i bytes) {
    _mm_storeu_si128((__m128i *)(void *)to, bytes);
}

/* The first and the second 8 bytes as little-endian numbers. */
static inline void chunk_halves(__m128i bytes, uint64_t *low, uint64_t *high) {
    uint64_t half[2];
    _mm_storeu_si128((__m128i *)(void *)half, bytes);
    *low = half[0];
    *high = half[1];
}

/* A bit for each byte, the first byte's the lowest. */
static inline uint32_t chunk_bits(__m128i found) {
    return (uint32_t)_mm_movemask_epi8(found);
}
#endif

/* Whether a byte ends the name of a tag; with '=', that of an attribute. All such bytes are below 64; what
 * is above seldom comes here. */
#define NDD_BYTE_OF_64(c) (UINT64_C(1) << (c))
#define NDD_ENDS_NAME (UINT64_C(0x100003600) | NDD_BYTE_OF_64('/') | NDD_BYTE_OF_64('>'))

static inline int ends_tag_name(uint8_t c) {
    return c < 64 && (NDD_ENDS_NAME >> c & 1);
}

static inline int ends_attribute_name(uint8_t c) {
    return c < 64 && ((NDD_ENDS_NAME | NDD_BYTE_OF_64('=')) >> c & 1);
}

/* The first byte that ends a name, or end. Names are short: this is one look in most cases. */
static inline const uint8_t *tag_name_end(const uint8_t *at, const uint8_t *end) {
#ifdef NDD_CHUNKS
    while (end - at >= NDD_CHUNK_BYTES) {
        __m128i bytes = chunk_at(at);
        __m128i found = _mm_or_si128(chunk_is(bytes, '/'), chunk_is(bytes, '>'));
        uint32_t bits = chunk_bits(_mm_or_si128(found, chunk_within(bytes, 0, ' ' + 1)));
        if (bits == 0) {
            at += NDD_CHUNK_BYTES;
            continue;
        }
        at += lowest_bit(bits);
        if (ends_tag_name(*at)) return at;
        at++; /* a control character that is no space */
    }
#endif
    while (at < end && !ends_tag_name(*at)) at++;
    return at;
}

static inline const uint8_t *attribute_name_end(const uint8_t *at, const uint8_t *end) {
#ifdef NDD_CHUNKS
    while (end - at >= NDD_CHUNK_BYTES) {
        __m128i bytes = chunk_at(at);
        __m128i found = _mm_or_si128(chunk_is(bytes, '/'), chunk_within(bytes, '=', 2)); /* = and > */
        uint32_t bits = chunk_bits(_mm_or_si128(found, chunk_within(bytes, 0, ' ' + 1)));
        if (bits == 0) {
            at += NDD_CHUNK_BYTES;
            continue;
        }
        at += lowest_bit(bits);
        if (ends_attribute_name(*at)) return at;
        at++;
    }
#endif
    while (at < end && !ends_attribute_name(*at)) at++;
    return at;
}

/* The first byte that is no space, or end. */
static inline const uint8_t *space_end(const uint8_t *at, const uint8_t *end) {
#ifdef NDD_CHUNKS
    for (; end - at >= NDD_CHUNK_BYTES; at += NDD_CHUNK_BYTES) {
        __m128i bytes = chunk_at(at);
        __m128i space = _mm_or_si128(chunk_is(bytes, ' '), chunk_within(bytes, '\t', 2));
        __m128i other = chunk_within(bytes, '\f', 2); /* form feed and carriage return */
        uint32_t bits = ~chunk_bits(_mm_or_si128(space, other)) & 0xffff;
        if (bits != 0) return at + lowest_bit(bits);
    }
#endif
    while (at < end && is_html_space(*at)) at++;
    return at;
}

/* The first such byte, or NULL; memchr for what is near. */
static inline const uint8_t *find_near(const uint8_t *at, const uint8_t *end, uint8_t c) {
#ifdef NDD_CHUNKS
    for (int i = 0; i < 2 && end - at >= 2 * NDD_CHUNK_BYTES; i++, at += 2 * NDD_CHUNK_BYTES) {
        uint32_t bits = chunk_bits(chunk_is(chunk_at(at), (char)c));
        bits |= chunk_bits(chunk_is(chunk_at(at + NDD_CHUNK_BYTES), (char)c)) << NDD_CHUNK_BYTES;
        if (bits != 0) return at + lowest_bit(bits);
    }
#endif
    return at < end ? memchr(at, c, (size_t)(end - at)) : NULL;
}

/* Whether a link's target can be taken as it stands: no reference, no space or control character. */
static inline int is_plain_target(const uint8_t *at, const uint8_t *end) {
#ifdef NDD_CHUNKS
    for (; end - at >= NDD_CHUNK_BYTES; at += NDD_CHUNK_BYTES) {
        __m128i bytes = chunk_at(at);
        if (chunk_bits(_mm_or_si128(chunk_is(bytes, '&'), chunk_within(bytes, 0, ' ' + 1))) != 0) return 0;
    }
#endif
    while (at < end && *at > ' ' && *at != '&') at++;
    return at == end;
}

#ifdef NDD_CHUNKS
/* What some bytes of text are: a bit for each, the first byte's the lowest. */
struct text_bits {
    uint64_t words; /* ASCII letters, digits and '_' */
    uint64_t stops; /* '<', '&', and what is not ASCII */
    uint64_t digits;
};

/* ASCII letters in lower case; all other bytes as they are. */
static inline __m128i chunk_lower(__m128i bytes) {
    __m128i capital = chunk_within(bytes, 'A', 26);
    return _mm_or_si128(bytes, _mm_and_si128(capital, _mm_set1_epi8(0x20)));
}

static inline struct text_bits text_chunk(const uint8_t *at) {
    __m128i bytes = chunk_at(at);
    __m128i letter = chunk_within(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 26);
    __m128i digit = chunk_within(bytes, '0', 10), word = _mm_or_si128(digit, chunk_is(bytes, '_'));
    __m128i stop = _mm_or_si128(chunk_is(bytes, '<'), chunk_is(bytes, '&'));
    struct text_bits text;
    text.words = chunk_bits(_mm_or_si128(word, letter));
    text.stops = chunk_bits(_mm_or_si128(stop, bytes)); /* above ASCII the top bit is set */
    text.digits = chunk_bits(digit);
    return text;
}

/* NDD_TEXT_BYTES of text at once: a few words, so that few of them lie across the border. */
#define NDD_TEXT_BYTES 48
static inline struct text_bits text_at(const uint8_t *at) {
    struct text_bits text = {0, 0, 0};
    for (int i = 0; i < NDD_TEXT_BYTES; i += NDD_CHUNK_BYTES) {
        struct text_bits part = text_chunk(at + i);
        text.words |= part.words << i;
        text.stops |= part.stops << i;
        text.digits |= part.digits << i;
    }
    return text;
}
#endif

#endif
