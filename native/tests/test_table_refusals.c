/* What a table refuses: saved bytes that were altered or made up, arguments outside what is stated; and
 * the rules that validate names when they are broken from inside. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "ndd_bulk.h"
#include "table/table.h"
#include "table_oracle.h"
#include "saved_table.h"

/* Where ndd.h has them. */
enum {
    VALUES_AT = 24,
    PAIRS_AT = 32,
    SEVERAL_AT = 40,
    ZEROS_AT = 48,
    CHECKSUM_AT = 56,
    TRAILER_BYTES = 8
};

static void put_sums(uint8_t *bytes, size_t size) {
    store8_le(bytes + CHECKSUM_AT, checksum(bytes, CHECKSUM_AT));
    store8_le(bytes + size - TRAILER_BYTES, checksum(bytes, size - TRAILER_BYTES));
}

static ndd_status load_status(const uint8_t *bytes, size_t size) {
    ndd_table *table = NULL;
    uint64_t note = 4711;
    const char *reason = NULL;
    uint8_t *exact = malloc(size + 1);
    CHECK(exact != NULL);
    if (size > 0) memcpy(exact, bytes, size);
    ndd_status status = ndd_table_load(exact, size, 3, NDD_AUTO, &table, &note, &reason);
    if (status != NDD_OK) {
        CHECK(table == NULL && note == 4711 && reason != NULL && reason[0] != '\0');
    }
    ndd_table_close(table);
    free(exact);
    return status;
}

static void test_every_flipped_bit_and_every_cut_is_refused(void) {
    uint64_t values[] = {5, 5, 5, 77, UINT64_MAX}, documents[] = {1, 2, 3, 2, 0}, inserted;
    ndd_table *table;
    CHECK(ndd_table_open(3, NDD_AUTO, &table) == NDD_OK);
    CHECK(ndd_table_insert(table, values, documents, 5, &inserted) == NDD_OK && inserted == 5);
    size_t size = (size_t)saved_size_of(table);
    uint8_t bytes[256];
    CHECK(size == 64 + 3 * 8 + 16 + 5 * 8 + 8 && size < sizeof bytes);
    CHECK(save_table(table, 9, bytes, size) == NDD_OK);
    CHECK(load_status(bytes, size) == NDD_OK);
    for (size_t cut = 0; cut < size; cut++) CHECK(load_status(bytes, cut) == NDD_TRUNCATED);
    for (size_t i = 0; i < 8 * size; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        CHECK(load_status(bytes, size) == (i < 64   ? NDD_BAD_FORMAT
                                           : i < 96 ? NDD_BAD_VERSION
                                                    : NDD_DAMAGED));
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    bytes[size] = 0;
    CHECK(load_status(bytes, size + 1) == NDD_DAMAGED);
    ndd_table_close(table);
}

static void test_bytes_with_right_checksums_and_wrong_content_are_refused(void) {
    uint64_t values[] = {5, 5, 5, 77, UINT64_MAX}, documents[] = {1, 2, 3, 2, 0}, inserted;
    static const struct {
        size_t at;
        uint64_t number;
        ndd_status status;
    } wrongs[] = {
        {ZEROS_AT, 1, NDD_DAMAGED},           {VALUES_AT, 4, NDD_TRUNCATED},
        {VALUES_AT, 2, NDD_DAMAGED},          {VALUES_AT, UINT64_MAX, NDD_TRUNCATED},
        {VALUES_AT, UINT64_MAX / 8 + 2, NDD_TRUNCATED}, {PAIRS_AT, UINT64_MAX / 8 - 3, NDD_TRUNCATED},
        {SEVERAL_AT, UINT64_MAX / 16, NDD_TRUNCATED},   {64, 77, NDD_DAMAGED},
        {64, 78, NDD_DAMAGED},                {88, 1, NDD_DAMAGED},
        {88, 3, NDD_DAMAGED},                 {88, UINT64_MAX, NDD_DAMAGED},
        {96, 0, NDD_DAMAGED},                 {96, 1, NDD_DAMAGED},
        {96, 2, NDD_DAMAGED},                 {96, 4, NDD_DAMAGED},
        {96, UINT64_MAX, NDD_DAMAGED},        {104, 2, NDD_DAMAGED},
        {104, 9, NDD_DAMAGED},                {112, 1, NDD_DAMAGED},
        {72, 78, NDD_OK},                     {88, 1, NDD_DAMAGED},
    };
    ndd_table *table;
    CHECK(ndd_table_open(3, NDD_AUTO, &table) == NDD_OK);
    CHECK(ndd_table_insert(table, values, documents, 5, &inserted) == NDD_OK);
    size_t size = (size_t)saved_size_of(table);
    uint8_t bytes[256], wrong[256];
    CHECK(save_table(table, 9, bytes, size) == NDD_OK);
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        memcpy(wrong, bytes, size);
        store8_le(wrong + wrongs[i].at, wrongs[i].number);
        put_sums(wrong, size);
        CHECK(load_status(wrong, size) == wrongs[i].status);
    }
    ndd_table_close(table);
}

