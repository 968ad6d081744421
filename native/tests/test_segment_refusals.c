/* What is refused of a segment's bytes and of pairs that are to be one; and failing allocations. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "instrumented.h"
#include "segment/segment.h"
#include "segments.h"

static ndd_status open_copy(const uint8_t *bytes, uint64_t size, const char **reason) {
    uint8_t *copy = malloc((size_t)size + 1); /* of exactly its size, for the sanitizer */
    ndd_segment *segment = NULL;
    CHECK(copy != NULL);
    memcpy(copy, bytes, (size_t)size);
    copy = realloc(copy, size > 0 ? (size_t)size : 1);
    ndd_status status = ndd_segment_open(copy, size, &segment, reason);
    CHECK((status == NDD_OK) == (segment != NULL) && (status == NDD_OK || **reason != '\0'));
    ndd_segment_close(segment);
    free(copy);
    return status;
}

static void test_every_flipped_bit_and_every_cut_is_refused(void) {
    struct pairs pairs = make_pairs(1, 60);
    uint64_t size;
    const char *reason = "";
    uint8_t *bytes = write_segment(&pairs, 3, 0, &size);
    CHECK(open_copy(bytes, size, &reason) == NDD_OK);
    for (uint64_t i = 0; i < 8 * size; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        ndd_status status = open_copy(bytes, size, &reason);
        CHECK(status == NDD_DAMAGED || status == NDD_BAD_FORMAT || status == NDD_BAD_VERSION);
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (uint64_t n = 0; n < size; n++) {
        CHECK(open_copy(bytes, n, &reason) == NDD_TRUNCATED);
    }
    free(bytes);
    drop_pairs(&pairs);
}

static void put_right(uint8_t *bytes, uint64_t size) {
    store8_le(bytes + AT_SEGMENT_CHECKSUM, checksum(bytes, AT_SEGMENT_CHECKSUM));
    store8_le(bytes + size - 8, checksum(bytes, (size_t)size - 8));
}

/* Changes 4 bytes, puts the checksums right, and undoes it. */
static const char *broken(uint8_t *bytes, uint64_t size, const uint8_t *at, uint32_t number) {
    const char *reason = "";
    uint8_t *to = bytes + (at - bytes), before[4];
    memcpy(before, to, 4);
    store4_le(to, number);
    put_right(bytes, size);
    CHECK(open_copy(bytes, size, &reason) != NDD_OK);
    memcpy(to, before, 4);
    put_right(bytes, size);
    return reason;
}

#define NAMES(what, at, number) CHECK(strcmp(broken(bytes, size, at, number), what) == 0)

static uint64_t count_values(const struct pairs *pairs) {
    uint64_t values = 0;
    for (size_t i = 0; i < pairs->n; i++) values += i == 0 || pairs->values[i] != pairs->values[i - 1];
    return values;
}

static void test_the_rule_that_is_broken_is_named(void) {
    struct pairs pairs = make_pairs(0, 6000);
    while (count_values(&pairs) % 2 == 0) pairs.n--; /* an odd number, so that there is a gap */
    uint64_t size;
    uint8_t *bytes = write_segment(&pairs, 7, 0, &size);
    ndd_segment *segment = open_segment(bytes, size);
    const struct segment_table *table = &segment->tables[1];
    CHECK(segment->design.count > 1 && segment->several_count > 2 && segment->values % 2 == 1);
    NAMES("the first bytes are not those of a segment", bytes, 0);
    NAMES("the format version is not 2", bytes + 8, 3);
    NAMES("the distance is out of range", bytes + AT_SEGMENT_K, 16);
    NAMES("the documents are out of range", bytes + AT_SEGMENT_WIDTH, 5);
    NAMES("the documents are out of range", bytes + AT_SEGMENT_BASE, 1);
    NAMES("a reserved field is not 0", bytes + AT_SEGMENT_PART + 60, 1);
    NAMES("the design has too many parts", bytes + AT_SEGMENT_PARTS, 17);
    NAMES("the design does not find all that it must", bytes + AT_SEGMENT_K, 4);
    NAMES("there are fewer bytes than the header states", bytes + AT_SEGMENT_PAIRS, 9000);
    NAMES("there are more bytes than the header states", bytes + AT_SEGMENT_PAIRS, 10);
    NAMES("there are more values than a segment can hold", bytes + AT_SEGMENT_VALUES, 0x7fffffff);
    NAMES("the buckets do not hold all values", table->starts, 1);
    NAMES("the buckets overlap", table->starts + 8, 6000);
    NAMES("the padding of a section is not 0", (const uint8_t *)(table->lows + segment->values), 1);
    const uint8_t *low = (const uint8_t *)(table->lows + 17);
    NAMES("the tables hold different values", low, load4_le(low) ^ 1);
    CHECK(segment_start(table, 1) > 1);
    CHECK(broken(bytes, size, (const uint8_t *)(table->lows + 1), load4_le((const uint8_t *)table->lows)));
    NAMES("the documents are miscounted", segment->several + 8, 1 + (uint32_t)load8_le(segment->several + 8));
    NAMES("the values with several documents are not in order", segment->several, 0x7fffffff);
    const uint8_t *first = segment->documents + 8 * load8_le(segment->several + 8);
    CHECK(segment->width == 8);
    NAMES("the documents of a value are not in order", first + 4, 0xffffffff);
    ndd_segment_close(segment);
    free(bytes);
    drop_pairs(&pairs);
}

static void test_what_is_wrong_with_documents_of_4_bytes_is_named(void) {
    struct pairs pairs = make_pairs(1, 3000);
    pairs.n -= pairs.n % 2 == 0; /* an odd number, so that there is a gap */
    uint64_t size;
    uint8_t *bytes = write_segment(&pairs, 3, 0, &size);
    ndd_segment *segment = open_segment(bytes, size);
    CHECK(segment->width == 4 && segment->several_count > 2);
    const uint8_t *first = segment->documents + 4 * load8_le(segment->several + 8);
    NAMES("the documents of a value are not in order", first, 0xffffffff);
    NAMES("the padding of a section is not 0", segment->documents + 4 * pairs.n, 1);
    NAMES("the documents are out of range", bytes + AT_SEGMENT_BASE + 4, 0xffffffff);
    NAMES("there are fewer bytes than the header states", bytes + AT_SEGMENT_PAIRS, (uint32_t)pairs.n + 2);
    ndd_segment_close(segment);
    free(bytes);
    drop_pairs(&pairs);
}

static void test_pairs_out_of_order_are_refused(void) {
    uint64_t size, bytes[64], values[] = {5, 4}, same[] = {5, 5}, documents[] = {1, 1}, falling[] = {2, 1};
    CHECK(ndd_segment_size(values, documents, 2, 3, &size) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_size(same, documents, 2, 3, &size) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_size(same, falling, 2, 3, &size) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_size(values, documents, 1, 16, &size) == NDD_BAD_DISTANCE);
    CHECK(ndd_segment_size(NULL, documents, 1, 3, &size) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_size(values, documents, 1, 3, &size) == NDD_OK && size <= sizeof bytes);
    CHECK(ndd_segment_write(values, documents, 1, 3, 0, NULL, (uint8_t *)bytes, size - 1) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_write(values, documents, 1, 3, 0, NULL, NULL, size) == NDD_BAD_ARGUMENT);
    CHECK(ndd_segment_write(values, documents, 1, 3, 0, NULL, (uint8_t *)bytes, size) == NDD_OK);
    ndd_segment *segment = open_segment((uint8_t *)bytes, size);
    ndd_answer *answer;
    CHECK(ndd_answer_open(&answer) == NDD_OK);
    CHECK(probe_segment(segment, values, 1, 4, 0, answer) == NDD_BAD_DISTANCE);
    CHECK(probe_segment(segment, NULL, 1, 3, 0, answer) == NDD_BAD_ARGUMENT);
    CHECK(probe_segment(segment, NULL, 0, 3, 0, answer) == NDD_OK);
    ndd_answer_close(answer);
    ndd_segment_close(segment);
    ndd_segment_close(NULL);
}

static void test_calls_without_memory_change_nothing(void) {
    struct pairs pairs = make_pairs(1, 2000);
    uint64_t size, other;
    uint8_t *bytes = write_segment(&pairs, 3, 0, &size), *again = malloc((size_t)size);
    CHECK(again != NULL);
    for (int call = 0; call < 5; call++) {
        int64_t fail_at = 0;
        for (ndd_status status = NDD_NO_MEMORY; status != NDD_OK; fail_at++) {
            ndd_segment *segment = call == 4 ? open_segment(bytes, size) : NULL;
            ndd_answer *answer = NULL;
            const char *reason = "";
            size_t distinct = 0;
            CHECK(ndd_answer_open(&answer) == NDD_OK);
            allocations_left = fail_at;
            switch (call) {
            case 0: status = ndd_sort_pairs(pairs.values, pairs.documents, pairs.n, NULL, &distinct); break;
            case 1: status = ndd_segment_size(pairs.values, pairs.documents, pairs.n, 3, &other); break;
            case 2:
                status = ndd_segment_write(pairs.values, pairs.documents, pairs.n, 3, 0, NULL, again, size);
                break;
            case 3: status = ndd_segment_open(bytes, size, &segment, &reason); break;
            default: status = probe_segment(segment, pairs.values, 300, 3, 0, answer);
            }
            allocations_left = -1;
            CHECK(status == NDD_OK || status == NDD_NO_MEMORY);
            CHECK(fail_at > 0 || status == NDD_NO_MEMORY);
            ndd_answer_close(answer);
            ndd_segment_close(segment);
        }
    }
    CHECK(memcmp(bytes, again, (size_t)size) == 0);
    free(bytes);
    free(again);
    drop_pairs(&pairs);
}

int main(void) {
    test_every_flipped_bit_and_every_cut_is_refused();
    test_the_rule_that_is_broken_is_named();
    test_what_is_wrong_with_documents_of_4_bytes_is_named();
    test_pairs_out_of_order_are_refused();
    test_calls_without_memory_change_nothing();
    return 0;
}
