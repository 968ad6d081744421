/* Designs for probing: of a table, and of a segment, whose design is written into its file. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "design/bucket_layout.h"
#include "design/design.h"
#include "design/design_costs.h"
#include "design/design_cut.h"

#define MAX_COPIES 4    /* tables that share one block of threshold 1 */
#define MAX_FLIPPED 4096 /* keys visited in one block table */
#define SCAN_NS 1.2 /* comparing with one value */
#define UPDATES 2.0 /* of each table, for one probe: an insert, and its share of rebuilding */
#define OTHER_BYTES 8.0 /* what else a value takes, at least */

#define SEGMENT_WEIGHT 6.0 /* of memory, as memory_weight() has it */
#define SMALL_SEGMENT 4000000 /* values; beside a large segment these are few bytes, and as many probes */
#define SMALL_SEGMENT_WEIGHT 3.0
#define DEAR_DISTANCE 6 /* from which on a probe takes tens of microseconds */

static double subsets_up_to(uint32_t n, uint32_t k) {
    double ways = 0;
    for (uint32_t i = 0; i <= k && i <= n; i++) ways += binomial(n, i);
    return ways;
}

static uint64_t ones_between(uint32_t from, uint32_t to) {
    uint64_t below_to = to >= NDD_VALUE_BITS ? UINT64_MAX : (UINT64_C(1) << to) - 1;
    uint64_t below_from = from >= NDD_VALUE_BITS ? UINT64_MAX : (UINT64_C(1) << from) - 1;
    return below_to & ~below_from;
}

/* How much a design that takes twice the memory must save, as the exponent of bytes in what is
 * made least: time * bytes^weight. */
static double memory_weight(ndd_preset preset, double values) {
    if (preset == NDD_COMPACT) return 4;
    double weight = 0.25; /* auto: the more values, the more their memory counts */
    for (double n = 8e6; n < values && weight < 2; n *= 2) weight += 0.3;
    return weight;
}

/* Where block tables are kept. */
enum storage { IN_LINES, IN_SEGMENT };

/* What a key costs that is looked up, and a block table. */
struct visits {
    double visit;
    double copy;
    double bytes;
    uint32_t lines;
};

static struct visits best_visits(double values, uint32_t bits, double byte_cost,
                                 enum storage storage) {
    struct visits best = {0, 0, 0, 0};
    for (uint32_t lines = 1; lines <= (storage == IN_LINES ? NDD_MAX_BUCKET_LINES : 1); lines++) {
        struct block_costs costs = storage == IN_LINES ? lines_costs(values, bits, lines)
                                                       : segment_costs(values, bits);
        double copy = UPDATES * costs.update_ns + byte_cost * costs.bytes / values;
        /* A table is visited a few times, or more: its memory counts as one visit does. */
        if (lines == 1 || 8 * costs.visit_ns + copy < 8 * best.visit + best.copy) {
            best = (struct visits){costs.visit_ns, copy, costs.bytes, lines};
        }
    }
    return best;
}

/* Keys that a probe looks up in a block of w bits with this threshold, in c tables of p key bits. */
static double keys_of(uint32_t w, uint32_t t, uint32_t p, uint32_t c) {
    uint32_t covered = c * (w - p) < w ? c * (w - p) : w;
    return t == 1 ? c + (w - covered) : subsets_up_to(p, t);
}

/* A cost a byte weighs memory against time. */
static void probe_options(struct options *options, double values, double byte_cost,
                          enum storage storage) {
    struct visits visits[NDD_MAX_KEY_BITS + 1];
    for (uint32_t p = 1; p <= NDD_MAX_KEY_BITS; p++) {
        visits[p] = best_visits(values, p, byte_cost, storage);
    }
    for (uint32_t w = 0; w <= NDD_VALUE_BITS; w++) {
        for (uint32_t t = 0; t <= NDD_MAX_THRESHOLD; t++) {
            struct option *best = &options->of[w][t];
            *best = (struct option){.cost = DBL_MAX};
            if (t >= w && w > 0) continue;
            for (uint32_t p = 1; p <= w && p <= NDD_MAX_KEY_BITS; p++) {
                if ((double)(UINT64_C(1) << p) > 2 * values) break;
                for (uint32_t c = 1; c <= (t == 1 && w > p ? MAX_COPIES : 1); c++) {
                    double keys = keys_of(w, t, p, c);
                    if (keys > MAX_FLIPPED) break;
                    if (c > 1 && (c - 1) * (w - p) >= w) break; /* fewer do */
                    double cost = keys * visits[p].visit + c * visits[p].copy;
                    if (cost >= best->cost) continue;
                    *best = (struct option){cost, p, c, visits[p].lines, c * visits[p].bytes};
                }
            }
        }
    }
}

/* The block tables of one block that begins at bit `from`. */
static uint32_t add_probe_blocks(struct block *blocks, uint32_t from, struct cut cut,
                                 struct option option) {
    uint32_t w = cut.width, p = option.bits, left_out = w - p, copies = option.copies;
    uint32_t covered = copies * left_out < w ? copies * left_out : w;
    for (uint32_t c = 0; c < copies; c++) {
        uint32_t start = c * left_out < p ? c * left_out : p;
        uint64_t mask = ones_between(from, from + w) &
                        ~ones_between(from + start, from + start + left_out);
        uint64_t flips = cut.threshold == 0 ? 0 : mask;
        if (cut.threshold == 1 && copies > 1) {
            flips = 0;
            for (uint32_t bit = covered + c; bit < w; bit += copies) {
                flips |= UINT64_C(1) << (from + bit);
            }
        }
        block_set(&blocks[c], mask, flips, flips == 0 ? 0 : cut.threshold);
        blocks[c].lines = option.lines;
    }
    return copies;
}

