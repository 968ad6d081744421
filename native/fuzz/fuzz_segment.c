/*
 * A segment of any bytes.
 *
 *     input = flags and k (1 byte), the segment
 *
 * With the flag the checksums are put right first, so that what lies behind them is reached. What
 * opens must hold distinct pairs, say of each that it holds it, answer as a scan of them does, and be
 * written again, with another design perhaps, as a segment of the same pairs.
 */
#include "base/checksum.h"
#include "fuzz.h"
#include "ndd_bulk.h"

enum { PUT_RIGHT = 16 }; /* below it: k of the probes */

#define HEADER 136
#define AT_CHECKSUM 128
#define PROBES 16
#define MEMORY_FIXED 65536
#define MEMORY_MULTIPLE 24

struct pairs {
    uint64_t *values, *documents;
    size_t n;
};

static void store_number(uint8_t *bytes, uint64_t number) {
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> (8 * i));
}

static void put_right(uint8_t *bytes, size_t n) {
    static const uint8_t start[12] = {'N', 'D', 'D', 'S', 'E', 'G', 'M', 'T', 2};
    if (n < HEADER + 8) return;
    memcpy(bytes, start, sizeof start);
    store_number(bytes + AT_CHECKSUM, checksum(bytes, AT_CHECKSUM));
    store_number(bytes + n - 8, checksum(bytes, n - 8));
}

static struct pairs pairs_of(const ndd_segment *segment, size_t n) {
    struct pairs pairs = {malloc(8 * n + 8), malloc(8 * n + 8), n};
    MUST(pairs.values != NULL && pairs.documents != NULL);
    ndd_segment_list(segment, pairs.values, pairs.documents);
    return pairs;
}

static void pairs_drop(struct pairs *pairs) {
    free(pairs->values);
    free(pairs->documents);
}

static void must_probe(const ndd_segment *segment, const struct pairs *pairs, uint64_t query,
                       uint32_t k, ndd_answer *answer) {
    const uint64_t *offsets;
    const ndd_match *matches;
    uint64_t within = 0;
    for (size_t i = 0; i < pairs->n; i++) within += fuzz_bits_between(pairs->values[i], query) <= (int)k;
    MUST(ndd_segments_probe(&segment, 1, NULL, &query, 1, k, 0, answer, NULL) == NDD_OK);
    ndd_answer_get(answer, &offsets, &matches);
    MUST(offsets[0] == 0 && offsets[1] == within);
    for (uint64_t i = 0; i < within; i++) { /* in strict order, so each once */
        const ndd_match *match = &matches[i], *before = match - (i > 0);
        uint8_t found = 0;
        MUST((int)match->distance == fuzz_bits_between(match->value, query) && match->distance <= k);
        ndd_segment_has(segment, &match->value, &match->document, 1, &found);
        MUST(found);
        if (i == 0 || before->distance < match->distance) continue;
        MUST(before->distance == match->distance && before->document <= match->document);
        MUST(before->document < match->document || before->value < match->value);
    }
}

static void must_answer(const ndd_segment *segment, const struct pairs *pairs, uint32_t k) {
    ndd_answer *answer;
    MUST(ndd_answer_open(&answer) == NDD_OK);
    for (size_t i = 0; i < PROBES; i++) {
        uint64_t query = i * UINT64_C(0x9e3779b97f4a7c15);
        if (pairs->n > 0) {
            query = pairs->values[query % pairs->n] ^ (i > 2 ? UINT64_C(1) << (query >> 58) : 0);
        }
        must_probe(segment, pairs, query, k, answer);
    }
    ndd_answer_close(answer);
}

static void must_hold(const ndd_segment *segment, uint32_t k) {
    ndd_segment_stats stats, again_stats;
    ndd_segment_stats_get(segment, &stats);
    if (k > stats.k) k = stats.k;
    struct pairs pairs = pairs_of(segment, (size_t)stats.documents);
    must_answer(segment, &pairs, k);
    size_t distinct = 0;
    uint64_t size;
    MUST(ndd_sort_pairs(pairs.values, pairs.documents, pairs.n, NULL, &distinct) == NDD_OK);
    MUST(distinct == pairs.n);
    MUST(ndd_segment_size(pairs.values, pairs.documents, pairs.n, k, &size) == NDD_OK);
    uint8_t *bytes = malloc((size_t)size);
    const char *reason = "";
    ndd_segment *again = NULL;
    MUST(bytes != NULL);
    MUST(ndd_segment_write(pairs.values, pairs.documents, pairs.n, k, 5, NULL, bytes, size) == NDD_OK);
    MUST(ndd_segment_open(bytes, size, &again, &reason) == NDD_OK);
    ndd_segment_stats_get(again, &again_stats);
    MUST(again_stats.values == stats.values && again_stats.documents == stats.documents);
    MUST(again_stats.note == 5 && again_stats.k == k);
    must_answer(again, &pairs, k);
    ndd_segment_close(again);
    free(bytes);
    pairs_drop(&pairs);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n < 1) return 0;
    uint32_t k = bytes[0] & 15;
    uint8_t *written = fuzz_exact(bytes + 1, n - 1, 0);
    if (bytes[0] & PUT_RIGHT) put_right(written, n - 1);
    ndd_segment *segment = NULL;
    const char *reason = NULL;
    fuzz_count_memory();
    ndd_status status = ndd_segment_open(written, n - 1, &segment, &reason);
    MUST(fuzz_memory_taken() <= MEMORY_FIXED + MEMORY_MULTIPLE * n);
    if (status == NDD_OK) {
        must_hold(segment, k);
        ndd_segment_close(segment);
    } else {
        MUST(segment == NULL && reason != NULL && *reason != '\0');
    }
    fuzz_drop(written, 0);
    return 0;
}
