/* Tags: their names, and what their attributes say about the text inside them. */
#ifndef NDD_TAGS_H
#define NDD_TAGS_H

#include "ndd.h"
#include "tag_flags.h"

/* A name as a number, the same in either case of its letters: its bytes, if it has up to 8 of them
 * and all are ASCII, or else a hash with the top bit set. 0 is no name. Bytes behind the name, up to
 * end, may be looked at. */
uint64_t tag_name(const uint8_t *name, size_t n, const uint8_t *end);

/* TAG_ flags (tag_flags.h) of a name; 0 for names that HTML does not know. */
uint32_t tag_flags(uint64_t name);

/* What the attributes of a start tag said. */
struct attributes {
    int hidden;    /* hidden, aria-hidden="true", display:none, visibility:hidden */
    int dropped;   /* a role of navigation, or a class or id word of comments */
    int main;      /* role main or article */
    int json;      /* a type of JSON data (for script) */
    int closed;    /* ends with "/>" */
    const uint8_t *href;
    size_t href_length;
};

/* Reads attributes from just behind a tag's name to behind its '>'. Returns where it stopped, or NULL
 * when the page ends first (then it is no tag). */
const uint8_t *tag_attributes(const uint8_t *at, const uint8_t *end, struct attributes *found);

#endif
