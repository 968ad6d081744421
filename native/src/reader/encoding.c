/*
 * A quick test whether a page can be read as UTF-8. Most pages declare UTF-8 or nothing, and finding that
 * out takes a fraction of the time of the full detection (dedup/core/encodings.py), which all others get.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/chunk.h"
#include "ndd.h"

#define LOOKED_AT 4096 /* bytes */
#define ESC 0x1b

/* Space, control characters, and those that Latin-1 adds. */
static int may_be_space(uint8_t c) {
    return c <= ' ' || c == 0x85 || c == 0xa0;
}

/* Whether the bytes before a place end with a word, in either case. */
static int ends_with(const uint8_t *from, const uint8_t *to, const char *word) {
    size_t n = strlen(word);
    return (size_t)(to - from) >= n && is_word(to - n, n, word);
}

/* Whether "utf-8" or "utf8" stands at a place, perhaps in quotes, and ends there. */
static int is_utf8(const uint8_t *at, const uint8_t *end) {
    static const char name[] = "utf-8";
    while (at < end && is_html_space(*at)) at++;
    if (at < end && (*at == '"' || *at == '\'')) at++;
    while (at < end && is_html_space(*at)) at++;
    for (const char *c = name; *c != '\0'; c++) {
        if (at < end && ascii_lower(*at) == (uint8_t)*c) at++;
        else if (*c != '-') return 0;
    }
    return at == end || !(is_alphanumeric(*at) || *at == '_' || *at == '-' || *at >= 0x80);
}

/* Whether an encoding that is not UTF-8 is given at a '='. */
static int gives_other(const uint8_t *html, const uint8_t *equals, const uint8_t *end) {
    const uint8_t *word_end = equals;
    while (word_end > html && may_be_space(word_end[-1])) word_end--;
    if (word_end == html || ((word_end[-1] | 0x20) != 't' && (word_end[-1] | 0x20) != 'g')) return 0;
    if (!ends_with(html, word_end, "charset") && !ends_with(html, word_end, "encoding")) return 0;
    return !is_utf8(equals + 1, end);
}

int ndd_seems_utf8(const uint8_t *html, size_t n) {
    const uint8_t *at = html, *end = html + (n < LOOKED_AT ? n : LOOKED_AT);
    if (n > 0 && (*html == 0xef || *html >= 0xfe)) return 0; /* a mark? */
#ifdef NDD_CHUNKS
    for (; end - at >= NDD_CHUNK_BYTES; at += NDD_CHUNK_BYTES) {
        __m128i bytes = chunk_at(at);
        if (chunk_bits(_mm_or_si128(chunk_is(bytes, '\0'), chunk_is(bytes, ESC))) != 0) return 0;
        uint32_t bits = chunk_bits(chunk_is(bytes, '='));
        if (bits == 0) continue;
        __m128i before = at > html ? chunk_at(at - 1) : _mm_slli_si128(bytes, 1);
        __m128i small = _mm_or_si128(before, _mm_set1_epi8(0x20));
        __m128i word = _mm_or_si128(chunk_is(small, 't'), chunk_is(small, 'g'));
        __m128i space = _mm_or_si128(chunk_is(before, (char)0x85), chunk_is(before, (char)0xa0));
        space = _mm_or_si128(space, chunk_within(before, 0, ' ' + 1));
        for (bits &= chunk_bits(_mm_or_si128(word, space)); bits != 0; bits &= bits - 1) {
            if (gives_other(html, at + lowest_bit(bits), end)) return 0;
        }
    }
#endif
    for (; at < end; at++) {
        if (*at == '\0' || *at == ESC || (*at == '=' && gives_other(html, at, end))) return 0;
    }
    return 1;
}
