/*
 * The thing that a page is about, by the numbers that its structured data gives it
 * (docs/reference/fingerprint-spec.md, "Thing"):
 * two colours of a shirt have one text and two numbers.
 *
 *     script of JSON-LD -> things, with those inside them that say more of them -> numbers
 *     itemscope, itemprop -> things -> numbers
 *     numbers of the first thing that has any -> thing
 *
 * A page lists other things, too (recommendations, reviews, its publisher): only those count that stand at the top of
 * the data, and of these the first one with a product's number. JSON is read in one pass by a machine with a small
 * stack: whatever is not valid JSON has a meaning, too, and time is linear.
 */
#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/chunk.h"
#include "hash/hash.h"
#include "reader/characters.h"
#include "reader/reading.h"
#include "reader/tags.h"

enum { SELLER, MAKER };
enum {
    VALUE_BYTES = 256, /* what is longer counts by its beginning */
    LEVELS_MOST = 16   /* of objects and arrays whose content is looked at */
};

/* ------------------------------------------------------------------------------------- properties */

enum property {
    NOTHING, SKU, PRODUCT_ID, IDENTIFIER, GTIN, ISBN, MPN, /* those of numbers */
    ID, TYPE, GRAPH, MAIN_ENTITY, OFFERS, VALUE
};

static int is_gtin(const uint8_t *name, size_t n) {
    if (n < 4 || n > 6 || !is_word(name, 4, "gtin")) return 0;
    for (size_t i = 4; i < n; i++) if (!is_ascii_digit(name[i])) return 0;
    return 1;
}

static enum property property_of(const uint8_t *name, size_t n) {
    if (is_gtin(name, n)) return GTIN;
    switch (n) {
    case 3:
        return is_word(name, n, "sku") ? SKU : is_word(name, n, "mpn") ? MPN : is_word(name, n, "@id") ? ID : NOTHING;
    case 4:
        return is_word(name, n, "isbn") ? ISBN : NOTHING;
    case 5:
        return is_word(name, n, "@type") ? TYPE : is_word(name, n, "value") ? VALUE : NOTHING;
    case 6:
        return is_word(name, n, "offers") ? OFFERS : is_word(name, n, "@graph") ? GRAPH : NOTHING;
    case 9:
        return is_word(name, n, "productid") ? PRODUCT_ID : NOTHING;
    case 10:
        return is_word(name, n, "identifier") ? IDENTIFIER : is_word(name, n, "mainentity") ? MAIN_ENTITY : NOTHING;
    default:
        return NOTHING;
    }
}

/* -------------------------------------------------------------------------------- values and numbers */

/* Less what stands around it that is no character to see. */
static size_t trim(const uint8_t **value, size_t n) {
    while (n > 0 && **value <= ' ') ++*value, n--;
    while (n > 0 && (*value)[n - 1] <= ' ') n--;
    return n;
}

/* A number that is printed on the thing: its letters and digits, without zeros before them. */
static size_t bare(uint8_t *value, size_t n) {
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = ascii_lower(value[i]);
        if (is_alphanumeric(c) && (c != '0' || length > 0)) value[length++] = c;
    }
    return length;
}

/* Counts a value, decoded, which may be written to; the first one of a property is its own. rank: 0 none. */
static void add_value(const struct ndd_reader *reader, struct numbers *numbers, enum property property, int of_offer,
                      uint8_t *value, size_t n) {
    static const uint8_t ranks[][2] = {[SKU] = {4, 2}, [PRODUCT_ID] = {3, 0}, [IDENTIFIER] = {1, 0},
                                       [GTIN] = {5, 2}, [ISBN] = {4, 0}, [MPN] = {3, 1}};
    uint32_t rank = ranks[property][of_offer];
    int whose = property >= GTIN ? MAKER : SELLER;
    if (rank <= numbers->rank[whose]) return;
    const uint8_t *text = value;
    size_t length = property == GTIN || property == ISBN ? bare(value, n) : trim(&text, n);
    if (length == 0) return;
    numbers->rank[whose] = rank;
    numbers->hash[whose] = (uint32_t)(ndd_hash_token(text, length, reader->key) >> 34);
}

