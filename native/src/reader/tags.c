#include "reader/tags.h"

#include <string.h>

#include "base/bytes.h"
#include "base/chunk.h"
#include "hash/hash.h"
#include "reader/reading.h"

uint64_t tag_long_name(const uint8_t *name, size_t n) {
    uint64_t h = 0;
    for (size_t i = 0; i < n; i++) h = hash_mix(h ^ ascii_lower(name[i]));
    return h | UINT64_C(1) << 63;
}

static int one_of(const uint8_t *bytes, size_t n, const char *const *words) {
    uint8_t first = ascii_lower(bytes[0]); /* n > 0; most words end here */
    for (; *words != NULL; words++) {
        if ((uint8_t)(*words)[0] == first && is_word(bytes, n, *words)) return 1;
    }
    return 0;
}

static int has_word(const uint8_t *value, size_t n, const char *const *words) {
    size_t i = 0;
    while (i < n) {
        while (i < n && !is_alphanumeric(value[i])) i++;
        size_t start = i;
        while (i < n && is_alphanumeric(value[i])) i++;
        if (i > start && one_of(value + start, i - start, words)) return 1;
    }
    return 0;
}

/* Whether one of the pieces between spaces is the word. */
static int has_token(const uint8_t *value, size_t n, const char *word) {
    size_t i = 0;
    while (i < n) {
        while (i < n && is_html_space(value[i])) i++;
        size_t start = i;
        while (i < n && !is_html_space(value[i])) i++;
        if (is_word(value + start, i - start, word)) return 1;
    }
    return 0;
}

static const char *const comment_words[] = {"comment", "comments", "disqus", "reply", "replies",
                                            "respond", "discussion", "livefyre", NULL};
/* Words of what stands in front of the text, or beside it: who wrote it, where else it leads, what all pages have. */
static const char *const beside_words[] = {"author", "bio", "byline", "disclaimer", "footer", "modal", "newsletter", "popup",
                                           "related", "share", "signup", "social", "widget", NULL};

#define NAME_MOST 64 /* bytes of a name before such a word that are looked at: the time stays linear */

/* Whether a word of a class stands in the name of a category or a tag of the page, which themes write there. */
static int names_subject(const uint8_t *value, const uint8_t *word) {
    const uint8_t *name = word;
    while (name > value && word - name < NAME_MOST && !is_html_space(name[-1])) name--;
    size_t n = (size_t)(word - name);
    return (n >= 4 && is_word(name, 4, "tag-")) || (n >= 9 && is_word(name, 9, "category-"));
}

/* What the word of a class or id says that begins at a place. */
static uint32_t word_says(const uint8_t *value, const uint8_t *word, const uint8_t *end) {
    size_t n = 0;
    while (word + n < end && is_alphanumeric(word[n])) n++;
    if (n == 0) return 0; /* behind the value */
    uint32_t said = one_of(word, n, beside_words) ? IN_BESIDE : one_of(word, n, comment_words) ? IN_COMMENTS : 0;
    return said != 0 && names_subject(value, word) ? 0 : said;
}

#ifdef NDD_CHUNKS
/* A bit for each byte from which on a first and a third letter fit: of hardly any other word both do. */
static inline uint32_t fitting_letters(const uint8_t *at) {
#define OR _mm_or_si128
#define OF(letter, thirds) _mm_and_si128(chunk_is(first, letter), thirds)
    const __m128i small = _mm_set1_epi8(0x20);
    __m128i first = OR(chunk_at(at), small), third = OR(chunk_at(at + 2), small);
    __m128i l = chunk_is(third, 'l'), o = chunk_is(third, 'o'), p = chunk_is(third, 'p'), s = chunk_is(third, 's');
    __m128i d = chunk_is(third, 'd'), acg = OR(OR(chunk_is(third, 'a'), chunk_is(third, 'c')), chunk_is(third, 'g'));
    __m128i any = OR(OR(OF('a', chunk_is(third, 't')), OF('b', OR(l, o))), OR(OF('c', chunk_is(third, 'm')), OF('d', s)));
    any = OR(any, OR(OR(OF('f', o), OF('l', chunk_is(third, 'v'))), OR(OF('m', d), OF('n', chunk_is(third, 'w')))));
    any = OR(any, OR(OR(OF('p', p), OF('r', OR(OR(l, p), s))), OR(OF('s', acg), OF('w', d))));
#undef OF
#undef OR
    return chunk_bits(any);
}
#endif

/* What a class or id says. Nearly every one is asked, and hardly any says something. */
static uint32_t class_says(const uint8_t *value, size_t n, const uint8_t *end) {
    const uint8_t *at = value, *value_end = value + n;
    uint32_t said = 0, within = 0; /* 1: a word goes on */
#ifdef NDD_CHUNKS
    for (; at < value_end && end - at >= NDD_CHUNK_BYTES + 2; at += NDD_CHUNK_BYTES) {
        uint32_t words = chunk_bits(chunk_alphanumeric(chunk_at(at)));
        for (uint32_t starts = words & ~(words << 1 | within) & fitting_letters(at); starts != 0; starts &= starts - 1) {
            said |= word_says(value, at + lowest_bit(starts), value_end);
        }
        within = words >> (NDD_CHUNK_BYTES - 1);
    }
#else
    (void)end;
#endif
    for (; at < value_end; at++) {
        uint32_t before = within;
        within = (uint32_t)is_alphanumeric(*at);
        if (within & ~before) said |= word_says(value, at, value_end);
    }
    return said;
}

