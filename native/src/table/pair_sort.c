/*
 * Sorting pairs by value, then by document: a radix sort by the highest byte first, then each part by the
 * next byte.
 *
 * The rule kept: whatever the pairs are, it takes memory for as many pairs again and no more, and calls
 * itself to a depth of one call for each byte.
 */
#include <stdlib.h>
#include <string.h>

#include "ndd.h"

#define FEW_ROWS 32 /* up to so few an insertion sort is faster */
#define ROW_DIGIT 8
#define ROW_ONES ((1 << ROW_DIGIT) - 1)

/* Pairs side by side: what they are sorted by, and what goes with it. */
struct rows {
    uint64_t *keys, *others;
};

static struct rows rows_from(struct rows rows, size_t i) {
    return (struct rows){rows.keys + i, rows.others + i};
}

static void insert_rows(struct rows rows, size_t n) {
    for (size_t i = 1; i < n; i++) {
        uint64_t key = rows.keys[i], other = rows.others[i];
        size_t at = i;
        for (; at > 0; at--) {
            uint64_t before = rows.keys[at - 1];
            if (before < key || (before == key && rows.others[at - 1] <= other)) break;
            rows.keys[at] = before;
            rows.others[at] = rows.others[at - 1];
        }
        rows.keys[at] = key;
        rows.others[at] = other;
    }
}

static void copy_rows(struct rows to, struct rows from, size_t n) {
    memcpy(to.keys, from.keys, n * sizeof *to.keys);
    memcpy(to.others, from.others, n * sizeof *to.others);
}

/* Where each digit begins in n rows sorted by it; 0 if all have the same. */
static int row_starts(size_t *starts, const uint64_t *keys, size_t n, uint32_t low) {
    size_t start = 0, largest = 0;
    memset(starts, 0, (ROW_ONES + 1) * sizeof *starts);
    for (size_t i = 0; i < n; i++) starts[keys[i] >> low & ROW_ONES]++;
    for (size_t digit = 0; digit <= ROW_ONES; digit++) {
        size_t count = starts[digit];
        starts[digit] = start;
        start += count;
        if (count > largest) largest = count;
    }
    return largest < n;
}

/* Sorts by the lowest `bits` of the keys, then by the others if those are not sorted, into `to`, which
 * may be either of the two. Calls itself once for each digit, at most. */
static void sort_rows(struct rows rows, struct rows scratch, struct rows to, size_t n, uint32_t bits,
                      int then_others) {
    if (n <= FEW_ROWS) {
        insert_rows(rows, n);
        if (to.keys != rows.keys) copy_rows(to, rows, n);
        return;
    }
    size_t starts[ROW_ONES + 1];
    while (bits > 0 && !row_starts(starts, rows.keys, n, bits - ROW_DIGIT)) bits -= ROW_DIGIT;
    if (bits == 0 && then_others) { /* all keys are the same */
        struct rows turned = {rows.others, rows.keys}, spare = {scratch.others, scratch.keys};
        sort_rows(turned, spare, (struct rows){to.others, to.keys}, n, 64, 0);
        return;
    }
    if (bits == 0) {
        if (to.keys != rows.keys) copy_rows(to, rows, n);
        return;
    }
    uint32_t low = bits - ROW_DIGIT;
    for (size_t i = 0; i < n; i++) {
        size_t at = starts[rows.keys[i] >> low & ROW_ONES]++;
        scratch.keys[at] = rows.keys[i];
        scratch.others[at] = rows.others[i];
    }
    size_t from = 0; /* and a part ends where its start has come to */
    for (size_t digit = 0; digit <= ROW_ONES; from = starts[digit++]) {
        sort_rows(rows_from(scratch, from), rows_from(rows, from), rows_from(to, from),
                  starts[digit] - from, low, then_others);
    }
}

ndd_status ndd_sort_pairs(uint64_t *values, uint64_t *documents, size_t n, uint64_t *scratch,
                          size_t *distinct) {
    if (n > 0 && (values == NULL || documents == NULL)) return NDD_BAD_ARGUMENT;
    if (n > SIZE_MAX / (2 * sizeof(uint64_t)) - 1) return NDD_NO_MEMORY;
    uint64_t *memory = scratch == NULL ? malloc((2 * n + 1) * sizeof *memory) : scratch;
    if (memory == NULL) return NDD_NO_MEMORY;
    struct rows rows = {values, documents};
    sort_rows(rows, (struct rows){memory, memory + n}, rows, n, 64, 1);
    if (scratch == NULL) free(memory);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && values[i] == values[kept - 1] && documents[i] == documents[kept - 1]) continue;
        values[kept] = values[i];
        documents[kept++] = documents[i];
    }
    *distinct = kept;
    return NDD_OK;
}