static int has_product_number(const struct numbers *numbers) {
    return numbers->rank[MAKER] > 0 || numbers->rank[SELLER] > 1;
}

static int has_any(const struct numbers *numbers) { return (numbers->rank[SELLER] | numbers->rank[MAKER]) > 0; }

/* A thing has been read. */
static void note(struct names *names, const struct numbers *numbers) {
    struct numbers *to = has_product_number(numbers) ? &names->numbered : &names->identified;
    if (has_any(numbers) && !has_any(to)) *to = *numbers;
}

uint32_t thing_of(struct ndd_reader *reader) {
    struct identifiers *found = &reader->identifiers;
    note(&found->marked, &found->item);
    const struct numbers *first[] = {&found->data.numbered, &found->marked.numbered, &found->data.identified,
                                     &found->marked.identified};
    const uint32_t seller_given = UINT32_C(1) << 30, maker_given = UINT32_C(1) << 31;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        uint32_t seller = first[i]->hash[SELLER], maker = first[i]->hash[MAKER];
        if (!has_any(first[i])) continue;
        if (first[i]->rank[MAKER] == 0) return seller_given | seller;
        if (first[i]->rank[SELLER] == 0) return maker_given | maker;
        return maker_given | seller_given | (maker & 0x7fff) << 15 | (seller & 0x7fff);
    }
    /* a URL says nothing that the canonical one does not say, and nothing certain where there is none */
    if (!found->id_found) return 0;
    if (found->id_is_url && (found->declared_path == 0 || found->declared_path == found->id)) return 0;
    return seller_given | (uint32_t)(found->id >> 34);
}

/* ------------------------------------------------------------------------------------------ JSON-LD */

enum role { ENTITY, OFFER, IDENTIFIED }; /* a thing; what is offered of it; the value of an identifier */

struct level {
    uint8_t is_object;
    uint8_t role;
    uint8_t named;    /* a member's name has been read */
    uint8_t property; /* of the member; of an array, of the member that it is the value of */
};

struct entity {
    struct numbers own, offered;
    uint32_t offers;
    int is_other; /* a page, a publisher, a list: no thing that a page is about */
    int id_found, id_is_url;
    uint64_t id;
};

struct json {
    struct ndd_reader *reader;
    uint32_t depth;    /* of levels */
    uint32_t entities; /* of those that are entities */
    size_t skipped;    /* open objects and arrays whose content does not count */
    struct level levels[LEVELS_MOST];
    struct entity stack[LEVELS_MOST];
};

/* Whether a type is none of a thing that a page may be about. */
static int is_other_type(const uint8_t *type, size_t n) {
    static const char *const ends[] = {"organization", "website", "page", "list", "imageobject", "person",
                                       "corporation", "action", "element"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t length = strlen(ends[i]);
        if (n >= length && is_word(type + n - length, length, ends[i])) return 1;
    }
    return 0;
}

static void set_id(const struct ndd_reader *reader, struct entity *entity, const uint8_t *value, size_t n) {
    n = trim(&value, n);
    if (entity->id_found || (n >= 2 && value[0] == '_' && value[1] == ':')) return;
    const uint8_t *colon = memchr(value, ':', n), *slash = memchr(value, '/', n);
    int has_scheme = colon != NULL && (slash == NULL || colon < slash);
    entity->id_is_url = slash != NULL && (!has_scheme || (n > 4 && is_word(value, 4, "http")));
    if (entity->id_is_url) {
        entity->id_found = target_hash_path(reader, value, n, &entity->id);
        return;
    }
    size_t length = 0;
    while (length < n && value[length] != '?' && value[length] != '#') length++;
    entity->id_found = length > 0;
    if (length > 0) entity->id = ndd_hash_token(value, length, reader->key);
}

