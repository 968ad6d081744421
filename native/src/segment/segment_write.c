/* Writing a segment: sorted pairs in, its bytes out. */
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/interpolate.h"
#include "design/radix.h"
#include "segment/segment.h"
#include "table/numbers.h"

struct plan {
    uint64_t values, several; /* distinct values, and those with several documents */
    struct part parts[NDD_MAX_DISTANCE + 1];
    uint32_t part_count;
    struct design design;
    uint64_t base; /* the least document, where 4 bytes are enough for what lies above it */
    uint32_t width;
    uint64_t size;
};

/* Counts distinct values, and those with several documents; 0 if the pairs are not in order. */
static int count_pairs(struct plan *plan, const uint64_t *values, const uint64_t *documents, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || values[i] != values[i - 1]) {
            if (i > 0 && values[i] < values[i - 1]) return 0;
            plan->values++;
            plan->several += i + 1 < n && values[i + 1] == values[i];
        } else if (documents[i] <= documents[i - 1]) {
            return 0;
        }
    }
    return 1;
}

static void plan_documents(struct plan *plan, const uint64_t *documents, size_t n) {
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < n; i++) {
        if (documents[i] < least) least = documents[i];
        if (documents[i] > most) most = documents[i];
    }
    int few = n == 0 || (most - least <= UINT32_MAX && least <= UINT64_MAX - UINT32_MAX);
    plan->width = few ? 4 : 8;
    plan->base = few && n > 0 ? least : 0;
}

static ndd_status plan_segment(struct plan *plan, const uint64_t *values, const uint64_t *documents,
                               size_t n, uint32_t k) {
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (n > 0 && (values == NULL || documents == NULL)) return NDD_BAD_ARGUMENT;
    *plan = (struct plan){0};
    if (!count_pairs(plan, values, documents, n)) return NDD_BAD_ARGUMENT;
    if (plan->values > NDD_NUMBERS_MAX) return NDD_TOO_LARGE;
    ndd_status status = design_for_segment(plan->values, k, plan->parts, &plan->part_count);
    if (status == NDD_OK) {
        status = design_of_parts(&plan->design, plan->parts, plan->part_count, k);
    }
    if (status != NDD_OK) return status;
    plan_documents(plan, documents, n);
    plan->size = segment_layout(NULL, &plan->design, plan->values, NULL) +
                 16 * plan->several + padded(plan->width * (uint64_t)n) + NDD_SEGMENT_TRAILER;
    if (plan->size <= SIZE_MAX) return NDD_OK;
    design_close(&plan->design);
    return NDD_TOO_LARGE;
}

ndd_status ndd_segment_size(const uint64_t *values, const uint64_t *documents, size_t n, uint32_t k,
                            uint64_t *size) {
    struct plan plan;
    ndd_status status = plan_segment(&plan, values, documents, n, k);
    if (status != NDD_OK) return status;
    *size = plan.size;
    design_close(&plan.design);
    return NDD_OK;
}

/* ---------------------------------------------------------------------------------- their bytes */

static void write_header(const struct plan *plan, size_t n, uint32_t k, uint64_t note,
                         uint8_t *bytes) {
    memcpy(bytes, segment_magic, sizeof segment_magic);
    store4_le(bytes + AT_SEGMENT_VERSION, NDD_SEGMENT_VERSION);
    store4_le(bytes + AT_SEGMENT_K, k);
    store8_le(bytes + AT_SEGMENT_NOTE, note);
    store8_le(bytes + AT_SEGMENT_VALUES, plan->values);
    store8_le(bytes + AT_SEGMENT_PAIRS, n);
    store8_le(bytes + AT_SEGMENT_SEVERAL, plan->several);
    store4_le(bytes + AT_SEGMENT_PARTS, plan->part_count);
    store4_le(bytes + AT_SEGMENT_WIDTH, plan->width);
    store8_le(bytes + AT_SEGMENT_BASE, plan->base);
    for (uint32_t i = 0; i < plan->part_count; i++) {
        uint8_t *part = bytes + AT_SEGMENT_PART + 4 * i;
        part[0] = plan->parts[i].width;
        part[1] = plan->parts[i].threshold;
        part[2] = plan->parts[i].bits;
        part[3] = plan->parts[i].copies;
    }
    store8_le(bytes + AT_SEGMENT_CHECKSUM, checksum(bytes, AT_SEGMENT_CHECKSUM));
}

/* Where a value stands among others of a table: first the bucket, then the rest. */
static uint64_t order_of(const struct segment_table *table, uint64_t value) {
    uint64_t rest = quotient_rest(&table->quotient, value);
    if (table->bits == 0) return rest;
    return (uint64_t)quotient_bucket(&table->quotient, value) << (64 - table->bits) | rest;
}

