/*
 * Probes of a segment: as table_probe.c does it, with one step more.
 *
 * A bucket is looked up in two reads: where it begins, and what it holds. All keys of all queries form
 * one stream; a key's start is prefetched when it enters a queue, its bucket some keys later, and it is
 * compared when it leaves.
 *
 * A crowded bucket is not compared as a whole. Its rests ascend, so a run of them has its leading bits
 * in common; where these alone are too far from the query's, the run is skipped; otherwise it is
 * split in two. That costs about as many steps as there are runs near the query: of a million values
 * in one bucket, some thousands for k = 3.
 *
 * The rule kept: a value that several blocks find is taken in the first of them only.
 */
#include "design/near.h"
#include "segment/segment.h"
#include "table/answer.h"
#include "table/table.h"

#define QUEUE 32   /* keys prefetched and not yet compared; a power of two */
#define STARTED 12 /* keys later the start of a bucket has arrived */
#define ASKED_LINES 4 /* of a bucket; the processor fetches the further ones by itself */
#define LINE 64   /* bytes that the processor fetches at once: NDD_LANES numbers */
#define CROWDED 128   /* more values than these are split into runs before they are compared */

#ifndef NDD_COUNT_STEPS /* 16 values compared, or a value read: a test counts them */
#define NDD_COUNT_STEPS(n) ((void)0)
#endif

struct visit {
    uint64_t rest; /* of the query */
    uint64_t start, end;
    uint32_t bucket;
    uint32_t flip;
    uint32_t query;
};

/* What is searched, and for what distance. */
struct search {
    const ndd_segment *segment;
    const uint64_t *queries;
    uint32_t k;
    ndd_answer *answer;
};

/* Takes those of n entries from `from` on, at most 16, that are within k. */
NDD_COUNTS_BITS
static ndd_status take_near(const struct search *search, const struct visit *visit, uint64_t from,
                            uint32_t n, uint32_t low) {
    const ndd_segment *segment = search->segment;
    const struct flip *flip = &segment->flips.list[visit->flip];
    const struct segment_table *table = &segment->tables[flip->block];
    uint32_t near = which_near(table->lows + from, n, low, search->k - flip->bits);
    for (; near != 0; near &= near - 1) {
        uint64_t rest = segment_rest(table, from + lowest_bit(near));
        uint32_t distance = (uint32_t)count_bits(rest ^ visit->rest) + flip->bits;
        if (distance > search->k) continue;
        uint64_t difference =
            flip->difference | pieces_spread(&table->quotient.rest, rest ^ visit->rest);
        if (!is_first(&segment->design, flip->block, difference)) continue;
        struct found found = {search->queries[visit->query] ^ difference, distance, visit->query};
        ndd_status status = answer_take(search->answer, found);
        if (status != NDD_OK) return status;
    }
    return NDD_OK;
}

/* Compares with all values of a bucket from `from` up to `to`. */
NDD_INLINE ndd_status compare_bucket(const struct search *search, const struct visit *visit, uint64_t from,
                          uint64_t to) {
    const struct flip *flip = &search->segment->flips.list[visit->flip];
    const uint32_t *lows = search->segment->tables[flip->block].lows;
    uint32_t most = search->k - flip->bits, low = as_in_file((uint32_t)visit->rest);
    NDD_COUNT_STEPS((to - from + NDD_LANES - 1) / NDD_LANES);
    for (uint64_t i = from; i < to; i += NDD_LANES) {
        uint64_t left = to - i;
        if (left >= NDD_LANES && !any_near(lows + i, low, most)) continue;
        uint32_t n = left < NDD_LANES ? (uint32_t)left : NDD_LANES;
        ndd_status status = take_near(search, visit, i, n, low);
        if (status != NDD_OK) return status;
    }
    return NDD_OK;
}

/* The same where 16 numbers are compared as fast as one: whole lines of the cache, as they are fetched, whatever
 * stands there besides the bucket. Only what is in the bucket is taken. */
