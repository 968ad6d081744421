/*
 * One pass over a page's bytes: markup steers, text goes to words.c.
 *
 * There is no tree and no recursion. A stack of open elements, of bounded depth and searched to a
 * bounded depth, hands down the context a piece of text stands in. Every byte is passed once: a
 * search that fails reads to the end of the page, and then the page is done.
 */
#include <stddef.h>
#include <string.h>

#include "base/bytes.h"
#include "base/chunk.h"
#include "reader/reading.h"
#include "reader/tags.h"

#define STACK_DEPTH 512 /* elements nested deeper are counted, not remembered */
#define SEARCH_DEPTH 64 /* how far back an end tag looks for its element */

struct element {
    uint64_t name;
    uint64_t end;       /* a short name and '>', in the highest bytes: what its end tag looks like; else 0 */
    uint32_t end_shift; /* the bits below them */
    uint32_t flags;
    uint32_t context;
};

struct scan {
    struct ndd_reader *reader;
    const uint8_t *end;
    uint32_t depth;
    uint32_t too_deep; /* open elements that found no room */
    int xml;           /* the page is XHTML */
    uint32_t plain;    /* the depth of the lowest open element whose tag has no flags; 0 if there is none */
    struct element unmarked; /* the last one that was not put on the stack: only what its end tag looks like */
    struct element stack[STACK_DEPTH];
};

static void set_context(struct scan *scan) {
    scan->reader->context = scan->depth > 0 ? scan->stack[scan->depth - 1].context : 0;
}

static void close_to(struct scan *scan, uint32_t depth) {
    const uint32_t before = scan->reader->context;
    if (scan->plain > depth) scan->plain = 0;
    scan->depth = depth;
    scan->too_deep = 0;
    set_context(scan);
    if (before & ~scan->reader->context & IN_DRAWN) words_end_unless(scan->reader, 0); /* a drawing ends here */
}

/* Closes the nearest open element that has one of the wanted flags, unless one of the fence flags
 * stands before it, or an element whose content is not text: what is inside ends nothing outside. */
static void close_implied(struct scan *scan, uint32_t wanted, uint32_t fence) {
    uint32_t lowest = scan->depth > SEARCH_DEPTH ? scan->depth - SEARCH_DEPTH : 0;
    for (uint32_t i = scan->depth; i > lowest; i--) {
        uint32_t flags = scan->stack[i - 1].flags;
        if (flags & wanted) {
            close_to(scan, i - 1);
            return;
        }
        if (flags & (fence | TAG_SKIP)) return;
    }
}

/* A start tag may end elements that HTML lets stand open. */
static void implied_ends(struct scan *scan, uint32_t flags) {
    if (flags & TAG_BLOCK) close_implied(scan, TAG_PARAGRAPH, TAG_BLOCK);
    if (!(flags & (TAG_ITEM | TAG_TERM | TAG_CELL | TAG_ROW | TAG_GROUP | TAG_LINK | TAG_OPTION))) return;
    if (flags & TAG_ITEM) close_implied(scan, TAG_ITEM, TAG_LIST | TAG_CELL | TAG_TABLE);
    else if (flags & TAG_TERM) close_implied(scan, TAG_TERM, TAG_TERMS | TAG_CELL | TAG_TABLE);
    else if (flags & TAG_CELL) close_implied(scan, TAG_CELL, TAG_ROW | TAG_TABLE);
    else if (flags & TAG_ROW) close_implied(scan, TAG_ROW, TAG_TABLE);
    else if (flags & TAG_GROUP) close_implied(scan, TAG_GROUP, TAG_TABLE);
    else if (flags & TAG_LINK) close_implied(scan, TAG_LINK, TAG_BLOCK);
    else if (flags & TAG_OPTION) close_implied(scan, TAG_OPTION, TAG_BLOCK);
}

_Static_assert(TAG_SKIP / TAG_SKIP == IN_SKIPPED && TAG_DROP / TAG_SKIP == IN_DROPPED &&
               TAG_MAIN / TAG_SKIP == IN_MAIN && TAG_HEADER / TAG_SKIP == IN_HEADER &&
               TAG_HEADING / TAG_SKIP == IN_HEADING && TAG_LINK / TAG_SKIP == IN_LINK && TAG_FORM / TAG_SKIP == IN_FORM && TAG_ASIDE / TAG_SKIP == IN_ASIDE,
               "marks of a context stand in the order of the flags of tags");

