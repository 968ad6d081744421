/*
 * Where a page leads: the distinct hashes of the targets of its links, wherever they stand, but for hidden ones.
 *
 *     href -> host (none if the page's own), path, query -> hash
 *
 * Invariant: links that lead to the same page have the same hash, as far as a URL can tell. What
 * changes from visit to visit goes (sessions, campaigns: target.c), dots in the path are resolved, and the
 * order of parameters does not count. A link to the page itself counts for nothing, and neither does a
 * parameter that hands on the page's own address, as buttons for sharing and for logging in do. The host
 * counts only where it is another one than the page's: a mirror leads where its original does.
 *
 * None of this is in the fingerprint; a reader does it only when told (ndd_reader_keep_links).
 */
#include <string.h>

#include "base/bytes.h"
#include "base/chunk.h"
#include "hash/hash.h"
#include "reader/reading.h"
#include "reader/target.h"

#define HOST_BYTES 256 /* what is longer counts by its beginning */

/* The page's own URL. Without one it is "/" of no host. */
struct address {
    struct target parts;
    size_t path_length; /* of parts.rest, up to the query */
    size_t directory_length;
    uint64_t hash; /* what a link to it would have */
};

static size_t path_length(const uint8_t *rest, size_t length) {
    const uint8_t *query = find_near(rest, rest + length, '?');
    return query != NULL ? (size_t)(query - rest) : length;
}

/* ------------------------------------------------------------------------------------- parts of a URL */

static size_t host_lower(const uint8_t *host, size_t n, uint8_t to[HOST_BYTES]) {
    if (n > HOST_BYTES) n = HOST_BYTES;
    for (size_t i = 0; i < n; i++) to[i] = ascii_lower(host[i]);
    return n;
}

static uint64_t host_hash(const struct ndd_reader *reader, const struct address *page, const struct target *link) {
    uint8_t own[HOST_BYTES], other[HOST_BYTES];
    if (link->host_length == 0) return 0;
    size_t own_length = host_lower(page->parts.host, page->parts.host_length, own);
    size_t length = host_lower(link->host, link->host_length, other);
    if (length == own_length && memcmp(own, other, length) == 0) return 0;
    return ndd_hash_token(other, length, reader->key);
}

/* A session that ASP.NET puts into the path: "(S(...))", "(A(...)S(...))". */
static int is_session_segment(const uint8_t *segment, size_t n) {
    return n >= 5 && segment[0] == '(' && is_ascii_letter(segment[1]) && segment[2] == '(' &&
           segment[n - 2] == ')' && segment[n - 1] == ')';
}

/* Adds a segment of a path less its volatile ";name=value"s. */
static size_t add_segment(const uint8_t *segment, size_t n, uint8_t *to) {
    size_t length = 0, i = 0;
    to[length++] = '/';
    while (i < n) {
        size_t start = i++;
        while (i < n && segment[i] != ';') i++;
        if (segment[start] == ';' && target_is_volatile(segment + start + 1, i - start - 1)) continue;
        memcpy(to + length, segment + start, i - start);
        length += i - start;
    }
    return length;
}

/* A path, which begins with '/', as it counts. */
static size_t path_tidy(const uint8_t *path, size_t n, uint8_t *to) {
    size_t length = 0;
    for (size_t i = 0; i < n;) {
        size_t start = ++i;
        while (i < n && path[i] != '/') i++;
        const uint8_t *segment = path + start;
        size_t size = i - start;
        int one = size == 1 && segment[0] == '.';
        int two = size == 2 && segment[0] == '.' && segment[1] == '.';
        if (!one && !two && !is_session_segment(segment, size)) {
            length += add_segment(segment, size, to + length);
            continue;
        }
        if (two) while (length > 0 && to[--length] != '/') {}
        if (i == n) to[length++] = '/';
    }
    if (length == 0) to[length++] = '/';
    return length;
}

static uint64_t path_hash(const struct ndd_reader *reader, const uint8_t *path, size_t n) {
    uint8_t tidy[NDD_TARGET_BYTES + 2];
    int plain = find_near(path, path + n, ';') == NULL;
    for (const uint8_t *at = path; plain && (at = find_near(at, path + n, '/')) != NULL;) {
        at++;
        plain = at == path + n || (*at != '.' && *at != '(');
    }
    if (!plain) {
        n = path_tidy(path, n, tidy);
        path = tidy;
    }
    return ndd_hash_token(path, n, reader->key);
}

/* ------------------------------------------------------------------------------------------ parameters */

