/*
 * The compression of Manku, Jain and Das Sarma (WWW 2007, section 3.2).
 *
 * Sorted fingerprints differ from their neighbours only in their low bits. A block of 1024 bytes has
 * its first fingerprint whole; of each further one it has the place of the highest bit in which it
 * differs from the one before, in a Huffman code, and then the bits below that place, as they differ.
 * The last fingerprint of each block is its key; the keys are searched by interpolation, and one
 * block is decoded.
 *
 * The body: the lengths of the codes (72 bytes), the keys (8 bytes each), the blocks. A block begins
 * with its first fingerprint (8 bytes) and the number of further ones (2 bytes); bits are written
 * from the most significant on. A code is canonical: shorter ones first, then by symbol.
 */
#include <stdlib.h>

#include "base/interpolate.h"
#include "paper/compressed.h"


#define BLOCK_HEAD 10
#define BLOCK_BITS (8 * NDD_BLOCK_BYTES)

/* ------------------------------------------------------------------------------------ the code */

/* Lengths of an optimal code for these weights, none longer than NDD_CODE_BITS. */
static void code_lengths(const uint64_t counts[NDD_CODE_SYMBOLS], uint8_t lengths[NDD_CODE_SYMBOLS]) {
    uint64_t scaled[NDD_CODE_SYMBOLS];
    memcpy(scaled, counts, sizeof scaled);
    for (;;) {
        uint64_t weight[2 * NDD_CODE_SYMBOLS];
        uint32_t parent[2 * NDD_CODE_SYMBOLS], nodes = NDD_CODE_SYMBOLS, longest = 0, open = 0;
        uint8_t depth[2 * NDD_CODE_SYMBOLS];
        for (uint32_t i = 0; i < NDD_CODE_SYMBOLS; i++) {
            weight[i] = scaled[i];
            open += scaled[i] > 0;
        }
        if (open == 1) { /* a code of no bits could not be counted */
            for (uint32_t i = 0; i < NDD_CODE_SYMBOLS; i++) lengths[i] = scaled[i] > 0;
            return;
        }
        for (; open > 1; open--) {
            uint32_t least[2] = {2 * NDD_CODE_SYMBOLS, 2 * NDD_CODE_SYMBOLS};
            for (uint32_t i = 0; i < nodes; i++) {
                if (weight[i] == 0) continue; /* absent, or in a tree already */
                if (least[0] == 2 * NDD_CODE_SYMBOLS || weight[i] < weight[least[0]]) {
                    least[1] = least[0];
                    least[0] = i;
                } else if (least[1] == 2 * NDD_CODE_SYMBOLS || weight[i] < weight[least[1]]) {
                    least[1] = i;
                }
            }
            weight[nodes] = weight[least[0]] + weight[least[1]];
            weight[least[0]] = weight[least[1]] = 0;
            parent[least[0]] = parent[least[1]] = nodes++;
        }
        memset(lengths, 0, NDD_CODE_SYMBOLS);
        depth[nodes - 1] = 0;
        for (uint32_t i = nodes - 1; i-- > 0;) {
            if (i < NDD_CODE_SYMBOLS && scaled[i] == 0) continue;
            depth[i] = (uint8_t)(depth[parent[i]] + 1);
            if (i < NDD_CODE_SYMBOLS) {
                lengths[i] = depth[i];
                if (depth[i] > longest) longest = depth[i];
            }
        }
        if (longest <= NDD_CODE_BITS) return;
        for (uint32_t i = 0; i < NDD_CODE_SYMBOLS; i++) scaled[i] = scaled[i] / 2 + scaled[i] % 2;
    }
}

/* The codes and the table by the lengths; 0 when no code has such lengths. */
static int make_codes(struct huffman *huffman) {
    uint32_t next = 0; /* in units of 2^-NDD_CODE_BITS */
    memset(huffman->table, 0, sizeof huffman->table);
    for (uint32_t length = 1; length <= NDD_CODE_BITS; length++) {
        uint32_t span = UINT32_C(1) << (NDD_CODE_BITS - length);
        for (uint32_t symbol = 0; symbol < NDD_CODE_SYMBOLS; symbol++) {
            if (huffman->lengths[symbol] != length) continue;
            if (next + span > UINT32_C(1) << NDD_CODE_BITS) return 0;
            huffman->codes[symbol] = (uint16_t)(next >> (NDD_CODE_BITS - length));
            for (uint32_t i = 0; i < span; i++) {
                huffman->table[next + i] = (uint16_t)(symbol << 4 | length);
            }
            next += span;
        }
    }
    return 1;
}

static uint32_t symbol_of(uint64_t before, uint64_t value) { return bit_length(before ^ value); }

