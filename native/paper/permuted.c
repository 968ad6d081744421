/*
 * The designs of Manku, Jain and Das Sarma (WWW 2007, section 3.1), as the paper has them: the
 * reference that other tables are measured against.
 *
 * A design cuts the 64 bits into blocks, as even as can be, and has a table for each choice of k
 * blocks to leave out: the bits of the others come first. A pair within k differs in at most k
 * blocks, so in the table that leaves these out its prefixes are equal. What is left out may be cut
 * and chosen from again: a design is a list of numbers of blocks, one for each level. A table holds
 * the fingerprints with their bits permuted, sorted; a probe finds the equal prefixes by
 * interpolation search and compares what stands there.
 *
 * The rule kept: a value within k is reported once, by the first table whose prefix it shares.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/interpolate.h"
#include "design/design.h"
#include "design/radix.h"
#include "paper/ndd_paper.h"
#include "paper/compressed.h"

#define WIDTH 64

struct permuted_table {
    uint64_t *values; /* permuted, sorted; NULL when they are compressed */
    ndd_compressed *compressed;
    uint64_t prefix;  /* its bits, where they are in a fingerprint */
    uint32_t prefix_bits;
    uint32_t runs; /* of bits that are rotated alike */
    struct {
        uint64_t mask;
        int rotate;
    } run[WIDTH];
};

struct ndd_permuted {
    struct permuted_table *tables;
    uint32_t count, capacity;
    uint32_t k;
    size_t n; /* values in each */
};

static uint64_t permute(const struct permuted_table *table, uint64_t value) {
    uint64_t permuted = 0;
    for (uint32_t i = 0; i < table->runs; i++) {
        uint64_t bits = value & table->run[i].mask;
        permuted |= bits << table->run[i].rotate | bits >> (-table->run[i].rotate & 63);
    }
    return permuted;
}

static uint64_t permute_back(const struct permuted_table *table, uint64_t permuted) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < table->runs; i++) {
        int rotate = table->run[i].rotate;
        uint64_t bits = permuted >> rotate | permuted << (-rotate & 63);
        value |= bits & table->run[i].mask;
    }
    return value;
}

/* -------------------------------------------------------------------------------- the design */

/* Places of bits, the first the most significant. */
struct places {
    uint8_t at[WIDTH];
    uint32_t count;
};

static uint32_t block_start(uint32_t width, uint32_t blocks, uint32_t i) {
    uint32_t larger = width % blocks;
    return i * (width / blocks) + (i < larger ? i : larger);
}

static ndd_status add_table(ndd_permuted *permuted, const struct places *prefix,
                            const struct places *rest) {
    if (permuted->count == NDD_PERMUTED_TABLES) return NDD_TOO_LARGE;
    if (permuted->count == permuted->capacity) {
        uint32_t larger = permuted->capacity * 2 + 16;
        void *moved = realloc(permuted->tables, larger * sizeof *permuted->tables);
        if (moved == NULL) return NDD_NO_MEMORY;
        permuted->tables = moved;
        permuted->capacity = larger;
    }
    struct permuted_table *table = &permuted->tables[permuted->count++];
    *table = (struct permuted_table){.prefix_bits = prefix->count};
    for (uint32_t to = 0; to < WIDTH; to++) {
        int in_prefix = to < prefix->count;
        uint32_t from = in_prefix ? prefix->at[to] : rest->at[to - prefix->count];
        if (in_prefix) table->prefix |= UINT64_C(1) << from;
        int rotate = (int)(WIDTH - 1 - to - from) & 63;
        uint32_t i = 0;
        while (i < table->runs && table->run[i].rotate != rotate) i++;
        if (i == table->runs) {
            table->run[table->runs++].rotate = rotate;
            table->run[i].mask = 0;
        }
        table->run[i].mask |= UINT64_C(1) << from;
    }
    return NDD_OK;
}

