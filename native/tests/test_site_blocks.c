/* The counts of a site's blocks against plain arrays; what a page has of them; growth; bytes that were altered. */
#include <string.h>

#include "base/bytes.h"
#include "check.h"
#include "ndd.h"

enum { SETS = 300, LARGER = 2500, BLOCKS = 500, LISTED = 40 };

static uint8_t site[(SETS + 1) * NDD_SITE_SET], larger[(LARGER + 1) * NDD_SITE_SET];
static uint32_t hashes[BLOCKS], counts[BLOCKS];

static uint64_t random_number(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state ^ *state >> 29;
}

static void list(uint8_t *blocks, size_t at, uint32_t hash, uint32_t words, int read) {
    store4_le(blocks + 8 * at, hash);
    store4_le(blocks + 8 * at + 4, words | (uint32_t)read << 31);
}

static void must_know(const uint8_t *of, uint64_t sets) {
    for (size_t i = 0; i < BLOCKS; i++) {
        uint8_t blocks[8];
        ndd_site_share share;
        list(blocks, 0, hashes[i], 10, 1);
        ndd_site_tell(of, sets, blocks, 1, counts[i], counts[i], &share);
        CHECK(share.read == 10 && share.template == 0 && share.shared == 0 && share.left == 0 && share.pages == 0);
        if (counts[i] == 0) continue;
        ndd_site_tell(of, sets, blocks, 1, counts[i] - 1, counts[i] - 1, &share);
        CHECK(share.template == 10 && share.shared == 8 && share.pages == counts[i]);
    }
}

static void test_against_arrays(void) {
    uint64_t state = 5;
    uint8_t blocks[8 * LISTED];
    for (size_t i = 0; i < BLOCKS; i++) hashes[i] = (uint32_t)(random_number(&state) >> 32) | 1;
    for (uint32_t page = 1; page <= 200; page++) {
        size_t first = random_number(&state) % (BLOCKS - LISTED);
        for (size_t i = 0; i < LISTED; i++) {
            list(blocks, i, hashes[first + i], 5, 0);
            counts[first + i]++;
        }
        CHECK(ndd_site_count(site, SETS, page, blocks, LISTED) == page);
        CHECK(ndd_site_count(site, SETS, page, blocks, LISTED) == page); /* its title was counted */
    }
    must_know(site, SETS);
    ndd_site_copy(site, SETS, larger, LARGER);
    must_know(larger, LARGER);
    CHECK(ndd_site_blocks(larger) == ndd_site_blocks(site) && load4_le(larger) == 200);
    CHECK(ndd_site_count(larger, LARGER, 200, blocks, LISTED) == 200);
}

/* Without a title a page is known again by its blocks. */
static void test_without_title(void) {
    uint8_t blocks[16];
    memset(site, 0, sizeof site);
    list(blocks, 0, 77, 5, 1);
    list(blocks, 1, 78, 2, 0);
    CHECK(ndd_site_count(site, SETS, 0, blocks, 1) == 1 && ndd_site_count(site, SETS, 0, blocks, 1) == 1);
    CHECK(ndd_site_count(site, SETS, 0, blocks, 2) == 2 && ndd_site_count(site, SETS, 0, blocks, 0) == 2);
    ndd_site_share share;
    ndd_site_tell(site, SETS, blocks, 2, 1, 1, &share);
    CHECK(share.read == 5 && share.template == 5 && share.pages == 2 && share.left == 0);
    list(blocks, 1, 79, 2, 0);
    ndd_site_tell(site, SETS, blocks, 2, 1, 1, &share);
    CHECK(share.left == 2);
}

/* What further pages of a title have counts once: it is not new any more, and no template. */
static void test_one_title(void) {
    uint8_t blocks[16];
    memset(site, 0, sizeof site);
    list(blocks, 0, 77, 5, 1);
    list(blocks, 1, 78, 2, 0);
    CHECK(ndd_site_count(site, SETS, 1, blocks, 1) == 1);
    for (size_t i = 0; i < 3; i++) CHECK(ndd_site_count(site, SETS, 1, blocks, 2) == 1);
    ndd_site_share share;
    ndd_site_tell(site, SETS, blocks, 2, 0, 0, &share);
    CHECK(share.left == 0 && share.template == 5 && share.pages == 1 && ndd_site_blocks(site) == 2);
    list(blocks, 1, 79, 2, 1);
    ndd_site_tell(site, SETS, blocks, 2, 0, 0, &share);
    CHECK(share.read == 7 && share.fresh == 2);
}

/* What stands on many pages stays, however many others come. */
static void test_full(void) {
    uint64_t state = 11;
    uint8_t blocks[8 * LISTED];
    memset(site, 0, sizeof site);
    for (uint32_t page = 1; page <= 3000; page++) {
        list(blocks, 0, 12345, 9, 1);
        for (size_t i = 1; i < LISTED; i++) list(blocks, i, (uint32_t)(random_number(&state) >> 32), 9, 1);
        ndd_site_count(site, SETS, page, blocks, LISTED);
    }
    ndd_site_share share;
    ndd_site_tell(site, SETS, blocks, LISTED, 1000, 20, &share);
    CHECK(share.template == 9 && share.pages > 1000);
    CHECK(ndd_site_blocks(site) <= 8 * SETS);
    memcpy(larger, site, sizeof site); /* a further page of a title takes the place of no block */
    for (size_t i = 1; i < LISTED; i++) list(blocks, i, (uint32_t)(random_number(&state) >> 32), 9, 1);
    ndd_site_count(site, SETS, 3000, blocks, LISTED);
    CHECK(ndd_site_blocks(site) < 8 * SETS || memcmp(larger, site, sizeof site) == 0);
}

/* Any bytes are a site. */
static void test_altered(void) {
    uint64_t state = 3;
    uint8_t blocks[8 * LISTED];
    for (size_t round = 0; round < 50; round++) {
        for (size_t i = 0; i < sizeof site; i++) site[i] = (uint8_t)(random_number(&state) >> 33);
        for (size_t i = 0; i < sizeof blocks; i++) blocks[i] = (uint8_t)(random_number(&state) >> 33);
        ndd_site_share share;
        ndd_site_count(site, SETS, (uint32_t)round, blocks, LISTED);
        ndd_site_tell(site, SETS, blocks, LISTED, 10, 20, &share);
        memset(larger, 0, sizeof larger);
        ndd_site_copy(site, SETS, larger, LARGER);
    }
}

int main(void) {
    test_against_arrays();
    test_without_title();
    test_one_title();
    test_full();
    test_altered();
    return 0;
}
