#include "hash/hash.h"

#include <string.h>

#include "base/bytes.h"

uint64_t ndd_hash_token(const uint8_t *bytes, size_t n, ndd_key key) {
    struct token_hash hash;
    uint8_t chunk[16] = {0};
    const uint8_t *last = hash_begin(&hash, bytes, n, key);
    size_t length = n - (size_t)(last - bytes);
    if (length > 0) memcpy(chunk, last, length);
    return hash_end(&hash, chunk, length, n);
}

#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

uint64_t ndd_hash_fnv1(const uint8_t *bytes, size_t n) {
    uint64_t h = FNV_OFFSET;
    for (size_t i = 0; i < n; i++) h = h * FNV_PRIME ^ bytes[i];
    return h;
}

uint64_t ndd_hash_fnv1a(const uint8_t *bytes, size_t n) {
    uint64_t h = FNV_OFFSET;
    for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * FNV_PRIME;
    return h;
}

static uint32_t rotate32(uint32_t x, int bits) {
    return x << bits | x >> (32 - bits);
}

/* Bob Jenkins' lookup3 (2006), hashlittle2: 12 bytes a round, two 32-bit results. */
uint64_t ndd_hash_jenkins(const uint8_t *bytes, size_t n, uint64_t seed) {
    static const int mix_bits[6] = {4, 6, 8, 16, 19, 4};
    static const int end_bits[7] = {14, 11, 25, 16, 4, 14, 24};
    uint32_t s[3];
    s[0] = s[1] = s[2] = UINT32_C(0xdeadbeef) + (uint32_t)n + (uint32_t)(seed >> 32);
    s[2] += (uint32_t)seed;
    while (n > 12) {
        for (size_t i = 0; i < 3; i++) s[i] += (uint32_t)load_le(bytes + 4 * i, 4);
        for (int i = 0; i < 6; i++) { /* a -= c; a ^= rot(c, b); c += b; and so on round the three */
            uint32_t *a = &s[i % 3], *b = &s[(i + 1) % 3], *c = &s[(i + 2) % 3];
            *a = (*a - *c) ^ rotate32(*c, mix_bits[i]);
            *c += *b;
        }
        bytes += 12;
        n -= 12;
    }
    if (n > 0) {
        for (size_t i = 0; i < 3 && 4 * i < n; i++) {
            s[i] += (uint32_t)load_le(bytes + 4 * i, n - 4 * i < 4 ? n - 4 * i : 4);
        }
        for (int i = 0; i < 7; i++) { /* c ^= b; c -= rot(b, b); then a and c, b and a, ... */
            uint32_t *target = &s[(2 + i) % 3], *source = &s[(1 + i) % 3];
            *target = (*target ^ *source) - rotate32(*source, end_bits[i]);
        }
    }
    return (uint64_t)s[2] << 32 | s[1];
}

/* The last one to three bytes are a little-endian word of their own that is not mixed first. */
uint32_t ndd_hash_murmur2(const uint8_t *bytes, size_t n, uint32_t seed) {
    const uint32_t m = UINT32_C(0x5bd1e995);
    uint32_t h = seed ^ (uint32_t)n;
    for (; n >= 4; bytes += 4, n -= 4) {
        uint32_t k = (uint32_t)load_le(bytes, 4) * m;
        h = (h * m) ^ ((k ^ k >> 24) * m);
    }
    if (n > 0) h = (h ^ (uint32_t)load_le(bytes, n)) * m;
    h = (h ^ h >> 13) * m;
    return h ^ h >> 15;
}
