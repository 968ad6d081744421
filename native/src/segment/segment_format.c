#include "segment/segment_format.h"

uint64_t segment_layout(struct segment_table *tables, const struct design *design, uint64_t values,
                        const uint8_t *bytes) {
    uint64_t at = NDD_SEGMENT_HEADER;
    for (uint32_t i = 0; i < design->count; i++) {
        uint32_t bits = design->blocks[i].bits, far_bits = 32 - bits;
        uint64_t lows = at + padded(4 * ((UINT64_C(1) << bits) + 1)), fars = lows + padded(4 * values);
        if (tables != NULL) {
            tables[i] = (struct segment_table){.quotient = quotient_of(&design->blocks[i]),
                                               .bits = bits,
                                               .far_bits = far_bits,
                                               .starts = bytes + at,
                                               .lows = (const uint32_t *)(const void *)(bytes + lows),
                                               .fars = bytes + fars};
        }
        at = fars + padded((values * far_bits + 7) / 8);
    }
    return at;
}
