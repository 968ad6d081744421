#include "table/table_crowd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SERVES 4 /* an index is kept until there are 4 times as many rests as it was made for */
#define LOAD 8   /* rests of a bucket, at least */
#define MOST_KEYS 256
#define MOST_BLOCKS 3 /* each has all rests */

/* ------------------------------------------------------------------------------------- designs */

/* Costs in nanoseconds, as in design_costs.c. */
#define KEY_NS 16.0 /* of a bucket */
#ifndef NDD_REST_NS
#define NDD_REST_NS 0.25 /* of an entry compared */
#endif

static double keys_within(uint32_t bits, uint32_t threshold) {
    double keys = 1, ways = 1;
    for (uint32_t i = 0; i < threshold; i++) {
        ways = ways * (bits - i) / (i + 1);
        keys += ways;
    }
    return keys;
}

/* How well each bit separates the rests, 0 (all agree in it) to 1 (half of them have it set): about its
 * entropy. */
struct entropy {
    double of_bit[64];
    uint32_t width;
};

static double entropy_between(const struct entropy *entropy, uint32_t from, uint32_t to) {
    double sum = 0;
    for (uint32_t bit = from; bit < to; bit++) sum += entropy->of_bit[bit];
    return sum;
}

/* The run of `bits` bits, between two, with the greatest entropy; *most is how much it is. */
static uint64_t best_key(const struct entropy *entropy, uint32_t from, uint32_t to, uint32_t bits,
                         double *most) {
    uint32_t best = from;
    *most = -1;
    for (uint32_t at = from; at + bits <= to; at++) {
        double here = entropy_between(entropy, at, at + bits);
        if (here <= *most) continue;
        *most = here;
        best = at;
    }
    return ((UINT64_C(1) << bits) - 1) << best;
}

/* Where a block begins when all blocks have the same entropy. */
static uint32_t block_start(const struct entropy *entropy, uint32_t blocks, uint32_t i) {
    double share = entropy_between(entropy, 0, entropy->width) * i / blocks;
    uint32_t bit = 0;
    if (i == blocks) return entropy->width;
    for (; bit < entropy->width && share > entropy->of_bit[bit] / 2; bit++) share -= entropy->of_bit[bit];
    return bit;
}

/* One way to cut rests into blocks: the keys, their thresholds, which are as even as can be, and what a
 * probe costs; 0 if it cannot be. */
struct crowd_design {
    uint64_t masks[MOST_BLOCKS];
    uint32_t thresholds[MOST_BLOCKS];
    uint32_t blocks;
    double cost;
};

static struct crowd_design cut_evenly(const struct entropy *entropy, uint32_t blocks, double count, uint32_t k) {
    struct crowd_design way = {.blocks = blocks};
    uint32_t flips = k + 1 - blocks, enough = 1; /* of all blocks; key bits of one */
    double keys = 0;
    while ((double)(UINT64_C(2) << enough) * LOAD <= count) enough++;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t from = block_start(entropy, blocks, i), to = block_start(entropy, blocks, i + 1);
        uint32_t bits = to - from < enough ? to - from : enough;
        uint32_t threshold = flips * (i + 1) / blocks - flips * i / blocks;
        double tells, here = keys_within(bits, threshold);
        if (threshold >= bits) return (struct crowd_design){.cost = 0};
        way.masks[i] = best_key(entropy, from, to, bits, &tells);
        way.thresholds[i] = threshold;
        way.cost += here * (KEY_NS + NDD_REST_NS * count / exp2(tells));
        keys += here;
    }
    if (keys > MOST_KEYS) way.cost = 0;
    return way;
}

/* The design for `count` rests; without blocks when comparing with all takes little longer. */
static ndd_status design_for_crowd(struct design *design, const struct entropy *entropy, uint64_t count,
                                   uint32_t k) {
    struct crowd_design best = {.cost = NDD_REST_NS * (double)count / 2};
    *design = (struct design){NULL, 0};
    for (uint32_t blocks = 1; blocks <= k + 1 && blocks <= MOST_BLOCKS; blocks++) {
        struct crowd_design way = cut_evenly(entropy, blocks, (double)count, k);
        if (way.cost > 0 && way.cost < best.cost) best = way;
    }
    if (best.blocks == 0) return NDD_OK;
    ndd_status status = design_of_masks(design, best.masks, best.blocks);
    if (status != NDD_OK) return status;
    for (uint32_t i = 0; i < best.blocks; i++) {
        design->blocks[i].threshold = best.thresholds[i];
        design->blocks[i].flips = best.thresholds[i] > 0 ? best.masks[i] : 0;
    }
    return NDD_OK;
}

/* --------------------------------------------------------------------------------------- pivot */

static void count_at(struct crowd *crowd, uint64_t rest, uint32_t change) {
    crowd->at[count_bits(rest ^ crowd->pivot)] += change;
}

