/*
 * The code of Elias (1974) and Fano (1971) for sorted numbers, within half a bit of the entropy bound
 * when they are spread evenly, and never above 2 + log2(span / n) bits a number whatever they are.
 *
 * Of each number, less the smallest, the low bits are written as they are. The rest is its bucket;
 * for each bucket from 0 on there is a one for each number in it, and then a zero. A directory
 * counts the zeros before each chunk of 4096 of these bits, so that a bucket is found by halving the
 * directory and reading one chunk: a long bucket slows down only the searches in it.
 *
 * The body: the directory, the low bits, the bits of the buckets; 8-byte words, bits from the least
 * significant on, what is left of the last word 0.
 */
#include "paper/compressed.h"

#define CHUNK_WORDS 64
#define CHUNK_BITS (64 * CHUNK_WORDS)

/* numbers[] of the handle */
enum { SMALLEST, LARGEST, LOW_BITS };

/* Where things are. */
struct layout {
    uint64_t n, buckets, bits; /* bits: of the buckets */
    uint64_t low_words, words, chunks;
    uint32_t low_bits;
    const uint8_t *directory, *lows, *highs;
};

/* The width that costs least. */
static uint32_t best_low_bits(uint64_t n, uint64_t span) {
    uint32_t low_bits = bit_length(span / n);
    if (low_bits > 63) low_bits = 63;
    while (low_bits > 0 && (span >> (low_bits - 1)) - (span >> low_bits) <= n) low_bits--;
    return low_bits;
}

/* 0 when no body has such numbers. */
static int lay_out(struct layout *layout, const ndd_compressed *compressed) {
    uint64_t n = compressed->count, span = compressed->numbers[LARGEST] - compressed->numbers[SMALLEST];
    if (compressed->numbers[LARGEST] < compressed->numbers[SMALLEST]) return 0;
    if (n > UINT64_MAX / 512 || compressed->numbers[LOW_BITS] != best_low_bits(n, span)) return 0;
    uint32_t low_bits = best_low_bits(n, span);
    *layout = (struct layout){.n = n, .buckets = (span >> low_bits) + 1, .low_bits = low_bits};
    layout->bits = n + layout->buckets; /* the buckets are at most about 2 n */
    layout->low_words = (n * low_bits + 63) / 64;
    layout->words = (layout->bits + 63) / 64;
    layout->chunks = (layout->words + CHUNK_WORDS - 1) / CHUNK_WORDS;
    if (compressed->bytes != NULL) { /* else it is planned only */
        layout->directory = compressed->bytes + NDD_PAPER_HEADER;
        layout->lows = layout->directory + 8 * layout->chunks;
        layout->highs = layout->lows + 8 * layout->low_words;
    }
    return 1;
}

static uint64_t body_of(const struct layout *layout) {
    return 8 * (layout->chunks + layout->low_words + layout->words);
}

/* ------------------------------------------------------------------------------------- writing */

static ndd_status elias_fano_plan(ndd_compressed *compressed, const uint64_t *values, uint64_t *body) {
    struct layout layout;
    uint64_t smallest = values[0], largest = values[compressed->count - 1];
    compressed->numbers[SMALLEST] = smallest;
    compressed->numbers[LARGEST] = largest;
    compressed->numbers[LOW_BITS] = best_low_bits(compressed->count, largest - smallest);
    if (!lay_out(&layout, compressed)) return NDD_TOO_LARGE;
    *body = body_of(&layout);
    return NDD_OK;
}

static void put_bits(uint8_t *words, uint64_t at, uint64_t bits) {
    uint8_t *word = words + 8 * (at / 64);
    store8_le(word, load8_le(word) | bits << at % 64);
    if (at % 64 > 0 && bits >> (64 - at % 64) != 0) {
        store8_le(word + 8, load8_le(word + 8) | bits >> (64 - at % 64));
    }
}

static void elias_fano_write(const ndd_compressed *compressed, const uint64_t *values, uint8_t *body) {
    struct layout layout;
    (void)lay_out(&layout, compressed);
    uint8_t *lows = body + 8 * layout.chunks, *highs = lows + 8 * layout.low_words;
    uint64_t ones = (UINT64_C(1) << layout.low_bits) - 1;
    for (uint64_t i = 0; i < layout.n; i++) {
        uint64_t value = values[i] - compressed->numbers[SMALLEST];
        if (layout.low_bits > 0) put_bits(lows, i * layout.low_bits, value & ones);
        put_bits(highs, i + (value >> layout.low_bits), 1);
    }
    uint64_t zeros = 0;
    for (uint64_t word = 0; word < layout.words; word++) {
        if (word % CHUNK_WORDS == 0) store8_le(body + 8 * (word / CHUNK_WORDS), zeros);
        zeros += 64 - (uint64_t)count_bits(load8_le(highs + 8 * word));
    }
}

/* ------------------------------------------------------------------------------------- reading */

static inline uint64_t low_of(const struct layout *layout, uint64_t i) {
    if (layout->low_bits == 0) return 0;
    uint64_t at = i * layout->low_bits;
    const uint8_t *word = layout->lows + 8 * (at / 64);
    uint64_t bits = load8_le(word) >> at % 64;
    if (at % 64 + layout->low_bits > 64) bits |= load8_le(word + 8) << (64 - at % 64);
    return bits & ((UINT64_C(1) << layout->low_bits) - 1);
}

static inline uint64_t high_word(const struct layout *layout, uint64_t i) {
    return load8_le(layout->highs + 8 * i);
}

static uint64_t elias_fano_body(const ndd_compressed *compressed) {
    struct layout layout;
    return lay_out(&layout, compressed) ? body_of(&layout) : 0;
}

