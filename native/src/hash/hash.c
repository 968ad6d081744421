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