/* Bits of a fingerprint: its code, and the bits below the one that differs. */
static uint32_t entry_bits(const struct huffman *huffman, uint32_t symbol) {
    return huffman->lengths[symbol] + (symbol > 0 ? symbol - 1 : 0);
}

/* ------------------------------------------------------------------------------------- writing */

/* The number of values that fit into a block that begins with values[0], and at most n. */
static uint64_t values_in_block(const struct huffman *huffman, const uint64_t *values, uint64_t n) {
    uint32_t bits = 8 * BLOCK_HEAD;
    uint64_t i = 1;
    for (; i < n; i++) {
        bits += entry_bits(huffman, symbol_of(values[i - 1], values[i]));
        if (bits > BLOCK_BITS) break;
    }
    return i;
}

static ndd_status huffman_plan(ndd_compressed *compressed, const uint64_t *values, uint64_t *body) {
    uint64_t n = compressed->count, counts[NDD_CODE_SYMBOLS] = {0}, blocks = 0;
    struct huffman *huffman = compressed->huffman = calloc(1, sizeof *huffman);
    if (huffman == NULL) return NDD_NO_MEMORY;
    for (uint64_t i = 1; i < n; i++) counts[symbol_of(values[i - 1], values[i])]++;
    if (n > 1) code_lengths(counts, huffman->lengths);
    (void)make_codes(huffman);
    for (uint64_t i = 0; i < n; blocks++) i += values_in_block(huffman, values + i, n - i);
    compressed->numbers[0] = blocks;
    *body = NDD_LENGTHS_BYTES + (8 + NDD_BLOCK_BYTES) * blocks;
    return NDD_OK;
}

static uint32_t write_bits(uint8_t *block, uint32_t at, uint64_t bits, uint32_t count) {
    while (count > 0) {
        uint32_t room = 8 - at % 8, some = count < room ? count : room;
        uint64_t part = bits >> (count - some) & ((UINT64_C(1) << some) - 1);
        block[at / 8] = (uint8_t)(block[at / 8] | part << (room - some));
        at += some;
        count -= some;
    }
    return at;
}

static void huffman_write(const ndd_compressed *compressed, const uint64_t *values, uint8_t *body) {
    const struct huffman *huffman = compressed->huffman;
    memcpy(body, huffman->lengths, NDD_CODE_SYMBOLS);
    uint8_t *key = body + NDD_LENGTHS_BYTES, *block = key + 8 * compressed->numbers[0];
    for (uint64_t i = 0; i < compressed->count; key += 8, block += NDD_BLOCK_BYTES) {
        uint64_t inside = values_in_block(huffman, values + i, compressed->count - i), end = i + inside;
        store8_le(key, values[end - 1]);
        store8_le(block, values[i]);
        block[8] = (uint8_t)(inside - 1);
        block[9] = (uint8_t)((inside - 1) >> 8);
        uint32_t at = 8 * BLOCK_HEAD;
        for (i++; i < end; i++) {
            uint32_t symbol = symbol_of(values[i - 1], values[i]);
            at = write_bits(block, at, huffman->codes[symbol], huffman->lengths[symbol]);
            if (symbol > 1) at = write_bits(block, at, values[i - 1] ^ values[i], symbol - 1);
        }
    }
}

/* ------------------------------------------------------------------------------------- reading */

static uint64_t load8_be(const uint8_t *bytes) {
    return (uint64_t)bytes[0] << 56 | (uint64_t)bytes[1] << 48 | (uint64_t)bytes[2] << 40 |
           (uint64_t)bytes[3] << 32 | (uint64_t)bytes[4] << 24 | (uint64_t)bytes[5] << 16 |
           (uint64_t)bytes[6] << 8 | (uint64_t)bytes[7];
}

/* At least 57 bits from this one on, at the top. */
static uint64_t peek(const uint8_t *block, uint32_t at) { return load8_be(block + at / 8) << at % 8; }

/* One fingerprint after `value`, at bit *at, which is at most BLOCK_BITS. Returns 0 when there is
 * none: no such code, beyond the block, or not in order. */
static inline int next_value(const struct huffman *huffman, const uint8_t *block, uint32_t *at,
                             uint64_t *value) {
    uint64_t bits = peek(block, *at);
    uint32_t entry = huffman->table[bits >> (64 - NDD_CODE_BITS)], length = entry & 15, symbol = entry >> 4;
    if (entry == 0) return 0;
    if (symbol == 0) {
        *at += length;
        return *at <= BLOCK_BITS;
    }
    uint32_t below = symbol - 1;
    if (*at + length + below > BLOCK_BITS) return 0;
    uint64_t difference = UINT64_C(1) << below;
    if (*value & difference) return 0;
    if (below > 0) {
        uint64_t rest = bits << length >> (64 - below);
        if (length + below > 57) { /* the first bits again, and those that follow */
            uint32_t head = below < 32 ? below : 32;
            rest = peek(block, *at + length) >> (64 - head);
            if (below > head) {
                rest = rest << (below - head) | peek(block, *at + length + head) >> (64 - (below - head));
            }
        }
        difference |= rest;
    }
    *at += length + below;
    *value ^= difference;
    return 1;
}