/* What a value stands for in the innermost level; it may be written to. */
static void take_value(struct json *json, uint8_t *value, size_t n) {
    if (json->entities == 0) return;
    const struct level *level = &json->levels[json->depth - 1];
    struct entity *entity = &json->stack[json->entities - 1];
    enum property property = level->property;
    if (level->role == ENTITY && property == TYPE) {
        if (is_other_type(value, n)) entity->is_other = 1;
    } else if (level->role == ENTITY && property == ID) {
        set_id(json->reader, entity, value, n);
    } else if (level->role == IDENTIFIED) {
        if (property == VALUE) add_value(json->reader, &entity->own, IDENTIFIER, 0, value, n);
    } else if (property >= SKU && property <= MPN) {
        add_value(json->reader, level->role == OFFER ? &entity->offered : &entity->own, property, level->role == OFFER, value, n);
    }
}

/* Whether anything is made of a value that stands here. */
static int takes_value(const struct json *json) {
    return json->skipped == 0 && json->depth > 0 && json->levels[json->depth - 1].property != NOTHING;
}

static int hex(const uint8_t *at, const uint8_t *end, uint32_t *code) {
    if (end - at < 4) return 0;
    *code = 0;
    for (int i = 0; i < 4; i++) {
        if (hex_digit(at[i]) < 0) return 0;
        *code = *code * 16 + (uint32_t)hex_digit(at[i]);
    }
    return 1;
}

