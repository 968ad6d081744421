/* Designs: that they find every difference of up to k bits, of tables, segments and pairs; and the sort
 * by a block's key. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "design/design.h"
#include "design/design_costs.h"
#include "design/design_cut.h"
#include "design/radix.h"
#include "values.h"

static int finds(const struct design *design, uint64_t difference, int flips) {
    for (uint32_t i = 0; i < design->count; i++) {
        const struct block *block = &design->blocks[i];
        if (flips ? block_finds(block, difference) : (difference & block->mask) == 0) return 1;
    }
    return 0;
}

static void test_designs_find_every_difference_of_up_to_k_bits(void) {
    static const uint64_t sizes[] = {100,     600,      5000,      100000,    3000000,
                                     70000000, 400000000, 2000000000, 4000000000};
    for (uint32_t k = 0; k <= NDD_MAX_DISTANCE; k++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct design probes, pairs;
            CHECK(design_for_probes(&probes, sizes[i], k, (ndd_preset)(i % 2)) == NDD_OK);
            CHECK(design_for_pairs(&pairs, sizes[i], UINT64_MAX, k) == NDD_OK);
            for (uint32_t b = 0; b < probes.count; b++) {
                CHECK(probes.blocks[b].bits <= NDD_MAX_KEY_BITS);
                CHECK(count_bits(probes.blocks[b].mask) == (int)probes.blocks[b].bits);
                CHECK((probes.blocks[b].flips & ~probes.blocks[b].mask) == 0);
            }
            for (int round = 0; round < 1000; round++) {
                uint64_t difference = 0;
                /* Some spread, some close together, as if aimed at one block. */
                uint64_t first = below(64), reach = 1 + below(64);
                for (uint32_t bit = 0; bit < k; bit++) {
                    difference |= UINT64_C(1) << (first + below(reach)) % 64;
                }
                CHECK(probes.count == 0 || finds(&probes, difference, 1));
                CHECK(pairs.count == 0 || finds(&pairs, difference, 0));
            }
            design_close(&probes);
            design_close(&pairs);
        }
    }
    struct design design;
    CHECK(design_for_probes(&design, 1000000, 3, NDD_AUTO) == NDD_OK && design.count > 0);
    design_close(&design);
    CHECK(design_for_probes(&design, 10, 3, NDD_AUTO) == NDD_OK && design.count == 0);
}

static void test_a_design_for_few_free_bits_uses_only_those(void) {
    for (int round = 0; round < 200; round++) {
        uint64_t free_bits = random_bits(&random_state) & random_bits(&random_state);
        uint32_t k = (uint32_t)below(5);
        struct design design;
        CHECK(design_for_pairs(&design, 100000, free_bits, k) == NDD_OK);
        for (uint32_t b = 0; b < design.count; b++) {
            CHECK((design.blocks[b].mask & ~free_bits) == 0 && design.blocks[b].mask != 0);
        }
        for (int i = 0; i < 100 && design.count > 0; i++) {
            uint64_t difference = 0;
            for (uint32_t bit = 0; bit < k; bit++) difference |= UINT64_C(1) << below(64);
            CHECK(finds(&design, difference & free_bits, 0));
        }
        design_close(&design);
    }
}

static void test_presets_weigh_memory_against_time(void) {
    for (uint32_t k = 1; k <= 7; k++) {
        double bytes[2] = {0, 0};
        for (int preset = 0; preset < 2; preset++) {
            struct design design;
            CHECK(design_for_probes(&design, 100000000, k, (ndd_preset)preset) == NDD_OK);
            for (uint32_t i = 0; i < design.count; i++) {
                bytes[preset] += lines_costs(1e8, design.blocks[i].bits, design.blocks[i].lines).bytes;
            }
            design_close(&design);
        }
        CHECK(bytes[NDD_COMPACT] <= bytes[NDD_AUTO]);
        CHECK(k > 3 || bytes[NDD_COMPACT] < bytes[NDD_AUTO]);
    }
}