/* A block ends foreign content that stands open, as it does for a browser. */
static void end_foreign(struct scan *scan) {
    uint32_t depth = scan->depth;
    while (depth > 0 && scan->stack[depth - 1].context & IN_FOREIGN) depth--;
    close_to(scan, depth);
}

/* A heading of the page stands in these elements: what their class or id says is of the page's subject (the tags and the
 * category of an article), not that they are comments on it, or stand beside it. */
static void hold_heading(struct scan *scan) {
    const uint32_t hints = IN_COMMENTS | IN_COMMENTS_INSIDE | IN_BESIDE, context = scan->reader->context;
    if (!(context & hints) || context & (IN_SKIPPED | IN_DROPPED)) return;
    for (uint32_t i = 0; i < scan->depth; i++) scan->stack[i].context &= ~hints;
    set_context(scan);
}

static uint32_t context_of(const struct scan *scan, uint32_t flags, const struct attributes *attributes) {
    uint32_t outer = scan->reader->context;
    uint32_t context = flags / TAG_SKIP & IN_ANY;
    context |= (flags / TAG_TOP & 1) * IN_TOP;
    if (attributes->more & MORE_OPEN) context &= ~(uint32_t)IN_DROPPED;
    if (attributes->more & MORE_SHADOW && !(flags & (TAG_BLOCK | TAG_FOREIGN))) context &= ~(uint32_t)IN_SKIPPED;
    if (flags & TAG_FOREIGN && flags & TAG_BLOCK) outer &= ~(uint32_t)IN_FOREIGN; /* foreignObject: HTML again */
    else if (flags & TAG_FOREIGN) context |= IN_FOREIGN;
    if (flags & TAG_FOREIGN && flags & TAG_SKIP && !(outer & IN_SKIPPED) && !(attributes->marks & IN_HIDDEN)) context |= IN_DRAWN;
    if (attributes->more & MORE_ITEMSCOPE) context |= thing_context(attributes);
    if (outer & IN_VEILED && flags & (TAG_BLOCK | TAG_SKIP)) {
        outer &= ~(uint32_t)IN_VEILED;
        if (flags & TAG_BLOCK) outer = (outer & ~(uint32_t)IN_SKIPPED) | IN_HIDDEN;
    }
    if (flags & TAG_VEIL) context |= outer & IN_SKIPPED ? IN_UNSCRIPTED : IN_UNSCRIPTED | IN_VEILED;
    if (flags & TAG_ROOT) return outer | context; /* it is hidden or classed for the whole page's sake */
    uint32_t marks = attributes->marks;
    if (marks & outer & IN_COMMENTS) marks |= IN_COMMENTS_INSIDE;
    if (marks & IN_HIDDEN && !(flags & TAG_BLOCK)) {
        marks &= ~(uint32_t)IN_HIDDEN;
        if (!((outer | context) & IN_SKIPPED)) marks |= IN_SKIPPED | IN_VEILED;
    }
    return outer | context | marks;
}

/* The end of an element whose content is no markup: past its end tag, or the page's end. */
static const uint8_t *raw_end(const struct scan *scan, const uint8_t *at, uint64_t name,
                              const uint8_t **content_end) {
    const uint8_t *end = scan->end;
    while ((at = memchr(at, '<', (size_t)(end - at))) != NULL) {
        if (end - at > 2 && at[1] == '/' && is_ascii_letter(at[2])) {
            const uint8_t *p = at + 2;
            while (p < end && p - at < 14 && (is_ascii_letter(*p) || is_ascii_digit(*p))) p++;
            if (tag_name(at + 2, (size_t)(p - at - 2), end) == name &&
                (p == end || is_html_space(*p) || *p == '/' || *p == '>')) {
                *content_end = at;
                p = memchr(p, '>', (size_t)(end - p));
                return p != NULL ? p + 1 : end;
            }
        }
        at++;
    }
    *content_end = end;
    return end;
}

/* Notes what the end tag of an element looks like, if its name has n <= 7 bytes and is no hash. */
static inline void expect_end(struct element *element, size_t n) {
    int is_short = n < 8 && element->name >> 63 == 0;
    element->end_shift = is_short ? 56 - 8 * (uint32_t)n : 0;
    element->end = is_short ? (element->name | (uint64_t)'>' << 8 * n) << element->end_shift : 0;
}

