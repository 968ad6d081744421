/* The paper's designs against plain scans, and the designs that tables have. */
#include <stdint.h>
#include <stdlib.h>

#include "base/bits.h"
#include "ndd_bulk.h"
#include "sorted_values.h"

static void check_tables(const uint64_t *values, size_t n, uint32_t k, const uint32_t *levels,
                         size_t level_count, ndd_codec codec, uint32_t tables) {
    ndd_permuted *permuted;
    CHECK(ndd_permuted_open(values, n, k, levels, level_count, codec, &permuted) == NDD_OK);
    static uint64_t prefixes[NDD_PERMUTED_TABLES];
    uint32_t count;
    uint64_t bytes;
    ndd_permuted_get(permuted, prefixes, NDD_PERMUTED_TABLES, &count, &bytes);
    CHECK(count == tables);
    if (codec == NDD_UNCOMPRESSED) CHECK(bytes == 8 * n * tables);
    static ndd_match matches[4000];
    for (int round = 0; round < 60; round++) {
        uint64_t query = make_query(values, n), offsets[2], candidates;
        CHECK(ndd_permuted_probe(permuted, &query, 1, offsets, matches, 4000, &candidates) == NDD_OK);
        size_t expected = 0;
        for (size_t i = 0; i < n; i++) {
            if (count_bits(values[i] ^ query) > (int)k) continue;
            expected++;
            int times = 0;
            for (size_t j = 0; j < offsets[1]; j++) times += matches[j].value == values[i];
            CHECK(times == 1);
        }
        CHECK(offsets[0] == 0 && offsets[1] == expected && candidates >= expected);
    }
    ndd_permuted_close(permuted);
}

static void check_design(const uint64_t *values, size_t n, uint32_t k, const uint32_t *levels,
                         size_t level_count, uint32_t tables) {
    for (ndd_codec codec = NDD_UNCOMPRESSED; codec <= NDD_ELIAS_FANO; codec++) {
        check_tables(values, n, k, levels, level_count, codec, tables);
    }
}

static void test_designs(void) {
    static uint64_t values[2000];
    for (int kind = 0; kind < KINDS; kind++) {
        make_values(kind, values, 2000);
        size_t n = 1;
        for (size_t i = 1; i < 2000; i++) {
            if (values[i] != values[n - 1]) values[n++] = values[i];
        }
        check_design(values, n, 3, (uint32_t[]){6}, 1, 20);
        check_design(values, n, 3, (uint32_t[]){4, 4}, 2, 16);
        check_design(values, n, 3, (uint32_t[]){5}, 1, 10);
        check_design(values, n, 3, (uint32_t[]){4}, 1, 4);
        check_design(values, n, 0, (uint32_t[]){1}, 1, 1);
        check_design(values, n, 1, (uint32_t[]){64}, 1, 64);
        check_design(values, n, 7, (uint32_t[]){8}, 1, 8);
        check_design(values, n, 2, (uint32_t[]){3, 3, 3}, 3, 27);
        check_design(values, 0, 3, (uint32_t[]){4}, 1, 4);
    }
    ndd_permuted *none;
    CHECK(ndd_permuted_open(values, 1, 3, (uint32_t[]){3}, 1, NDD_UNCOMPRESSED, &none) == NDD_BAD_ARGUMENT);
    CHECK(ndd_permuted_open(values, 1, 3, (uint32_t[]){65}, 1, NDD_UNCOMPRESSED, &none) == NDD_BAD_ARGUMENT);
    CHECK(ndd_permuted_open(values, 1, 3, (uint32_t[]){4, 49}, 2, NDD_UNCOMPRESSED, &none) == NDD_BAD_ARGUMENT);
    CHECK(ndd_permuted_open(values, 1, 3, (uint32_t[]){4}, 1, (ndd_codec)3, &none) == NDD_BAD_ARGUMENT);
    CHECK(ndd_permuted_open(values, 1, 3, NULL, 0, NDD_UNCOMPRESSED, &none) == NDD_BAD_ARGUMENT);
    CHECK(ndd_permuted_open(values, 1, 16, (uint32_t[]){17}, 1, NDD_UNCOMPRESSED, &none) == NDD_BAD_DISTANCE);
    CHECK(ndd_permuted_open(values, 1, 3, (uint32_t[]){64}, 1, NDD_UNCOMPRESSED, &none) == NDD_TOO_LARGE);
}

static void test_the_design_of_a_table(void) {
    ndd_block blocks[64];
    for (uint32_t k = 0; k <= 15; k++) {
        uint32_t count, again;
        ndd_preset preset = (ndd_preset)(k % 2);
        CHECK(ndd_design_get(1000000, k, preset, blocks, 64, &count) == NDD_OK && count <= 64);
        CHECK(ndd_design_get(1000000, k, preset, blocks, 0, &again) == NDD_OK && again == count);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(count_bits(blocks[i].mask) == (int)blocks[i].bits);
            CHECK((blocks[i].flips & ~blocks[i].mask) == 0);
            CHECK(blocks[i].bytes >= 64.0);
        }
    }
    uint32_t count;
    CHECK(ndd_design_get(1000, 16, NDD_AUTO, blocks, 64, &count) == NDD_BAD_DISTANCE);
    CHECK(ndd_design_get(1000, 3, (ndd_preset)2, blocks, 64, &count) == NDD_BAD_ARGUMENT);
}

int main(void) {
    test_designs();
    test_the_design_of_a_table();
    return 0;
}
