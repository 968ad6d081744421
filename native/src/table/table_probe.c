/*
 * Probes: from a fingerprint to the documents of all values within k.
 *
 * All keys of all queries form one stream of buckets to visit. A bucket is prefetched when it enters
 * a short queue and read when it leaves it, so that many memory reads overlap: a probe pays for the
 * distinct lines it touches, not for their latency. The values found by a group of queries are then
 * looked up in the same way: map, place and documents are prefetched some steps ahead.
 *
 * The rule kept: a value that several blocks find is taken in the first of them only. Within one
 * block a value lies in one bucket, and every key leads to another bucket; so a match is reported
 * once, and nothing needs to be remembered.
 */
#include "design/near.h"
#include "table/answer.h"
#include "table/table.h"

#define QUEUE 32 /* buckets prefetched and not yet read; a power of two */
#define ASKED 20 /* buckets later the overflow of one is prefetched */

struct visit {
    const union line *line;
    uint64_t rest; /* of the query */
    uint32_t flip;
    uint32_t query;
};

/* Adds to the answer the values within k among n entries, at most 16, from `from` on. Seldom called, and
 * a function of its own so that the caller stays small. */
NDD_COUNTS_BITS
static ndd_status take_near(const ndd_table *table, const uint32_t *entries, uint32_t room,
                            uint32_t from, uint32_t n, const struct visit *visit, uint64_t query,
                            ndd_answer *answer) {
    const struct flip *flip = &table->index.flips.list[visit->flip];
    const struct lines *lines = &table->index.lines[flip->block];
    uint32_t near = which_near(entries + from, n, (uint32_t)visit->rest, table->k - flip->bits);
    for (; near != 0; near &= near - 1) {
        uint32_t i = from + lowest_bit(near);
        uint64_t rest = (uint64_t)entry_far(entries, room, lines->far_bytes, i) << 32 | entries[i];
        uint32_t distance = (uint32_t)count_bits(rest ^ visit->rest) + flip->bits;
        if (distance > table->k) continue;
        uint64_t difference = flip->difference | pieces_spread(&lines->quotient.rest, rest ^ visit->rest);
        if (!is_first(&table->index.design, flip->block, difference)) continue;
        ndd_status status = answer_take(answer, (struct found){query ^ difference, distance, visit->query});
        if (status != NDD_OK) return status;
    }
    return NDD_OK;
}

NDD_INLINE ndd_status read_bucket(const ndd_table *table, const uint64_t *queries,
                              const struct visit *visit, ndd_answer *answer) {
    const struct flip *flip = &table->index.flips.list[visit->flip];
    const struct lines *lines = &table->index.lines[flip->block];
    const struct overflow *overflow = line_overflow(visit->line);
    const uint32_t *lanes = visit->line->lanes;
    uint32_t most = table->k - flip->bits, low = (uint32_t)visit->rest;
    uint32_t inside = line_inside(lines, visit->line), first = 0, after = NDD_LINE_LANES - 2;
    uint64_t query = queries[visit->query];
    /* The lanes that hold no entry may look near; only entries are taken. The first line has two
     * lanes less for them. */
    for (; first < inside; lanes += NDD_LINE_LANES, first = after, after += NDD_LINE_LANES) {
        if (!any_near(lanes, low, most)) continue;
        uint32_t end = after < inside ? after : inside;
        ndd_status status = take_near(table, line_lows(visit->line), lines->inside, first,
                                      end - first, visit, query, answer);
        if (status != NDD_OK) return status;
    }
    if (overflow == NULL) return NDD_OK;
    const uint32_t *entries = overflow_entries(overflow);
    for (uint32_t i = 0; i < overflow->count; i += NDD_LINE_LANES) {
        uint32_t left = overflow->count - i;
        if (left >= NDD_LINE_LANES && !any_near(entries + i, low, most)) continue;
        ndd_status status = take_near(table, entries, overflow->capacity, i,
                                      left < NDD_LINE_LANES ? left : NDD_LINE_LANES, visit, query, answer);
        if (status != NDD_OK) return status;
    }
    return NDD_OK;
}

