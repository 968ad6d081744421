/*
 * Saving and loading: a table as bytes (ndd.h).
 *
 * The rule kept: one table has one saved form, whatever its history, machine or k; and bytes are
 * either wholly such a form or refused. Nothing is read before the checksums match,
 * and even then every number is checked.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "table/pair_sort.h"
#include "table/table.h"

#define VERSION 1
#define HEADER 64
#define TRAILER 8

static const uint8_t magic[8] = {'N', 'D', 'D', 'T', 'A', 'B', 'L', 'E'};

/* Offsets in the header. */
enum {
    AT_VERSION = 8,
    AT_ZERO = 12,
    AT_NOTE = 16,
    AT_VALUES = 24,
    AT_PAIRS = 32,
    AT_SEVERAL = 40,
    AT_ZEROS = 48,
    AT_CHECKSUM = 56
};

static uint8_t *store_le(uint8_t *bytes, uint64_t number, size_t n) {
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(number >> (8 * i));
    return bytes + n;
}

static uint64_t load_number(const uint8_t *bytes) { return load_le(bytes, 8); }

/* -------------------------------------------------------------------------------------- save */

static uint64_t saved_size(uint64_t values, uint64_t pairs, uint64_t several) {
    return HEADER + 8 * values + 16 * several + 8 * pairs + TRAILER;
}

ndd_status ndd_pairs_saved_size(const uint64_t *values, const uint64_t *documents, size_t n,
                                uint64_t *size) {
    struct pair_counts counts;
    if (n > 0 && (values == NULL || documents == NULL)) return NDD_BAD_ARGUMENT;
    if (!count_pairs(values, documents, n, &counts)) return NDD_BAD_ARGUMENT;
    *size = saved_size(counts.values, n, counts.several);
    return NDD_OK;
}

static void save_header(struct pair_counts counts, uint64_t pairs, uint64_t note, uint8_t *bytes) {
    memset(bytes, 0, HEADER);
    memcpy(bytes, magic, sizeof magic);
    store_le(bytes + AT_VERSION, VERSION, 4);
    store_le(bytes + AT_NOTE, note, 8);
    store_le(bytes + AT_VALUES, counts.values, 8);
    store_le(bytes + AT_PAIRS, pairs, 8);
    store_le(bytes + AT_SEVERAL, counts.several, 8);
    store_le(bytes + AT_CHECKSUM, checksum(bytes, AT_CHECKSUM), 8);
}

static void save_body(const uint64_t *values, const uint64_t *documents, size_t n,
                      struct pair_counts counts, uint8_t *bytes) {
    uint8_t *several = bytes + 8 * counts.values, *at = several + 16 * counts.several;
    uint64_t rank = 0;
    for (size_t i = 0, end; i < n; i = end, rank++) {
        for (end = i + 1; end < n && values[end] == values[i];) end++;
        bytes = store_le(bytes, values[i], 8);
        if (end - i > 1) several = store_le(store_le(several, rank, 8), end - i, 8);
        for (size_t j = i; j < end; j++) at = store_le(at, documents[j], 8);
    }
}

ndd_status ndd_pairs_save(const uint64_t *values, const uint64_t *documents, size_t n, uint64_t note,
                          uint8_t *bytes, uint64_t size) {
    struct pair_counts counts;
    if (bytes == NULL || (n > 0 && (values == NULL || documents == NULL))) return NDD_BAD_ARGUMENT;
    if (!count_pairs(values, documents, n, &counts)) return NDD_BAD_ARGUMENT;
    if (size != saved_size(counts.values, n, counts.several)) return NDD_BAD_ARGUMENT;
    save_header(counts, n, note, bytes);
    save_body(values, documents, n, counts, bytes + HEADER);
    size_t covered = (size_t)size - TRAILER;
    store_le(bytes + covered, checksum(bytes, covered), 8);
    return NDD_OK;
}

/* -------------------------------------------------------------------------------------- load */

/* What the header says, once it and the checksums are proven. */
struct saved {
    const uint8_t *values, *several, *documents;
    uint64_t note, values_count, several_count, pairs;
};

static ndd_status refuse(ndd_status status, const char **reason, const char *words) {
    *reason = words;
    return status;
}

static ndd_status read_header(const uint8_t *bytes, uint64_t size, struct saved *saved,
                              const char **reason) {
    size_t known = size < sizeof magic ? (size_t)size : sizeof magic;
    if (known > 0 && memcmp(bytes, magic, known) != 0) {
        return refuse(NDD_BAD_FORMAT, reason, "the first bytes are not those of a saved table");
    }
    if (size < AT_ZERO) return refuse(NDD_TRUNCATED, reason, "the header is truncated");
    if (load_le(bytes + AT_VERSION, 4) != VERSION) {
        return refuse(NDD_BAD_VERSION, reason, "the format version is not 1");
    }
    if (size < HEADER) return refuse(NDD_TRUNCATED, reason, "the header is truncated");
    if (checksum(bytes, AT_CHECKSUM) != load_number(bytes + AT_CHECKSUM)) {
        return refuse(NDD_DAMAGED, reason, "the checksum of the header does not match");
    }
    saved->note = load_number(bytes + AT_NOTE);
    saved->values_count = load_number(bytes + AT_VALUES);
    saved->pairs = load_number(bytes + AT_PAIRS);
    saved->several_count = load_number(bytes + AT_SEVERAL);
    if (load_le(bytes + AT_ZERO, 4) != 0 || load_number(bytes + AT_ZEROS) != 0) {
        return refuse(NDD_DAMAGED, reason, "a reserved field is not 0");
    }
    return NDD_OK;
}

