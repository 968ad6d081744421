/*
 * What a canonical URL leads to (docs/reference/fingerprint-spec.md, "Identity"): its path and query, without what
 * changes from visit to visit. Host, fragment, session and tracking parameters go; a relative one is
 * completed with the page's own folder.
 */
#include "reader/target.h"

#include <string.h>

#include "base/bytes.h"
#include "base/chunk.h"
#include "reader/characters.h"
#include "reader/reading.h"

/* A name that ends with '*' stands for all that begin with it. Sessions, then campaigns. */
static const char *const volatile_parameters[] = {
    "sid", "sessid", "sessionid", "session_id", "session", "phpsessid", "jsessionid",
    "aspsessionid*", "cfid", "cftoken", "zenid", "oscsid",
    "utm_*", "gclid", "gclsrc", "dclid", "fbclid", "msclkid", "yclid", "twclid", "igshid",
    "mc_cid", "mc_eid", "_ga", "_gl", NULL};

int target_is_volatile(const uint8_t *parameter, size_t n) {
    size_t name = 0;
    while (name < n && parameter[name] != '=') name++;
    for (const char *const *word = volatile_parameters; *word != NULL; word++) {
        size_t i = 0;
        while (i < name && (*word)[i] != '\0' && (*word)[i] != '*' &&
               ascii_lower(parameter[i]) == (uint8_t)(*word)[i]) i++;
        if ((*word)[i] == '*' || (i == name && (*word)[i] == '\0')) return 1;
    }
    return 0;
}

/* Character references decoded, line breaks and tabs left out, white space trimmed, the fragment
 * cut off. */
static size_t plain(const uint8_t *href, size_t n, uint8_t *to) {
    const uint8_t *at = href, *end = href + n;
    size_t length = 0;
    while (at < end && length + 8 <= NDD_TARGET_BYTES) {
        uint32_t codes[2];
        size_t taken = *at == '&' ? character_reference(at, end, 1, codes) : 0;
        if (taken > 0) {
            length += character_write(codes[0], to + length);
            if (codes[1] != 0) length += character_write(codes[1], to + length);
            at += taken;
        } else {
            if (*at != '\t' && *at != '\n' && *at != '\r') to[length++] = *at;
            at++;
        }
    }
    size_t start = 0;
    while (start < length && to[start] <= ' ') start++;
    while (length > start && to[length - 1] <= ' ') length--;
    uint8_t *fragment = memchr(to + start, '#', length - start);
    if (fragment != NULL) length = (size_t)(fragment - to);
    memmove(to, to + start, length - start);
    return length - start;
}

/* Bytes of "scheme:" at the start, 0 for none. */
static size_t scheme(const uint8_t *target, size_t n) {
    if (n == 0 || !is_ascii_letter(target[0])) return 0;
    size_t i = 1;
    while (i < n && (is_alphanumeric(target[i]) || target[i] == '+' || target[i] == '-' || target[i] == '.')) i++;
    return i < n && target[i] == ':' ? i + 1 : 0;
}

/* Leaves out ";name=value" of a session in the path, and volatile parameters in the query. */
static size_t without_volatile(const uint8_t *target, size_t n, uint8_t *to) {
    size_t i = 0, length = 0;
    while (i < n && target[i] != '?') {
        size_t start = i++;
        if (target[start] == ';') {
            while (i < n && target[i] != '?' && target[i] != '/' && target[i] != ';') i++;
            if (target_is_volatile(target + start + 1, i - start - 1)) continue;
        } else {
            while (i < n && target[i] != '?' && target[i] != ';') i++;
        }
        memcpy(to + length, target + start, i - start);
        length += i - start;
    }
    uint8_t joint = '?';
    while (i < n) {
        size_t start = ++i; /* past '?' or '&' */
        while (i < n && target[i] != '&') i++;
        if (i == start || target_is_volatile(target + start, i - start)) continue;
        to[length++] = joint;
        joint = '&';
        memcpy(to + length, target + start, i - start);
        length += i - start;
    }
    return length;
}

int target_split(const uint8_t *href, size_t n, struct target *target) {
    const uint8_t *at = href;
    size_t length = n;
    if (n + 8 <= NDD_TARGET_BYTES && is_plain_target(href, href + n)) {
        const uint8_t *fragment = find_near(href, href + n, '#');
        if (fragment != NULL) length = (size_t)(fragment - href);
    } else {
        at = target->decoded;
        length = plain(href, n, target->decoded);
    }
    if (length == 0) return 0;
    size_t skip = scheme(at, length);
    if (skip > 0 && !is_word(at, skip, "http:") && !is_word(at, skip, "https:")) return 0;
    target->absolute = skip > 0;
    target->host = at += skip;
    target->host_length = 0;
    length -= skip;
    if (length >= 2 && at[0] == '/' && at[1] == '/') {
        skip = 2;
        while (skip < length && at[skip] != '/' && at[skip] != '?') skip++;
        target->absolute = 1;
        target->host = at + 2;
        target->host_length = skip - 2;
        at += skip;
        length -= skip;
    }
    target->rest = at;
    target->length = length;
    return 1;
}

static int hash_of(const struct ndd_reader *reader, const uint8_t *href, size_t n, int path_only,
                   uint64_t *hash) {
    uint8_t kept[NDD_TARGET_BYTES], joined[NDD_TARGET_BYTES];
    struct target parts;
    if (!target_split(href, n, &parts)) return 0;
    const uint8_t *target = parts.rest;
    size_t length = parts.length;
    while (length >= 2 && target[0] == '.' && target[1] == '/') {
        target += 2;
        length -= 2;
    }
    int relative = !parts.absolute && (length == 0 || (target[0] != '/' && target[0] != '?'));
    if (relative && !path_only && reader->directory_length > 0 &&
        reader->directory_length + length <= NDD_TARGET_BYTES) {
        memcpy(joined, reader->directory, reader->directory_length);
        memcpy(joined + reader->directory_length, target, length);
        target = joined;
        length += reader->directory_length;
    }
    if (find_near(target, target + length, '?') != NULL || find_near(target, target + length, ';') != NULL) {
        length = without_volatile(target, length, kept);
        target = kept;
    }
    if (path_only) {
        const uint8_t *query = find_near(target, target + length, '?');
        if (query != NULL) length = (size_t)(query - target);
    }
    *hash = ndd_hash_token(target, length, reader->key);
    return 1;
}

int target_hash(const struct ndd_reader *reader, const uint8_t *href, size_t n, uint64_t *hash) {
    return hash_of(reader, href, n, 0, hash);
}

int target_hash_path(const struct ndd_reader *reader, const uint8_t *href, size_t n, uint64_t *hash) {
    return hash_of(reader, href, n, 1, hash);
}
