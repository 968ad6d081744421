/* The pairs of a table: membership, and the list of all. */
#include "table/table.h"

#define AHEAD_PAIRS 16

void ndd_table_has(const ndd_table *table, const uint64_t *values, const uint64_t *documents,
                   size_t n, uint8_t *found) {
    for (size_t i = 0; i < n; i++) {
        uint32_t place;
        if (n - i > AHEAD_PAIRS) numbers_prefetch(&table->values, values[i + AHEAD_PAIRS]);
        found[i] = numbers_find(&table->values, values[i], &place) &&
                   documents_has(&table->documents, place, documents[i]);
    }
}

/* Lists the documents of one place; returns how many. */
static uint64_t list_place(const ndd_table *table, uint32_t place, uint64_t *values,
                           uint64_t *documents) {
    uint64_t pair = 0, from = 0, one;
    for (uint64_t left = documents_count(&table->documents, place); left > 0;) {
        uint32_t count;
        const uint64_t *run = documents_run(&table->documents, place, from, &count, &one);
        for (uint32_t i = 0; i < count; i++, pair++) {
            values[pair] = table->values.items[place];
            documents[pair] = run[i];
        }
        left -= count;
        from = run[count - 1] + 1; /* 0 after the greatest number, when nothing is left */
    }
    return pair;
}

void ndd_table_list(const ndd_table *table, uint64_t *values, uint64_t *documents) {
    uint64_t pairs = 0;
    for (uint32_t place = 0; place < table->values.count; place++) {
        pairs += list_place(table, place, values + pairs, documents + pairs);
    }
}
