#include "table_crowd.h"

#include <stdlib.h>
#include <string.h>

#define SERVES 4 /* an index serves until there are so many times as many rests */
#define LOAD 4   /* rests of a bucket, at least */
#define MOST_KEYS 256
#define MOST_BLOCKS 4 /* each has all rests */

/* ------------------------------------------------------------------------------------- designs */

/* Costs in nanoseconds, as in design_costs.c. */
#define KEY_NS 16.0   /* of a bucket */
#define REST_NS 0.25  /* of an entry compared */

static double keys_within(uint32_t bits, uint32_t threshold) {
    double keys = 1, ways = 1;
    for (uint32_t i = 0; i < threshold; i++) {
        ways = ways * (bits - i) / (i + 1);
        keys += ways;
    }
    return keys;
}

/* `blocks` blocks of a rest, the thresholds as even as can be, and what a probe of them costs; 0 if
 * there are too few bits for so many. */
static double cut_evenly(struct part *parts, uint32_t blocks, double count, uint32_t width,
                         uint32_t k) {
    uint32_t flips = k + 1 - blocks; /* of all blocks */
    double cost = 0, keys = 0;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t own = width * (i + 1) / blocks - width * i / blocks, bits = 0;
        uint32_t threshold = flips * (i + 1) / blocks - flips * i / blocks;
        while (bits < own && (double)(UINT64_C(2) << bits) * LOAD <= count) bits++;
        if (bits == 0 || threshold >= own || threshold > 4) return 0;
        double here = keys_within(bits, threshold < bits ? threshold : bits);
        keys += here;
        cost += here * (KEY_NS + REST_NS * count / (double)(UINT64_C(1) << bits));
        parts[i] = (struct part){(uint8_t)own, (uint8_t)threshold, (uint8_t)bits, 1};
    }
    return keys <= MOST_KEYS ? cost : 0;
}

/* The design for so many rests; without blocks when comparing with all takes little longer. */
static ndd_status design_for_crowd(struct design *design, uint64_t count, uint32_t width, uint32_t k) {
    struct part parts[MAX_DISTANCE + 1];
    double least = REST_NS * (double)count / 2, cost;
    uint32_t best = 0;
    *design = (struct design){NULL, 0};
    for (uint32_t blocks = 1; blocks <= k + 1 && blocks <= MOST_BLOCKS; blocks++) {
        cost = cut_evenly(parts, blocks, (double)count, width, k);
        if (cost == 0 || cost >= least) continue;
        least = cost;
        best = blocks;
    }
    if (best == 0) return NDD_OK;
    (void)cut_evenly(parts, best, (double)count, width, k);
    ndd_status status = design_of_parts(design, parts, best, k);
    if (status != NDD_OK) return status;
    struct block *fewer = realloc(design->blocks, best * sizeof *fewer);
    if (fewer != NULL) design->blocks = fewer;
    return NDD_OK;
}

/* --------------------------------------------------------------------------------------- pivot */

static void count_at(struct crowd *crowd, uint64_t rest, uint32_t change) {
    crowd->at[count_bits(rest ^ crowd->pivot)] += change;
}

/* The pivot is what most of these resemble: each bit as more than half have it. */
static void choose_pivot(struct crowd *crowd, const uint64_t *rests, uint64_t count) {
    uint64_t set[64] = {0};
    crowd->pivot = 0;
    for (uint64_t i = 0; i < count; i++) {
        for (uint32_t bit = 0; bit < crowd->width; bit++) set[bit] += rests[i] >> bit & 1;
    }
    for (uint32_t bit = 0; bit < crowd->width; bit++) {
        if (set[bit] > count / 2) crowd->pivot |= UINT64_C(1) << bit;
    }
    memset(crowd->at, 0, sizeof crowd->at);
    for (uint64_t i = 0; i < count; i++) count_at(crowd, rests[i], 1);
}

/* --------------------------------------------------------------------------------------- index */

/* Another index, of these rests, or, without memory or need, as before. */
static ndd_status make_index(struct crowd *crowd, const uint64_t *rests, uint64_t count) {
    struct index index;
    struct design design;
    ndd_status status = design_for_crowd(&design, 2 * count, crowd->width, crowd->k);
    if (status != NDD_OK) return status;
    if (design.count == 0) return NDD_NO_MEMORY;
    status = index_open_in(&index, design, rests, count, crowd->width, crowd->k);
    if (status != NDD_OK) return status;
    index_close(&crowd->index);
    crowd->index = index;
    choose_pivot(crowd, rests, count);
    return NDD_OK;
}

struct crowd *crowd_open(const uint64_t *rests, uint64_t count, uint32_t width, uint32_t k) {
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

void crowd_close(struct crowd *crowd) {
    index_close(&crowd->index);
    free(crowd);
}

static void grow(struct crowd *crowd) {
    uint64_t *rests = malloc((size_t)crowd->count * sizeof *rests);
    crowd->limit = crowd->count + crowd->count / 4; /* if this fails, it is tried again then */
    if (rests == NULL) return;
    crowd_list(crowd, rests);
    if (make_index(crowd, rests, crowd->count) == NDD_OK) crowd->limit = SERVES * crowd->count;
    free(rests);
}

ndd_status crowd_make_room(struct crowd *crowd, uint64_t rest) {
    struct spots spots;
    if (crowd->count >= crowd->limit) grow(crowd);
    index_find(&crowd->index, rest, &spots);
    return index_make_room(&crowd->index, rest, &spots);
}

void crowd_put(struct crowd *crowd, uint64_t rest) {
    struct spots spots;
    index_find(&crowd->index, rest, &spots);
    index_put(&crowd->index, rest, &spots);
    count_at(crowd, rest, 1);
    crowd->count++;
}

int crowd_remove(struct crowd *crowd, uint64_t rest) {
    if (!index_remove(&crowd->index, rest)) return 0;
    count_at(crowd, rest, UINT32_MAX);
    crowd->count--;
    return 1;
}

uint64_t crowd_any(const struct crowd *crowd) { return lines_any(&crowd->index.lines[0]); }

void crowd_list(const struct crowd *crowd, uint64_t *rests) {
    lines_list(&crowd->index.lines[0], rests);
}

uint64_t crowd_bytes(const struct crowd *crowd) {
    return sizeof *crowd + index_bytes(&crowd->index);
}

const char *crowd_validate(const struct crowd *crowd) {
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
