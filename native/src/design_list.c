/* The design that a table of so many values has, for those who plan. */
#include "design.h"
#include "design_costs.h"

ndd_status ndd_design_get(uint64_t values, uint32_t k, ndd_preset preset, ndd_block *blocks,
                          size_t capacity, uint32_t *count) {
    if (k > MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (preset != NDD_AUTO && preset != NDD_COMPACT && preset != NDD_FAST) return NDD_BAD_ARGUMENT;
    struct design design;
    ndd_status status = design_for_probes(&design, values, k, preset);
    if (status != NDD_OK) return status;
    *count = design.count;
    for (uint32_t i = 0; i < design.count && i < capacity; i++) {
        const struct block *block = &design.blocks[i];
        struct block_costs costs = lines_costs((double)values, block->bits, block->doubled);
        blocks[i] = (ndd_block){.mask = block->mask,
                                .flips = block->flips,
                                .threshold = block->threshold,
                                .bits = block->bits,
                                .bytes = costs.bytes,
                                .visit_ns = costs.visit_ns};
    }
    design_close(&design);
    return NDD_OK;
}