/* The next byte of a value, decoded; -1 at its end. */
static int next_byte(const uint8_t **at, const uint8_t *end) {
    const uint8_t *p = *at;
    if (p >= end) return -1;
    if (*p == '%' && end - p > 2 && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0) {
        *at = p + 3;
        return hex_digit(p[1]) * 16 + hex_digit(p[2]);
    }
    *at = p + 1;
    return *p;
}

/* Whether these bytes stand there, decoded and in any case of letters; then moves behind them. */
static int takes(const uint8_t **at, const uint8_t *end, const void *bytes, size_t n) {
    const uint8_t *p = *at, *expected = bytes;
    for (size_t i = 0; i < n; i++) {
        int byte = next_byte(&p, end);
        if (byte < 0 || ascii_lower((uint8_t)byte) != ascii_lower(expected[i])) return 0;
    }
    *at = p;
    return 1;
}

/* Whether a parameter's value is the page's own address, with or without host, or begins with it. */
static int hands_on(const struct address *page, const uint8_t *parameter, size_t n) {
    const uint8_t *end = parameter + n, *at = find_near(parameter, end, '=');
    if (at == NULL) return 0;
    at++;
    const uint8_t *rest = at;
    int with_host = takes(&rest, end, "http", 4);
    if (with_host) {
        takes(&rest, end, "s", 1);
        with_host = takes(&rest, end, "://", 3) && takes(&rest, end, page->parts.host, page->parts.host_length);
    }
    if (with_host) at = rest;
    if (with_host && at == end) return page->path_length == 1;
    if (!takes(&at, end, page->parts.rest, page->path_length)) return 0;
    int byte = next_byte(&at, end);
    return byte < 0 || byte == '?' || byte == '#' || byte == '&';
}

/* The parameters that count, in any order. */
static uint64_t query_hash(const struct ndd_reader *reader, const struct address *page, const uint8_t *query,
                           size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n;) {
        size_t start = ++i; /* past '?' or '&' */
        while (i < n && query[i] != '&') i++;
        const uint8_t *parameter = query + start;
        size_t size = i - start;
        if (size == 0 || target_is_volatile(parameter, size) || hands_on(page, parameter, size)) continue;
        sum += ndd_hash_token(parameter, size, reader->key);
    }
    return sum;
}

/* ----------------------------------------------------------------------------------------------- links */

static uint64_t hash_of(const struct ndd_reader *reader, const struct address *page, const struct target *link) {
    uint8_t joined[NDD_TARGET_BYTES];
    const uint8_t *path = link->rest;
    size_t n = path_length(path, link->length), base = 0;
    if (!link->absolute && n == 0) base = page->path_length; /* "?page=2" */
    else if (!link->absolute && path[0] != '/') base = page->directory_length;
    else if (n == 0 || path[0] != '/') base = 1; /* https://host */
    if (base > 0 && base + n <= NDD_TARGET_BYTES) {
        memcpy(joined, base == 1 ? (const uint8_t *)"/" : page->parts.rest, base);
        memcpy(joined + base, path, n);
        path = joined;
        n += base;
    }
    uint64_t query = 0;
    size_t path_end = path_length(link->rest, link->length);
    if (path_end < link->length) query = query_hash(reader, page, link->rest + path_end, link->length - path_end);
    return hash_shingle(host_hash(reader, page, link), path_hash(reader, path, n), query);
}

static void take_apart(const struct ndd_reader *reader, struct address *page) {
    static const uint8_t root[] = "/";
    struct target *parts = &page->parts;
    if (!target_split(reader->address, reader->address_length, parts)) {
        parts->host_length = parts->length = 0;
        parts->host = parts->rest = root;
        parts->absolute = 1;
    }
    if (parts->length == 0 || parts->rest[0] != '/') {
        parts->rest = root;
        parts->length = 1;
    }
    page->path_length = path_length(parts->rest, parts->length);
    page->directory_length = page->path_length;
    while (parts->rest[page->directory_length - 1] != '/') page->directory_length--;
    page->hash = hash_of(reader, page, parts);
}

void links_add(struct ndd_reader *reader, const uint8_t *href, size_t n, uint32_t context) {
    if (!NDD_ROOM(reader, reader->links, 1)) return;
    struct link *link = &reader->links.at[reader->links.n++];
    link->href = href;
    link->length = (uint32_t)n;
    link->context = context;
    link->hash = 0;
}

