#include "paper/compressed.h"

#include <stdlib.h>

#include "base/checksum.h"

#define VERSION 1
#define NUMBERS 3
#define WIDTH 64

static const uint8_t magic[8] = {'N', 'D', 'D', 'S', 'O', 'R', 'T', 'D'};

/* Offsets in the header; what is not named is 0. */
enum {
    AT_VERSION = 8,
    AT_CODEC = 12,
    AT_COUNT = 16,
    AT_NUMBERS = 24,
    AT_ZERO = 48,
    AT_CHECKSUM = 56
};

static const struct codec *codec_of(uint32_t codec) {
    switch (codec) {
    case NDD_HUFFMAN: return &codec_huffman;
    case NDD_ELIAS_FANO: return &codec_elias_fano;
    default: return NULL;
    }
}

/* --------------------------------------------------------------------------------- compressing */

static void write_all(const ndd_compressed *compressed, const uint64_t *values, uint8_t *bytes) {
    memcpy(bytes, magic, sizeof magic);
    store4_le(bytes + AT_VERSION, VERSION);
    store4_le(bytes + AT_CODEC, (uint32_t)compressed->codec);
    store8_le(bytes + AT_COUNT, compressed->count);
    for (int i = 0; i < NUMBERS; i++) store8_le(bytes + AT_NUMBERS + 8 * i, compressed->numbers[i]);
    store8_le(bytes + AT_CHECKSUM, checksum(bytes, AT_CHECKSUM));
    if (compressed->count > 0) {
        codec_of((uint32_t)compressed->codec)->write(compressed, values, bytes + NDD_PAPER_HEADER);
    }
    size_t covered = (size_t)compressed->size - NDD_PAPER_TRAILER;
    store8_le(bytes + covered, checksum(bytes, covered));
}

ndd_status ndd_compress(ndd_codec codec, const uint64_t *values, size_t n, ndd_compressed **compressed) {
    const struct codec *chosen = codec_of((uint32_t)codec);
    if (chosen == NULL || (n > 0 && values == NULL)) return NDD_BAD_ARGUMENT;
    for (size_t i = 1; i < n; i++) {
        if (values[i] < values[i - 1]) return NDD_BAD_ARGUMENT;
    }
    ndd_compressed *made = calloc(1, sizeof *made);
    if (made == NULL) return NDD_NO_MEMORY;
    made->codec = codec;
    made->count = n;
    uint64_t body = 0;
    ndd_status status = n > 0 ? chosen->plan(made, values, &body) : NDD_OK;
    made->size = NDD_PAPER_HEADER + body + NDD_PAPER_TRAILER;
    if (status == NDD_OK && made->size > SIZE_MAX) status = NDD_TOO_LARGE;
    if (status == NDD_OK && (made->owned = calloc(1, (size_t)made->size)) == NULL) status = NDD_NO_MEMORY;
    if (status != NDD_OK) {
        ndd_compressed_close(made);
        return status;
    }
    write_all(made, values, made->owned);
    made->bytes = made->owned;
    *compressed = made;
    return NDD_OK;
}

void ndd_compressed_close(ndd_compressed *compressed) {
    if (compressed == NULL) return;
    free(compressed->owned);
    free(compressed->huffman);
    free(compressed);
}

/* ------------------------------------------------------------------------------------- opening */

static ndd_status refuse(ndd_status status, const char *found, const char **reason) {
    *reason = found;
    return status;
}

static ndd_status read_header(ndd_compressed *opened, const uint8_t *bytes, const char **reason) {
    size_t begun = opened->size < sizeof magic ? (size_t)opened->size : sizeof magic;
    if (begun > 0 && memcmp(bytes, magic, begun) != 0) {
        return refuse(NDD_BAD_FORMAT, "it does not begin as compressed fingerprints do", reason);
    }
    if (opened->size < AT_CODEC) return refuse(NDD_TRUNCATED, "it ends within the header", reason);
    if (load_le(bytes + AT_VERSION, 4) != VERSION) {
        return refuse(NDD_BAD_VERSION, "its format version is another", reason);
    }
    if (opened->size < NDD_PAPER_HEADER) return refuse(NDD_TRUNCATED, "it ends within the header", reason);
    if (load8_le(bytes + AT_CHECKSUM) != checksum(bytes, AT_CHECKSUM)) {
        return refuse(NDD_DAMAGED, "the header does not match its checksum", reason);
    }
    uint32_t codec = (uint32_t)load_le(bytes + AT_CODEC, 4);
    if (codec_of(codec) == NULL) return refuse(NDD_BAD_VERSION, "its codec is not known", reason);
    if (load8_le(bytes + AT_ZERO) != 0) return refuse(NDD_DAMAGED, "a reserved field is not 0", reason);
    opened->codec = (ndd_codec)codec;
    opened->count = load8_le(bytes + AT_COUNT);
    for (int i = 0; i < NUMBERS; i++) opened->numbers[i] = load8_le(bytes + AT_NUMBERS + 8 * i);
    return NDD_OK;
}

