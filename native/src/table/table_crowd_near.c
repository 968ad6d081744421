/*
 * Probes of a crowd: as table_probe.c does it, with the bits that its key leaves to differ.
 *
 * The rule kept: a value counts in the first block of the crowd that finds it, and in the first block of
 * the table that does. So it is taken once, and that is decided by its difference from the query alone.
 */
#include "table/table_crowd_near.h"

#include "design/near.h"

#define KEYS_TOGETHER 32 /* buckets prefetched before the first is read */

/* A probe of the crowd's index: one key at a time. */
struct crowd_search {
    const struct crowd_query *asked;
    const struct index *index; /* of the crowd */
    const struct flip *flip;   /* there */
    uint64_t rest;             /* of the rest */
    uint32_t most;             /* bits of it that may differ */
};

/* Adds a value to the answer, given by the bits in which its rest, without the crowd's key, differs. */
NDD_COUNTS_BITS
static ndd_status take_match(const struct crowd_search *search, uint64_t difference) {
    const struct crowd_query *asked = search->asked;
    const struct pieces *within = &search->index->lines[search->flip->block].quotient.rest;
    const struct pieces *above = &asked->index->lines[asked->flip->block].quotient.rest;
    difference = search->flip->difference | pieces_spread(within, difference);
    if (!is_first(&search->index->design, search->flip->block, difference)) return NDD_OK;
    difference = asked->flip->difference | pieces_spread(above, difference);
    if (!is_first(&asked->index->design, asked->flip->block, difference)) return NDD_OK;
    uint32_t distance = (uint32_t)count_bits(difference);
    return answer_take(asked->answer, (struct found){asked->query ^ difference, distance, asked->number});
}

/* Compares with some entries of an array made for `room`. */
NDD_COUNTS_BITS
static ndd_status compare_entries(const struct crowd_search *search, const uint32_t *entries, uint32_t room,
                          uint32_t count) {
    uint32_t low = (uint32_t)search->rest;
    uint32_t far_bytes = search->index->lines[search->flip->block].far_bytes;
    for (uint32_t i = 0; i < count; i += NDD_LANES) {
        uint32_t n = count - i < NDD_LANES ? count - i : NDD_LANES;
        uint32_t near = which_near(entries + i, n, low, search->most);
        for (; near != 0; near &= near - 1) {
            uint32_t at = i + lowest_bit(near);
            uint64_t far = entry_far(entries, room, far_bytes, at);
            uint64_t difference = (far << 32 | entries[at]) ^ search->rest;
            if ((uint32_t)count_bits(difference) > search->most) continue;
            ndd_status status = take_match(search, difference);
            if (status != NDD_OK) return status;
        }
    }
    return NDD_OK;
}

static ndd_status read_line(const struct crowd_search *search, const union line *line) {
    const struct lines *lines = &search->index->lines[search->flip->block];
    const struct overflow *overflow = line_overflow(line);
    ndd_status status = compare_entries(search, line_lows(line), lines->inside, line_inside(lines, line));
    if (overflow == NULL || status != NDD_OK) return status;
    return compare_entries(search, overflow_entries(overflow), overflow->capacity, overflow->count);
}

/* Whether a rest at distance `own` from the pivot can have a rest of the crowd within `most` bits. */
static int may_match(const struct crowd *crowd, uint32_t own, uint32_t most) {
    uint32_t first = own > most ? own - most : 0, last = own + most < 64 ? own + most : 64;
    uint32_t any = 0;
    for (uint32_t i = first; i <= last; i++) any |= crowd->at[i];
    return any != 0;
}

ndd_status crowd_near(const struct crowd *crowd, uint64_t rest, const struct crowd_query *asked) {
    const struct index *index = &crowd->index;
    const struct flip *list = index->flips.list;
    uint32_t most = asked->k - asked->flip->bits;
    struct crowd_search search = {.asked = asked, .index = index};
    if (!may_match(crowd, (uint32_t)count_bits(rest ^ crowd->pivot), most)) return NDD_OK;
    for (uint32_t block = 0; block < index->design.count; block++) {
        const struct lines *lines = &index->lines[block];
        uint32_t bucket = quotient_bucket(&lines->quotient, rest), end = index->flips.end[block];
        search.rest = quotient_rest(&lines->quotient, rest);
        for (uint32_t from = flips_begin(&index->flips, block); from < end; from += KEYS_TOGETHER) {
            uint32_t until = end - from < KEYS_TOGETHER ? end : from + KEYS_TOGETHER;
            for (uint32_t i = from; i < until; i++) prefetch(lines_at(lines, bucket ^ list[i].bucket));
            for (uint32_t i = from; i < until; i++) {
                if (list[i].bits > most) break; /* and so have all after it in the block */
                search.flip = &list[i];
                search.most = most - list[i].bits;
                ndd_status status = read_line(&search, lines_at(lines, bucket ^ list[i].bucket));
                if (status != NDD_OK) return status;
            }
        }
    }
    return NDD_OK;
}
