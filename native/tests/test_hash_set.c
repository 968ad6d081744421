/* The set of hashes against a plain list of what came, and when. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ndd.h"

enum { MOST = 1000, CAME = 20000, KINDS = 1500 };

static uint64_t came[CAME];

/* How many came since a hash was last added; CAME + 1 if it never was. */
static size_t age(size_t now, uint64_t hash) {
    for (size_t i = now; i > 0; i--) {
        if (came[i - 1] == hash) return now - i;
    }
    return CAME + 1;
}

static void test_against_list(void) {
    ndd_hash_set *set;
    uint64_t listed, bytes, state = 1;
    CHECK(ndd_hash_set_open(MOST, &set) == NDD_OK);
    for (size_t i = 0; i < CAME; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t hash = (state >> 33) % KINDS * UINT64_C(0x9e3779b97f4a7c15);
        size_t since = age(i, hash != 0 ? hash : 1);
        uint64_t missing = ndd_hash_set_missing(set, &hash, 1);
        if (since < MOST / 2) CHECK(missing == 0);
        if (since > CAME) CHECK(missing == 1);
        CHECK(ndd_hash_set_add(set, &hash, 1) == NDD_OK && ndd_hash_set_missing(set, &hash, 1) == 0);
        came[i] = hash != 0 ? hash : 1;
        ndd_hash_set_stats(set, &listed, &bytes);
        CHECK(listed <= MOST);
    }
    CHECK(bytes < MOST * 13 + 256);
    uint64_t all[MOST];
    ndd_hash_set_list(set, all);
    CHECK(ndd_hash_set_missing(set, all, listed) == 0);
    ndd_hash_set_close(set);
}

/* As many as it may hold, all there; hashes that are alike in most bits, too. */
static void test_alike(void) {
    ndd_hash_set *set;
    uint64_t listed, bytes;
    CHECK(ndd_hash_set_open(40000, &set) == NDD_OK);
    for (uint64_t i = 0; i < 20000; i++) CHECK(ndd_hash_set_add(set, &i, 1) == NDD_OK);
    for (uint64_t i = 0; i < 20000; i++) CHECK(ndd_hash_set_missing(set, &i, 1) == 0);
    for (uint64_t i = 20000; i < 40000; i++) CHECK(ndd_hash_set_missing(set, &i, 1) == 1);
    ndd_hash_set_stats(set, &listed, &bytes);
    CHECK(listed == 19999 && bytes <= 20000 * 13); /* 0 is 1 */
    ndd_hash_set_close(set);
}

/* Two sets whose seeds differ, as those of two processes do, list the same hashes in the same order. */
static void test_listed_alike(void) {
    ndd_hash_set *sets[2];
    static uint64_t lists[2][MOST];
    for (int i = 0; i < 2; i++) {
        uint64_t listed, bytes;
        unsigned long long state = 7;
        CHECK(ndd_hash_set_open(MOST, &sets[i]) == NDD_OK);
        for (int j = 0; j < MOST - 1; j++) {
            uint64_t hash = random_bits(&state);
            CHECK(ndd_hash_set_add(sets[i], &hash, 1) == NDD_OK);
        }
        ndd_hash_set_stats(sets[i], &listed, &bytes);
        CHECK(listed == MOST - 1);
        ndd_hash_set_list(sets[i], lists[i]);
    }
    CHECK(memcmp(lists[0], lists[1], sizeof lists[0]) == 0);
    for (int i = 0; i < 2; i++) ndd_hash_set_close(sets[i]);
}

int main(void) {
    ndd_hash_set *set;
    CHECK(ndd_hash_set_open(1, &set) == NDD_BAD_ARGUMENT && ndd_hash_set_open(MOST, NULL) == NDD_BAD_ARGUMENT);
    ndd_hash_set_close(NULL);
    test_against_list();
    test_alike();
    test_listed_alike();
    return 0;
}