static uint64_t value_at(const struct segment_table *table, uint64_t order) {
    if (table->bits == 0) return quotient_value(&table->quotient, 0, order);
    uint64_t rest = order & (UINT64_MAX >> table->bits);
    return quotient_value(&table->quotient, (uint32_t)(order >> (64 - table->bits)), rest);
}

/* The orders of all distinct values in a table, ascending; in either of the two. */
static const uint64_t *sort_orders(const struct segment_table *table, const uint64_t *values, size_t n,
                                   uint64_t *scratch[2]) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || values[i] != values[i - 1]) scratch[0][count++] = order_of(table, values[i]);
    }
    return radix_sort(scratch[0], scratch[1], count, NULL);
}

/* The table points into the bytes. */
static void write_table(const struct segment_table *table, const uint64_t *orders, uint64_t count,
                        uint8_t *bytes) {
    uint8_t *starts = bytes + (table->starts - bytes), *fars = bytes + (table->fars - bytes);
    uint8_t *lows = bytes + ((const uint8_t *)table->lows - bytes);
    uint64_t next = 0; /* bucket whose start is to be written */
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bucket = table->bits == 0 ? 0 : orders[i] >> (64 - table->bits);
        for (; next <= bucket; next++) store4_le(starts + 4 * next, (uint32_t)i);
        store4_le(lows + 4 * i, (uint32_t)orders[i]);
        uint64_t at = i * table->far_bits;
        uint64_t far = orders[i] >> 32 & ((UINT64_C(1) << table->far_bits) - 1);
        store8_le(fars + at / 8, load8_le(fars + at / 8) | far << at % 8);
    }
    for (; next <= UINT64_C(1) << table->bits; next++) store4_le(starts + 4 * next, (uint32_t)count);
}

static void write_document(const struct plan *plan, uint8_t *to, uint64_t place, uint64_t document) {
    if (plan->width == 4) store4_le(to + 4 * place, (uint32_t)(document - plan->base));
    else store8_le(to + 8 * place, document);
}

/* The documents of all values, in the order of the first table. */
static void write_documents(const struct plan *plan, const struct segment_table *table,
                            const uint64_t *orders, const uint64_t *values, const uint64_t *documents,
                            size_t n, uint8_t *several) {
    uint8_t *to = several + 16 * plan->several;
    uint64_t written = 0;
    for (uint64_t rank = 0; rank < plan->values; rank++) {
        uint64_t value = value_at(table, orders[rank]), first = written;
        for (size_t i = interpolate(values, n, value, 0); i < n && values[i] == value; i++) {
            write_document(plan, to, written++, documents[i]);
        }
        if (written - first == 1) continue;
        store8_le(several, rank);
        store8_le(several + 8, first);
        several += 16;
    }
}

static void write_body(const struct plan *plan, const uint64_t *values, const uint64_t *documents,
                       size_t n, uint64_t *scratch[2], struct segment_table *tables, uint8_t *bytes) {
    uint64_t count = plan->values, end = segment_layout(tables, &plan->design, count, bytes);
    for (uint32_t i = 0; i < plan->design.count; i++) {
        const uint64_t *orders = sort_orders(&tables[i], values, n, scratch);
        write_table(&tables[i], orders, count, bytes);
        if (i == 0) write_documents(plan, &tables[0], orders, values, documents, n, bytes + end);
    }
}

ndd_status ndd_segment_write(const uint64_t *values, const uint64_t *documents, size_t n, uint32_t k,
                             uint64_t note, uint64_t *scratch, uint8_t *bytes, uint64_t size) {
    struct plan plan;
    ndd_status status = plan_segment(&plan, values, documents, n, k);
    if (status != NDD_OK) return status;
    size_t room = (size_t)plan.values + 1;
    uint64_t *memory = scratch == NULL ? malloc(2 * room * sizeof *memory) : scratch;
    uint64_t *halves[2] = {memory, memory == NULL ? NULL : memory + room};
    struct segment_table *tables = malloc(plan.design.count * sizeof *tables);
    status = bytes == NULL || size != plan.size ? NDD_BAD_ARGUMENT : NDD_OK;
    if (status == NDD_OK && (memory == NULL || tables == NULL)) {
        status = NDD_NO_MEMORY;
    }
    if (status == NDD_OK) {
        memset(bytes, 0, (size_t)size);
        write_header(&plan, n, k, note, bytes);
        write_body(&plan, values, documents, n, halves, tables, bytes);
        size_t covered = (size_t)size - NDD_SEGMENT_TRAILER;
        store8_le(bytes + covered, checksum(bytes, covered));
    }
    if (scratch == NULL) free(memory);
    free(tables);
    design_close(&plan.design);
    return status;
}
