/* What a table is made of, each alone: the checksum, the set of numbers, the lines of a block table. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "design/bucket_layout.h"
#include "hash/set_sum.h"
#include "table/numbers.h"
#include "table/table_lines.h"
#include "values.h"

static void test_checksum_agrees_with_published_implementations(void) {
    uint8_t bytes[101];
    for (uint8_t i = 0; i < sizeof bytes; i++) bytes[i] = i;
    CHECK(checksum(bytes, 0) == UINT64_C(0xef46db3751d8e999));
    CHECK(checksum((const uint8_t *)"a", 1) == UINT64_C(0xd24ec4f1a98c6e5b));
    CHECK(checksum((const uint8_t *)"abc", 3) == UINT64_C(0x44bc2cf5ad770999));
    CHECK(checksum((const uint8_t *)"abcdefgh", 8) == UINT64_C(0x3ad351775b4634b7));
    CHECK(checksum(bytes, 31) == UINT64_C(0xc346d2b59b4d8ee1));
    CHECK(checksum(bytes, 32) == UINT64_C(0xcbf59c5116ff32b4));
    CHECK(checksum(bytes, 101) == UINT64_C(0xe99038495f85381e));
}

static void test_numbers_are_a_set_under_any_inserts_and_removals(void) {
    struct numbers numbers;
    uint8_t there[512] = {0};
    uint32_t place, count = 0;
    numbers_open(&numbers);
    for (int step = 0; step < 20000; step++) {
        uint64_t number = below(512), key = number * UINT64_C(0x100000001);
        if (numbers_find(&numbers, key, &place)) {
            CHECK(there[number] && numbers.items[place] == key);
            numbers_remove(&numbers, place);
            count--;
        } else {
            CHECK(!there[number] && numbers_make_room(&numbers) == NDD_OK);
            numbers_append(&numbers, key);
            count++;
        }
        there[number] = !there[number];
        CHECK(numbers.count == count);
        if (step % 100 == 0) CHECK(numbers_validate(&numbers) == NULL);
    }
    CHECK(numbers_reserve(&numbers, (uint64_t)NDD_NUMBERS_MAX + 1) == NDD_TOO_LARGE);
    numbers_close(&numbers);
}

static void test_lines_hold_any_entries_for_any_key(void) {
    enum { N = 700 };
    static const uint64_t masks[] = {1, UINT64_C(0x8000000000000000), 0x7f, UINT64_C(0xfff) << 52,
                                     UINT64_C(0xff00ff) << 20, UINT64_C(0xffffff) << 30,
                                     UINT64_C(0x1ff) << 55 | 0x3ff};
    for (size_t m = 0; m < 4 * sizeof masks / sizeof *masks; m += SIZED(3, 1)) {
        struct block block;
        struct lines lines;
        static uint64_t values[N];
        block_set(&block, masks[m / 4], 0, 0);
        block.lines = 1 + (uint32_t)m % NDD_MAX_BUCKET_LINES;
        if (block.bits > 20 && block.lines > 1) continue; /* memory enough for one */
        CHECK(lines_open(&lines, &block) == NDD_OK);
        CHECK(lines.inside <= NDD_BUCKET_MOST && bucket_entries(block.bits, block.lines) == lines.inside);
        for (size_t i = 0; i < N; i++) { /* all in two buckets */
            values[i] = (random_bits(&random_state) & ~block.mask) | (below(2) ? block.mask : 0);
            if (i < 2) values[i] = i == 1 ? UINT64_MAX : ~block.mask;
            uint64_t rest = quotient_rest(&lines.quotient, values[i]);
            uint32_t bucket = quotient_bucket(&lines.quotient, values[i]);
            CHECK(rest >> (64 - block.bits) == 0 && bucket >> block.bits == 0);
            CHECK(quotient_value(&lines.quotient, bucket, rest) == values[i]);
            union line *line = lines_at(&lines, bucket);
            CHECK(lines_make_room(&lines, line) == NDD_OK);
            lines_put(&lines, line, rest);
        }
        for (size_t left = N; left-- > 0;) {
            size_t gone = below(left + 1);
            union line *line = lines_at(&lines, quotient_bucket(&lines.quotient, values[gone]));
            lines_remove(&lines, line, quotient_rest(&lines.quotient, values[gone]));
            values[gone] = values[left];
            if (left % 50 != 0) continue;
            struct set_sum sum = {0, 0}, expected = {0, 0};
            uint64_t total = 0, bytes = 0;
            for (size_t i = 0; i < left; i++) set_sum_add(&expected, values[i]);
            for (uint32_t b = 0; b >> block.bits == 0; b++) {
                CHECK(lines_validate(&lines, b, &sum, &total, &bytes) == NULL);
            }
            CHECK(bytes == lines.overflow_bytes && total == left && sum.a == expected.a && sum.b == expected.b);
        }
        CHECK(lines.overflow_bytes == 0);
        lines_close(&lines);
    }
}

int main(void) {
    test_checksum_agrees_with_published_implementations();
    test_numbers_are_a_set_under_any_inserts_and_removals();
    test_lines_hold_any_entries_for_any_key();
    return 0;
}
