/* Compressed fingerprints against plain copies and scans. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "instrumented.h"
#include "paper/compressed.h"
#include "sorted_values.h"

static void check_probes(const ndd_compressed *compressed, const uint64_t *values, size_t n) {
    static const uint32_t prefixes[] = {0, 1, 8, 16, 31, 50, 63, 64};
    uint64_t *found = malloc((n + 1) * sizeof *found);
    CHECK(found != NULL);
    for (int round = 0; round < 40; round++) {
        uint64_t query = make_query(values, n);
        uint32_t prefix = prefixes[round % 8], k = (uint32_t)round % 5 == 4 ? 64 : (uint32_t)round % 5;
        uint64_t mask = prefix == 0 ? 0 : UINT64_MAX << (64 - prefix);
        size_t count, expected = 0;
        CHECK(ndd_compressed_probe(compressed, query, k, prefix, found, n, &count) == NDD_OK);
        for (size_t i = 0; i < n; i++) {
            if (((values[i] ^ query) & mask) != 0 || count_bits(values[i] ^ query) > (int)k) continue;
            CHECK(expected < count && found[expected] == values[i]);
            expected++;
        }
        CHECK(count == expected);
        CHECK(ndd_compressed_probe(compressed, query, k, prefix, found, 0, &count) == NDD_OK);
        CHECK(count == expected);
    }
    free(found);
}

/* Pieces of any size, one after the other, are the whole. */
static void check_pieces(const ndd_compressed *opened, const uint64_t *values, size_t n) {
    size_t sizes[] = {NDD_COMPRESSED_BLOCK, 3 * NDD_COMPRESSED_BLOCK, n + NDD_COMPRESSED_BLOCK};
    for (size_t s = 0; s < 3; s++) {
        uint64_t block = 0, from;
        size_t done = 0, count, counted;
        uint64_t *piece = malloc(sizes[s] * sizeof *piece);
        CHECK(piece != NULL);
        do {
            from = block;
            CHECK(ndd_compressed_next(opened, &from, NULL, sizes[s], &counted) == NDD_OK);
            CHECK(ndd_compressed_next(opened, &block, piece, sizes[s], &count) == NDD_OK);
            CHECK(count == counted && block == from && count <= sizes[s] && count <= n - done);
            CHECK(count == 0 || memcmp(piece, values + done, count * sizeof *piece) == 0);
            done += count;
        } while (count > 0);
        CHECK(done == n);
        CHECK(ndd_compressed_next(opened, &block, NULL, NDD_COMPRESSED_BLOCK - 1, &count) ==
              NDD_BAD_ARGUMENT);
        free(piece);
    }
}

static void check_round_trip(ndd_codec codec, const uint64_t *values, size_t n) {
    ndd_compressed *made, *opened;
    CHECK(ndd_compress(codec, values, n, &made) == NDD_OK);
    const uint8_t *bytes;
    const char *reason = NULL;
    uint64_t size, count;
    ndd_codec said;
    ndd_compressed_get(made, &bytes, &size, &said, &count);
    CHECK(said == codec && count == n);
    uint8_t *copy = malloc(size);
    uint64_t *decoded = malloc((n + 1) * sizeof *decoded);
    CHECK(copy != NULL && decoded != NULL);
    memcpy(copy, bytes, size);
    ndd_status status = ndd_compressed_open(copy, size, &opened, &reason);
    if (status != NDD_OK) fprintf(stderr, "%s\n", reason);
    CHECK(status == NDD_OK);
    ndd_compressed_decode(opened, decoded);
    CHECK(n == 0 || memcmp(decoded, values, n * sizeof *values) == 0);
    check_pieces(opened, values, n);
    check_probes(opened, values, n);
    check_probes(made, values, n);
    ndd_compressed_close(opened);
    ndd_compressed_close(made);
    free(copy);
    free(decoded);
}

