/*
 * The table: every stored fingerprint within Hamming distance k of a given one, exactly.
 *
 *     values      each distinct value once, in no order: a place for each     (numbers.h)
 *     documents   for each place, the documents of its value                  (documents.h)
 *     index       for each block of the design, the values by their key bits  (table_index.h)
 *
 * A probe looks up its keys in every block table, compares the values it meets in full, and takes
 * the documents of those within k (table_probe.c). So the index may be any superset of the matches:
 * which blocks there are and how many of their bits are keys decides only how fast a probe is
 * (design.h). A small table, or a large k, has no index; then all values are compared.
 *
 * The rule kept: a value has a place exactly while it has a document; then it is in every block
 * table once. All memory is made before the first thing changes, so a call that fails changed
 * nothing. When the table outgrows its design, the index is rebuilt in another; if there is no
 * memory for that, the old design stays, or there is no index, which is slower but as exact.
 */
#include "table/table.h"

#include <stdlib.h>

#include "hash/hash.h"

#define MANY_MORE 16 /* growth by a 16th of the values or more is made room for at once, */
#define FEW_MORE 64  /* if it is by as many */
#define SAMPLE (1 << 17) /* values, at most, by which those to come are counted */
/* How many pairs ahead of the insert something is prefetched. */
#define AHEAD_MAP 32   /* the value's entry in the map */
#define AHEAD_SPOTS 16 /* its lines in the index; a power of two */
#define AHEAD_BEYOND 6 /* the overflow of those lines */

ndd_status ndd_table_open(uint32_t k, ndd_preset preset, ndd_table **table) {
    if (k > NDD_MAX_DISTANCE) return NDD_BAD_DISTANCE;
    if (preset != NDD_AUTO && preset != NDD_COMPACT) return NDD_BAD_ARGUMENT;
    ndd_table *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return NDD_NO_MEMORY;
    opened->k = k;
    opened->preset = preset;
    opened->index_limit = NDD_SCANNED;
    numbers_open(&opened->values);
    *table = opened;
    return NDD_OK;
}

void ndd_table_close(ndd_table *table) {
    if (table == NULL) return;
    documents_close(&table->documents, table->values.count);
    numbers_close(&table->values);
    index_close(&table->index);
    free(table);
}

/* Rebuilds the index in the design for `room` values. The old one is closed first, because there may not
 * be memory for both. If there is too little for the new one, the old design is built again; if that
 * fails too, the table has no index until the next rebuild. */
static ndd_status rebuild_index(ndd_table *table, uint64_t room) {
    index_close(&table->index);
    table->index_made++;
    ndd_status status = index_open(&table->index, &table->values, room, table->k, table->preset);
    if (status == NDD_OK) {
        table->index_room = room;
    } else {
        (void)index_open(&table->index, &table->values, table->index_room, table->k, table->preset);
    }
    return status;
}

/* Values up to which the design for `room` of them is used: a quarter more, so that the first insert
 * after a large one does not rebuild the index. */
static uint64_t served_by(uint64_t room) { return room + room / 4; }

/* How many values to make room for when there are `values`: somewhat more. */
static uint64_t table_spare(uint64_t values) {
    uint64_t room = values + values / 32;
    return room > NDD_NUMBERS_MAX && values <= NDD_NUMBERS_MAX ? NDD_NUMBERS_MAX : room;
}

/* Room for this many values in the arrays. */
static ndd_status reserve_values(ndd_table *table, uint64_t values) {
    ndd_status status = numbers_reserve(&table->values, values);
    return status == NDD_OK ? documents_reserve(&table->documents, table->values.capacity) : status;
}

ndd_status ndd_table_reserve(ndd_table *table, uint64_t values) {
    ndd_status status = reserve_values(table, values);
    if (status == NDD_OK && values > table->index_limit) {
        status = rebuild_index(table, values);
        if (status == NDD_OK) table->index_limit = served_by(values);
    }
    return status;
}