static const char *elias_fano_validate(ndd_compressed *compressed, int *memory) {
    struct layout layout;
    (void)memory;
    (void)lay_out(&layout, compressed);
    uint64_t zeros = 0, i = 0, before = 0, span = compressed->numbers[LARGEST] - compressed->numbers[SMALLEST];
    for (uint64_t word = 0; word < layout.words; word++) {
        if (word % CHUNK_WORDS == 0 && load8_le(layout.directory + 8 * (word / CHUNK_WORDS)) != zeros) {
            return "the directory miscounts";
        }
        uint64_t bits = high_word(&layout, word);
        zeros += 64 - (uint64_t)count_bits(bits);
        for (; bits != 0; bits &= bits - 1, i++) {
            if (i == layout.n) return "the buckets hold more than was said";
            uint64_t high = 64 * word + lowest_bit(bits) - i;
            if (high >= layout.buckets) return "a fingerprint lies beyond the last bucket";
            uint64_t value = high << layout.low_bits | low_of(&layout, i);
            if (i == 0 && value != 0) return "the first fingerprint is not the smallest";
            if (value < before) return "the fingerprints are out of order";
            before = value;
        }
    }
    if (i != layout.n) return "the buckets hold less than was said";
    if (before != span) return "the last fingerprint is not the largest";
    uint64_t used = layout.n * layout.low_bits % 64;
    if (used > 0 && load8_le(layout.lows + 8 * (layout.low_words - 1)) >> used != 0) {
        return "a bit beyond the last is set";
    }
    return NULL;
}

static uint64_t elias_fano_blocks(const ndd_compressed *compressed) {
    struct layout layout;
    return lay_out(&layout, compressed) ? layout.chunks : 0;
}

/* Fingerprints before a chunk: its ones. */
static uint64_t before_chunk(const struct layout *layout, uint64_t chunk) {
    if (chunk == layout->chunks) return layout->n;
    return CHUNK_BITS * chunk - load8_le(layout->directory + 8 * chunk);
}

static size_t elias_fano_inside(const ndd_compressed *compressed, uint64_t chunk) {
    struct layout layout;
    (void)lay_out(&layout, compressed);
    return (size_t)(before_chunk(&layout, chunk + 1) - before_chunk(&layout, chunk));
}

static void elias_fano_decode(const ndd_compressed *compressed, uint64_t chunk, uint64_t *values) {
    struct layout layout;
    (void)lay_out(&layout, compressed);
    uint64_t i = before_chunk(&layout, chunk), smallest = compressed->numbers[SMALLEST];
    uint64_t end = CHUNK_WORDS * (chunk + 1) < layout.words ? CHUNK_WORDS * (chunk + 1) : layout.words;
    for (uint64_t word = CHUNK_WORDS * chunk; word < end; word++) {
        for (uint64_t bits = high_word(&layout, word); bits != 0; bits &= bits - 1, i++) {
            uint64_t high = 64 * word + lowest_bit(bits) - i;
            *values++ = (high << layout.low_bits | low_of(&layout, i)) + smallest;
        }
    }
}

/* The place of zero number `rank` (the first is 0); there is one. */
NDD_COUNTS_BITS
static uint64_t place_of_zero(const struct layout *layout, uint64_t rank) {
    uint64_t low = 0, high = layout->chunks; /* the chunk is one of these */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (load8_le(layout->directory + 8 * middle) <= rank) {
            low = middle;
        } else {
            high = middle;
        }
    }
    uint64_t left = rank - load8_le(layout->directory + 8 * low), word = CHUNK_WORDS * low;
    uint64_t zeros;
    for (;; word++) {
        zeros = ~high_word(layout, word);
        uint64_t count = (uint64_t)count_bits(zeros);
        if (left < count) break;
        left -= count;
    }
    for (; left > 0; left--) zeros &= zeros - 1;
    return 64 * word + lowest_bit(zeros);
}

static void elias_fano_search(const ndd_compressed *compressed, uint64_t low, uint64_t high,
                              struct sink *sink) {
    struct layout layout;
    (void)lay_out(&layout, compressed);
    uint64_t smallest = compressed->numbers[SMALLEST];
    if (high < smallest || low > compressed->numbers[LARGEST]) return;
    low = low < smallest ? 0 : low - smallest;
    high -= smallest;
    uint64_t bucket = low >> layout.low_bits;
    uint64_t place = bucket == 0 ? 0 : place_of_zero(&layout, bucket - 1) + 1;
    uint64_t i = place - bucket, end = place_of_zero(&layout, bucket) - bucket;
    uint64_t wanted = low & ((UINT64_C(1) << layout.low_bits) - 1);
    while (i < end) { /* the first of the bucket that is not below */
        uint64_t middle = i + (end - i) / 2;
        if (low_of(&layout, middle) < wanted) {
            i = middle + 1;
        } else {
            end = middle;
        }
    }
    place = i + bucket;
    for (uint64_t word = place / 64; word < layout.words && i < layout.n; word++) {
        uint64_t bits = high_word(&layout, word);
        if (word == place / 64) bits &= UINT64_MAX << place % 64;
        for (; bits != 0; bits &= bits - 1, i++) {
            uint64_t value =
                (64 * word + lowest_bit(bits) - i) << layout.low_bits | low_of(&layout, i);
            if (value > high) return;
            sink_take(sink, value + smallest);
        }
    }
}

const struct codec codec_elias_fano = {elias_fano_plan,     elias_fano_write,  elias_fano_body,
                                       elias_fano_validate, elias_fano_blocks, elias_fano_inside,
                                       elias_fano_decode,   elias_fano_search};
