/* Pairs in order, as ndd_sort_pairs leaves them. */
#ifndef NDD_PAIR_SORT_H
#define NDD_PAIR_SORT_H

#include <stddef.h>
#include <stdint.h>

struct pair_counts {
    uint64_t values, several; /* distinct values, and those with several documents */
};

/* Counts; 0 if the pairs are not in order. */
int count_pairs(const uint64_t *values, const uint64_t *documents, size_t n, struct pair_counts *counts);

#endif
