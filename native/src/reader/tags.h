/* Tags: their names, and what their attributes say about the text inside them. */
#ifndef NDD_TAGS_H
#define NDD_TAGS_H

#include "base/bytes.h"
#include "ndd.h"
#include "reader/tag_flags.h"
#include "reader/tag_table.h"

/* tag_name of what is no short name: a hash with the top bit set. */
uint64_t tag_long_name(const uint8_t *name, size_t n);

/* A name as a number, the same in either case of its letters: its bytes, if it has up to 8 of them
 * and all are ASCII but none is 0, or else a hash that no such name equals. n > 0. Bytes behind the
 * name, up to end, are looked at, but do not count. */
static inline uint64_t tag_name(const uint8_t *name, size_t n, const uint8_t *end) {
    if (n > 8) return tag_long_name(name, n);
    uint64_t filler = ~UINT64_C(0) << (n - 1) * 8 << 8; /* the place of bytes behind the name */
    uint64_t bytes = (end - name >= 8 ? load8_le(name) : load_le(name, n)) & ~filler;
    uint64_t no_zero = bytes | (filler & NDD_BYTES_OF(1));
    if (((no_zero - NDD_BYTES_OF(1)) | bytes) & NDD_BYTES_OF(0x80)) return tag_long_name(name, n);
    return lower8(bytes);
}

/* TAG_ flags (tag_flags.h) of a name; 0 for names that HTML does not know. */
static inline uint32_t tag_flags(uint64_t name) {
    const struct tag_entry *entry = &tag_entries[name * NDD_TAG_MULTIPLIER >> 54];
    return entry->flags & (0 - (uint32_t)(entry->name == name)); /* no branch: names come as they like */
}

/* What the attributes of a start tag said. */
struct attributes {
    uint32_t marks; /* of a context (reading.h): by a role, a class or an id, or IN_HIDDEN */
    uint32_t more;  /* MORE_ flags: what is said beside that */
    int closed;     /* ends with "/>" */
    /* each only with its flag: not all tags need be made ready for what few have */
    const uint8_t *href, *itemprop, *content, *source, *page, *value;
    size_t href_length, itemprop_length, content_length, source_length, page_length, value_length;
};

enum {
    MORE_ITEMPROP = 1 << 0,
    MORE_ITEMSCOPE = 1 << 1, /* a thing of microdata */
    MORE_CONTENT = 1 << 2,
    MORE_SOURCE = 1 << 3,    /* src */
    MORE_OPEN_GRAPH = 1 << 4, /* og:url is what the content gives */
    MORE_HREF = 1 << 5,
    MORE_CANONICAL = 1 << 6, /* rel has the word canonical (for link) */
    MORE_NEXT = 1 << 7,      /* rel has the word next, or the class with WANTED_NEXT */
    MORE_JSON = 1 << 8,      /* a type of JSON data (for script) */
    MORE_LINKED = 1 << 9,    /* the type of JSON-LD (for script) */
    MORE_OPEN = 1 << 10,     /* open (for dialog) */
    MORE_SHADOW = 1 << 11,   /* shadowrootmode (for template) */
    MORE_PAGE = 1 << 12,     /* srcdoc: the page within (for iframe) */
    MORE_VALUE = 1 << 13,    /* value, */
    MORE_FIXED = 1 << 14,    /* which a visitor cannot change, */
    MORE_NO_TEXT = 1 << 15   /* or a type whose value is no text (for input) */
};

enum {
    WANTED = 1,
    WANTED_DATA = 2, /* data attributes, and others in which pages may differ (parts.c) */
    WANTED_FEW = 4,  /* only src, and names of six letters and more */
    WANTED_CLASS = 8, /* what class and id say of the context */
    WANTED_NEXT = 16  /* whether the class has the word next */
};

struct ndd_reader;

/* Reads attributes from just behind a tag's name to behind its '>'; marks, more and closed are 0 before. What is not
 * wanted (WANTED_ flags) is passed over, all but closed. What pages may differ in goes to the reader's parts. Returns where
 * it stopped, or NULL when the page ends first (then it is no tag). */
const uint8_t *tag_attributes(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end, int wanted,
                              struct attributes *found);

#endif
