/* Opening a segment, which proves every rule first; and reading what it holds. */
#include "segment/segment.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "hash/set_sum.h"
#include "table/numbers.h"

static ndd_status refuse(ndd_status status, const char **reason, const char *words) {
    *reason = words;
    return status;
}

static ndd_status read_header(ndd_segment *segment, const char **reason) {
    const uint8_t *bytes = segment->bytes;
    uint64_t size = segment->size;
    size_t known = size < sizeof segment_magic ? (size_t)size : sizeof segment_magic;
    if (known > 0 && memcmp(bytes, segment_magic, known) != 0) {
        return refuse(NDD_BAD_FORMAT, reason, "the first bytes are not those of a segment");
    }
    if (size < AT_SEGMENT_K) return refuse(NDD_TRUNCATED, reason, "the header is truncated");
    if (load4_le(bytes + AT_SEGMENT_VERSION) != NDD_SEGMENT_VERSION) {
        return refuse(NDD_BAD_VERSION, reason, "the format version is not 2");
    }
    if (size < NDD_SEGMENT_HEADER) return refuse(NDD_TRUNCATED, reason, "the header is truncated");
    if (checksum(bytes, AT_SEGMENT_CHECKSUM) != load8_le(bytes + AT_SEGMENT_CHECKSUM)) {
        return refuse(NDD_DAMAGED, reason, "the checksum of the header does not match");
    }
    segment->k = load4_le(bytes + AT_SEGMENT_K);
    segment->note = load8_le(bytes + AT_SEGMENT_NOTE);
    segment->values = load8_le(bytes + AT_SEGMENT_VALUES);
    segment->pairs = load8_le(bytes + AT_SEGMENT_PAIRS);
    segment->several_count = load8_le(bytes + AT_SEGMENT_SEVERAL);
    if (segment->k > NDD_MAX_DISTANCE) return refuse(NDD_DAMAGED, reason, "the distance is out of range");
    segment->width = load4_le(bytes + AT_SEGMENT_WIDTH);
    segment->base = load8_le(bytes + AT_SEGMENT_BASE);
    if (!(segment->width == 4 && segment->base <= UINT64_MAX - UINT32_MAX) &&
        !(segment->width == 8 && segment->base == 0)) {
        return refuse(NDD_DAMAGED, reason, "the documents are out of range");
    }
    return NDD_OK;
}

static ndd_status read_design(ndd_segment *segment, const char **reason) {
    struct part parts[NDD_MAX_DISTANCE + 1];
    uint32_t count = load4_le(segment->bytes + AT_SEGMENT_PARTS);
    if (count > NDD_MAX_DISTANCE + 1) return refuse(NDD_DAMAGED, reason, "the design has too many parts");
    for (uint32_t i = 0; i <= NDD_MAX_DISTANCE; i++) {
        const uint8_t *at = segment->bytes + AT_SEGMENT_PART + 4 * i;
        parts[i] = (struct part){at[0], at[1], at[2], at[3]};
        if (i >= count && load4_le(at) != 0) {
            return refuse(NDD_DAMAGED, reason, "a reserved field is not 0");
        }
    }
    ndd_status status = design_of_parts(&segment->design, parts, count, segment->k);
    if (status == NDD_DAMAGED) *reason = "the design does not find all that it must";
    return status;
}

/* Whether there are as many bytes as the numbers say; then the parts are where they say. */
static ndd_status read_layout(ndd_segment *segment, const char **reason) {
    const struct design *design = &segment->design;
    uint64_t most = segment->size / 4; /* so no sum below can overflow */
    for (uint32_t i = 0; i < design->count; i++) {
        if (UINT64_C(1) << design->blocks[i].bits > most) most = 0;
    }
    if (segment->values > NDD_NUMBERS_MAX) {
        return refuse(NDD_TOO_LARGE, reason, "there are more values than a segment can hold");
    }
    if (segment->values > most || segment->pairs > most || segment->several_count > most || most == 0) {
        return refuse(NDD_TRUNCATED, reason, "there are fewer bytes than the header states");
    }
    uint64_t end = segment_layout(NULL, design, segment->values, NULL);
    uint64_t stated = end + 16 * segment->several_count + padded(segment->width * segment->pairs) +
                      NDD_SEGMENT_TRAILER;
    if (segment->size < stated) {
        return refuse(NDD_TRUNCATED, reason, "there are fewer bytes than the header states");
    }
    if (segment->size > stated) {
        return refuse(NDD_DAMAGED, reason, "there are more bytes than the header states");
    }
    size_t covered = (size_t)segment->size - NDD_SEGMENT_TRAILER;
    if (checksum(segment->bytes, covered) != load8_le(segment->bytes + covered)) {
        return refuse(NDD_DAMAGED, reason, "the checksum does not match");
    }
    segment->tables = malloc(design->count * sizeof *segment->tables);
    if (segment->tables == NULL) return NDD_NO_MEMORY;
    (void)segment_layout(segment->tables, design, segment->values, segment->bytes);
    segment->several = segment->bytes + end;
    segment->documents = segment->several + 16 * segment->several_count;
    return NDD_OK;
}