static const char *const dropped_roles[] = {"navigation", "banner", "contentinfo", "dialog", "alertdialog", NULL};
static const char *const aside_roles[] = {"complementary", "search", "form", "menu", "menubar", "toolbar",
                                          "button", NULL};
static const char *const next_words[] = {"next", NULL};
static const char *const text_types[] = {"text", "search", "url", "email", "tel", "number", "date", NULL};
static const char *const main_roles[] = {"main", "article", NULL};

/* A declaration "property: value" anywhere in a style, white space aside. */
static int style_hides(const uint8_t *style, size_t n) {
    char text[24];
    size_t length = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i == n || style[i] == ';') {
            if (length >= 12 && memcmp(text, "display:none", 12) == 0) return 1;
            if (length >= 17 && memcmp(text, "visibility:hidden", 17) == 0) return 1;
            length = 0;
        } else if (!is_html_space(style[i]) && length < sizeof text) {
            text[length++] = (char)ascii_lower(style[i]);
        }
    }
    return 0;
}

/* The first three or four letters of a name, which has as many, in either case, as one number. No byte but a
 * letter in either case becomes that letter when this bit is set. */
#define NAME4(a, b, c, d) \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

static uint32_t small3(const uint8_t *name) {
    return NAME4(name[0], name[1], name[2], 0) | UINT32_C(0x202020);
}

static uint32_t small4(const uint8_t *name) {
    return NAME4(name[0], name[1], name[2], name[3]) | UINT32_C(0x20202020);
}

static int is_json_type(const uint8_t *type, size_t n) {
    return is_word(type, n, "application/json") || (n > 5 && is_word(type + n - 5, 5, "+json"));
}

/* An attribute in which two pages of similar text may differ (docs/reference/fingerprint-spec.md, "Parts"). */
static inline void said_attribute(struct ndd_reader *reader, const uint8_t *name, const uint8_t *value,
                                  size_t length, const uint8_t *end, int wanted) {
    if (wanted & WANTED_DATA && length > 0) parts_attribute(reader, name, value + length, end);
}

/* What an attribute says whose name has six letters and more. */
static void long_attribute(struct ndd_reader *reader, const uint8_t *name, size_t n, const uint8_t *value,
                           size_t length, const uint8_t *end, int wanted, struct attributes *found) {
    switch (n) {
    case 6:
        if (is_word(name, n, "hidden")) {
            if (!is_word(value, length, "until-found")) found->marks |= IN_HIDDEN;
        } else if (!(found->more & MORE_PAGE) && is_word(name, n, "srcdoc")) {
            found->more |= MORE_PAGE;
            found->page = value;
            found->page_length = length;
        } else if (is_word(name, n, "srcset")) said_attribute(reader, name, value, length, end, wanted);
        break;
    case 7:
        if (small4(name) != NAME4('c', 'o', 'n', 't') || !is_word(name, n, "content")) break;
        said_attribute(reader, name, value, length, end, wanted);
        if (found->more & MORE_CONTENT) break;
        found->more |= MORE_CONTENT;
        found->content = value;
        found->content_length = length;
        break;
    case 8:
        if (small4(name) == NAME4('i', 't', 'e', 'm') && !(found->more & MORE_ITEMPROP) && is_word(name, n, "itemprop")) {
            found->more |= MORE_ITEMPROP;
            found->itemprop = value;
            found->itemprop_length = length;
        } else if (small4(name) == NAME4('p', 'r', 'o', 'p') && is_word(name, n, "property") && is_word(value, length, "og:url")) {
            found->more |= MORE_OPEN_GRAPH;
        } else if (small4(name) == NAME4('d', 'a', 't', 'e') && is_word(name, n, "datetime")) {
            said_attribute(reader, name, value, length, end, wanted);
        } else if (is_word(name, n, "readonly") || is_word(name, n, "disabled")) {
            found->more |= MORE_FIXED;
        }
        break;
    case 9:
        if (small4(name) == NAME4('i', 't', 'e', 'm') && is_word(name, n, "itemscope")) found->more |= MORE_ITEMSCOPE;
        break;
    case 10:
        if (small4(name) == NAME4('a', 'r', 'i', 'a') && is_word(name, n, "aria-label")) {
            said_attribute(reader, name, value, length, end, wanted);
        }
        break;
    case 11:
        if (is_word(name, n, "aria-hidden") && is_word(value, length, "true")) found->marks |= IN_HIDDEN;
        break;
    case 14:
        if (small4(name) == NAME4('s', 'h', 'a', 'd') && is_word(name, n, "shadowrootmode")) found->more |= MORE_SHADOW;
        break;
    default:
        break;
    }
}