/* Which attributes of a tag count, in a context and what is around it: WANTED_ flags. */
static inline int wanted_of(uint32_t flags, uint32_t context, uint32_t around) {
    int passed = (context & IN_SKIPPED) != 0, data = passed || around & IN_DROPPED ? 0 : WANTED_DATA;
    if (!(flags & (TAG_VOID | TAG_SCRIPT | TAG_SOURCE))) {
        return passed ? 0 : WANTED | data | (flags & TAG_BLOCK && !(around & IN_DROPPED) ? WANTED_CLASS : 0);
    }
    if (flags & (TAG_SCRIPT | TAG_REL)) return WANTED;
    if (flags & TAG_SOURCE) return WANTED | data | (flags & TAG_VOID ? WANTED_FEW : 0);
    return flags & TAG_META && !passed ? WANTED | WANTED_FEW : 0;
}

/* What a tag says beside what steers the scan. */
static void take_more(struct scan *scan, uint32_t flags, const struct attributes *found, const uint8_t *after) {
    struct ndd_reader *reader = scan->reader;
    if (found->more & MORE_SOURCE && flags & TAG_SOURCE && !(reader->context & IN_DROPPED)) {
        parts_source(reader, found->source, found->source_length, scan->end);
    }
    if (found->more & MORE_CONTENT && flags & TAG_META) {
        if (found->more & MORE_OPEN_GRAPH) identity_open_graph(reader, found->content, found->content_length);
        else parts_meta(reader, found->content, found->content_length, scan->end);
    }
    if (found->more & (MORE_ITEMPROP | MORE_ITEMSCOPE) && !(flags & TAG_RAW)) {
        thing_tag(reader, found, (flags & TAG_VOID) != 0, after, scan->end);
    }
}

/* Whether bytes are JSON: an object, or an array of something, begins there. */
static int is_json(const uint8_t *at, const uint8_t *end) {
    while (at < end && is_html_space(*at)) at++;
    if (end - at < 2 || (*at != '{' && *at != '[')) return 0;
    int is_object = *at++ == '{';
    while (at < end && is_html_space(*at)) at++;
    if (at == end) return 0;
    if (is_object) return *at == '"' || *at == '}';
    return *at == '{' || *at == '[' || *at == '"' || *at == ']' || *at == '-' || is_ascii_digit(*at);
}

#define NAME_TEXTAREA UINT64_C(0x6165726174786574)
#define NAME_XMP UINT64_C(0x706d78)
#define NAME_INPUT UINT64_C(0x7475706e69)
#define NAME_TEXT UINT64_C(0x74786574)
#define NAME_PRE UINT64_C(0x657270)
#define AROUND_DATA 64 /* bytes behind data in a pre, at most: the end tags of the page that a browser made around it */

/* What is seen of an element whose content is no markup: the text of a field, of an example, of a page within. */
static void raw_text(struct scan *scan, uint64_t name, const struct attributes *found, const uint8_t *at,
                     const uint8_t *end) {
    struct ndd_reader *reader = scan->reader;
    uint32_t context = reader->context & ~(uint32_t)IN_FORM;
    if (reader->context & IN_SKIPPED || found->marks & IN_HIDDEN) return;
    if (found->more & MORE_PAGE) words_block(reader, found->page, found->page + found->page_length, context);
    else if (name == NAME_TEXTAREA || name == NAME_XMP) words_block(reader, at, end, context);
}

/* What is seen of a field that a visitor cannot change. */
static void field_text(struct ndd_reader *reader, const struct attributes *found) {
    const uint32_t looked_at = MORE_VALUE | MORE_FIXED | MORE_NO_TEXT;
    if ((found->more & looked_at) != (MORE_VALUE | MORE_FIXED) || found->marks & IN_HIDDEN) return;
    words_block(reader, found->value, found->value + found->value_length, (reader->context & ~(uint32_t)IN_FORM) | IN_ASIDE);
}

