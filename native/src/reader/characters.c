#include "reader/characters.h"

#include <stddef.h>
#include <string.h>

#include "base/bytes.h"
#include "reader/entity_table.h"

/* Numbers 128 to 159 stand for Windows-1252 characters, as browsers read them. */
static const uint16_t windows_1252[32] = {
    0x20ac, 0x81,   0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x8d,   0x017d, 0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,   0x017e, 0x0178};

static size_t numeric_reference(const uint8_t *at, const uint8_t *end, uint32_t *code) {
    const uint8_t *p = at + 2; /* past "&#" */
    uint32_t base = 10;
    if (p < end && (*p | 0x20) == 'x') {
        base = 16;
        p++;
    }
    const uint8_t *digits = p;
    uint32_t x = 0;
    for (; p < end; p++) {
        int digit = hex_digit(*p);
        if (digit < 0 || digit >= (int)base) break;
        x = x > 0x10ffff ? x : x * base + (uint32_t)digit; /* too large stays too large */
    }
    if (p == digits) return 0;
    if (p < end && *p == ';') p++;
    if (x >= 0x80 && x < 0xa0) x = windows_1252[x - 0x80];
    *code = x == 0 || x > 0x10ffff || (x >= 0xd800 && x <= 0xdfff) ? NDD_NOT_A_CHARACTER : x;
    return (size_t)(p - at);
}

/* What most references are, as load_le() reads them. */
static const struct { uint64_t name; uint32_t code; } usual_entities[] = {
    {UINT64_C(0x3b7073626e), 0xa0}, /* nbsp; */
    {UINT64_C(0x3b746c), '<'},      /* lt; */
    {UINT64_C(0x3b7467), '>'},      /* gt; */
    {UINT64_C(0x3b706d61), '&'},    /* amp; */
    {UINT64_C(0x3b746f7571), '"'}}; /* quot; */

static int usual_reference(const uint8_t *name, size_t n, uint32_t *code) {
    if (n > 5) return 0;
    uint64_t bytes = load_le(name, n);
    for (size_t i = 0; i < sizeof usual_entities / sizeof *usual_entities; i++) {
        if (usual_entities[i].name == bytes) return *code = usual_entities[i].code, 1;
    }
    return 0;
}

/* The place of an entity name among all of them, or -1. */
static ptrdiff_t place_of_name(const uint8_t *name, size_t length) {
    const struct entity_length shorter = entity_lengths[length];
    size_t low = 0, high = (size_t)(entity_lengths[length + 1].names - shorter.names);
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = memcmp(entity_names + shorter.bytes + middle * length, name, length);
        if (order == 0) return (ptrdiff_t)(shorter.names + middle);
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return -1;
}

/* The longest entity name that the bytes begin with. */
static size_t named_reference(const uint8_t *name, size_t n, uint32_t codes[2]) {
    for (size_t length = n; length >= 2; length--) {
        /* a name that needs its semicolon can only match with it */
        ptrdiff_t place = length > NDD_ENTITY_BYTES ? -1 : place_of_name(name, length);
        if (place >= 0) {
            uint32_t code = entity_codes[place];
            codes[0] = code;
            if (code >= 0xd400 && code < 0xd800) {
                codes[0] += 0x10000;
            } else if (code >= 0xe000 && code - 0xe000 < sizeof entity_pairs / sizeof *entity_pairs) {
                codes[0] = entity_pairs[code - 0xe000][0];
                codes[1] = entity_pairs[code - 0xe000][1];
            }
            return length;
        }
        /* Names without semicolon have at most 6 letters: go there at once. */
        if (length > 7) length = 7;
    }
    return 0;
}

size_t character_reference(const uint8_t *at, const uint8_t *end, int in_attribute,
                           uint32_t codes[2]) {
    codes[1] = 0;
    if (end - at < 3) return 0;
    if (at[1] == '#') return numeric_reference(at, end, &codes[0]);
    const uint8_t *name = at + 1, *p = name;
    while (p < end && p - name <= NDD_ENTITY_BYTES && (is_ascii_letter(*p) || is_ascii_digit(*p))) p++;
    if (p < end && *p == ';') p++;
    if (p == name) return 0;
    if (usual_reference(name, (size_t)(p - name), &codes[0])) return (size_t)(p - at);
    size_t n = named_reference(name, (size_t)(p - name), codes);
    if (n == 0) return 0;
    const uint8_t *after = name + n;
    if (in_attribute && after[-1] != ';' && after < end &&
        (*after == '=' || is_ascii_letter(*after) || is_ascii_digit(*after))) {
        return 0;
    }
    return n + 1;
}