static void test_round_trips(void) {
    static const size_t sizes[] = {0, 1, 2, 3, 7, 100, 1000, 20000};
    static uint64_t values[20000];
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            make_values(kind, values, sizes[i]);
            check_round_trip(NDD_HUFFMAN, values, sizes[i]);
            check_round_trip(NDD_ELIAS_FANO, values, sizes[i]);
        }
    }
}

/* Gaps whose lengths are as unequal as can be: an unlimited Huffman code would be too long. */
static void test_a_code_of_limited_length(void) {
    static uint64_t values[200000];
    size_t n = 0;
    uint64_t value = 0;
    for (uint64_t count = 1, before = 1, bit = 0; bit < 24; bit++) {
        for (uint64_t i = 0; i < count && n < 200000; i++) {
            values[n++] = value;
            value = (value | (UINT64_C(1) << bit)) + (UINT64_C(1) << bit);
        }
        uint64_t sum = count + before;
        before = count;
        count = sum;
    }
    check_round_trip(NDD_HUFFMAN, values, n);
}

static void test_what_is_refused(void) {
    static uint64_t values[500];
    make_values(0, values, 500);
    for (ndd_codec codec = NDD_HUFFMAN; codec <= NDD_ELIAS_FANO; codec++) {
        ndd_compressed *made, *opened = NULL;
        const uint8_t *bytes;
        const char *reason;
        uint64_t size, count;
        CHECK(ndd_compress(codec, values, 500, &made) == NDD_OK);
        ndd_compressed_get(made, &bytes, &size, &codec, &count);
        uint8_t *copy = malloc(size + 1);
        CHECK(copy != NULL);
        memcpy(copy, bytes, size);
        copy[size] = 0;
        for (uint64_t cut = 0; cut < size; cut++) {
            CHECK(ndd_compressed_open(copy, cut, &opened, &reason) == NDD_TRUNCATED);
        }
        CHECK(ndd_compressed_open(copy, size + 1, &opened, &reason) == NDD_DAMAGED);
        for (uint64_t at = 0; at < size; at++) {
            copy[at] ^= (uint8_t)(1 << at % 8);
            ndd_status status = ndd_compressed_open(copy, size, &opened, &reason);
            CHECK(status == (at < 8 ? NDD_BAD_FORMAT : at < 12 ? NDD_BAD_VERSION : NDD_DAMAGED));
            copy[at] ^= (uint8_t)(1 << at % 8);
        }
        CHECK(opened == NULL);
        ndd_compressed_close(made);
        free(copy);
    }
    ndd_compressed *none;
    values[0] = UINT64_MAX;
    CHECK(ndd_compress(NDD_HUFFMAN, values, 500, &none) == NDD_BAD_ARGUMENT);
    CHECK(ndd_compress((ndd_codec)9, values, 0, &none) == NDD_BAD_ARGUMENT);
}

static void put_checksums_right(uint8_t *bytes, uint64_t size) {
    store8_le(bytes + NDD_PAPER_HEADER - 8, checksum(bytes, NDD_PAPER_HEADER - 8));
    store8_le(bytes + size - 8, checksum(bytes, (size_t)size - 8));
}