NDD_INLINE ndd_status compare_lines(const struct search *search, const struct visit *visit, uint64_t from,
                                uint64_t to) {
    const ndd_segment *segment = search->segment;
    const struct flip *flip = &segment->flips.list[visit->flip];
    const uint32_t *lows = segment->tables[flip->block].lows;
    uint32_t most = search->k - flip->bits, low = as_in_file((uint32_t)visit->rest);
    uint64_t before = (uintptr_t)(lows + from) % LINE / sizeof *lows; /* the header is longer than a line */
    NDD_COUNT_STEPS((before + to - from + NDD_LANES - 1) / NDD_LANES);
    for (uint64_t i = from, next; i < to; i = next) {
        const uint32_t *line = lows + i - before;
        next = i - before + NDD_LANES < to ? i - before + NDD_LANES : to;
        before = 0;
        int whole = (uint64_t)((const uint8_t *)line - segment->bytes) + LINE <= segment->size;
        if (whole && !any_near(line, low, most)) continue;
        ndd_status status = take_near(search, visit, i, (uint32_t)(next - i), low);
        if (status != NDD_OK) return status;
    }
    return NDD_OK;
}

/* Compares with those of a run that may be within k. Calls itself once for each bit of a rest, at most. */
NDD_COUNTS_BITS
static ndd_status part(const struct search *search, const struct visit *visit, uint64_t from,
                       uint64_t to) {
    const struct flip *flip = &search->segment->flips.list[visit->flip];
    const struct segment_table *table = &search->segment->tables[flip->block];
    while (to - from > CROWDED) {
        uint64_t first = segment_rest(table, from), last = segment_rest(table, to - 1);
        uint64_t parting = first ^ last; /* not 0, as the rests of a bucket differ */
        while ((parting & (parting - 1)) != 0) parting &= parting - 1; /* its highest bit */
        uint64_t common = ~(parting | (parting - 1));
        NDD_COUNT_STEPS(1);
        if ((uint32_t)count_bits((first ^ visit->rest) & common) + flip->bits > search->k) return NDD_OK;
        uint64_t low = from, high = to - 1; /* the first with that bit is one of those after low */
        while (high - low > 1) {
            uint64_t middle = low + (high - low) / 2;
            NDD_COUNT_STEPS(1);
            if (segment_rest(table, middle) & parting) {
                high = middle;
            } else {
                low = middle;
            }
        }
        ndd_status status = part(search, visit, from, high);
        if (status != NDD_OK) return status;
        from = high;
    }
    return compare_bucket(search, visit, from, to);
}

NDD_INLINE ndd_status read_bucket(const struct search *search, const struct visit *visit, int lanes) {
    uint64_t count = visit->end - visit->start;
    if (count > CROWDED) return part(search, visit, visit->start, visit->end);
    return lanes ? compare_lines(search, visit, visit->start, visit->end)
                 : compare_bucket(search, visit, visit->start, visit->end);
}

static inline void ask_for_bucket(const ndd_segment *segment, struct visit *visit) {
    const struct segment_table *table = &segment->tables[segment->flips.list[visit->flip].block];
    visit->start = segment_start(table, visit->bucket);
    visit->end = segment_start(table, (uint64_t)visit->bucket + 1);
    if (visit->start == visit->end) return;
    const uint32_t *from = table->lows + visit->start, *last = table->lows + visit->end - 1;
    const uint32_t *line = from;
    for (int i = 0; i < ASKED_LINES && line < last; i++, line += NDD_LANES) prefetch(line);
    if (line >= last) prefetch(last); /* which another line may begin with */
}

/* Where the stream of keys is. */
struct stream {
    uint32_t query, block, flip;
    uint32_t bucket; /* of the query, unflipped */
    uint64_t rest;
};

NDD_INLINE void stream_enter(struct stream *stream, const struct search *search) {
    const struct quotient *quotient = &search->segment->tables[stream->block].quotient;
    stream->bucket = quotient_bucket(quotient, search->queries[stream->query]);
    stream->rest = quotient_rest(quotient, search->queries[stream->query]);
}

/* On to the next key that flips no more bits than the distance has; the flips of a block are sorted
 * by their number of bits. */
NDD_INLINE void stream_next(struct stream *stream, const struct search *search, uint32_t n) {
    const struct flips *flips = &search->segment->flips;
    stream->flip++;
    if (stream->flip < flips->end[stream->block] && flips->list[stream->flip].bits <= search->k) return;
    stream->flip = flips->end[stream->block];
    if (++stream->block == search->segment->design.count) {
        stream->block = stream->flip = 0;
        stream->query++;
    }
    if (stream->query < n) stream_enter(stream, search);
}