/* Rebuilds the index for as many values as there will be soon, or for a quarter more than there are, to be
 * used until there are twice as many. */
static void grow_index(ndd_table *table) {
    uint64_t count = table->values.count, soon = table->soon, room = count + count / 4;
    uint64_t limit = served_by(soon) > 2 * count ? served_by(soon) : 2 * count;
    if (rebuild_index(table, soon > room ? soon : room) != NDD_OK) limit = room; /* try again then */
    table->index_limit = limit;
}

/* About how many of these values are new, each counted once: by a sample that every occurrence of a value
 * is in, or none. 0 without memory. */
static uint64_t count_new(const ndd_table *table, const uint64_t *values, size_t n) {
    struct numbers sample;
    uint32_t place, bits = 0;
    uint64_t count;
    ndd_status status = NDD_OK;
    while (n >> bits > SAMPLE) bits++;
    numbers_open(&sample);
    for (size_t i = 0; i < n && status == NDD_OK; i++) {
        if (hash_mix(values[i] ^ table->values.seed) >> 1 >> (63 - bits) != 0) continue;
        if (numbers_find(&sample, values[i], &place)) continue;
        if (numbers_find(&table->values, values[i], &place)) continue;
        status = numbers_make_room(&sample);
        if (status == NDD_OK) numbers_append(&sample, values[i]);
    }
    count = status == NDD_OK ? (uint64_t)sample.count << bits : 0;
    numbers_close(&sample);
    return count;
}

void ndd_table_expect(ndd_table *table, const uint64_t *values, size_t n) {
    uint64_t count = table->values.count;
    table->expected = n;
    table->soon = 0;
    if (n < FEW_MORE || n < count / MANY_MORE) return;
    if (count + n <= table->values.capacity && count + n <= table->index_limit) return;
    uint64_t added = count_new(table, values, n), soon = count + added;
    if (added < count / MANY_MORE) return; /* the arrays grow by half, and the index when it must */
    if (soon > table->values.capacity) {
        uint64_t least = count + count / 4; /* not at each call */
        (void)reserve_values(table, table_spare(soon) > least ? table_spare(soon) : least);
    }
    table->soon = soon;
    if (soon > table->index_limit && soon >= 2 * count) grow_index(table); /* else when it must */
}

/* Room for one value more, in the arrays and by the design. */
static ndd_status make_room(ndd_table *table, uint64_t document) {
    ndd_status status = numbers_make_room(&table->values);
    if (status == NDD_OK) status = documents_reserve(&table->documents, table->values.capacity);
    if (status == NDD_OK) status = documents_make_room(&table->documents, table->values.count, document);
    if (status == NDD_OK && table->values.count >= table->index_limit) grow_index(table);
    return status;
}

static ndd_status insert_value(ndd_table *table, uint64_t value, uint64_t document,
                               struct spots *spots) {
    uint64_t before = table->index_made;
    ndd_status status = make_room(table, document);
    if (table->index_made != before) index_find(&table->index, value, spots);
    if (status == NDD_OK) status = index_make_room(&table->index, spots);
    if (status != NDD_OK) return status;
    index_put(&table->index, value, spots);
    documents_append(&table->documents, table->values.count, document);
    numbers_append(&table->values, value);
    return NDD_OK;
}

static ndd_status insert_pair(ndd_table *table, uint64_t value, uint64_t document,
                              struct spots *spots, int *added) {
    uint32_t place;
    if (numbers_find(&table->values, value, &place)) {
        return documents_add(&table->documents, place, document, added);
    }
    *added = 1;
    return insert_value(table, value, document, spots);
}

/* The pairs of one call, and what was prefetched for the next of them. */
struct arriving {
    const uint64_t *values;
    size_t n;
    struct spots spots[AHEAD_SPOTS]; /* of the values from the one at hand, in turn */
};

static struct spots *spots_of(struct arriving *arriving, size_t i) {
    return &arriving->spots[i % AHEAD_SPOTS];
}