/* Bytes that no writer wrote, though their checksums match: what opens is in order and complete. */
static void test_what_the_checksums_do_not_cover(void) {
    static uint64_t values[600], decoded[600];
    make_values(0, values, 600);
    for (ndd_codec codec = NDD_HUFFMAN; codec <= NDD_ELIAS_FANO; codec++) {
        ndd_compressed *made, *opened;
        const char *reason = "";
        CHECK(ndd_compress(codec, values, 600, &made) == NDD_OK);
        uint64_t size = made->size, refused = 0;
        uint8_t *copy = malloc(size);
        CHECK(copy != NULL);
        memcpy(copy, made->bytes, size);
        for (uint64_t bit = 8 * 16; bit < 8 * (size - 8); bit += SIZED(7, 1)) {
            if (bit / 8 >= NDD_PAPER_HEADER - 8 && bit / 8 < NDD_PAPER_HEADER) continue;
            copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
            put_checksums_right(copy, size);
            if (ndd_compressed_open(copy, size, &opened, &reason) == NDD_OK) {
                CHECK(opened->count == 600);
                ndd_compressed_decode(opened, decoded);
                for (int i = 1; i < 600; i++) CHECK(decoded[i - 1] <= decoded[i]);
                ndd_compressed_close(opened);
            } else {
                refused++;
            }
            copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        CHECK(refused > SIZED(100, 800));
        if (codec == NDD_HUFFMAN) { /* two blocks in each other's place */
            uint8_t *keys = copy + NDD_PAPER_HEADER + NDD_LENGTHS_BYTES, *blocks = keys + 8 * made->numbers[0];
            uint8_t other[NDD_BLOCK_BYTES];
            CHECK(made->numbers[0] >= 2);
            memcpy(other, keys, 8);
            memcpy(keys, keys + 8, 8);
            memcpy(keys + 8, other, 8);
            memcpy(other, blocks, NDD_BLOCK_BYTES);
            memcpy(blocks, blocks + NDD_BLOCK_BYTES, NDD_BLOCK_BYTES);
            memcpy(blocks + NDD_BLOCK_BYTES, other, NDD_BLOCK_BYTES);
            put_checksums_right(copy, size);
            CHECK(ndd_compressed_open(copy, size, &opened, &reason) == NDD_DAMAGED);
            CHECK(strcmp(reason, "the blocks are out of order") == 0);
        }
        ndd_compressed_close(made);
        free(copy);
    }
}

/* Without memory at any moment: the status says so, and nothing is left behind. */
static void test_without_memory(void) {
    static uint64_t values[1000];
    static ndd_match matches[1000];
    for (uint64_t i = 0; i < 1000; i++) values[i] = i; /* crowded: 176 within 3 of each */
    uint32_t levels[] = {4, 4};
    for (ndd_codec codec = NDD_UNCOMPRESSED; codec <= NDD_ELIAS_FANO; codec++) {
        ndd_permuted *permuted = NULL;
        ndd_status status = NDD_NO_MEMORY;
        int64_t failed = 0;
        for (; status == NDD_NO_MEMORY; failed++) {
            allocations_left = failed;
            status = ndd_permuted_open(values, 1000, 3, levels, 2, codec, &permuted);
            allocations_left = -1;
            CHECK((permuted == NULL) == (status != NDD_OK));
        }
        CHECK(status == NDD_OK && failed > 16);
        uint64_t offsets[2], candidates; /* that many near values take more memory than is at hand */
        allocations_left = 0;
        status = ndd_permuted_probe(permuted, values, 1, offsets, matches, 1000, &candidates);
        allocations_left = -1;
        CHECK(status == (codec == NDD_UNCOMPRESSED ? NDD_OK : NDD_NO_MEMORY));
        ndd_permuted_close(permuted);
        if (codec == NDD_UNCOMPRESSED) continue;
        ndd_compressed *made = NULL, *opened = NULL;
        for (status = NDD_NO_MEMORY, failed = 0; status == NDD_NO_MEMORY; failed++) {
            allocations_left = failed;
            status = ndd_compress(codec, values, 1000, &made);
            allocations_left = -1;
        }
        CHECK(status == NDD_OK && failed > 2);
        const char *reason = NULL;
        for (status = NDD_NO_MEMORY, failed = 0; status == NDD_NO_MEMORY; failed++) {
            allocations_left = failed;
            status = ndd_compressed_open(made->bytes, made->size, &opened, &reason);
            allocations_left = -1;
            CHECK(status == NDD_OK || (opened == NULL && reason != NULL));
        }
        CHECK(status == NDD_OK && failed > 1);
        ndd_compressed_close(opened);
        ndd_compressed_close(made);
    }
}

int main(void) {
    test_round_trips();
    test_a_code_of_limited_length();
    test_what_is_refused();
    test_what_the_checksums_do_not_cover();
    test_without_memory();
    return 0;
}
