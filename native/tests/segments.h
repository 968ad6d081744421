/* Segments for tests: pairs, their bytes, and the segment that opens. */
#ifndef SEGMENTS_H
#define SEGMENTS_H

#include <stdlib.h>
#include <string.h>

#include "ndd_bulk.h"
#include "values.h"

/* Pairs, sorted, some values with several documents. */
struct pairs {
    uint64_t *values, *documents;
    size_t n;
};

static inline struct pairs make_pairs(int kind, size_t n) {
    struct pairs pairs = {malloc(n * 8 + 8), malloc(n * 8 + 8), n};
    CHECK(pairs.values != NULL && pairs.documents != NULL);
    for (size_t i = 0; i < n; i++) {
        pairs.values[i] = make_value(kind, pairs.values, i);
        if (i > 0 && below(5) == 0) pairs.values[i] = pairs.values[below(i)];
        uint64_t far = random_bits(&random_state); /* of every other kind 4 bytes tell them apart */
        pairs.documents[i] = (kind % 2 ? (UINT64_C(1) << 40) + 1 : 0) + (below(2) ? below(40) : far >> (kind % 2 ? 34 : 0));
    }
    CHECK(ndd_sort_pairs(pairs.values, pairs.documents, n, NULL, &pairs.n) == NDD_OK);
    return pairs;
}

static inline void drop_pairs(struct pairs *pairs) {
    free(pairs->values);
    free(pairs->documents);
}

static inline uint8_t *write_segment(const struct pairs *pairs, uint32_t k, uint64_t note, uint64_t *size) {
    CHECK(ndd_segment_size(pairs->values, pairs->documents, pairs->n, k, size) == NDD_OK);
    uint8_t *bytes = malloc((size_t)*size);
    CHECK(bytes != NULL);
    memset(bytes, 0xa5, (size_t)*size);
    CHECK(ndd_segment_write(pairs->values, pairs->documents, pairs->n, k, note, NULL, bytes, *size) == NDD_OK);
    return bytes;
}

static inline ndd_status probe_segment(const ndd_segment *segment, const uint64_t *values, size_t n, uint32_t k,
                                       uint64_t limit, ndd_answer *answer) {
    return ndd_segments_probe(&segment, 1, NULL, values, n, k, limit, answer, NULL);
}

static inline ndd_segment *open_segment(const uint8_t *bytes, uint64_t size) {
    ndd_segment *segment = NULL;
    const char *reason = "";
    ndd_status status = ndd_segment_open(bytes, size, &segment, &reason);
    if (status != NDD_OK) fprintf(stderr, "%s\n", reason);
    CHECK(status == NDD_OK && segment != NULL);
    return segment;
}

#endif