/* Whether the text of a drawing begins: of an SVG that is seen, what stands in text or is HTML again. */
static int is_drawn_text(uint32_t context, uint64_t name, uint32_t flags) {
    if ((context & (IN_DRAWN | IN_SKIPPED)) != (IN_DRAWN | IN_SKIPPED)) return 0;
    return name == NAME_TEXT || (flags & TAG_FOREIGN && flags & TAG_BLOCK);
}

static const uint8_t *start_tag(struct scan *scan, const uint8_t *at) {
    struct ndd_reader *reader = scan->reader;
    const uint8_t *name_start = at + 1, *p = tag_name_end(name_start, scan->end);
    uint64_t name = tag_name(name_start, (size_t)(p - name_start), scan->end);
    uint32_t flags = tag_flags(name);
    struct attributes attributes;
    attributes.marks = attributes.more = 0;
    attributes.closed = 0;
    /* outside the content only the links of a pagination count */
    int outside = reader->address != NULL && (flags & TAG_LINK) && !(reader->context & IN_MAIN && in_content(reader->context));
    const uint8_t *after = p + 1;
    int is_field = name == NAME_INPUT && !(reader->context & IN_SKIPPED);
    if (p == scan->end || *p != '>') {
        /* a tag that may end elements before it does not stand in the context that holds here */
        uint32_t context = flags & (TAG_BLOCK | TAG_LINK) ? 0 : reader->context;
        int wanted = wanted_of(flags, context, reader->context) | (outside ? WANTED_NEXT : 0);
        if (is_field) wanted = WANTED;
        const struct parts before = reader->parts;
        const size_t passed = reader->passed.n;
        after = tag_attributes(reader, p, scan->end, wanted, &attributes);
        if (after == NULL) { /* never finished: no tag, and nothing follows it */
            reader->parts = before;
            reader->passed.n = passed;
            return scan->end;
        }
    }
    if (attributes.more != 0 && !is_field) take_more(scan, flags, &attributes, after);

    if (is_field) field_text(reader, &attributes);
    if (reader->context & IN_DRAWN) words_break(reader);
    if (flags & TAG_BLOCK) words_end_block(reader);
    else if (flags & TAG_BREAK) words_break(reader);
    if (name == NAME_PRE && reader->tokens.n == 0 && is_json(after, scan->end)) {
        const uint8_t *content_end, *next = raw_end(scan, after, name, &content_end);
        if (scan->end - next <= AROUND_DATA) {
            reader->data_bytes += (uint64_t)(content_end - after);
            parts_data(reader, after, content_end, 1, scan->end);
            return next;
        }
    }
    if (reader->context & IN_FOREIGN && (flags & (TAG_BLOCK | TAG_FOREIGN)) == TAG_BLOCK) end_foreign(scan);
    if (flags & TAG_RAW && !(reader->context & IN_FOREIGN)) {
        const uint8_t *content_end;
        words_break(reader);
        if (scan->xml && attributes.closed) return after;
        const uint8_t *next = raw_end(scan, after, name, &content_end);
        if (flags & TAG_SCRIPT) {
            if (attributes.more & MORE_JSON) reader->data_bytes += (uint64_t)(content_end - after);
            if (attributes.more & MORE_LINKED) thing_data(reader, after, content_end);
            parts_data(reader, after, content_end, (attributes.more & (MORE_JSON | MORE_LINKED)) != 0, scan->end);
        }
        if ((flags & TAG_TITLE) && reader->title == 0 && !(reader->context & IN_SKIPPED)) {
            reader->title = identity_title(reader, after, (size_t)(content_end - after));
            if (reader->title != 0) words_title(reader, after, content_end);
        }
        if (!(flags & (TAG_SCRIPT | TAG_TITLE))) raw_text(scan, name, &attributes, after, content_end);
        return next;
    }
    if (flags & TAG_REL && attributes.more & MORE_HREF && !(reader->context & IN_SKIPPED)) {
        if (attributes.more & MORE_CANONICAL) identity_canonical(reader, attributes.href, attributes.href_length);
        if (attributes.more & MORE_NEXT && reader->address != NULL) {
            links_add(reader, attributes.href, attributes.href_length, IN_PAGING);
        }
    }
    if (flags & TAG_VOID) return after;
    if (attributes.closed && (scan->xml || reader->context & (IN_SKIPPED | IN_FOREIGN) || flags & TAG_SKIP)) return after;
    if (flags & (TAG_BLOCK | TAG_LINK)) implied_ends(scan, flags);
    if (flags & TAG_TOP) hold_heading(scan);
    uint32_t context = context_of(scan, flags, &attributes);
    if (is_drawn_text(reader->context, name, flags)) {
        words_end_unless(reader, 1);
        context = (context & ~(uint32_t)IN_SKIPPED) | IN_ASIDE;
    }
    if (flags & TAG_LINK && reader->address != NULL && attributes.more & MORE_HREF && !(context & IN_SKIPPED)) {
        int paging = attributes.more & MORE_NEXT || (outside && links_is_number(after, scan->end));
        links_add(reader, attributes.href, attributes.href_length, paging ? context | IN_PAGING : context);
    }
    if (flags == 0 && (scan->plain | scan->too_deep) == 0 && context == reader->context) { /* <b> */
        scan->unmarked.name = name;
        expect_end(&scan->unmarked, (size_t)(p - name_start));
        return after;
    }
    if (scan->depth == STACK_DEPTH) {
        scan->too_deep++;
        return after;
    }
    struct element *element = &scan->stack[scan->depth++];
    if (flags == 0 && scan->plain == 0) scan->plain = scan->depth;
    element->name = name;
    element->flags = flags;
    element->context = context;
    expect_end(element, (size_t)(p - name_start));
    reader->mains += flags & TAG_BLOCK && context & ~reader->context & IN_MAIN;
    reader->context = context;
    return after;
}