/* The code point of \uXXXX, and of two of them that stand for one; *at is behind the 'u' before. */
static uint32_t unicode_escape(const uint8_t **at, const uint8_t *end) {
    uint32_t code, low;
    if (!hex(*at, end, &code)) return 'u';
    *at += 4;
    if (code < 0xd800 || code >= 0xe000) return code;
    if (code < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u' && hex(*at + 2, end, &low) &&
        low >= 0xdc00 && low < 0xe000) {
        *at += 6;
        return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    return NDD_NOT_A_CHARACTER;
}

static size_t decode(const uint8_t *at, const uint8_t *end, uint8_t to[VALUE_BYTES]) {
    size_t length = 0;
    while (at < end && length <= VALUE_BYTES - 8) {
        uint8_t c = *at++;
        if (c != '\\' || at == end) {
            to[length++] = c;
            continue;
        }
        c = *at++;
        if (c == 'u') length += character_write(unicode_escape(&at, end), to + length);
        else to[length++] = c == 'b' || c == 'f' || c == 'n' || c == 'r' || c == 't' ? ' ' : c;
    }
    return length;
}

/* The end of a string: the next quote before which no backslash takes it away, or the end. */
static const uint8_t *string_end(const uint8_t *at, const uint8_t *end) {
    const uint8_t *start = at;
    while ((at = find_near(at, end, '"')) != NULL) {
        const uint8_t *before = at;
        while (before > start && before[-1] == '\\') before--;
        if ((at - before) % 2 == 0) return at;
        at++;
        start = at;
    }
    return end;
}

static void take_string(struct json *json, const uint8_t *at, const uint8_t *end) {
    uint8_t value[VALUE_BYTES];
    if (json->skipped > 0 || json->depth == 0) return;
    struct level *level = &json->levels[json->depth - 1];
    if (level->is_object && !level->named) {
        level->named = 1;
        level->property = (uint8_t)property_of(at, (size_t)(end - at));
    } else if (level->property != NOTHING) {
        take_value(json, value, decode(at, end, value));
    }
}

/* What is neither a string nor punctuation: a number, or true, false, null. */
static void take_scalar(struct json *json, const uint8_t *at, const uint8_t *end) {
    uint8_t value[VALUE_BYTES];
    size_t n = trim(&at, (size_t)(end - at));
    if (n == 0 || is_word(at, n, "null") || is_word(at, n, "true") || is_word(at, n, "false")) return;
    if (n > VALUE_BYTES) n = VALUE_BYTES;
    memcpy(value, at, n);
    take_value(json, value, n);
}

/* The role of an object that begins here; -1 if what is in it does not count. */
static int role_here(const struct json *json) {
    if (json->depth == 0) return ENTITY;
    const struct level *level = &json->levels[json->depth - 1];
    if (level->role != ENTITY) return -1;
    if (level->property == GRAPH || level->property == MAIN_ENTITY) return ENTITY;
    if (level->property == OFFERS) return OFFER;
    return level->property == IDENTIFIER ? IDENTIFIED : -1;
}

/* An array stands for its elements: they are values of what it is the value of. */
static void open(struct json *json, int is_object) {
    struct level *level = &json->levels[json->depth];
    const struct level *outer = level - (json->depth > 0);
    if (json->skipped > 0 || json->depth == LEVELS_MOST) {
        json->skipped++;
        return;
    }
    int role = is_object ? role_here(json) : json->depth > 0 ? outer->role : ENTITY;
    if (role < 0 || (!is_object && json->depth > 0 && outer->property == NOTHING)) {
        json->skipped++;
        return;
    }
    uint8_t property = is_object ? NOTHING : json->depth > 0 ? outer->property : GRAPH;
    *level = (struct level){(uint8_t)is_object, (uint8_t)role, 0, property};
    json->depth++;
    if (is_object && role == ENTITY) memset(&json->stack[json->entities++], 0, sizeof *json->stack);
    if (is_object && role == OFFER) json->stack[json->entities - 1].offers++;
}

static void merge(struct numbers *own, const struct numbers *offered) {
    for (int i = 0; i < 2; i++) {
        if (offered->rank[i] <= own->rank[i]) continue;
        own->rank[i] = offered->rank[i];
        own->hash[i] = offered->hash[i];
    }
}

static void end_entity(struct json *json) {
    struct identifiers *found = &json->reader->identifiers;
    struct entity *entity = &json->stack[--json->entities];
    if (entity->offers == 1) merge(&entity->own, &entity->offered); /* of several, none is the page's */
    if (has_product_number(&entity->own) || !entity->is_other) note(&found->data, &entity->own);
    if (entity->id_found && !entity->is_other && !found->id_found) {
        found->id_found = 1;
        found->id_is_url = entity->id_is_url;
        found->id = entity->id;
    }
}

static void shut(struct json *json) {
    if (json->skipped > 0) {
        json->skipped--;
        return;
    }
    if (json->depth == 0) return;
    const struct level *level = &json->levels[--json->depth];
    if (level->is_object && level->role == ENTITY) end_entity(json);
}

/* The first byte that is punctuation of JSON, or end. */
static const uint8_t *punctuation(const uint8_t *at, const uint8_t *end, int only_brackets) {
#ifdef NDD_CHUNKS
    for (; end - at >= NDD_CHUNK_BYTES; at += NDD_CHUNK_BYTES) {
        __m128i bytes = chunk_at(at), folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
        __m128i found = _mm_or_si128(chunk_is(folded, '{'), chunk_is(folded, '}'));
        found = _mm_or_si128(found, chunk_is(bytes, '"'));
        if (!only_brackets) found = _mm_or_si128(found, _mm_or_si128(chunk_is(bytes, ','), chunk_is(bytes, ':')));
        uint32_t bits = chunk_bits(found);
        if (bits != 0) return at + lowest_bit(bits);
    }
#endif
    for (; at < end; at++) {
        uint8_t folded = *at | 0x20;
        if (folded == '{' || folded == '}' || *at == '"') break;
        if (!only_brackets && (*at == ',' || *at == ':')) break;
    }
    return at;
}

void thing_data(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end) {
    struct json json;
    json.reader = reader;
    json.depth = json.entities = 0;
    json.skipped = 0;
    const uint8_t *behind = at; /* of the last punctuation or string */
    for (; (at = punctuation(at, end, json.skipped > 0)) < end; behind = ++at) {
        if (*at == '"') {
            const uint8_t *start = at + 1;
            at = string_end(start, end);
            take_string(&json, start, at);
            if (at == end) break;
            continue;
        }
        int closes = (*at | 0x20) == '}';
        if ((closes || *at == ',') && takes_value(&json)) take_scalar(&json, behind, at);
        if (closes) {
            shut(&json);
        } else if ((*at | 0x20) == '{') {
            open(&json, *at == '{');
        } else if (*at == ',' && json.skipped == 0 && json.depth > 0 && json.levels[json.depth - 1].is_object) {
            json.levels[json.depth - 1].named = 0;
            json.levels[json.depth - 1].property = NOTHING;
        }
    }
    while (json.depth > 0) {
        json.skipped = 0;
        shut(&json);
    }
}

/* ---------------------------------------------------------------------------------------- microdata */

/* Text up to the next '<', or an attribute's value, with its character references. */
static size_t decode_markup(const uint8_t *at, const uint8_t *end, int in_attribute, uint8_t to[VALUE_BYTES]) {
    size_t length = 0;
    while (at < end && length <= VALUE_BYTES - 8 && (in_attribute || *at != '<')) {
        uint32_t codes[2];
        size_t taken = *at == '&' ? character_reference(at, end, in_attribute, codes) : 0;
        if (taken > 0) {
            length += character_write(codes[0], to + length);
            if (codes[1] != 0) length += character_write(codes[1], to + length);
            at += taken;
        } else {
            to[length++] = *at++;
        }
    }
    return length;
}

/* Whether one of the words of an itemprop is this property. */
static int gives(const struct attributes *found, enum property property) {
    const uint8_t *at = found->itemprop, *end = at + found->itemprop_length;
    while (at < end) {
        const uint8_t *word = at;
        while (at < end && !is_html_space(*at)) at++;
        if (property_of(word, (size_t)(at - word)) == property) return 1;
        while (at < end && is_html_space(*at)) at++;
    }
    return 0;
}

uint32_t thing_context(const struct attributes *found) {
    if (!(found->more & MORE_ITEMPROP) || gives(found, OFFERS) || gives(found, MAIN_ENTITY)) return 0;
    return IN_PROPERTY;
}

void thing_tag(struct ndd_reader *reader, const struct attributes *found, int is_void, const uint8_t *after,
               const uint8_t *end) {
    struct identifiers *identifiers = &reader->identifiers;
    if (reader->context & (IN_SKIPPED | IN_DROPPED)) return;
    if (found->more & MORE_ITEMSCOPE) {
        if (found->more & MORE_ITEMPROP && !gives(found, MAIN_ENTITY)) return;
        note(&identifiers->marked, &identifiers->item);
        memset(&identifiers->item, 0, sizeof identifiers->item);
        return;
    }
    if (reader->context & IN_PROPERTY || (is_void && !(found->more & MORE_CONTENT))) return;
    const uint8_t *at = found->itemprop, *names_end = at + found->itemprop_length;
    uint32_t taken = 0; /* properties of this tag: a word said again would take time for nothing */
    while (at < names_end) {
        const uint8_t *name = at;
        while (at < names_end && !is_html_space(*at)) at++;
        enum property property = property_of(name, (size_t)(at - name));
        if (property >= SKU && property <= MPN && !(taken >> property & 1)) {
            taken |= UINT32_C(1) << property;
            uint8_t value[VALUE_BYTES];
            size_t n = found->more & MORE_CONTENT
                           ? decode_markup(found->content, found->content + found->content_length, 1, value)
                           : decode_markup(after, end, 0, value);
            add_value(reader, &identifiers->item, property, 0, value, n);
        }
        while (at < names_end && is_html_space(*at)) at++;
    }
}
