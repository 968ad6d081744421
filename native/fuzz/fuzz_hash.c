/*
 * Hashes and simhashes of any bytes, against plain loops.
 *
 *     input = key (16 bytes), the bytes that are hashed and taken for hashes and weights
 */
#include "fuzz.h"
#include "hash/hash.h"

#define PADDING 16

static uint64_t plain_fnv(const uint8_t *bytes, size_t n, int xor_first) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        if (xor_first) hash ^= bytes[i];
        hash *= UINT64_C(0x100000001b3);
        if (!xor_first) hash ^= bytes[i];
    }
    return hash;
}

static uint64_t plain_simhash(const uint64_t *hashes, const uint32_t *weights, size_t n) {
    uint64_t value = 0;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t set = 0, all = 0;
        for (size_t i = 0; i < n; i++) {
            uint64_t weight = weights == NULL ? 1 : weights[i];
            all += weight;
            if (hashes[i] >> bit & 1) set += weight;
        }
        if (2 * set > all) value |= UINT64_C(1) << bit;
    }
    return value;
}

/* A hash is that of the bytes, wherever they lie and whatever stands behind them. */
static void must_hash(const uint8_t *bytes, size_t n, ndd_key key) {
    uint8_t *low = fuzz_exact(bytes, n, 0), *high = fuzz_exact(bytes, n, 5);
    uint8_t *padded = malloc(n + PADDING);
    MUST(padded != NULL);
    if (n > 0) memcpy(padded, bytes, n);
    uint64_t hash = ndd_hash_token(low, n, key);
    MUST(ndd_hash_token(high, n, key) == hash);
    for (int fill = 0; fill < 256; fill += 255) {
        memset(padded + n, fill, PADDING);
        MUST(hash_token_padded(padded, n, key) == hash);
    }
    MUST(ndd_hash_fnv1(low, n) == plain_fnv(bytes, n, 0));
    MUST(ndd_hash_fnv1a(low, n) == plain_fnv(bytes, n, 1));
    MUST(ndd_hash_jenkins(low, n, key.k0) == ndd_hash_jenkins(high, n, key.k0));
    free(padded);
    fuzz_drop(low, 0);
    fuzz_drop(high, 5);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n < 16) return 0;
    ndd_key key = {fuzz_number(bytes), fuzz_number(bytes + 8)};
    bytes += 16, n -= 16;
    must_hash(bytes, n, key);
    must_hash(bytes, n % 40 < n ? n % 40 : n, key);

    size_t count = n / 12 < 3000 ? n / 12 : 3000;
    uint64_t *hashes = malloc((count + 1) * sizeof *hashes);
    uint32_t *weights = malloc((count + 1) * sizeof *weights);
    MUST(hashes != NULL && weights != NULL);
    for (size_t i = 0; i < count; i++) {
        hashes[i] = fuzz_number(bytes + 12 * i);
        weights[i] = (uint32_t)(fuzz_number(bytes + 12 * i + 4) >> 32);
        if (key.k0 & 1) weights[i] >>= 22; /* small ones take another way */
    }
    uint64_t value = 0;
    MUST(ndd_simhash(hashes, count) == plain_simhash(hashes, NULL, count));
    MUST(ndd_simhash_weighted(hashes, weights, count, &value) == NDD_OK);
    MUST(value == plain_simhash(hashes, weights, count));
    if (count > 1) MUST(ndd_distance(hashes[0], hashes[1]) == fuzz_bits_between(hashes[0], hashes[1]));
    free(hashes);
    free(weights);
    return 0;
}