static ndd_status read_frame(const uint8_t *bytes, uint64_t size, struct saved *saved,
                             const char **reason) {
    ndd_status status = read_header(bytes, size, saved, reason);
    if (status != NDD_OK) return status;
    uint64_t most = size / 8; /* so no sum below can overflow */
    if (saved->values_count > most || saved->pairs > most || saved->several_count > most) {
        return refuse(NDD_TRUNCATED, reason, "there are fewer bytes than the header states");
    }
    uint64_t stated = saved_size(saved->values_count, saved->pairs, saved->several_count);
    if (size < stated) {
        return refuse(NDD_TRUNCATED, reason, "there are fewer bytes than the header states");
    }
    if (size > stated) {
        return refuse(NDD_DAMAGED, reason, "there are more bytes than the header states");
    }
    size_t covered = (size_t)size - TRAILER;
    if (checksum(bytes, covered) != load_number(bytes + covered)) {
        return refuse(NDD_DAMAGED, reason, "the checksum does not match");
    }
    if (saved->values_count > NDD_NUMBERS_MAX) {
        return refuse(NDD_TOO_LARGE, reason, "there are more values than a table can hold");
    }
    saved->values = bytes + HEADER;
    saved->several = saved->values + 8 * saved->values_count;
    saved->documents = saved->several + 16 * saved->several_count;
    return NDD_OK;
}

/* The n documents of one value, the first of which makes its place. */
static ndd_status load_documents(ndd_table *table, uint32_t place, const uint8_t *bytes,
                                 uint64_t n, const char **reason) {
    ndd_status status = documents_make_room(&table->documents, place, load_number(bytes));
    if (status != NDD_OK) return refuse(status, reason, ndd_strerror((int)status));
    documents_append(&table->documents, place, load_number(bytes));
    for (uint64_t i = 1; i < n; i++) {
        int added;
        if (load_number(bytes + 8 * i) <= load_number(bytes + 8 * (i - 1))) {
            return refuse(NDD_DAMAGED, reason, "the documents of a value are not in order");
        }
        status = documents_add(&table->documents, place, load_number(bytes + 8 * i), &added);
        if (status != NDD_OK) return refuse(status, reason, ndd_strerror((int)status));
    }
    table->pairs += n;
    return NDD_OK;
}

/* The number of documents of value i, and whether the list of such numbers is as it must be. */
static ndd_status next_count(const struct saved *saved, uint64_t i, uint64_t *several,
                             uint64_t left, uint64_t *count, const char **reason) {
    const uint8_t *entry = saved->several + 16 * *several;
    *count = 1;
    if (*several < saved->several_count && load_number(entry) == i) {
        *count = load_number(entry + 8);
        ++*several;
        if (*count < 2) return refuse(NDD_DAMAGED, reason, "a value has too few documents");
    }
    if (*count > left) return refuse(NDD_DAMAGED, reason, "a value has more documents than there are");
    return NDD_OK;
}

static ndd_status load_body(ndd_table *table, const struct saved *saved, const char **reason) {
    const uint8_t *documents = saved->documents;
    uint64_t several = 0;
    for (uint32_t i = 0; i < saved->values_count; i++) {
        const uint8_t *at = saved->values + 8 * (size_t)i;
        uint64_t value = load_number(at), count;
        if (saved->values_count - i > 16) numbers_prefetch(&table->values, load_number(at + 128));
        if (i > 0 && value <= table->values.items[i - 1]) {
            return refuse(NDD_DAMAGED, reason, "the values are not in order");
        }
        ndd_status status =
            next_count(saved, i, &several, saved->pairs - table->pairs, &count, reason);
        if (status != NDD_OK) return status;
        numbers_append(&table->values, value);
        status = load_documents(table, i, documents, count, reason);
        if (status != NDD_OK) return status;
        documents += 8 * count;
    }
    if (several < saved->several_count) {
        return refuse(NDD_DAMAGED, reason, "the values with several documents are not in order");
    }
    if (table->pairs != saved->pairs) {
        return refuse(NDD_DAMAGED, reason, "there are more documents than the values have");
    }
    return NDD_OK;
}

ndd_status ndd_table_load(const uint8_t *bytes, uint64_t size, uint32_t k, ndd_preset preset,
                             ndd_table **table, uint64_t *note, const char **reason) {
    struct saved saved = {0};
    const char *words = "";
    ndd_table *loaded = NULL;
    ndd_status status = k > NDD_MAX_DISTANCE ? NDD_BAD_DISTANCE : NDD_OK;
    if (status == NDD_OK && (bytes == NULL && size > 0)) status = NDD_BAD_ARGUMENT;
    if (status == NDD_OK && size > SIZE_MAX) status = NDD_TOO_LARGE;
    if (status == NDD_OK) status = read_frame(bytes, size, &saved, &words);
    if (status == NDD_OK) status = ndd_table_open(k, preset, &loaded);
    if (status == NDD_OK) {
        uint64_t room = table_spare(saved.values_count);
        status = numbers_reserve(&loaded->values, room);
        if (status != NDD_OK) status = numbers_reserve(&loaded->values, saved.values_count);
        if (status == NDD_OK) status = documents_reserve(&loaded->documents, loaded->values.capacity);
        if (status == NDD_OK) status = load_body(loaded, &saved, &words);
        if (status == NDD_OK) status = ndd_table_reserve(loaded, saved.values_count);
        if (status == NDD_OK) status = ndd_table_validate(loaded, &words);
    }
    if (status != NDD_OK) {
        /* A document set that is being filled is closed with the places in use. */
        ndd_table_close(loaded);
        *reason = words[0] != '\0' ? words : ndd_strerror((int)status);
        return status;
    }
    *table = loaded;
    *note = saved.note;
    return NDD_OK;
}