/* The cut that is best at a price for each byte, what it costs in time, and how many bytes it has
 * for each value. */
static uint32_t cut_at_price(struct options *options, double values, uint32_t k, double byte_cost,
                             enum storage storage, struct cut cuts[NDD_MAX_DISTANCE + 1],
                             double *time, double *bytes) {
    probe_options(options, values, byte_cost, storage);
    uint32_t count = design_best_cut(options, NDD_VALUE_BITS, k, cuts, time);
    *bytes = OTHER_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        double here = options->of[cuts[i].width][cuts[i].threshold].bytes / values;
        *bytes += here;
        *time -= byte_cost * here;
    }
    return count;
}

/* The cut whose time, times its bytes to the power of weight, is least, with the options for it; 0
 * blocks when comparing with every value takes less. */
static uint32_t best_probe_cut(struct options *options, uint64_t values, uint32_t k, double weight,
                               enum storage storage, struct cut cuts[NDD_MAX_DISTANCE + 1]) {
    double n = (double)values, least = DBL_MAX, best_price = 0, best_time = DBL_MAX, time, bytes;
    for (double price = 0.25; price < 3000; price *= 2) {
        if (cut_at_price(options, n, k, price, storage, cuts, &time, &bytes) == 0) break;
        double product = time * pow(bytes, weight);
        if (product >= least) continue;
        least = product;
        best_price = price;
        best_time = time;
    }
    if (best_time >= n * SCAN_NS) return 0;
    return cut_at_price(options, n, k, best_price, storage, cuts, &time, &bytes);
}

static ndd_status open_blocks(struct design *design) {
    *design = (struct design){malloc((NDD_MAX_DISTANCE + 1) * MAX_COPIES * sizeof *design->blocks), 0};
    return design->blocks == NULL ? NDD_NO_MEMORY : NDD_OK;
}

ndd_status design_for_probes(struct design *design, uint64_t values, uint32_t k,
                             ndd_preset preset) {
    struct options *options = malloc(sizeof *options);
    ndd_status status = open_blocks(design);
    if (options == NULL || status != NDD_OK) {
        free(options);
        design_close(design);
        return NDD_NO_MEMORY;
    }
    double weight = memory_weight(preset, (double)values);
    struct cut cuts[NDD_MAX_DISTANCE + 1];
    uint32_t count = best_probe_cut(options, values, k, weight, IN_LINES, cuts), from = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct option option = options->of[cuts[i].width][cuts[i].threshold];
        struct block *blocks = design->blocks + design->count;
        design->count += add_probe_blocks(blocks, from, cuts[i], option);
        from += cuts[i].width;
    }
    if (count == 0) design_close(design);
    free(options);
    return NDD_OK;
}

ndd_status design_for_segment(uint64_t values, uint32_t k, struct part parts[NDD_MAX_DISTANCE + 1],
                              uint32_t *count) {
    struct options *options = malloc(sizeof *options);
    if (options == NULL) return NDD_NO_MEMORY;
    struct cut cuts[NDD_MAX_DISTANCE + 1];
    int small = values < SMALL_SEGMENT && k >= DEAR_DISTANCE;
    double weight = small ? SMALL_SEGMENT_WEIGHT : SEGMENT_WEIGHT;
    *count = best_probe_cut(options, values, k, weight, IN_SEGMENT, cuts);
    for (uint32_t i = 0; i < *count; i++) {
        struct option option = options->of[cuts[i].width][cuts[i].threshold];
        parts[i] = (struct part){(uint8_t)cuts[i].width, (uint8_t)cuts[i].threshold,
                                 (uint8_t)option.bits, (uint8_t)option.copies};
    }
    free(options);
    return NDD_OK;
}

/* Whether a part is one that covers what it must; its block is then searched as design.h says. */
static int part_holds(struct part part) {
    uint32_t w = part.width, t = part.threshold, p = part.bits, c = part.copies;
    if (w > NDD_VALUE_BITS || p < 1 || p > w || p > NDD_MAX_KEY_BITS || t >= w || t > NDD_MAX_THRESHOLD) return 0;
    if (c < 1 || c > MAX_COPIES || (c > 1 && t != 1)) return 0;
    return keys_of(w, t, p, c) <= MAX_FLIPPED;
}

ndd_status design_of_parts(struct design *design, const struct part *parts, uint32_t count,
                           uint32_t k) {
    ndd_status status = open_blocks(design);
    if (status != NDD_OK) return status;
    uint32_t from = 0, covered = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct part part = parts[i];
        if (!part_holds(part) || part.width > NDD_VALUE_BITS - from || covered > k) {
            design_close(design);
            return NDD_DAMAGED;
        }
        struct cut cut = {part.width, part.threshold};
        struct option option = {.bits = part.bits, .copies = part.copies, .lines = 1};
        design->count += add_probe_blocks(design->blocks + design->count, from, cut, option);
        from += part.width;
        covered += part.threshold + 1U;
    }
    if (count == 0) { /* one bucket of all values */
        block_set(&design->blocks[0], 0, 0, 0);
        design->count = 1;
    } else if (covered != k + 1) {
        design_close(design);
        return NDD_DAMAGED;
    }
    return NDD_OK;
}
