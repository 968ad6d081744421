#include "design/design_costs.h"

#include <math.h>

#include "design/bucket_layout.h"

#define FULL_LINE_NS 4.0 /* comparing with the entries of a line */
#define NEXT_LINE_NS 8.0 /* reading one more line beside another */
#define BEYOND_NS 20.0 /* going to the overflow of a bucket */
#define CANDIDATE_NS 2.0 /* reading an entry there */
#define SMALL_PAGES 1.5 /* how much longer a read takes in a file than in huge pages */

/* What is expected of the buckets of a block table. */
struct expected {
    double load;     /* entries of a bucket */
    double overflow; /* share of buckets fuller than their line */
    double beyond;   /* entries beyond the line, for each bucket */
    double bytes;    /* memory of the table */
};

/* Keys of evenly spread values are as good as random: the load of a bucket has a Poisson distribution. */
static struct expected expect(double values, uint32_t bits, uint32_t lines) {
    double buckets = (double)(UINT64_C(1) << bits);
    uint32_t inside = bucket_entries(bits, lines);
    struct expected expected = {.load = values / buckets};
    double line = NDD_LINE_BYTES * lines, entry = (line - 8) / inside;
    if (expected.load > 3 * inside + 20) {
        expected.overflow = 1;
        expected.beyond = expected.load - inside;
    } else {
        double chance = exp(-expected.load), within = 0, missing = 0;
        for (uint32_t i = 0; i <= inside; i++) {
            within += chance;
            missing += (inside - i) * chance;
            chance *= expected.load / (i + 1);
        }
        expected.overflow = within < 1 ? 1 - within : 0;
        expected.beyond = expected.load - inside + missing;
    }
    double overflow_bytes = 32 * expected.overflow + 1.2 * entry * expected.beyond;
    expected.bytes = buckets * (line + overflow_bytes);
    return expected;
}

/* Reading one line at random out of `bytes` bytes, while other reads are in flight. */
static double line_ns(double bytes) {
    double ns = 6;
    for (double cached = 1 << 22; cached < bytes && ns < 30; cached *= 2) ns += 1.5;
    return ns;
}

struct block_costs lines_costs(double values, uint32_t bits, uint32_t lines) {
    struct expected at = expect(values, bits, lines);
    double line = line_ns(2 * at.bytes);
    return (struct block_costs){
        .bytes = at.bytes,
        .visit_ns = line + lines * FULL_LINE_NS + (lines - 1) * NEXT_LINE_NS +
                    at.overflow * (line + BEYOND_NS) + at.beyond * CANDIDATE_NS,
        .update_ns = line + at.overflow * (2 * line + BEYOND_NS),
    };
}

struct block_costs segment_costs(double values, uint32_t bits) {
    double buckets = (double)(UINT64_C(1) << bits), lines = values / buckets / NDD_LINE_LANES;
    double directory = 4 * buckets, lows = 4 * values, rests = values * (64 - bits) / 8;
    return (struct block_costs){
        .bytes = directory + rests,
        .visit_ns = SMALL_PAGES * (line_ns(directory) + line_ns(lows)) +
                    lines * (FULL_LINE_NS + NEXT_LINE_NS),
        .update_ns = 0,
    };
}