/* ------------------------------------------------------------------------------------- proof */

static int all_zero(const uint8_t *from, const uint8_t *to) {
    while (from < to && *from == 0) from++;
    return from == to;
}

/* Whether the padding of a section, whose content has `bits` bits, is 0. */
static int is_padded(const uint8_t *section, uint64_t bits) {
    const uint8_t *end = section + (bits + 63) / 64 * 8, *last = section + bits / 8;
    if (last == end) return 1;
    return *last >> bits % 8 == 0 && all_zero(last + 1, end);
}

static const char *prove_table(const struct segment_table *table, uint64_t values,
                               struct set_sum *sum) {
    uint64_t buckets = UINT64_C(1) << table->bits, before = 0;
    if (!is_padded(table->starts, 32 * (buckets + 1)) ||
        !is_padded((const uint8_t *)table->lows, 32 * values) ||
        !is_padded(table->fars, values * table->far_bits)) {
        return "the padding of a section is not 0";
    }
    if (segment_start(table, 0) != 0 || segment_start(table, buckets) != values) {
        return "the buckets do not hold all values";
    }
    for (uint64_t bucket = 0; bucket < buckets; bucket++) {
        uint64_t start = segment_start(table, bucket), end = segment_start(table, bucket + 1);
        if (end < start || end > values) return "the buckets overlap";
        for (uint64_t i = start; i < end; i++) {
            uint64_t rest = segment_rest(table, i);
            if (i > start && rest <= before) return "the values of a bucket are not in order";
            before = rest;
            set_sum_add(sum, quotient_value(&table->quotient, (uint32_t)bucket, rest));
        }
    }
    return NULL;
}

static const char *prove_documents(const ndd_segment *segment) {
    if (!is_padded(segment->documents, 8 * segment->width * segment->pairs)) {
        return "the padding of a section is not 0";
    }
    uint64_t rank = 0, first = 0;
    for (uint64_t i = 0; i < segment->several_count; i++) {
        uint64_t next_rank = load8_le(segment->several + 16 * i), count;
        uint64_t next_first = load8_le(segment->several + 16 * i + 8);
        if (next_rank >= segment->values || next_rank < rank) {
            return "the values with several documents are not in order";
        }
        if (next_first >= segment->pairs || next_first - first != next_rank - rank) {
            return "the documents are miscounted";
        }
        (void)segment_documents(segment, next_rank, &count);
        if (count < 2 || count > segment->pairs - next_first) return "the documents are miscounted";
        for (uint64_t j = next_first + 1; j < next_first + count; j++) {
            if (segment_document(segment, j) <= segment_document(segment, j - 1)) {
                return "the documents of a value are not in order";
            }
        }
        rank = next_rank + 1;
        first = next_first + count;
    }
    if (segment->pairs - first != segment->values - rank) return "the documents are miscounted";
    return NULL;
}

static const char *prove(const ndd_segment *segment) {
    struct set_sum first = {0, 0};
    for (uint32_t i = 0; i < segment->design.count; i++) {
        struct set_sum sum = {0, 0};
        const char *broken = prove_table(&segment->tables[i], segment->values, &sum);
        if (broken != NULL) return broken;
        if (i == 0) first = sum;
        if (sum.a != first.a || sum.b != first.b) return "the tables hold different values";
    }
    return prove_documents(segment);
}

ndd_status ndd_segment_open(const uint8_t *bytes, uint64_t size, ndd_segment **segment,
                            const char **reason) {
    *reason = "";
    ndd_status status = NDD_OK;
    ndd_segment *opened = NULL;
    if (size > 0 && (bytes == NULL || (uintptr_t)bytes % 8 != 0)) status = NDD_BAD_ARGUMENT;
    if (status == NDD_OK && size > SIZE_MAX) status = NDD_TOO_LARGE;
    if (status == NDD_OK && (opened = calloc(1, sizeof *opened)) == NULL) status = NDD_NO_MEMORY;
    if (status == NDD_OK) {
        opened->bytes = bytes;
        opened->size = size;
        status = read_header(opened, reason);
    }
    if (status == NDD_OK) status = read_design(opened, reason);
    if (status == NDD_OK) status = read_layout(opened, reason);
    if (status == NDD_OK) status = flips_open(&opened->flips, &opened->design);
    if (status == NDD_OK) {
        const char *broken = prove(opened);
        if (broken != NULL) status = refuse(NDD_DAMAGED, reason, broken);
    }
    if (status == NDD_OK) {
        *segment = opened;
        return NDD_OK;
    }
    ndd_segment_close(opened);
    if (**reason == '\0') *reason = ndd_strerror((int)status);
    return status;
}

