/* The designs that tables and segments of a given size have, for capacity planning. */
#include "design/design.h"
#include "design/design_costs.h"
#include "ndd_bulk.h"

/* Lists up to `capacity` blocks of a design, in memory or in a file, and closes it. */
static void list(struct design *design, double values, int in_file, ndd_block *blocks, size_t capacity,
                 uint32_t *count) {
    *count = design->count;
    for (uint32_t i = 0; i < design->count && i < capacity; i++) {
        const struct block *block = &design->blocks[i];
        struct block_costs costs = in_file ? segment_costs(values, block->bits)
                                           : lines_costs(values, block->bits, block->lines);
        blocks[i] = (ndd_block){.mask = block->mask,
                                .flips = block->flips,
                                .threshold = block->threshold,
                                .bits = block->bits,
                                .bytes = costs.bytes};
    }
    design_close(design);
}

ndd_status ndd_design_get(uint64_t values, uint32_t k, ndd_preset preset, ndd_block *blocks,
                          size_t capacity, uint32_t *count) {
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (preset != NDD_AUTO && preset != NDD_COMPACT) return NDD_BAD_ARGUMENT;
    struct design design;
    ndd_status status = design_for_probes(&design, values, k, preset);
    if (status == NDD_OK) list(&design, (double)values, 0, blocks, capacity, count);
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
    if (status == NDD_OK) list(&design, (double)values, 1, blocks, capacity, count);
    return status;
}
