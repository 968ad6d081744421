/* The designs that tables and segments of a given size have, for capacity planning. */
#include "design/design.h"
#include "design/design_costs.h"
#include "ndd_bulk.h"

/* What a block costs, in memory or in a file. */
typedef struct block_costs costs_of(double values, const struct block *block);

static struct block_costs in_lines(double values, const struct block *block) {
    return lines_costs(values, block->bits, block->lines);
}

static struct block_costs in_segment(double values, const struct block *block) {
    return segment_costs(values, block->bits);
}

/* Lists up to `capacity` blocks of a design, and closes it. */
static void list(struct design *design, double values, costs_of *costs_in, ndd_block *blocks,
                 size_t capacity, uint32_t *count) {
    *count = design->count;
    for (uint32_t i = 0; i < design->count && i < capacity; i++) {
        const struct block *block = &design->blocks[i];
        struct block_costs costs = costs_in(values, block);
        blocks[i] = (ndd_block){.mask = block->mask,
                                .flips = block->flips,
                                .threshold = block->threshold,
                                .bits = block->bits,
                                .bytes = costs.bytes,
                                .visit_ns = costs.visit_ns};
    }
    design_close(design);
}

ndd_status ndd_design_get(uint64_t values, uint32_t k, ndd_preset preset, ndd_block *blocks,
                          size_t capacity, uint32_t *count) {
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (preset != NDD_AUTO && preset != NDD_COMPACT && preset != NDD_FAST) return NDD_BAD_ARGUMENT;
    struct design design;
    ndd_status status = design_for_probes(&design, values, k, preset);
    if (status == NDD_OK) list(&design, (double)values, in_lines, blocks, capacity, count);
    return status;
}

ndd_status ndd_segment_design_get(uint64_t values, uint32_t k, ndd_block *blocks, size_t capacity,
                                  uint32_t *count) {
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    struct design design;
    struct part parts[NDD_MAX_DISTANCE + 1];
    uint32_t part_count;
    ndd_status status = design_for_segment(values, k, parts, &part_count);
    if (status == NDD_OK) status = design_of_parts(&design, parts, part_count, k);
    if (status == NDD_OK) list(&design, (double)values, in_segment, blocks, capacity, count);
    return status;
}