void ndd_segment_close(ndd_segment *segment) {
    if (segment == NULL) return;
    flips_close(&segment->flips);
    design_close(&segment->design);
    free(segment->tables);
    free(segment);
}

/* ------------------------------------------------------------------------------ what it holds */

void ndd_segment_stats_get(const ndd_segment *segment, ndd_segment_stats *stats) {
    *stats = (ndd_segment_stats){
        .values = segment->values,
        .documents = segment->pairs,
        .bytes = segment->size,
        .note = segment->note,
        .k = segment->k,
        .blocks = segment->design.count,
        .keys = segment->flips.end[segment->design.count - 1],
    };
}

int segment_find(const ndd_segment *segment, uint64_t value, uint64_t *rank) {
    const struct segment_table *table = &segment->tables[0];
    uint32_t bucket = quotient_bucket(&table->quotient, value);
    uint64_t rest = quotient_rest(&table->quotient, value);
    uint64_t low = segment_start(table, bucket), high = segment_start(table, (uint64_t)bucket + 1);
    uint64_t end = high;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (segment_rest(table, middle) < rest) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *rank = low;
    return low < end && segment_rest(table, low) == rest;
}

uint64_t segment_documents(const ndd_segment *segment, uint64_t rank, uint64_t *count) {
    uint64_t low = 0, high = segment->several_count; /* the first of them beyond the rank */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (load8_le(segment->several + 16 * middle) <= rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *count = 1;
    if (low == 0) return rank;
    const uint8_t *entry = segment->several + 16 * (low - 1);
    uint64_t at = load8_le(entry), first = load8_le(entry + 8);
    uint64_t after = segment->values, end = segment->pairs; /* the next such rank, or the end */
    if (low < segment->several_count) {
        after = load8_le(entry + 16);
        end = load8_le(entry + 24);
    }
    uint64_t held = end - first - (after - at - 1);
    if (at == rank) {
        *count = held;
        return first;
    }
    return first + held + (rank - at - 1);
}

static int has_document(const ndd_segment *segment, uint64_t first, uint64_t count,
                        uint64_t document) {
    uint64_t low = first, high = first + count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (segment_document(segment, middle) < document) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < first + count && segment_document(segment, low) == document;
}

#define AHEAD 16

void ndd_segment_has(const ndd_segment *segment, const uint64_t *values, const uint64_t *documents,
                     size_t n, uint8_t *found) {
    const struct segment_table *table = &segment->tables[0];
    for (size_t i = 0; i < n; i++) {
        uint64_t rank, count;
        if (n - i > AHEAD) {
            prefetch(table->starts + 4 * (size_t)quotient_bucket(&table->quotient, values[i + AHEAD]));
        }
        if (n - i > AHEAD / 2) {
            uint64_t bucket = quotient_bucket(&table->quotient, values[i + AHEAD / 2]);
            prefetch(table->lows + segment_start(table, bucket));
        }
        found[i] = 0;
        if (!segment_find(segment, values[i], &rank)) continue;
        uint64_t first = segment_documents(segment, rank, &count);
        found[i] = (uint8_t)has_document(segment, first, count, documents[i]);
    }
}

void ndd_segment_list(const ndd_segment *segment, uint64_t *values, uint64_t *documents) {
    const struct segment_table *table = &segment->tables[0];
    uint64_t several = 0, pair = 0;
    for (uint64_t bucket = 0; bucket >> table->bits == 0; bucket++) {
        uint64_t end = segment_start(table, bucket + 1);
        for (uint64_t rank = segment_start(table, bucket); rank < end; rank++) {
            uint64_t count = 1;
            if (several < segment->several_count &&
                load8_le(segment->several + 16 * several) == rank) {
                (void)segment_documents(segment, rank, &count);
                several++;
            }
            uint64_t value = quotient_value(&table->quotient, (uint32_t)bucket, segment_rest(table, rank));
            for (; count > 0; count--, pair++) {
                values[pair] = value;
                documents[pair] = segment_document(segment, pair);
            }
        }
    }
}
