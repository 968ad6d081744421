/*
 * Fuzzes compressed fingerprints. The first byte chooses:
 *   0 of 3: the rest is opened as it is;
 *   1 of 3: the same with the checksums put right, so that what lies behind them is reached;
 *   2 of 3: the rest is fingerprints, which are compressed and must come back.
 * What opens must decode in order, find what it decodes, and compress again to no other values.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "paper/ndd_paper.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
uint8_t *fuzz_seed(size_t i, size_t *n);

#define HEADER 64
#define MANY 100000

/* Not assert: this must hold in every build. */
#define MUST(condition)                                                           \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
            abort();                                                              \
        }                                                                         \
    } while (0)

static void store_number(uint8_t *bytes, uint64_t number) {
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> (8 * i));
}

static void check_opened(const ndd_compressed *opened, uint64_t query) {
    const uint8_t *bytes;
    uint64_t size, count, times = 0;
    ndd_codec codec;
    ndd_compressed_get(opened, &bytes, &size, &codec, &count);
    if (count > MANY) return; /* valid, and slow to look at */
    uint64_t *values = malloc((count + 1) * sizeof *values);
    uint64_t *found = malloc((count + 1) * sizeof *found);
    MUST(values != NULL && found != NULL);
    ndd_compressed_decode(opened, values);
    for (uint64_t i = 1; i < count; i++) MUST(values[i - 1] <= values[i]);
    size_t matches;
    uint32_t prefix = (uint32_t)(query % 65);
    MUST(ndd_compressed_probe(opened, query, 64, prefix, found, count, &matches) == NDD_OK);
    if (count > 0) query = values[query % count];
    MUST(ndd_compressed_probe(opened, query, 0, prefix, found, count, &matches) == NDD_OK);
    for (uint64_t i = 0; i < count; i++) times += values[i] == query;
    MUST(matches == times);
    MUST(ndd_compressed_probe(opened, query, 64, 0, found, count, &matches) == NDD_OK);
    MUST(matches == count && memcmp(values, found, count * sizeof *values) == 0);
    free(values);
    free(found);
}

static void fuzz_open(const uint8_t *given, size_t n, int put_right) {
    uint8_t *bytes = malloc(n + 1);
    MUST(bytes != NULL);
    if (n > 0) memcpy(bytes, given, n);
    if (put_right && n >= HEADER + 8) {
        static const uint8_t start[12] = {'N', 'D', 'D', 'S', 'O', 'R', 'T', 'D', 1};
        memcpy(bytes, start, sizeof start);
        store_number(bytes + HEADER - 8, checksum(bytes, HEADER - 8));
        store_number(bytes + n - 8, checksum(bytes, n - 8));
    }
    ndd_compressed *opened = NULL;
    const char *reason = NULL;
    if (ndd_compressed_open(bytes, n, &opened, &reason) == NDD_OK) {
        check_opened(opened, checksum(bytes, n));
        ndd_compressed_close(opened);
    } else {
        MUST(opened == NULL && reason != NULL);
    }
    free(bytes);
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void fuzz_compress(const uint8_t *bytes, size_t n) {
    size_t count = n / 8;
    uint64_t *values = malloc((count + 1) * sizeof *values);
    uint64_t *decoded = malloc((count + 1) * sizeof *decoded);
    MUST(values != NULL && decoded != NULL);
    if (count > 0) {
        memcpy(values, bytes, count * 8);
        qsort(values, count, sizeof *values, compare);
    }
    for (ndd_codec codec = NDD_HUFFMAN; codec <= NDD_ELIAS_FANO; codec++) {
        ndd_compressed *made;
        MUST(ndd_compress(codec, values, count, &made) == NDD_OK);
        ndd_compressed_decode(made, decoded);
        MUST(count == 0 || memcmp(values, decoded, count * sizeof *values) == 0);
        const uint8_t *packed;
        uint64_t size, again;
        ndd_compressed_get(made, &packed, &size, &codec, &again);
        fuzz_open(packed, (size_t)size, 0);
        check_opened(made, checksum(bytes, n));
        ndd_compressed_close(made);
    }
    free(values);
    free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n == 0) return 0;
    switch (bytes[0] % 3) {
    case 0: fuzz_open(bytes + 1, n - 1, 0); break;
    case 1: fuzz_open(bytes + 1, n - 1, 1); break;
    default: fuzz_compress(bytes + 1, n - 1); break;
    }
    return 0;
}

/* Tables of both codecs, of several sizes and kinds, with their checksums and with these left open;
 * and fingerprints. */
uint8_t *fuzz_seed(size_t i, size_t *n) {
    static const size_t sizes[] = {0, 1, 2, 40, 400};
    if (i >= 5 * 2 * 2 * 2) return NULL;
    size_t count = sizes[i % 5];
    uint64_t values[400], value = 1;
    for (size_t v = 0; v < count; v++) {
        value = value * UINT64_C(6364136223846793005) + 1442695040888963407U;
        values[v] = i / 20 == 0 ? value : value % 300;
    }
    if (count > 0) qsort(values, count, sizeof *values, compare);
    ndd_compressed *made;
    MUST(ndd_compress(i / 5 % 2 == 0 ? NDD_HUFFMAN : NDD_ELIAS_FANO, values, count, &made) == NDD_OK);
    const uint8_t *bytes;
    uint64_t size, stored;
    ndd_codec codec;
    ndd_compressed_get(made, &bytes, &size, &codec, &stored);
    uint8_t *seed = malloc((size_t)size + 1);
    MUST(seed != NULL);
    seed[0] = (uint8_t)(i / 10 % 2 == 0 ? 1 : i % 2 == 0 ? 0 : 2);
    memcpy(seed + 1, bytes, (size_t)size);
    *n = (size_t)size + 1;
    ndd_compressed_close(made);
    return seed;
}