/* The pivot: in each bit what more than half of the rests have. Also the entropy of each bit. */
static uint64_t find_pivot(const uint64_t *rests, uint64_t count, struct entropy *entropy) {
    uint64_t pivot = 0;
    for (uint32_t bit = 0; bit < entropy->width; bit++) {
        uint64_t set = 0;
        for (uint64_t i = 0; i < count; i++) set += rests[i] >> bit & 1;
        double share = (double)set / (double)count;
        entropy->of_bit[bit] = 4 * share * (1 - share);
        if (set > count / 2) pivot |= UINT64_C(1) << bit;
    }
    return pivot;
}

/* --------------------------------------------------------------------------------------- index */

/* Replaces the index and the pivot by those of these rests; after an error nothing has changed. */
static ndd_status make_index(struct crowd *crowd, const uint64_t *rests, uint64_t count) {
    struct index index;
    struct design design;
    struct entropy entropy = {.width = crowd->width};
    uint64_t pivot = find_pivot(rests, count, &entropy);
    ndd_status status = design_for_crowd(&design, &entropy, 2 * count, crowd->k);
    if (status != NDD_OK) return status;
    if (design.count == 0) return NDD_BAD_ARGUMENT; /* an index would not be faster */
    status = index_open_in(&index, design, rests, count, crowd->width, crowd->k);
    if (status != NDD_OK) return status;
    index_close(&crowd->index);
    crowd->index = index;
    crowd->pivot = pivot;
    memset(crowd->at, 0, sizeof crowd->at);
    for (uint64_t i = 0; i < count; i++) count_at(crowd, rests[i], 1);
    return NDD_OK;
}

static struct crowd *crowd_open(const uint64_t *rests, uint64_t count, uint32_t width, uint32_t k) {
    struct crowd *crowd = calloc(1, sizeof *crowd);
    if (crowd == NULL) return NULL;
    crowd->width = width;
    crowd->k = k;
    crowd->count = count;
    crowd->limit = SERVES * count;
    if (make_index(crowd, rests, count) == NDD_OK) return crowd;
    free(crowd);
    return NULL;
}

static void crowd_close(struct crowd *crowd) {
    index_close(&crowd->index);
    free(crowd);
}

static void crowd_list(const struct crowd *crowd, uint64_t *rests) {
    lines_list(&crowd->index.lines[0], rests);
}

static void grow(struct crowd *crowd) {
    uint64_t *rests = malloc((size_t)crowd->count * sizeof *rests);
    crowd->limit = crowd->count + crowd->count / 4; /* if this fails, it is tried again then */
    if (rests == NULL) return;
    crowd_list(crowd, rests);
    if (make_index(crowd, rests, crowd->count) == NDD_OK) crowd->limit = SERVES * crowd->count;
    free(rests);
}

static ndd_status crowd_make_room(struct crowd *crowd, uint64_t rest) {
    struct spots spots;
    if (crowd->count >= crowd->limit) grow(crowd);
    index_find(&crowd->index, rest, &spots);
    return index_make_room(&crowd->index, rest, &spots);
}

static void crowd_put(struct crowd *crowd, uint64_t rest) {
    struct spots spots;
    index_find(&crowd->index, rest, &spots);
    index_put(&crowd->index, rest, &spots);
    count_at(crowd, rest, 1);
    crowd->count++;
}

static int crowd_remove(struct crowd *crowd, uint64_t rest) {
    if (!index_remove(&crowd->index, rest)) return 0;
    count_at(crowd, rest, UINT32_MAX);
    crowd->count--;
    return 1;
}

static uint64_t crowd_count(const struct crowd *crowd) { return crowd->count; }

static uint64_t crowd_any(const struct crowd *crowd) { return lines_any(&crowd->index.lines[0]); }

static uint64_t crowd_bytes(const struct crowd *crowd) {
    return sizeof *crowd + index_bytes(&crowd->index);
}

static const char *crowd_validate(const struct crowd *crowd) {
    uint32_t at[65] = {0};
    uint64_t *rests = malloc((size_t)crowd->count * sizeof *rests + 1);
    if (rests == NULL) return "there is no memory to look at a crowd";
    crowd_list(crowd, rests);
    for (uint64_t i = 0; i < crowd->count; i++) at[count_bits(rests[i] ^ crowd->pivot)]++;
    const char *reason = index_validate(&crowd->index, rests, crowd->count);
    free(rests);
    if (reason != NULL) return reason;
    return memcmp(at, crowd->at, sizeof at) == 0 ? NULL : "the distances of a crowd are miscounted";
}

const struct crowd_functions table_crowds = {
    crowd_open, crowd_close, crowd_make_room, crowd_put,   crowd_remove,
    crowd_any,  crowd_count, crowd_list,      crowd_bytes, crowd_validate,
};
