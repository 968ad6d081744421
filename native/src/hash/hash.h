/*
 * The recipe's hashes (docs/reference/fingerprint-spec.md, "Hashes").
 *
 * A token hash must be mixed to its last bit: simhash counts bits, and a raw FNV-1a of short words
 * has bits that move together.
 */
#ifndef NDD_HASH_H
#define NDD_HASH_H

#include "base/bytes.h"
#include "ndd.h"

#define NDD_HASH_C0 UINT64_C(0x9e3779b97f4a7c15)
#define NDD_HASH_C1 UINT64_C(0xd1b54a32d192ed03)

/* The finalizer of MurmurHash3: every input bit moves every output bit. */
static inline uint64_t hash_mix(uint64_t x) {
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 wide;
#endif

/* High and low half of the 128-bit product, folded by exclusive or. */
static inline uint64_t hash_fold(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t low_low = (a & 0xffffffff) * (b & 0xffffffff), low_high = (a & 0xffffffff) * (b >> 32);
    uint64_t high_low = (a >> 32) * (b & 0xffffffff), high_high = (a >> 32) * (b >> 32);
    uint64_t middle = (low_low >> 32) + (low_high & 0xffffffff) + (high_low & 0xffffffff);
    uint64_t low = middle << 32 | (low_low & 0xffffffff);
    uint64_t high = high_high + (low_high >> 32) + (high_low >> 32) + (middle >> 32);
    return low ^ high;
#endif
}

/* The token hash in two steps: all chunks of 16 bytes but the last, then the last, which has 1 to
 * 16 bytes (none in an empty token). hash_begin returns where the last chunk starts. */
#define NDD_ALL (~UINT64_C(0))
#define NDD_LOW(bytes) (~(NDD_ALL << (8 * (bytes))))

struct token_hash {
    uint64_t state;
    uint64_t other;
};

static inline const uint8_t *hash_begin(struct token_hash *hash, const uint8_t *bytes, size_t n,
                                        ndd_key key) {
    hash->state = key.k0 ^ NDD_HASH_C0;
    hash->other = key.k1 ^ NDD_HASH_C1;
    for (; n > 16; bytes += 16, n -= 16) {
        hash->state = hash_fold(load8_le(bytes) ^ hash->state, load8_le(bytes + 8) ^ hash->other);
    }
    return bytes;
}

/* Of the last chunk's two halves; bytes behind its length do not count. n is the token's length. */
static inline uint64_t hash_last(uint64_t low, uint64_t high, size_t length, uint64_t state,
                                 uint64_t other, size_t n) {
    static const uint64_t low_counts[17] = {NDD_LOW(0), NDD_LOW(1), NDD_LOW(2), NDD_LOW(3), NDD_LOW(4), NDD_LOW(5),
                                            NDD_LOW(6), NDD_LOW(7), NDD_ALL, NDD_ALL, NDD_ALL, NDD_ALL,
                                            NDD_ALL, NDD_ALL, NDD_ALL, NDD_ALL, NDD_ALL};
    static const uint64_t high_counts[17] = {0, 0, 0, 0, 0, 0, 0, 0, 0, NDD_LOW(1), NDD_LOW(2), NDD_LOW(3),
                                             NDD_LOW(4), NDD_LOW(5), NDD_LOW(6), NDD_LOW(7), NDD_ALL};
    low &= low_counts[length];
    high &= high_counts[length];
    return hash_mix(hash_fold(low ^ state, high ^ other) ^ n);
}

/* 16 bytes of the chunk are read. */
static inline uint64_t hash_end(const struct token_hash *hash, const uint8_t *chunk, size_t length,
                                size_t n) {
    if (length == 0) return hash_mix(hash->state);
    return hash_last(load8_le(chunk), load8_le(chunk + 8), length, hash->state, hash->other, n);
}

/* ndd_hash_token for bytes behind which 15 more may be read. */
static inline uint64_t hash_token_padded(const uint8_t *bytes, size_t n, ndd_key key) {
    struct token_hash hash;
    const uint8_t *last = hash_begin(&hash, bytes, n, key);
    return hash_end(&hash, last, n - (size_t)(last - bytes), n);
}

/* A shingle of three token hashes; a text of one or two tokens has one shingle, filled with 0. */
static inline uint64_t hash_shingle(uint64_t first, uint64_t second, uint64_t third) {
    return hash_mix(hash_fold(hash_fold(first ^ NDD_HASH_C0, second ^ NDD_HASH_C1) ^ NDD_HASH_C0, third ^ NDD_HASH_C1));
}

#endif