/* "<a href=...> 12 <": a page of a list, by its number. */
int links_is_number(const uint8_t *text, const uint8_t *end) {
    enum { DIGITS_MOST = 5 };
    while (text < end && is_html_space(*text)) text++;
    const uint8_t *digits = text;
    while (text < end && is_ascii_digit(*text)) text++;
    if (text == digits || text - digits > DIGITS_MOST) return 0;
    while (text < end && is_html_space(*text)) text++;
    return text < end && *text == '<';
}

/* The place of a link among those that are handed out; NOWHERE: it is not. */
enum place { FROM_CONTENT_TO_OTHER_SITES, FROM_CONTENT, FROM_ELSEWHERE, NOWHERE };

/* Where the last two labels of a host begin: its site's name, or part of it (a.co.uk and b.co.uk are one site here, so
 * that a link to the other counts, which is safe). */
static size_t site_start(const uint8_t *host, size_t n) {
    size_t dots = 0;
    while (n > 0 && (dots += host[n - 1] == '.') < 2) n--;
    return n;
}

static int is_on_site(const struct address *page, const struct target *link) {
    const struct target *own = &page->parts;
    if (link->host_length == 0) return 1;
    size_t from = site_start(link->host, link->host_length), own_from = site_start(own->host, own->host_length);
    size_t n = link->host_length - from;
    if (n != own->host_length - own_from) return 0;
    for (size_t i = 0; i < n; i++) if (ascii_lower(link->host[from + i]) != ascii_lower(own->host[own_from + i])) return 0;
    return 1;
}

static enum place place_of(const struct ndd_reader *reader, const struct address *page, const struct link *link,
                           const struct target *target, uint32_t needed) {
    uint32_t context = without_hints(link->context, reader->open);
    int in_main = in_content(context) && (context & needed) == needed;
    if (!(context & IN_PAGING)) {
        if (context & IN_HIDDEN) return NOWHERE;
        if (!in_main) return is_on_site(page, target) ? FROM_ELSEWHERE : NOWHERE;
    }
    return is_on_site(page, target) ? FROM_CONTENT : FROM_CONTENT_TO_OTHER_SITES;
}

void links_settle(struct ndd_reader *reader, uint32_t needed) {
    if (reader->address == NULL) return;
    struct address page;
    take_apart(reader, &page);
    reader->own_target = page.hash;
    size_t room = 64;
    int shift = 64 - 6;
    for (; room < 2 * reader->links.n; room *= 2) shift--;
    reader->set.n = reader->targets.n = 0;
    if (!NDD_ROOM(reader, reader->set, room) || !NDD_ROOM(reader, reader->targets, reader->links.n)) return;
    uint64_t *slots = reader->set.at; /* 0 when empty */
    memset(slots, 0, room * sizeof *slots);
    /* secret to authors of pages, so that links cannot be crafted to share a slot */
    uint64_t multiplier = hash_mix((uint64_t)(uintptr_t)reader ^ reader->key.k1) | 1;
    for (size_t i = 0; i < reader->links.n; i++) {
        struct link *link = &reader->links.at[i];
        struct target target;
        enum place place = NOWHERE;
        if (target_split(link->href, link->length, &target)) place = place_of(reader, &page, link, &target, needed);
        if (place != NOWHERE) link->hash = hash_of(reader, &page, &target);
        if (link->hash == page.hash) link->hash = 0;
        link->context = place;
    }
    for (uint32_t place = 0; place < NOWHERE; place++) {
        for (size_t i = 0; i < reader->links.n; i++) {
            uint64_t hash = reader->links.at[i].hash;
            if (reader->links.at[i].context != place || hash == 0) continue;
            size_t at = (size_t)(hash * multiplier >> shift);
            while (slots[at] != 0 && slots[at] != hash) at = (at + 1) & (room - 1);
            if (slots[at] == hash) continue;
            slots[at] = hash;
            reader->targets.at[reader->targets.n++] = hash;
        }
        reader->targets_until[place] = reader->targets.n;
    }
}

void ndd_reader_keep_links(ndd_reader *reader, const uint8_t *address, size_t n) {
    reader->address = address;
    reader->address_length = n;
}

void ndd_reader_links(const ndd_reader *reader, const uint64_t **links, size_t n[3], uint64_t *own) {
    int any = reader->targets.n > 0;
    *own = reader->own_target;
    *links = reader->targets.at;
    n[0] = reader->targets.n;
    n[1] = any ? reader->targets_until[FROM_CONTENT] : 0;
    n[2] = any ? reader->targets_until[FROM_CONTENT_TO_OTHER_SITES] : 0;
}
