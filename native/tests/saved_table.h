/* A table saved as the product saves it: its pairs are listed, sorted, and written. */
#ifndef SAVED_TABLE_H
#define SAVED_TABLE_H

#include <stdlib.h>

#include "ndd.h"

/* Lists and sorts the pairs of a table; NULL without memory. The documents follow the values. */
static inline uint64_t *sorted_pairs_of(const ndd_table *table, size_t *n) {
    ndd_table_stats stats;
    ndd_table_stats_get(table, &stats);
    uint64_t *values = malloc(2 * (size_t)stats.documents * sizeof *values + 1);
    if (values == NULL) return NULL;
    ndd_table_list(table, values, values + stats.documents);
    if (ndd_sort_pairs(values, values + stats.documents, (size_t)stats.documents, NULL, n) == NDD_OK) return values;
    free(values);
    return NULL;
}

/* Returns the size of a saved table; 0 without memory. */
static inline uint64_t saved_size_of(const ndd_table *table) {
    size_t n;
    uint64_t size = 0, *values = sorted_pairs_of(table, &n);
    if (values != NULL && ndd_pairs_saved_size(values, values + n, n, &size) != NDD_OK) size = 0;
    free(values);
    return size;
}

static inline ndd_status save_table(const ndd_table *table, uint64_t note, uint8_t *bytes, uint64_t size) {
    size_t n;
    uint64_t *values = sorted_pairs_of(table, &n);
    if (values == NULL) return NDD_NO_MEMORY;
    ndd_status status = ndd_pairs_save(values, values + n, n, note, bytes, size);
    free(values);
    return status;
}

#endif