/* What an end tag may not reach past: a tag within a line stops at a block, other tags at a table
 * cell, and the parts of a table at their table; what holds no text ends wherever it says so. */
static uint32_t fence_of(uint32_t flags) {
    if (flags & TAG_SKIP) return 0;
    if (!(flags & (TAG_BLOCK | TAG_ASIDE))) return TAG_BLOCK;
    if (flags & TAG_TABLE) return 0;
    if (flags & (TAG_CELL | TAG_ROW | TAG_GROUP)) return TAG_TABLE;
    if (flags & TAG_ITEM) return TAG_LIST | TAG_CELL | TAG_TABLE;
    return TAG_CELL | TAG_TABLE;
}

/* The end tag of the innermost element, or of the last one that is not on the stack, as nearly all are: to
 * behind it; NULL if it is another. */
static const uint8_t *innermost_end(struct scan *scan, const uint8_t *name) {
    if (scan->too_deep > 0 || scan->end - name < 8) return NULL;
    uint64_t bytes = load8_le(name);
    const struct element *unmarked = &scan->unmarked;
    if (scan->plain == 0 && bytes << unmarked->end_shift == unmarked->end) return name + 8 - unmarked->end_shift / 8;
    if (scan->depth == 0) return NULL;
    const struct element *element = &scan->stack[scan->depth - 1];
    if (bytes << element->end_shift != element->end || element->flags & TAG_ROOT) return NULL;
    if (element->flags & TAG_BLOCK) words_end_block(scan->reader);
    else if (element->flags & TAG_BREAK) words_break(scan->reader);
    close_to(scan, scan->depth - 1);
    return name + 8 - element->end_shift / 8;
}

static const uint8_t *end_tag(struct scan *scan, const uint8_t *at) {
    const uint8_t *name_start = at + 2, *behind = innermost_end(scan, name_start);
    if (behind != NULL) return behind;
    const uint8_t *p = tag_name_end(name_start, scan->end);
    const uint8_t *after = find_near(p, scan->end, '>');
    if (after == NULL) return scan->end;
    after++;
    uint64_t name = tag_name(name_start, (size_t)(p - name_start), scan->end);
    uint32_t flags = tag_flags(name);
    if (flags & TAG_BLOCK) words_end_block(scan->reader);
    else if (flags & TAG_BREAK) words_break(scan->reader);
    if (flags == 0 && (scan->plain | scan->too_deep) == 0) return after;
    if (flags & (TAG_ROOT | TAG_VOID)) return after; /* what follows </body> still is in the body */
    if (scan->too_deep > 0) {
        scan->too_deep--;
        return after;
    }
    uint32_t fence = fence_of(flags);
    uint32_t lowest = scan->depth > SEARCH_DEPTH ? scan->depth - SEARCH_DEPTH : 0;
    for (uint32_t i = scan->depth; i > lowest; i--) {
        const struct element *element = &scan->stack[i - 1];
        if (element->name == name) {
            close_to(scan, i - 1);
            break;
        }
        if (element->flags & fence) break;
    }
    return after;
}