/* Adds the tables that begin with `prefix` and choose from `rest` at each of the levels. */
static ndd_status add_tables(ndd_permuted *permuted, const struct places *prefix,
                             const struct places *rest, const uint32_t *levels, size_t count) {
    if (count == 0) return add_table(permuted, prefix, rest);
    uint32_t blocks = levels[0], chosen = blocks - permuted->k;
    if (blocks <= permuted->k || blocks > rest->count) return NDD_BAD_ARGUMENT;
    uint32_t choice[WIDTH]; /* blocks in the prefix, ascending */
    for (uint32_t i = 0; i < chosen; i++) choice[i] = i;
    for (;;) {
        struct places head = *prefix, tail = {.count = 0};
        for (uint32_t block = 0, next = 0; block < blocks; block++) {
            int taken = next < chosen && choice[next] == block;
            next += (uint32_t)taken;
            uint32_t end = block_start(rest->count, blocks, block + 1);
            for (uint32_t i = block_start(rest->count, blocks, block); i < end; i++) {
                struct places *to = taken ? &head : &tail;
                to->at[to->count++] = rest->at[i];
            }
        }
        ndd_status status = add_tables(permuted, &head, &tail, levels + 1, count - 1);
        if (status != NDD_OK) return status;
        uint32_t last = chosen;
        while (last > 0 && choice[last - 1] == permuted->k + last - 1) last--;
        if (last == 0) return NDD_OK;
        choice[last - 1]++;
        for (uint32_t i = last; i < chosen; i++) choice[i] = choice[i - 1] + 1;
    }
}

/* -------------------------------------------------------------------------------------- building */

static ndd_status fill(ndd_permuted *permuted, const uint64_t *values, size_t n, ndd_codec codec) {
    if (n == 0) return NDD_OK;
    if (n > SIZE_MAX / sizeof *values) return NDD_TOO_LARGE;
    uint64_t *scratch = malloc(n * sizeof *scratch);
    if (scratch == NULL) return NDD_NO_MEMORY;
    ndd_status status = NDD_OK;
    for (uint32_t t = 0; t < permuted->count && status == NDD_OK; t++) {
        struct permuted_table *table = &permuted->tables[t];
        uint64_t *room = malloc(n * sizeof *room);
        if (room == NULL) {
            status = NDD_NO_MEMORY;
            break;
        }
        for (size_t i = 0; i < n; i++) room[i] = permute(table, values[i]);
        table->values = radix_sort(room, scratch, n, NULL);
        if (table->values == scratch) scratch = room;
        if (codec == NDD_UNCOMPRESSED) continue;
        status = ndd_compress(codec, table->values, n, &table->compressed);
        free(table->values);
        table->values = NULL;
    }
    free(scratch);
    permuted->n = n;
    return status;
}

ndd_status ndd_permuted_open(const uint64_t *values, size_t n, uint32_t k, const uint32_t *levels,
                             size_t level_count, ndd_codec codec, ndd_permuted **permuted) {
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (level_count == 0 || level_count > WIDTH || levels == NULL || (n > 0 && values == NULL)) {
        return NDD_BAD_ARGUMENT;
    }
    if (codec != NDD_UNCOMPRESSED && codec != NDD_HUFFMAN && codec != NDD_ELIAS_FANO) {
        return NDD_BAD_ARGUMENT;
    }
    ndd_permuted *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return NDD_NO_MEMORY;
    opened->k = k;
    struct places none = {.count = 0}, all = {.count = WIDTH};
    for (uint32_t i = 0; i < WIDTH; i++) all.at[i] = (uint8_t)(WIDTH - 1 - i);
    ndd_status status = add_tables(opened, &none, &all, levels, level_count);
    if (status == NDD_OK) status = fill(opened, values, n, codec);
    if (status == NDD_OK) {
        *permuted = opened;
    } else {
        ndd_permuted_close(opened);
    }
    return status;
}

void ndd_permuted_close(ndd_permuted *permuted) {
    if (permuted == NULL) return;
    for (uint32_t t = 0; t < permuted->count; t++) {
        free(permuted->tables[t].values);
        ndd_compressed_close(permuted->tables[t].compressed);
    }
    free(permuted->tables);
    free(permuted);
}

