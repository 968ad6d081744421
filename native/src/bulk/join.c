#include "bulk/join.h"

#include <string.h>

#include "base/memory.h"
#include "design/radix.h"

#define COMPARED 2048      /* values of a group that are compared without looking for a design */
#define WEIGHED (1u << 20) /* values up to which a group is compared if its design does not split it */

/* A group being joined, and the ones around it. */
struct join {
    const struct join *around;
    const struct design *design;
    uint32_t block; /* at hand; the ones before have found their pairs */
};

static ndd_status join_group(const struct join_rule *rule, const uint64_t *values, size_t n,
                             uint64_t free_bits, const struct join *around);

static int found_before(const struct join *join, uint64_t difference) {
    for (; join != NULL; join = join->around) {
        for (uint32_t i = 0; i < join->block; i++) {
            if ((difference & join->design->blocks[i].mask) == 0) return 1;
        }
    }
    return 0;
}

static inline ndd_status compare_all(const struct join_rule *rule, const uint64_t *values, size_t n,
                                     const struct join *join) {
    for (size_t i = 0; i + 1 < n; i++) {
        uint64_t value = values[i];
        for (size_t j = i + 1; j < n; j++) {
            uint64_t difference = value ^ values[j];
            if (count_bits(difference) > (int)rule->k || found_before(join, difference)) continue;
            ndd_status status = value < values[j] ? rule->found(rule->context, value, values[j])
                                                  : rule->found(rule->context, values[j], value);
            if (status != NDD_OK) return status;
        }
    }
    return NDD_OK;
}

NDD_COUNTS_BITS
static ndd_status compare_group(const struct join_rule *rule, const uint64_t *values, size_t n,
                                const struct join *join) {
    return compare_all(rule, values, n, join);
}

/* Joins values sorted by the key of the current block, group by group. */
NDD_COUNTS_BITS
static ndd_status join_sorted(const struct join_rule *rule, const uint64_t *values, size_t n,
                              uint64_t free_bits, const struct join *join) {
    uint64_t mask = join->design->blocks[join->block].mask;
    ndd_status status = NDD_OK;
    for (size_t from = 0, to; from < n && status == NDD_OK; from = to) {
        for (to = from + 1; to < n && ((values[from] ^ values[to]) & mask) == 0; to++) continue;
        status = to - from <= COMPARED
                     ? compare_all(rule, values + from, to - from, join)
                     : join_group(rule, values + from, to - from, free_bits & ~mask, join);
    }
    return status;
}

static double pairs_of(size_t n) { return (double)n * (double)n / 2; }

/* How many pairs the groups of sorted values have. */
static double pairs_in_groups(const uint64_t *values, size_t n, uint64_t mask) {
    double pairs = 0;
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && ((values[from] ^ values[to]) & mask) == 0; to++) continue;
        pairs += pairs_of(to - from);
    }
    return pairs;
}

/* Does so for the blocks from the current one up to `end`. Where values lie close together every block
 * may put nearly all of them into one group, and so may the designs of that group: before that costs
 * more than comparing all pairs, all pairs are compared. */
static ndd_status join_blocks(const struct join_rule *rule, const uint64_t *values, size_t n,
                              uint64_t free_bits, struct join *join, uint32_t end) {
    int weighed = n <= WEIGHED && join->block == 0 && end == join->design->count;
    double done = 0;
    if (n > SIZE_MAX / 32) return NDD_NO_MEMORY;
    struct memory memory;
    if (!memory_open(&memory, 2 * n * sizeof *values + 1)) return NDD_NO_MEMORY;
    uint64_t *scratch = memory.at;
    if (n > 0) memcpy(scratch, values, n * sizeof *values);
    uint64_t *sorted = scratch;
    ndd_status status = NDD_OK;
    for (; join->block < end && status == NDD_OK; join->block++) {
        uint64_t *other = sorted == scratch ? scratch + n : scratch;
        sorted = radix_sort(sorted, other, n, &join->design->blocks[join->block]);
        if (weighed) done += pairs_in_groups(sorted, n, join->design->blocks[join->block].mask);
        if (weighed && done > pairs_of(n)) {
            status = compare_group(rule, sorted, n, join); /* what is not found yet */
            break;
        }
        status = join_sorted(rule, sorted, n, free_bits, join);
    }
    memory_close(&memory);
    return status;
}

/* Finds all pairs of n distinct values that differ only in the free bits, and were not found before.
 * Bits in which no two differ are not used as keys: they would put all values into one group. */
static ndd_status join_group(const struct join_rule *rule, const uint64_t *values, size_t n,
                             uint64_t free_bits, const struct join *around) {
    if (n <= COMPARED) return compare_group(rule, values, n, around);
    uint64_t differing = 0;
    for (size_t i = 1; i < n; i++) differing |= values[0] ^ values[i];
    if (found_before(around, differing)) return NDD_OK;
    free_bits &= differing;
    struct design design;
    ndd_status status = design_for_pairs(&design, n, free_bits, rule->k);
    if (status != NDD_OK) return status;
    struct join join = {around, &design, 0};
    status = design.count == 0 ? compare_group(rule, values, n, around)
                               : join_blocks(rule, values, n, free_bits, &join, design.count);
    design_close(&design);
    return status;
}

ndd_status join_all(const struct join_rule *rule, const uint64_t *values, size_t n) {
    return join_group(rule, values, n, UINT64_MAX, NULL);
}

ndd_status join_block(const struct join_rule *rule, const uint64_t *values, size_t n,
                      const struct design *design, uint32_t block) {
    struct join join = {NULL, design, block};
    return join_blocks(rule, values, n, UINT64_MAX, &join, block + 1);
}
