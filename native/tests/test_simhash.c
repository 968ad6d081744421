/* Simhash against plain counters, and hashes against published values. */
#include <string.h>

#include "check.h"
#include "hash/hash.h"
#include "hash/simhash.h"
#include "ndd.h"

static uint64_t plain(const uint64_t *hashes, const uint32_t *weights, size_t n) {
    uint64_t value = 0;
    for (int bit = 0; bit < 64; bit++) {
        int64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            int64_t weight = weights != NULL ? weights[i] : 1;
            sum += hashes[i] >> bit & 1 ? weight : -weight;
        }
        if (sum > 0) value |= UINT64_C(1) << bit;
    }
    return value;
}

static void test_majority(void) {
    uint64_t hundred[100];
    for (int i = 0; i < 100; i++) hundred[i] = 0xdeadbeef;
    CHECK(ndd_simhash(NULL, 0) == 0);
    CHECK(ndd_simhash(hundred, 100) == 0xdeadbeef);
    uint64_t tie[2] = {UINT64_C(0x123456789abcdef0), ~UINT64_C(0x123456789abcdef0)};
    CHECK(ndd_simhash(tie, 2) == 0);
    uint64_t three[3] = {0xabcd, 0xbcde, 0xcdef};
    CHECK(ndd_simhash(three, 3) == 0xadcf);
}

static void test_against_plain_counters(void) {
    static uint64_t hashes[3000];
    static uint32_t weights[3000];
    unsigned long long state = 7;
    for (int i = 0; i < 3000; i++) {
        hashes[i] = random_bits(&state);
        weights[i] = (uint32_t)(random_bits(&state) >> (32 + random_bits(&state) % 32));
    }
    for (size_t n = 0; n < 3000; n += 1 + n / 9) {
        uint64_t value = 1;
        CHECK(ndd_simhash(hashes, n) == plain(hashes, NULL, n));
        CHECK(ndd_simhash_weighted(hashes, weights, n, &value) == NDD_OK);
        CHECK(value == plain(hashes, weights, n));
    }
    uint32_t most[3] = {UINT32_MAX, UINT32_MAX, 0};
    uint64_t value;
    CHECK(ndd_simhash_weighted(hashes, most, 3, &value) == NDD_OK);
    CHECK(value == plain(hashes, most, 3));
    for (int i = 0; i < 3000; i++) { /* a little more than small */
        hashes[i] |= 0xff;
        weights[i] = NDD_SIMHASH_SMALL + 1;
    }
    CHECK(ndd_simhash_weighted(hashes, weights, 3000, &value) == NDD_OK);
    CHECK(value == plain(hashes, weights, 3000));
    CHECK(ndd_simhash_weighted(hashes, weights, ((size_t)1 << 31) + 1, &value) == NDD_TOO_LARGE);
}

/* Each way that this processor has, not only the one that it takes. */
static void test_small_weights_each_way(void) {
    static uint64_t hashes[1000];
    static uint32_t weights[1000];
    unsigned long long state = 11;
    simhash_way ways[NDD_SIMHASH_WAYS];
    int count = simhash_ways(ways);
    CHECK(count >= 1 && count <= NDD_SIMHASH_WAYS);
    for (int i = 0; i < 1000; i++) hashes[i] = random_bits(&state);
    for (int heavy = 0; heavy < 2; heavy++) {
        for (int i = 0; heavy && i < 1000; i++) hashes[i] |= 0xff; /* their sums are the greatest */
        for (int i = 0; i < 1000; i++) {
            weights[i] = heavy ? NDD_SIMHASH_SMALL : (uint32_t)(random_bits(&state) % (NDD_SIMHASH_SMALL + 1));
        }
        for (size_t n = 0; n <= 1000; n += n < 130 ? 1 : 87) {
            for (int way = 0; way < count; way++) {
                CHECK(ways[way](hashes, weights, 1, n) == plain(hashes, weights, n));
                CHECK(ways[way](hashes, weights, 0, n) == plain(hashes, NULL, n) || weights[0] == 0);
            }
        }
    }
}

#define KAFKA_SEED UINT32_C(0x9747b28c)
#define BYTES(text) (const uint8_t *)text, sizeof text - 1

static void test_published_hashes(void) {
    CHECK(ndd_hash_fnv1a(BYTES("")) == UINT64_C(0xcbf29ce484222325));
    CHECK(ndd_hash_fnv1a(BYTES("a")) == UINT64_C(0xaf63dc4c8601ec8c));
    CHECK(ndd_hash_fnv1a(BYTES("foobar")) == UINT64_C(0x85944171f73967e8));
    CHECK(ndd_hash_fnv1(BYTES("test string")) == UINT64_C(8811532157352841348));
    CHECK(ndd_hash_jenkins(BYTES(""), 0) == UINT64_C(0xdeadbeefdeadbeef));
    CHECK(ndd_hash_jenkins(BYTES("Four score and seven years ago"), 0) == UINT64_C(0x17770551ce7226e6));
    CHECK(ndd_hash_jenkins(BYTES("Four score and seven years ago"), 1) == UINT64_C(0xe3607caebd371de4));
    /* of Kafka's own tests (UtilsTest.testMurmur2) */
    CHECK(ndd_hash_murmur2(BYTES("21"), KAFKA_SEED) == (uint32_t)INT32_C(-973932308));
    CHECK(ndd_hash_murmur2(BYTES("foobar"), KAFKA_SEED) == (uint32_t)INT32_C(-790332482));
    CHECK(ndd_hash_murmur2(BYTES("a-little-bit-long-string"), KAFKA_SEED) ==
          (uint32_t)INT32_C(-985981536));
    CHECK(ndd_hash_murmur2(BYTES("a-little-bit-longer-string"), KAFKA_SEED) ==
          (uint32_t)INT32_C(-1486304829));
    CHECK(ndd_hash_murmur2(BYTES("abc"), KAFKA_SEED) == UINT32_C(479470107));
    CHECK(ndd_hash_murmur2(BYTES(""), 0) == 0);
}

static void test_distance(void) {
    CHECK(ndd_distance(0, 0) == 0);
    CHECK(ndd_distance(0, ~UINT64_C(0)) == 64);
    CHECK(ndd_distance(5, 6) == 2);
}

static void test_every_status_has_words(void) {
    for (int status = -1; status <= NDD_TOO_LARGE + 1; status++) CHECK(strlen(ndd_strerror(status)) > 3);
}

int main(void) {
    test_majority();
    test_against_plain_counters();
    test_small_weights_each_way();
    test_published_hashes();
    test_distance();
    test_every_status_has_words();
    return 0;
}