static const uint8_t *keys_of(const ndd_compressed *compressed) {
    return compressed->bytes + NDD_PAPER_HEADER + NDD_LENGTHS_BYTES;
}

static const uint8_t *block_of(const ndd_compressed *compressed, uint64_t i) {
    return keys_of(compressed) + 8 * compressed->numbers[0] + NDD_BLOCK_BYTES * i;
}

static uint64_t huffman_body(const ndd_compressed *compressed) {
    uint64_t blocks = compressed->numbers[0];
    if (blocks == 0 || blocks > compressed->count || blocks > UINT64_MAX / (4 * NDD_BLOCK_BYTES)) return 0;
    return NDD_LENGTHS_BYTES + (8 + NDD_BLOCK_BYTES) * blocks;
}

static const char *huffman_validate(ndd_compressed *compressed, int *memory) {
    if (compressed->numbers[1] != 0 || compressed->numbers[2] != 0) return "a reserved field is not 0";
    struct huffman *huffman = compressed->huffman = calloc(1, sizeof *huffman);
    if (huffman == NULL) {
        *memory = 0;
        return "no memory was left";
    }
    const uint8_t *lengths = compressed->bytes + NDD_PAPER_HEADER;
    for (uint32_t i = 0; i < NDD_LENGTHS_BYTES; i++) {
        if (lengths[i] > (i < NDD_CODE_SYMBOLS ? NDD_CODE_BITS : 0)) return "a code is too long";
    }
    memcpy(huffman->lengths, lengths, NDD_CODE_SYMBOLS);
    if (!make_codes(huffman)) return "the lengths belong to no code";
    uint64_t blocks = compressed->numbers[0], left = compressed->count, before = 0;
    for (uint64_t b = 0; b < blocks; b++) {
        const uint8_t *block = block_of(compressed, b);
        uint64_t value = load8_le(block), further = (uint64_t)block[8] | (uint64_t)block[9] << 8;
        if (value < before) return "the blocks are out of order";
        if (further + 1 > left) return "the blocks hold more than was said";
        left -= further + 1;
        uint32_t at = 8 * BLOCK_HEAD;
        for (; further > 0; further--) {
            if (!next_value(huffman, block, &at, &value)) return "a block does not decode";
        }
        before = value;
        if (load8_le(keys_of(compressed) + 8 * b) != value) return "a key is not its block's last";
    }
    return left == 0 ? NULL : "the blocks hold less than was said";
}

static uint64_t huffman_blocks(const ndd_compressed *compressed) { return compressed->numbers[0]; }

static size_t huffman_inside(const ndd_compressed *compressed, uint64_t b) {
    const uint8_t *block = block_of(compressed, b);
    return ((size_t)block[8] | (size_t)block[9] << 8) + 1;
}

static void huffman_decode(const ndd_compressed *compressed, uint64_t b, uint64_t *values) {
    const uint8_t *block = block_of(compressed, b);
    uint64_t value = load8_le(block);
    uint32_t at = 8 * BLOCK_HEAD;
    *values++ = value;
    for (size_t further = huffman_inside(compressed, b) - 1; further > 0; further--) {
        (void)next_value(compressed->huffman, block, &at, &value);
        *values++ = value;
    }
}

static void huffman_search(const ndd_compressed *compressed, uint64_t low, uint64_t high,
                           struct sink *sink) {
    uint64_t blocks = compressed->numbers[0];
    uint64_t b = interpolate(keys_of(compressed), (size_t)blocks, low, 1);
    for (; b < blocks; b++) {
        const uint8_t *block = block_of(compressed, b);
        uint64_t value = load8_le(block), further = (uint64_t)block[8] | (uint64_t)block[9] << 8;
        uint32_t at = 8 * BLOCK_HEAD;
        for (;; further--) {
            if (value > high) return;
            if (value >= low) sink_take(sink, value);
            if (further == 0) break;
            (void)next_value(compressed->huffman, block, &at, &value);
        }
    }
}

const struct codec codec_huffman = {huffman_plan,     huffman_write,  huffman_body,   huffman_validate,
                                    huffman_blocks,   huffman_inside, huffman_decode, huffman_search};