static ndd_status read_body(ndd_compressed *opened, const char **reason) {
    const struct codec *codec = codec_of((uint32_t)opened->codec);
    uint64_t body = 0;
    if (opened->count > 0) {
        body = codec->body(opened);
        if (body == 0) return refuse(NDD_DAMAGED, "the header's numbers do not belong together", reason);
    } else if (opened->numbers[0] != 0 || opened->numbers[1] != 0 || opened->numbers[2] != 0) {
        return refuse(NDD_DAMAGED, "the header's numbers do not belong together", reason);
    }
    if (opened->size < NDD_PAPER_HEADER + NDD_PAPER_TRAILER ||
        opened->size - NDD_PAPER_HEADER - NDD_PAPER_TRAILER < body) {
        return refuse(NDD_TRUNCATED, "it is shorter than its content", reason);
    }
    if (opened->size - NDD_PAPER_HEADER - NDD_PAPER_TRAILER > body) {
        return refuse(NDD_DAMAGED, "it is longer than its content", reason);
    }
    size_t covered = (size_t)opened->size - NDD_PAPER_TRAILER;
    if (load8_le(opened->bytes + covered) != checksum(opened->bytes, covered)) {
        return refuse(NDD_DAMAGED, "the content does not match its checksum", reason);
    }
    int memory = 1;
    const char *wrong = opened->count > 0 ? codec->validate(opened, &memory) : NULL;
    if (wrong == NULL) return NDD_OK;
    return refuse(memory ? NDD_DAMAGED : NDD_NO_MEMORY, wrong, reason);
}

ndd_status ndd_compressed_open(const uint8_t *bytes, uint64_t size, ndd_compressed **compressed,
                               const char **reason) {
    if (bytes == NULL && size > 0) return refuse(NDD_BAD_ARGUMENT, "there are no bytes", reason);
    ndd_compressed *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return refuse(NDD_NO_MEMORY, "no memory was left", reason);
    opened->bytes = bytes;
    opened->size = size;
    ndd_status status = read_header(opened, bytes, reason);
    if (status == NDD_OK) status = read_body(opened, reason);
    if (status == NDD_OK) {
        *compressed = opened;
    } else {
        ndd_compressed_close(opened);
    }
    return status;
}

/* --------------------------------------------------------------------------------------- using */

void ndd_compressed_get(const ndd_compressed *compressed, const uint8_t **bytes, uint64_t *size,
                        ndd_codec *codec, uint64_t *count) {
    *bytes = compressed->bytes;
    *size = compressed->size;
    *codec = compressed->codec;
    *count = compressed->count;
}

void ndd_compressed_decode(const ndd_compressed *compressed, uint64_t *values) {
    size_t count = 1;
    for (uint64_t block = 0; count > 0; values += count) {
        (void)ndd_compressed_next(compressed, &block, values, SIZE_MAX, &count);
    }
}

ndd_status ndd_compressed_next(const ndd_compressed *compressed, uint64_t *block, uint64_t *values,
                               size_t capacity, size_t *count) {
    const struct codec *codec = codec_of((uint32_t)compressed->codec);
    if (capacity < NDD_COMPRESSED_BLOCK) return NDD_BAD_ARGUMENT;
    *count = 0;
    if (compressed->count == 0) return NDD_OK;
    for (uint64_t blocks = codec->blocks(compressed); *block < blocks; ++*block) {
        size_t inside = codec->inside(compressed, *block);
        if (inside > capacity - *count) break;
        if (values != NULL) codec->decode(compressed, *block, values + *count);
        *count += inside;
    }
    return NDD_OK;
}

void compressed_search(const ndd_compressed *compressed, uint64_t low, uint64_t high,
                       struct sink *sink) {
    if (compressed->count == 0) return;
    codec_of((uint32_t)compressed->codec)->search(compressed, low, high, sink);
}

ndd_status ndd_compressed_probe(const ndd_compressed *compressed, uint64_t value, uint32_t k,
                                uint32_t prefix_bits, uint64_t *values, size_t capacity,
                                size_t *count) {
    if (k > WIDTH || prefix_bits > WIDTH) return NDD_BAD_ARGUMENT;
    uint64_t below = prefix_bits == 0 ? UINT64_MAX : prefix_bits == 64 ? 0 : UINT64_MAX >> prefix_bits;
    struct sink sink = {value, k, values, capacity, 0, 0};
    compressed_search(compressed, value & ~below, value | below, &sink);
    *count = sink.count;
    return NDD_OK;
}