/* Finds the values of n queries, a group of at most NDD_ANSWER_GROUP. */
NDD_INLINE ndd_status find_values(const struct search *search, uint32_t n, int lanes) {
    const ndd_segment *segment = search->segment;
    struct visit queue[QUEUE];
    struct stream stream = {0};
    size_t entered = 0, asked = 0, left = 0;
    stream_enter(&stream, search);
    while (stream.query < n || left < entered) {
        if (stream.query < n) {
            uint32_t bucket = stream.bucket ^ segment->flips.list[stream.flip].bucket;
            prefetch(segment->tables[stream.block].starts + 4 * (size_t)bucket);
            queue[entered++ % QUEUE] = (struct visit){.rest = stream.rest,
                                                      .bucket = bucket,
                                                      .flip = stream.flip,
                                                      .query = stream.query};
            stream_next(&stream, search, n);
        }
        if (asked < entered && (stream.query == n || entered - asked > STARTED)) {
            ask_for_bucket(segment, &queue[asked++ % QUEUE]);
        }
        if (left < asked && (stream.query == n || entered - left == QUEUE)) {
            ndd_status status = read_bucket(search, &queue[left++ % QUEUE], lanes);
            if (status != NDD_OK) return status;
        }
    }
    return NDD_OK;
}

#ifdef NDD_COUNTS_LANES
NDD_COUNTS_LANES
static ndd_status find_values_lanes(const struct search *search, uint32_t n) {
    return find_values(search, n, 1);
}
#endif

NDD_COUNTS_BITS
static ndd_status find_values_plain(const struct search *search, uint32_t n) {
    return find_values(search, n, 0);
}

/* ---------------------------------------------------------------------------------- documents */

static void prefetch_early(const void *from, uint64_t value) {
    const struct segment_table *table = ((const ndd_segment *)from)->tables;
    prefetch(table->starts + 4 * (size_t)quotient_bucket(&table->quotient, value));
}

static void prefetch_late(const void *from, uint64_t value) {
    const struct segment_table *table = ((const ndd_segment *)from)->tables;
    prefetch(table->lows + segment_start(table, quotient_bucket(&table->quotient, value)));
}

static int list_documents(const void *from, uint64_t value, struct document_list *list) {
    const ndd_segment *segment = from;
    uint64_t rank;
    if (!segment_find(segment, value, &rank)) return 0;
    list->at = segment->documents + segment->width * segment_documents(segment, rank, &list->count);
    list->left = 0;
    list->width = segment->width;
    list->base = segment->base;
    return 1;
}

/* Finds a group of queries, the first of which is number `query` of the answer. */
static ndd_status probe_group(const struct search *search, uint64_t limit, size_t query, uint32_t n) {
    const struct document_source source = {search->segment, prefetch_early, prefetch_late, list_documents,
                                           NULL};
#ifdef NDD_COUNTS_LANES
    ndd_status status = processor_counts_lanes() ? find_values_lanes(search, n)
                                                 : find_values_plain(search, n);
#else
    ndd_status status = find_values_plain(search, n);
#endif
    return status == NDD_OK ? answer_finish(&source, search->answer, limit, query, n) : status;
}

ndd_status ndd_segments_probe(const ndd_segment *const *segments, size_t count, const ndd_table *table,
                              const uint64_t *values, size_t n, uint32_t k, uint64_t limit,
                              ndd_answer *answer, uint64_t *found) {
    if (count == SIZE_MAX || (n > 0 && count + 1 > SIZE_MAX / n)) return NDD_TOO_LARGE;
    ndd_status status = answer_begin(answer, values, (count + (table != NULL)) * n);
    for (size_t s = 0; s < count && status == NDD_OK; s++) {
        if (k > segments[s]->k) status = NDD_BAD_DISTANCE;
        for (size_t i = 0; i < n && status == NDD_OK; i += NDD_ANSWER_GROUP) {
            const struct search search = {segments[s], values + i, k, answer};
            size_t group = n - i < NDD_ANSWER_GROUP ? n - i : NDD_ANSWER_GROUP;
            status = probe_group(&search, limit, s * n + i, (uint32_t)group);
        }
    }
    if (status == NDD_OK && table != NULL) status = table_probe(table, values, n, limit, count * n, answer);
    if (status != NDD_OK) answer->matches_count = 0;
    if (found != NULL) *found = answer->matches_count;
    return status;
}
