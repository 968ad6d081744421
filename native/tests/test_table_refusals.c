/* Arguments outside what is stated, which a table refuses; and the rules that validate names when they are broken
 * from inside. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ndd_bulk.h"
#include "table/table.h"
#include "table_oracle.h"

static void test_arguments_outside_what_is_stated_are_refused(void) {
    ndd_table *table = NULL;
    ndd_answer *answer;
    ndd_pairs *pairs;
    uint64_t number = 0;
    CHECK(ndd_table_open(16, NDD_AUTO, &table) == NDD_BAD_DISTANCE && table == NULL);
    CHECK(ndd_table_open(3, (ndd_preset)2, &table) == NDD_BAD_ARGUMENT && table == NULL);
    CHECK(ndd_table_open(15, NDD_AUTO, &table) == NDD_OK);
    CHECK(ndd_answer_open(&answer) == NDD_OK && ndd_pairs_open(&pairs) == NDD_OK);
    CHECK(ndd_table_insert(table, NULL, &number, 1, &number) == NDD_BAD_ARGUMENT);
    CHECK(ndd_table_probe(table, NULL, 1, 0, answer) == NDD_BAD_ARGUMENT);
    CHECK(ndd_table_probe(table, NULL, 0, 0, answer) == NDD_OK);
    CHECK(ndd_table_reserve(table, UINT64_C(1) << 40) == NDD_TOO_LARGE);
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
    test_arguments_outside_what_is_stated_are_refused();
    test_validate_names_the_rule_that_is_broken();
    return 0;
}