/* Past "<!--", to behind the comment's end. */
static const uint8_t *comment(const uint8_t *at, const uint8_t *end) {
    if (at < end && *at == '>') return at + 1;                              /* <!--> */
    if (end - at > 1 && at[0] == '-' && at[1] == '>') return at + 2;        /* <!---> */
    const uint8_t *p = at;
    while ((p = memchr(p, '>', (size_t)(end - p))) != NULL) {
        if (p - at >= 2 && p[-1] == '-' && p[-2] == '-') return p + 1;
        if (p - at >= 3 && p[-1] == '!' && p[-2] == '-' && p[-3] == '-') return p + 1;
        p++;
    }
    return end;
}

/* Past "<![CDATA[", to behind its end: text without markup in XML and in foreign content. */
static const uint8_t *cdata(struct scan *scan, const uint8_t *at, const uint8_t *end) {
    const uint8_t *p = at, *next = end;
    while ((p = memchr(p, ']', (size_t)(end - p))) != NULL) {
        if (end - p > 2 && p[1] == ']' && p[2] == '>') {
            next = p + 3;
            break;
        }
        p++;
    }
    if (!(scan->reader->context & IN_SKIPPED)) words_plain(scan->reader, at, p != NULL ? p : end);
    return next;
}

static const uint8_t *markup(struct scan *scan, const uint8_t *at) {
    const uint8_t *end = scan->end;
    if (end - at < 2) return end;
    if (is_ascii_letter(at[1])) return start_tag(scan, at);
    if (at[1] == '/' && end - at > 2 && is_ascii_letter(at[2])) return end_tag(scan, at);
    if (at[1] == '!' && end - at >= 4 && at[2] == '-' && at[3] == '-') return comment(at + 4, end);
    if (end - at >= 9 && (scan->xml || scan->reader->context & IN_FOREIGN) && memcmp(at, "<![CDATA[", 9) == 0) {
        return cdata(scan, at + 9, end);
    }
    if (at[1] == '!' || at[1] == '?' || (at[1] == '/' && end - at > 2)) {
        const uint8_t *close = memchr(at + 2, '>', (size_t)(end - at - 2));
        return close != NULL ? close + 1 : end;
    }
    words_break(scan->reader); /* a '<' that opens nothing is text, and no part of a word */
    return at + 1;
}

/* Whether a page is XHTML: it begins with an XML declaration. */
static int is_xml(const uint8_t *at, const uint8_t *end) {
    if (end - at >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3;
    while (at < end && is_html_space(*at)) at++;
    return end - at >= 6 && memcmp(at, "<?xml", 5) == 0 && is_html_space(at[5]);
}

void reader_scan(struct ndd_reader *reader, const uint8_t *html, size_t n) {
    struct scan scan;
    size_t mark = n >= 3 && memcmp(html, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    if (is_json(html + mark, html + n)) { /* which only the header calls HTML */
        reader->data_bytes = n;
        parts_data(reader, html, html + n, 1, html + n);
        return;
    }
    scan.reader = reader;
    scan.end = html + n;
    scan.depth = 0;
    scan.too_deep = 0;
    scan.plain = 0;
    scan.xml = is_xml(html, html + n);
    scan.unmarked.end_shift = 0;
    scan.unmarked.end = 0; /* no end tag's: none begins with a byte 0 */
    const uint8_t *at = html;
    reader->context = 0;
    while (at < scan.end && reader->status == NDD_OK) {
        if (reader->context & IN_SKIPPED) {
            const uint8_t *text = at;
            at = memchr(at, '<', (size_t)(scan.end - at));
            block_list_pass(reader, text, at != NULL ? at : scan.end, scan.end);
            if (at == NULL) break;
        } else {
            if (is_html_space(*at)) { /* often all there is between two tags */
                words_break(reader);
                at = space_end(at + 1, scan.end);
            }
            if (at < scan.end && *at != '<') at = words_html(reader, at, scan.end);
        }
        if (at < scan.end) at = markup(&scan, at);
    }
    words_end_block(reader);
}
