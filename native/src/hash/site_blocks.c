/*
 * On how many pages of a site each block of text stands (see ndd.h; research: the blocks of a site that many pages share
 * are its template).
 *
 *     first set   pages counted (4 bytes), blocks held (4 bytes), zeros
 *     others      8 hashes of blocks (4 bytes each, 0: none), their counts (2 bytes each), 4 hashes of titles
 *
 * Numbers are little-endian. A set is one line of a processor's cache, and a hash belongs to one set. Where it is full, a
 * block seen once makes room for another, or else the least count goes down by one: a block that stands on many
 * pages stays. The titles of a set push out the oldest of them: such a page is counted once more, which does no harm.
 */
#include <string.h>

#include "base/bytes.h"
#include "hash/hash.h"
#include "ndd.h"

enum { WAYS = 8, TITLES = 4, COUNTS_AT = 4 * WAYS, TITLES_AT = 6 * WAYS, COUNT_MOST = 0xffff, WORDS_MOST = 0x3fffffff };

_Static_assert(TITLES_AT + 4 * TITLES == NDD_SITE_SET, "a set is what the header says");

static uint8_t *set_of(uint8_t *site, uint64_t sets, uint32_t hash) {
    return site + NDD_SITE_SET * (1 + ((hash * sets) >> 32));
}

static uint32_t count_at(const uint8_t *set, int way) {
    return (uint32_t)set[COUNTS_AT + 2 * way] | (uint32_t)set[COUNTS_AT + 2 * way + 1] << 8;
}

static void set_count(uint8_t *set, int way, uint32_t count) {
    set[COUNTS_AT + 2 * way] = (uint8_t)count;
    set[COUNTS_AT + 2 * way + 1] = (uint8_t)(count >> 8);
}

static int way_of(const uint8_t *set, uint32_t hash) {
    for (int way = 0; way < WAYS; way++) {
        if (load4_le(set + 4 * way) == hash) return way;
    }
    return -1;
}

static uint32_t hash_at(const uint8_t *blocks, size_t i) {
    uint32_t hash = load4_le(blocks + 8 * i);
    return hash != 0 ? hash : 1;
}

static void add_count(uint8_t *site, uint64_t sets, uint32_t hash, uint32_t count) {
    uint8_t *set = set_of(site, sets, hash);
    int way = way_of(set, hash), least = 0;
    if (way >= 0) {
        uint32_t sum = count_at(set, way) + count;
        set_count(set, way, sum < COUNT_MOST ? sum : COUNT_MOST);
        return;
    }
    for (way = 0; way < WAYS && load4_le(set + 4 * way) != 0; way++) {
        if (count_at(set, way) < count_at(set, least)) least = way;
    }
    if (way < WAYS) {
        store4_le(site + 4, load4_le(site + 4) + 1);
        least = way;
    } else if (count_at(set, least) > 1) {
        set_count(set, least, count_at(set, least) - 1);
        return;
    }
    store4_le(set + 4 * least, hash);
    set_count(set, least, count);
}

/* Notes a title; 0 if it was noted before. */
static int add_title(uint8_t *site, uint64_t sets, uint32_t title) {
    uint8_t *titles = set_of(site, sets, title) + TITLES_AT;
    for (int i = 0; i < TITLES; i++) {
        if (load4_le(titles + 4 * i) == title) return 0;
    }
    memmove(titles + 4, titles, 4 * (TITLES - 1));
    store4_le(titles, title);
    return 1;
}

/* On how many pages a block stands. */
static uint32_t pages_of(const uint8_t *site, uint64_t sets, uint32_t hash) {
    const uint8_t *set = set_of((uint8_t *)(uintptr_t)site, sets, hash);
    int way = way_of(set, hash);
    return way < 0 ? 0 : count_at(set, way);
}

/* Whether a block may be added without pushing out another. */
static int has_room(const uint8_t *site, uint64_t sets, uint32_t hash) {
    return way_of(set_of((uint8_t *)(uintptr_t)site, sets, hash), 0) >= 0;
}

uint32_t ndd_site_count(uint8_t *site, uint64_t sets, uint32_t title, const uint8_t *blocks, size_t n) {
    uint64_t name = title;
    for (size_t i = 0; title == 0 && i < n; i++) name += hash_mix(load4_le(blocks + 8 * i));
    uint32_t hash = (uint32_t)(hash_mix(name) >> 32);
    int is_new = n > 0 && add_title(site, sets, hash != 0 ? hash : 1);
    for (size_t i = 0; i < n; i++) {
        uint32_t block = hash_at(blocks, i);
        if (is_new || (pages_of(site, sets, block) == 0 && has_room(site, sets, block))) add_count(site, sets, block, 1);
    }
    store4_le(site, load4_le(site) + (uint32_t)is_new);
    return load4_le(site);
}

void ndd_site_tell(const uint8_t *site, uint64_t sets, const uint8_t *blocks, size_t n, uint32_t template_above,
                   uint32_t shared_above, ndd_site_share *share) {
    ndd_site_share found = {0, 0, 0, 0, 0, 0};
    for (size_t i = 0; i < n; i++) {
        uint32_t high = load4_le(blocks + 8 * i + 4), words = high & WORDS_MOST;
        uint32_t pages = pages_of(site, sets, hash_at(blocks, i));
        if (high >> 31 == 0) {
            if (pages == 0) found.left += words;
            continue;
        }
        found.read += words;
        if (pages == 0) found.fresh += words;
        if (pages > shared_above) found.shared += words > 2 ? words - 2 : 1;
        if (pages <= template_above) continue;
        found.template += words;
        if (found.pages == 0 || pages < found.pages) found.pages = pages;
    }
    *share = found;
}

uint32_t ndd_site_blocks(const uint8_t *site) {
    return load4_le(site + 4);
}

void ndd_site_copy(const uint8_t *from, uint64_t from_sets, uint8_t *to, uint64_t to_sets) {
    for (uint64_t i = 1; i <= from_sets; i++) {
        const uint8_t *set = from + NDD_SITE_SET * i;
        for (int way = 0; way < WAYS; way++) {
            uint32_t hash = load4_le(set + 4 * way);
            if (hash != 0) add_count(to, to_sets, hash, count_at(set, way));
        }
        for (int title = TITLES; title > 0; title--) {
            uint32_t hash = load4_le(set + TITLES_AT + 4 * (title - 1));
            if (hash != 0) add_title(to, to_sets, hash);
        }
    }
    store4_le(to, load4_le(from));
}