/* What an attribute says. Its name's length tells most of them apart at once. */
static void attribute(struct ndd_reader *reader, const uint8_t *name, size_t n, const uint8_t *value,
                      size_t length, const uint8_t *end, int wanted, struct attributes *found) {
    if (n > 5) {
        if (small4(name) != NAME4('d', 'a', 't', 'a') || name[4] != '-') long_attribute(reader, name, n, value, length, end, wanted, found);
        else if (wanted & WANTED_DATA) parts_data_attribute(reader, name, n, length > 0 ? value + length : name + n, end);
        return;
    }
    switch (n) {
    case 2:
        if (wanted & WANTED_CLASS && is_word(name, n, "id")) found->marks |= class_says(value, length, end);
        break;
    case 3:
        switch (small3(name)) {
        case NAME4('r', 'e', 'l', 0):
            if (has_token(value, length, "canonical")) found->more |= MORE_CANONICAL;
            if (has_token(value, length, "next")) found->more |= MORE_NEXT;
            break;
        case NAME4('a', 'l', 't', 0):
            said_attribute(reader, name, value, length, end, wanted);
            if (wanted & WANTED_DATA) block_list_pass(reader, value, value + length, end);
            break;
        case NAME4('s', 'r', 'c', 0):
            if (found->more & MORE_SOURCE) break;
            found->more |= MORE_SOURCE;
            found->source = value;
            found->source_length = length;
            break;
        default:
            break;
        }
        break;
    case 4:
        switch (small4(name)) {
        case NAME4('h', 'r', 'e', 'f'):
            if (found->more & MORE_HREF) break;
            found->more |= MORE_HREF;
            found->href = value;
            found->href_length = length;
            break;
        case NAME4('r', 'o', 'l', 'e'):
            if (has_word(value, length, dropped_roles)) found->marks |= IN_DROPPED;
            if (has_word(value, length, aside_roles)) found->marks |= IN_ASIDE;
            if (has_word(value, length, main_roles)) found->marks |= IN_MAIN;
            break;
        case NAME4('t', 'y', 'p', 'e'):
            if (is_word(value, length, "application/ld+json")) found->more |= MORE_LINKED; /* describes the text, does not replace it */
            else if (is_json_type(value, length)) found->more |= MORE_JSON;
            else if (length > 0 && !one_of(value, length, text_types)) found->more |= MORE_NO_TEXT;
            break;
        case NAME4('o', 'p', 'e', 'n'):
            found->more |= MORE_OPEN;
            break;
        case NAME4('d', 'a', 't', 'a'):
            said_attribute(reader, name, value, length, end, wanted);
            break;
        default:
            break;
        }
        break;
    case 5:
        switch (small4(name)) {
        case NAME4('c', 'l', 'a', 's'):
            if ((name[4] | 0x20) != 's') break;
            if (wanted & WANTED_CLASS) found->marks |= class_says(value, length, end);
            if (wanted & WANTED_NEXT && has_word(value, length, next_words)) found->more |= MORE_NEXT;
            said_attribute(reader, name, value, length, end, wanted);
            break;
        case NAME4('s', 't', 'y', 'l'):
            if ((name[4] | 0x20) != 'e') break;
            if (style_hides(value, length)) found->marks |= IN_HIDDEN;
            said_attribute(reader, name, value, length, end, wanted);
            break;
        case NAME4('v', 'a', 'l', 'u'):
            if ((name[4] | 0x20) != 'e') break;
            said_attribute(reader, name, value, length, end, wanted);
            if (found->more & MORE_VALUE) break;
            found->more |= MORE_VALUE;
            found->value = value;
            found->value_length = length;
            break;
        case NAME4('t', 'i', 't', 'l'):
            if ((name[4] | 0x20) == 'e') said_attribute(reader, name, value, length, end, wanted);
            break;
        default:
            break;
        }
        break;
    default:
        break;
    }
}

const uint8_t *tag_attributes(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end, int wanted,
                              struct attributes *found) {
    for (;;) {
        while (at < end && (is_html_space(*at) || *at == '/')) at++;
        if (at == end) return NULL;
        if (*at == '>') {
            found->closed = at[-1] == '/';
            return at + 1;
        }
        const uint8_t *name = at; /* its first character may be any, even '=' */
        at = attribute_name_end(at + 1, end);
        size_t n = (size_t)(at - name);
        while (at < end && is_html_space(*at)) at++;
        const uint8_t *value = at;
        size_t length = 0;
        if (at < end && *at == '=') {
            at++;
            while (at < end && is_html_space(*at)) at++;
            if (at == end) return NULL;
            value = at;
            if (*at == '"' || *at == '\'') {
                value = at + 1; /* the usual quote on a path of its own, which need not wait for its load */
                at = *at == '"' ? find_near(value, end, '"') : find_near(value, end, '\'');
                if (at == NULL) return NULL;
                length = (size_t)(at - value);
                at++;
            } else {
                while (at < end && !is_html_space(*at) && *at != '>') at++;
                length = (size_t)(at - value);
            }
        }
        if (wanted & WANTED && (n == 3 || n > 5 || !(wanted & WANTED_FEW))) attribute(reader, name, n, value, length, end, wanted, found);
    }
}
