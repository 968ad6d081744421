#include "tags.h"

#include <string.h>

#include "bytes.h"
#include "hash.h"
#include "tag_table.h"

uint64_t tag_name(const uint8_t *name, size_t n) {
    uint64_t packed = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t six;
        if (is_ascii_letter(name[i])) six = name[i] & 31;
        else if (is_ascii_digit(name[i])) six = 32 | (name[i] & 15);
        else six = 63;
        if (i >= 10 || six == 63) {
            uint64_t h = 0;
            for (size_t j = 0; j < n; j++) h = hash_mix(h ^ ascii_lower(name[j]));
            return h | UINT64_C(1) << 63;
        }
        packed = packed << 6 | six;
    }
    return packed;
}

uint32_t tag_flags(uint64_t name) {
    const struct tag_entry *entry = &tag_entries[name * TAG_MULTIPLIER >> 54];
    return entry->name == name ? entry->flags : 0;
}

static int equals(const uint8_t *bytes, size_t n, const char *word) {
    size_t i = 0;
    for (; i < n && word[i] != '\0'; i++) {
        if (ascii_lower(bytes[i]) != (uint8_t)word[i]) return 0;
    }
    return i == n && word[i] == '\0';
}

static int one_of(const uint8_t *bytes, size_t n, const char *const *words) {
    uint8_t first = ascii_lower(bytes[0]); /* n > 0; most words end here */
    for (; *words != NULL; words++) {
        if ((uint8_t)(*words)[0] == first && equals(bytes, n, *words)) return 1;
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

static const char *const comment_words[] = {"comment", "comments", "disqus", "reply", "replies",
                                            "respond", "discussion", "livefyre", NULL};
static const char *const dropped_roles[] = {"navigation", "banner", "contentinfo", "complementary",
                                            "search", "form", "menu", "menubar", "toolbar",
                                            "dialog", "alertdialog", "button", NULL};
static const char *const main_roles[] = {"main", "article", NULL};

/* A declaration "property: value" anywhere in a style, white space aside. */
static int style_hides(const uint8_t *style, size_t n) {
    char text[24];
    size_t length = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i == n || style[i] == ';') {
            text[length] = '\0';
            if (strncmp(text, "display:none", 12) == 0 || strncmp(text, "visibility:hidden", 17) == 0) {
                return 1;
            }
            length = 0;
        } else if (!is_html_space(style[i]) && length < sizeof text - 1) {
            text[length++] = (char)ascii_lower(style[i]);
        }
    }
    return 0;
}

static int is_json_type(const uint8_t *type, size_t n) {
    if (equals(type, n, "application/ld+json")) return 0; /* describes the text, does not replace it */
    return equals(type, n, "application/json") || (n > 5 && equals(type + n - 5, 5, "+json"));
}

static void attribute(const uint8_t *name, size_t n, const uint8_t *value, size_t length,
                      struct attributes *found) {
    switch (name[0] | 0x20) {
    case 'a':
        if (equals(name, n, "aria-hidden") && equals(value, length, "true")) found->hidden = 1;
        break;
    case 'c':
    case 'i':
        if ((equals(name, n, "class") || equals(name, n, "id")) && has_word(value, length, comment_words)) {
            found->dropped = 1;
        }
        break;
    case 'h':
        if (equals(name, n, "href") && found->href == NULL) {
            found->href = value;
            found->href_length = length;
        } else if (equals(name, n, "hidden")) {
            found->hidden = 1;
        }
        break;
    case 'r':
        if (equals(name, n, "role")) {
            if (has_word(value, length, dropped_roles)) found->dropped = 1;
            if (has_word(value, length, main_roles)) found->main = 1;
        }
        break;
    case 's':
        if (equals(name, n, "style") && style_hides(value, length)) found->hidden = 1;
        break;
    case 't':
        if (equals(name, n, "type") && is_json_type(value, length)) found->json = 1;
        break;
    default:
        break;
    }
}

const uint8_t *tag_attributes(const uint8_t *at, const uint8_t *end, struct attributes *found) {
    memset(found, 0, sizeof *found);
    for (;;) {
        while (at < end && (is_html_space(*at) || *at == '/')) at++;
        if (at == end) return NULL;
        if (*at == '>') {
            found->closed = at[-1] == '/';
            return at + 1;
        }
        const uint8_t *name = at++; /* its first character may be any, even '=' */
        while (at < end && !is_html_space(*at) && *at != '=' && *at != '>' && *at != '/') at++;
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
                value = at + 1;
                at = memchr(value, *at, (size_t)(end - value));
                if (at == NULL) return NULL;
                length = (size_t)(at - value);
                at++;
            } else {
                while (at < end && !is_html_space(*at) && *at != '>') at++;
                length = (size_t)(at - value);
            }
        }
        attribute(name, n, value, length, found);
    }
}