/* Finds the values of n queries, a group of at most NDD_ANSWER_GROUP. */
NDD_INLINE ndd_status find_values(const ndd_table *table, const uint64_t *queries, uint32_t n,
                              ndd_answer *answer) {
    const struct index *index = &table->index;
    struct visit queue[QUEUE];
    size_t entered = 0, asked = 0, left = 0;
    uint32_t query = 0, block = 0, flip = 0;
    const struct lines *lines = &index->lines[0];
    uint32_t bucket = quotient_bucket(&lines->quotient, queries[0]);
    uint64_t rest = quotient_rest(&lines->quotient, queries[0]);
    while (query < n || left < entered) {
        if (query < n) {
            const union line *line = lines_at(lines, bucket ^ index->flips.list[flip].bucket);
            lines_prefetch(lines, line);
            queue[entered++ % QUEUE] = (struct visit){line, rest, flip, query};
            if (++flip == index->flips.end[block]) {
                if (++block == index->design.count) {
                    block = flip = 0;
                    query++;
                }
                if (query < n) {
                    lines = &index->lines[block];
                    bucket = quotient_bucket(&lines->quotient, queries[query]);
                    rest = quotient_rest(&lines->quotient, queries[query]);
                }
            }
        }
        /* The overflow of a bucket is prefetched too. */
        if (asked < entered && (query == n || entered - asked > ASKED)) {
            const struct overflow *overflow = line_overflow(queue[asked++ % QUEUE].line);
            if (overflow != NULL) {
                prefetch(overflow);
                prefetch(overflow_entries(overflow) + NDD_LINE_LANES);
            }
        }
        if (left < asked && (query == n || entered - left == QUEUE)) {
            ndd_status status = read_bucket(table, queries, &queue[left++ % QUEUE], answer);
            if (status != NDD_OK) return status;
        }
    }
    return NDD_OK;
}

#ifdef NDD_COUNTS_LANES
NDD_COUNTS_LANES
static ndd_status find_values_lanes(const ndd_table *table, const uint64_t *queries, uint32_t n,
                                    ndd_answer *answer) {
    return find_values(table, queries, n, answer);
}
#endif

NDD_COUNTS_BITS
static ndd_status find_values_plain(const ndd_table *table, const uint64_t *queries, uint32_t n,
                                    ndd_answer *answer) {
    return find_values(table, queries, n, answer);
}

/* Without an index: compares with every value. */
NDD_COUNTS_BITS
static ndd_status scan_values(const ndd_table *table, const uint64_t *queries, uint32_t n,
                              ndd_answer *answer) {
    const uint64_t *values = table->values.items;
    for (uint32_t query = 0; query < n; query++) {
        for (uint32_t i = 0; i < table->values.count; i++) {
            uint32_t distance = (uint32_t)count_bits(values[i] ^ queries[query]);
            if (distance > table->k) continue;
            ndd_status status = answer_take(answer, (struct found){values[i], distance, query});
            if (status != NDD_OK) return status;
        }
    }
    return NDD_OK;
}

typedef ndd_status finder(const ndd_table *, const uint64_t *, uint32_t, ndd_answer *);

static finder *best_finder(const ndd_table *table) {
    if (table->index.design.count == 0) return scan_values;
#ifdef NDD_COUNTS_LANES
    if (processor_counts_lanes()) return find_values_lanes;
#endif
    return find_values_plain;
}

/* ------------------------------------------------------------------- their places and documents */

static void prefetch_early(const void *from, uint64_t value) {
    const ndd_table *table = from;
    numbers_prefetch(&table->values, value);
}

static void prefetch_late(const void *from, uint64_t value) {
    const ndd_table *table = from;
    uint32_t guess = numbers_guess(&table->values, value);
    if (guess != NDD_NUMBERS_MAX) documents_prefetch(&table->documents, guess);
}

static void list_more(const void *from, uint64_t value, struct document_list *list) {
    const ndd_table *table = from;
    const uint64_t *before = list->at;
    uint32_t place = 0, count = 0;
    (void)numbers_find(&table->values, value, &place);
    list->at = documents_run(&table->documents, place, before[list->count - 1] + 1, &count, &list->one);
    list->count = count;
    list->left -= count;
}

static int list_documents(const void *from, uint64_t value, struct document_list *list) {
    const ndd_table *table = from;
    uint32_t place = 0, count = 0;
    if (!numbers_find(&table->values, value, &place)) return 0;
    list->at = documents_run(&table->documents, place, 0, &count, &list->one);
    list->count = count;
    list->left = documents_count(&table->documents, place) - count;
    list->width = 0;
    return 1;
}

ndd_status table_probe(const ndd_table *table, const uint64_t *values, size_t n, uint64_t limit, size_t query,
                       ndd_answer *answer) {
    const struct document_source source = {table, prefetch_early, prefetch_late, list_documents, list_more};
    finder *find = best_finder(table);
    ndd_status status = NDD_OK;
    for (size_t i = 0; i < n && status == NDD_OK; i += NDD_ANSWER_GROUP) {
        size_t group = n - i < NDD_ANSWER_GROUP ? n - i : NDD_ANSWER_GROUP;
        status = find(table, values + i, (uint32_t)group, answer);
        if (status == NDD_OK) status = answer_finish(&source, answer, limit, query + i, group);
    }
    return status;
}

ndd_status ndd_table_probe(const ndd_table *table, const uint64_t *values, size_t n,
                           uint64_t limit, ndd_answer *answer) {
    ndd_status status = answer_begin(answer, values, n);
    if (status == NDD_OK) status = table_probe(table, values, n, limit, 0, answer);
    if (status != NDD_OK) answer->matches_count = 0;
    return status;
}
