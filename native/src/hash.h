/*
 * The recipe's hashes (docs/fingerprint-spec.md, "Hashes").
 *
 * A token hash must be mixed to its last bit: simhash counts bits, and a raw FNV-1a of short words
 * has bits that move together.
 */
#ifndef NDD_HASH_H
#define NDD_HASH_H

#include "bytes.h"
#include "ndd.h"

#define HASH_C0 UINT64_C(0x9e3779b97f4a7c15)
#define HASH_C1 UINT64_C(0xd1b54a32d192ed03)

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

/* ndd_hash_token for bytes behind which 15 more may be read, whatever they are. */
static inline uint64_t hash_token_padded(const uint8_t *bytes, size_t n, ndd_key key) {
    uint64_t state = key.k0 ^ HASH_C0;
    uint64_t other = key.k1 ^ HASH_C1;
    size_t left = n;
    for (; left > 16; bytes += 16, left -= 16) {
        state = hash_fold(load8_le(bytes) ^ state, load8_le(bytes + 8) ^ other);
    }
    if (left > 0) {
        uint64_t ones = ~UINT64_C(0);
        uint64_t low = load8_le(bytes) & (left < 8 ? ~(ones << 8 * left) : ones);
        uint64_t high = left > 8 ? load8_le(bytes + 8) & ones >> (128 - 8 * left) : 0;
        state = hash_fold(low ^ state, high ^ other);
    }
    return hash_mix(state ^ n);
}

/* A shingle of three token hashes; a text of one or two tokens has one shingle, filled with 0. */
static inline uint64_t hash_shingle(uint64_t first, uint64_t second, uint64_t third) {
    return hash_mix(hash_fold(hash_fold(first ^ HASH_C0, second ^ HASH_C1) ^ HASH_C0, third ^ HASH_C1));
}

#endif
