#include "design/design_costs.h"

#include <math.h>

#include "design/bucket_layout.h"

#define FULL_LINE_NS 4.0 /* comparing with the entries of a line */
#define NEXT_LINE_NS 8.0 /* reading one more line beside another */
#define BEYOND_NS 20.0 /* going to what lies beyond the lines of a bucket, */
#define CANDIDATE_NS 2.0 /* and reading an entry there */
#define SMALL_PAGES 1.5 /* how much longer a read takes in a file than in huge pages */

/* What is expected of the buckets of a block table. */
struct expected {
    double load;     /* entries of a bucket */
    double overflow; /* share of buckets fuller than their line */
    double beyond;   /* entries beyond the line, for each bucket */
    double bytes;    /* memory of the table */
};

/* The values that share a key are as good as drawn by lot: a Poisson distribution. */
static struct expected expect(double values, uint32_t bits, uint32_t doubled) {
    double buckets = (double)(UINT64_C(1) << bits);
    uint32_t inside = bucket_entries(bits, doubled);
    struct expected expected = {.load = values / buckets};
    double line = (double)(LINE_BYTES << doubled), entry = (line - 8) / inside;
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

/* Reading one line at random of so many bytes, while other reads are on their way. */
static double line_ns(double bytes) {
    double ns = 6;
    for (double cached = 1 << 22; cached < bytes && ns < 30; cached *= 2) ns += 1.5;
    return ns;
}

struct block_costs lines_costs(double values, uint32_t bits, uint32_t doubled) {
    struct expected at = expect(values, bits, doubled);
    double line = line_ns(2 * at.bytes), lines = (double)(1 << doubled);
    return (struct block_costs){
        .bytes = at.bytes,
        .visit_ns = line + lines * FULL_LINE_NS + (lines - 1) * NEXT_LINE_NS +
                    at.overflow * (line + BEYOND_NS) + at.beyond * CANDIDATE_NS,
        .update_ns = line + at.overflow * (2 * line + BEYOND_NS),
    };
}

struct block_costs segment_costs(double values, uint32_t bits) {
    double buckets = (double)(UINT64_C(1) << bits), lines = values / buckets / LINE_LANES;
    double directory = 4 * buckets, lows = 4 * values, rests = values * (64 - bits) / 8;
    return (struct block_costs){
        .bytes = directory + rests,
        .visit_ns = SMALL_PAGES * (line_ns(directory) + line_ns(lows)) +
                    lines * (FULL_LINE_NS + NEXT_LINE_NS),
        .update_ns = 0,
    };
}