void ndd_permuted_get(const ndd_permuted *permuted, uint64_t *prefixes, size_t capacity,
                      uint32_t *count, uint64_t *bytes) {
    *count = permuted->count;
    *bytes = 0;
    for (uint32_t t = 0; t < permuted->count; t++) {
        const struct permuted_table *table = &permuted->tables[t];
        if (t < capacity) prefixes[t] = table->prefix;
        *bytes += table->compressed != NULL ? table->compressed->size : sizeof(uint64_t) * permuted->n;
    }
}

/* ------------------------------------------------------------------------------------ probing */

struct found {
    ndd_match *matches;
    size_t capacity, count;
    uint64_t candidates;
};

#define NEAR 64 /* near values of one table for which no memory is allocated */

static int is_first(const ndd_permuted *permuted, uint32_t table, uint64_t difference) {
    for (uint32_t t = 0; t < table; t++) {
        if ((difference & permuted->tables[t].prefix) == 0) return 0;
    }
    return 1;
}

/* A value within k, as table number t has it. */
static void take(const ndd_permuted *permuted, uint32_t t, uint64_t query, uint64_t permuted_near,
                 struct found *found) {
    uint64_t near = permute_back(&permuted->tables[t], permuted_near);
    if (!is_first(permuted, t, near ^ query)) return;
    if (found->count < found->capacity) {
        uint32_t distance = (uint32_t)count_bits(near ^ query);
        found->matches[found->count] = (ndd_match){0, near, distance, 0};
    }
    found->count++;
}

NDD_COUNTS_BITS
static void probe_sorted(const ndd_permuted *permuted, uint32_t t, uint64_t value,
                         struct found *found) {
    const struct permuted_table *table = &permuted->tables[t];
    uint64_t query = permute(table, value);
    uint32_t below = WIDTH - table->prefix_bits; /* bits; less than 64 */
    size_t first = interpolate(table->values, permuted->n, query >> below << below, 0), i = first;
    for (; i < permuted->n && table->values[i] >> below == query >> below; i++) {
        if ((uint32_t)count_bits(table->values[i] ^ query) > permuted->k) continue;
        take(permuted, t, value, table->values[i], found);
    }
    found->candidates += i - first;
}

static ndd_status probe_compressed(const ndd_permuted *permuted, uint32_t t, uint64_t value,
                                   struct found *found) {
    const struct permuted_table *table = &permuted->tables[t];
    uint64_t query = permute(table, value), few[NEAR], *more = NULL;
    uint64_t low = query >> (WIDTH - table->prefix_bits) << (WIDTH - table->prefix_bits);
    uint64_t high = low | (table->prefix_bits == WIDTH ? 0 : UINT64_MAX >> table->prefix_bits);
    struct sink sink = {query, permuted->k, few, NEAR, 0, 0};
    compressed_search(table->compressed, low, high, &sink);
    if (sink.count > NEAR) {
        more = malloc(sink.count * sizeof *more);
        if (more == NULL) return NDD_NO_MEMORY;
        sink = (struct sink){query, permuted->k, more, sink.count, 0, 0};
        compressed_search(table->compressed, low, high, &sink);
    }
    for (size_t i = 0; i < sink.count; i++) take(permuted, t, value, sink.values[i], found);
    found->candidates += sink.compared;
    free(more);
    return NDD_OK;
}

ndd_status ndd_permuted_probe(const ndd_permuted *permuted, const uint64_t *values, size_t n,
                              uint64_t *offsets, ndd_match *matches, size_t capacity,
                              uint64_t *candidates) {
    if (n > 0 && values == NULL) return NDD_BAD_ARGUMENT;
    struct found found = {matches, capacity, 0, 0};
    offsets[0] = 0;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t t = 0; t < permuted->count; t++) {
            if (permuted->tables[t].compressed == NULL) {
                probe_sorted(permuted, t, values[i], &found);
            } else {
                ndd_status status = probe_compressed(permuted, t, values[i], &found);
                if (status != NDD_OK) return status;
            }
        }
        offsets[i + 1] = found.count;
    }
    *candidates = found.candidates;
    return NDD_OK;
}
