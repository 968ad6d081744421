/* The design that a table of so many values has, for those who plan. */
#include "design.h"

ndd_status ndd_design_get(uint64_t values, uint32_t k, ndd_block *blocks, size_t capacity,
                          uint32_t *count) {
    if (k > MAX_DISTANCE) return NDD_BAD_DISTANCE;
    struct design design;
    ndd_status status = design_for_probes(&design, values, k);
    if (status != NDD_OK) return status;
    *count = design.count;
    for (uint32_t i = 0; i < design.count && i < capacity; i++) {
        const struct block *block = &design.blocks[i];
        blocks[i] = (ndd_block){block->mask, block->flips, block->threshold, block->bits};
    }
    design_close(&design);
    return NDD_OK;
}