static void test_radix_sort_sorts_by_a_key_and_keeps_the_order_of_equals(void) {
    enum { N = 5000 };
    static const size_t sizes[] = {0, 1, 2, 48, 49, N};
    static uint64_t values[N], scratch[N];
    struct block block;
    block_set(&block, UINT64_C(0x00f0ff0000ffe000), 0, 0);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (uint64_t i = 0; i < N; i++) values[i] = random_bits(&random_state) << 13 | i;
        uint64_t *sorted = radix_sort(values, scratch, sizes[s], &block);
        for (size_t i = 1; i < sizes[s]; i++) {
            uint64_t a = block_key(&block, sorted[i - 1]), b = block_key(&block, sorted[i]);
            CHECK(a < b || (a == b && (sorted[i - 1] & 8191) < (sorted[i] & 8191)));
        }
        sorted = radix_sort(sorted, sorted == values ? scratch : values, sizes[s], NULL);
        for (size_t i = 1; i < sizes[s]; i++) CHECK(sorted[i - 1] < sorted[i]);
    }
}

static void test_a_design_finds_every_difference(void) {
    static const uint64_t sizes[] = {1, 1000, 100000, 10000000, 1000000000};
    for (uint32_t k = 0; k <= NDD_MAX_DISTANCE; k++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct part parts[NDD_MAX_DISTANCE + 1];
            struct design design;
            uint32_t count;
            CHECK(design_for_segment(sizes[s], k, parts, &count) == NDD_OK);
            CHECK(design_of_parts(&design, parts, count, k) == NDD_OK);
            for (int i = 0; i < 3000; i++) {
                uint64_t difference = flipped(0, i == 0 ? 0 : (uint32_t)below(k + 1));
                if (i % 3 == 0) difference &= UINT64_C(0x00ffff) << below(48); /* all in one place */
                int found = 0;
                for (uint32_t b = 0; b < design.count; b++) {
                    found |= block_finds(&design.blocks[b], difference);
                }
                CHECK(found);
            }
            design_close(&design);
        }
    }
}

static void test_parts_that_do_not_find_all_are_refused(void) {
    static const struct {
        struct part parts[2];
        uint32_t count, k;
    } wrong[] = {
        {{{32, 1, 16, 1}, {32, 0, 16, 1}}, 2, 3},   /* too little */
        {{{32, 2, 16, 1}, {32, 1, 16, 1}}, 2, 3},   /* too much */
        {{{33, 1, 16, 1}, {32, 1, 16, 1}}, 2, 3},   /* more than 64 bits */
        {{{32, 1, 33, 1}, {32, 1, 16, 1}}, 2, 3},   /* more key bits than bits */
        {{{32, 1, 32, 1}, {32, 1, 16, 1}}, 2, 3},   /* more than a bucket has a number for */
        {{{32, 1, 0, 1}, {32, 1, 16, 1}}, 2, 3},    /* no key */
        {{{32, 1, 16, 0}, {32, 1, 16, 1}}, 2, 3},   /* no table */
        {{{32, 1, 16, 5}, {32, 1, 16, 1}}, 2, 3},   /* too many */
        {{{32, 2, 16, 2}, {32, 0, 16, 1}}, 2, 3},   /* two tables share one threshold only */
        {{{2, 2, 1, 1}, {32, 0, 16, 1}}, 2, 3},     /* a threshold of all bits */
        {{{32, 4, 31, 1}, {32, 0, 16, 1}}, 2, 5},   /* too many keys */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct design design;
        CHECK(design_of_parts(&design, wrong[i].parts, wrong[i].count, wrong[i].k) == NDD_DAMAGED);
        CHECK(design.blocks == NULL);
    }
    struct design right;
    struct part halves[] = {{32, 1, 16, 1}, {32, 1, 16, 2}};
    CHECK(design_of_parts(&right, halves, 2, 3) == NDD_OK && right.count == 3);
    design_close(&right);
}

int main(void) {
    test_designs_find_every_difference_of_up_to_k_bits();
    test_a_design_for_few_free_bits_uses_only_those();
    test_presets_weigh_memory_against_time();
    test_radix_sort_sorts_by_a_key_and_keeps_the_order_of_equals();
    test_a_design_finds_every_difference();
    test_parts_that_do_not_find_all_are_refused();
    return 0;
}