static void find_spots(const ndd_table *table, struct arriving *arriving, size_t i) {
    if (i >= arriving->n) return;
    (void)numbers_guess(&table->values, arriving->values[i]);
    index_find(&table->index, arriving->values[i], spots_of(arriving, i));
}

/* Before the pair at i: its spots are found; afterwards those of the pair that takes their place. */
static void ask_ahead(const ndd_table *table, struct arriving *arriving, size_t i) {
    if (i + AHEAD_MAP < arriving->n) {
        numbers_prefetch(&table->values, arriving->values[i + AHEAD_MAP]);
    }
    if (i + AHEAD_BEYOND < arriving->n) {
        index_prefetch(&table->index, spots_of(arriving, i + AHEAD_BEYOND));
    }
}

static void find_first_spots(const ndd_table *table, struct arriving *arriving, size_t from) {
    for (size_t i = from; i < from + AHEAD_SPOTS; i++) find_spots(table, arriving, i);
}

ndd_status ndd_table_insert(ndd_table *table, const uint64_t *values, const uint64_t *documents,
                            size_t n, uint64_t *inserted) {
    if (n > 0 && (values == NULL || documents == NULL)) return NDD_BAD_ARGUMENT;
    struct arriving arriving;
    uint64_t count = 0;
    ndd_status status = NDD_OK;
    if (table->expected < n) ndd_table_expect(table, values, n); /* nothing was said of this call */
    table->expected -= n;
    arriving.values = values;
    arriving.n = n;
    find_first_spots(table, &arriving, 0);
    for (size_t i = 0; i < n && status == NDD_OK; i++) {
        int added = 0;
        uint64_t index = table->index_made;
        ask_ahead(table, &arriving, i);
        status = insert_pair(table, values[i], documents[i], spots_of(&arriving, i), &added);
        if (table->index_made == index) {
            find_spots(table, &arriving, i + AHEAD_SPOTS);
        } else { /* another index, other spots */
            find_first_spots(table, &arriving, i + 1);
        }
        if (status == NDD_OK) {
            table->pairs += (uint64_t)added;
            count += (uint64_t)added;
        }
    }
    *inserted = count; /* also after an error, as the header says */
    return status;
}

ndd_status ndd_table_remove(ndd_table *table, uint64_t value, uint64_t document, int *removed) {
    uint32_t place;
    *removed = 0;
    if (!numbers_find(&table->values, value, &place)) return NDD_OK;
    int left = documents_remove(&table->documents, place, document);
    if (left == 0) return NDD_OK;
    if (left == 2) {
        ndd_status status = documents_move_last(&table->documents, place, table->values.count - 1);
        if (status != NDD_OK) return status;
        index_remove(&table->index, value);
        numbers_remove(&table->values, place);
    }
    *removed = 1;
    table->pairs--;
    return NDD_OK;
}

void ndd_table_stats_get(const ndd_table *table, ndd_table_stats *stats) {
    *stats = (ndd_table_stats){
        .values = table->values.count,
        .documents = table->pairs,
        .bytes = sizeof *table + numbers_bytes(&table->values) +
                 documents_bytes(&table->documents) + index_bytes(&table->index),
        .k = table->k,
        .blocks = table->index.design.count,
        .keys = index_keys(&table->index),
    };
}

ndd_status ndd_table_validate(const ndd_table *table, const char **reason) {
    uint64_t pairs = 0;
    const char *broken = numbers_validate(&table->values);
    if (broken == NULL) {
        broken = documents_validate(&table->documents, table->values.count, &pairs);
    }
    if (broken == NULL && pairs != table->pairs) broken = "the documents are miscounted";
    if (broken == NULL) {
        broken = index_validate(&table->index, table->values.items, table->values.count);
    }
    if (broken == NULL) return NDD_OK;
    *reason = broken;
    return NDD_DAMAGED;
}
