/*
 * A quick look at what a page says of its encoding. Most say UTF-8 or nothing, and to find that out
 * takes a fraction of the careful look at meta tags that all others get.
 */
#include <string.h>

#include "bytes.h"
#include "ndd.h"

#define LOOKED_AT 4096 /* bytes */
#define ESC 0x1b

/* Space, control characters, and what Latin-1 has of the kind. */
static int may_be_space(uint8_t c) {
    return c <= ' ' || c == 0x85 || c == 0xa0;
}

/* Whether the bytes before a place end with a word, in any case. */
static int ends_with(const uint8_t *from, const uint8_t *to, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(to - from) < n) return 0;
    for (size_t i = 0; i < n; i++) {
        if ((to[(ptrdiff_t)i - (ptrdiff_t)n] | 0x20) != word[i]) return 0;
    }
    return 1;
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

int ndd_seems_utf8(const uint8_t *html, size_t n) {
    if (n == 0) return 1;
    if (n > LOOKED_AT) n = LOOKED_AT;
    const uint8_t *end = html + n, *at = html;
    if (memchr(html, 0, n) != NULL || memchr(html, ESC, n) != NULL) return 0;
    while ((at = memchr(at, '=', (size_t)(end - at))) != NULL) {
        const uint8_t *word_end = at++;
        while (word_end > html && may_be_space(word_end[-1])) word_end--;
        if ((ends_with(html, word_end, "charset") || ends_with(html, word_end, "encoding")) &&
            !is_utf8(at, end)) {
            return 0;
        }
    }
    return 1;
}