static void test_arguments_outside_what_is_stated_are_refused(void) {
    ndd_table *table = NULL, *loaded = NULL;
    ndd_answer *answer;
    ndd_pairs *pairs;
    uint64_t number = 0;
    const char *reason = NULL;
    CHECK(ndd_table_open(16, NDD_AUTO, &table) == NDD_BAD_DISTANCE && table == NULL);
    CHECK(ndd_table_open(3, (ndd_preset)2, &table) == NDD_BAD_ARGUMENT && table == NULL);
    CHECK(ndd_table_open(15, NDD_AUTO, &table) == NDD_OK);
    CHECK(ndd_answer_open(&answer) == NDD_OK && ndd_pairs_open(&pairs) == NDD_OK);
    CHECK(ndd_table_insert(table, NULL, &number, 1, &number) == NDD_BAD_ARGUMENT);
    CHECK(ndd_table_probe(table, NULL, 1, 0, answer) == NDD_BAD_ARGUMENT);
    CHECK(ndd_table_probe(table, NULL, 0, 0, answer) == NDD_OK);
    CHECK(ndd_table_reserve(table, UINT64_C(1) << 40) == NDD_TOO_LARGE);
    CHECK(ndd_table_load(NULL, 0, 16, NDD_AUTO, &loaded, &number, &reason) == NDD_BAD_DISTANCE);
    CHECK(ndd_table_load(NULL, 8, 3, NDD_AUTO, &loaded, &number, &reason) == NDD_BAD_ARGUMENT);
    CHECK(ndd_table_load(NULL, 0, 3, NDD_AUTO, &loaded, &number, &reason) == NDD_TRUNCATED);
    CHECK(ndd_find_all(&number, 1, 16, pairs) == NDD_BAD_DISTANCE);
    CHECK(ndd_find_all(NULL, 1, 3, pairs) == NDD_BAD_ARGUMENT);
    CHECK(ndd_find_all(NULL, 0, 3, pairs) == NDD_OK);
    CHECK(ndd_find_clusters(&number, 1, 16, &number) == NDD_BAD_DISTANCE);
    CHECK(ndd_find_clusters(NULL, 1, 3, &number) == NDD_BAD_ARGUMENT);
    CHECK(ndd_find_clusters(NULL, 0, 3, NULL) == NDD_OK);
    const uint64_t *offsets;
    const ndd_match *matches;
    ndd_answer_get(answer, &offsets, &matches);
    CHECK(offsets[0] == 0);
    ndd_table_close(table);
    ndd_table_close(NULL);
    ndd_answer_close(answer);
    ndd_answer_close(NULL);
    ndd_pairs_close(pairs);
    ndd_pairs_close(NULL);
}

static const char *broken_rule(const ndd_table *table) {
    const char *reason = NULL;
    CHECK(ndd_table_validate(table, &reason) == NDD_DAMAGED && reason != NULL);
    return reason;
}

static void test_validate_names_the_rule_that_is_broken(void) {
    static uint64_t values[3000];
    make_values(0, values, 3000);
    ndd_table *table = table_of(values, 3000, 3);
    uint64_t one = 1, inserted;
    CHECK(ndd_table_insert(table, values, &one, 1, &inserted) == NDD_OK && inserted == 1);
    check_valid(table);
    CHECK(table->index.design.count > 1);
    table->pairs++;
    CHECK(strcmp(broken_rule(table), "the documents are miscounted") == 0);
    table->pairs--;
    table->values.items[7] ^= 1;
    CHECK(strcmp(broken_rule(table), "a number is not in the map") == 0);
    table->values.items[7] ^= 1;
    table->documents.extra_bytes++;
    CHECK(strcmp(broken_rule(table), "the memory of the documents is miscounted") == 0);
    table->documents.extra_bytes--;
    struct lines *lines = &table->index.lines[1];
    union line *line = index_line(&table->index, 1, values[5]);
    for (int i = 6; line->head > lines->inside; i++) { /* a bucket that lies in its lines */
        CHECK(i < 3000);
        line = index_line(&table->index, 1, values[i]);
    }
    CHECK(line->head > 0);
    line->head--;
    CHECK(strcmp(broken_rule(table), "the index has not as many values as the table") == 0);
    line->head++;
    line_entries(line)[0] ^= 1;
    CHECK(strcmp(broken_rule(table), "the index has other values") == 0);
    line_entries(line)[0] ^= 1;
    uint64_t head = line->head;
    line->head = lines->inside + 1;
    CHECK(strcmp(broken_rule(table), "a bucket is fuller than its lines") == 0);
    line->head = head;
    lines->overflow_bytes += 8;
    CHECK(strcmp(broken_rule(table), "the memory of the buckets is miscounted") == 0);
    lines->overflow_bytes -= 8;
    check_valid(table);
    ndd_table_close(table);
}

int main(void) {
    test_every_flipped_bit_and_every_cut_is_refused();
    test_bytes_with_right_checksums_and_wrong_content_are_refused();
    test_arguments_outside_what_is_stated_are_refused();
    test_validate_names_the_rule_that_is_broken();
    return 0;
}
