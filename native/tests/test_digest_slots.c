/* The set of digests in slots against a plain array; bytes that were altered; a full set. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ndd.h"

enum { DIGESTS = 3000, SLOTS = 3300 };

static uint8_t digests[DIGESTS][16], bytes[SLOTS * NDD_DIGEST_SLOT], larger[2 * SLOTS * NDD_DIGEST_SLOT];

static uint64_t random_number(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state ^ *state >> 29;
}

static void make_digests(void) {
    uint64_t state = 7;
    for (size_t i = 0; i < DIGESTS; i++) {
        for (size_t j = 0; j < 16; j++) digests[i][j] = (uint8_t)(random_number(&state) >> 40);
    }
}

static void test_against_array(void) {
    uint64_t state = 1;
    uint8_t marks[DIGESTS] = {0};
    memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < 4 * DIGESTS; i++) {
        size_t at = random_number(&state) % DIGESTS;
        uint8_t mark = (uint8_t)(1 + random_number(&state) % 2);
        CHECK(ndd_digest_find(bytes, SLOTS, digests[at]) == marks[at]);
        CHECK(ndd_digest_put(bytes, SLOTS, digests[at], mark) == marks[at]);
        marks[at] = mark;
    }
    uint64_t held = 0, of_byte = 0;
    for (size_t i = 0; i < DIGESTS; i++) {
        CHECK(ndd_digest_find(bytes, SLOTS, digests[i]) == marks[i]);
        held += marks[i] != 0;
        of_byte += marks[i] != 0 && digests[i][15] == 9;
    }
    CHECK(ndd_digest_copy(bytes, SLOTS, larger, 2 * SLOTS, -1) == held);
    for (size_t i = 0; i < DIGESTS; i++) CHECK(ndd_digest_find(larger, 2 * SLOTS, digests[i]) == marks[i]);
    memset(larger, 0, sizeof larger);
    CHECK(ndd_digest_copy(bytes, SLOTS, larger, 2 * SLOTS, 9) == of_byte);
}

static void test_full_and_refused(void) {
    memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < 10; i++) CHECK(ndd_digest_put(bytes, 10, digests[i], 1) == 0);
    CHECK(ndd_digest_put(bytes, 10, digests[10], 1) == -1 && ndd_digest_find(bytes, 10, digests[10]) == 0);
    CHECK(ndd_digest_put(bytes, 10, digests[3], 2) == 1 && ndd_digest_put(bytes, 10, digests[3], 0) == -1);
    CHECK(ndd_digest_find(bytes, 0, digests[0]) == 0 && ndd_digest_put(bytes, 0, digests[0], 1) == -1);
}

/* Any bytes are a set: nothing is found but what their slots say. */
static void test_altered(void) {
    uint64_t state = 3;
    for (size_t round = 0; round < 50; round++) {
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(random_number(&state) >> 33);
        for (size_t i = 0; i < 20; i++) CHECK(ndd_digest_find(bytes, SLOTS, digests[i]) == 0);
    }
}

int main(void) {
    make_digests();
    test_against_array();
    test_full_and_refused();
    test_altered();
    return 0;
}
