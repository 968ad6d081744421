/*
 * Any bytes as a page and as text.
 *
 *     input = flags (1 byte), length of the directory (1 byte), the directory, the page
 *
 * What must hold: the same page gives the same, whatever was read before, wherever it lies in
 * memory, with its words kept or not, its links gathered or not; its fingerprints are those that its words
 * come to by plain arithmetic; memory stays within a multiple of the page. The directory also serves as the
 * page's address.
 */
#include "fuzz.h"
#include "hash/hash.h"
#include "hash/sketch.h"

enum { AS_TEXT = 1, WITH_KEY = 2, NO_DIRECTORY = 4 }; /* and 3 bits of alignment above */

#define WEIGHT_CAP 480      /* docs/reference/fingerprint-spec.md, "Fingerprints" */
#define FEATURES_LEAST 8     /* docs/reference/fingerprint-spec.md: below it a page is not judged by its text */
#define MEMORY_FIXED 65536  /* of a reader, however small the page */
#define MEMORY_MULTIPLE 40  /* of the page's bytes: see native/include/ndd.h */

struct input {
    const uint8_t *page, *directory, *address;
    size_t n, directory_length, address_length;
    ndd_key key;
    int as_text;
};

static ndd_page read_with(ndd_reader *reader, const struct input *input) {
    ndd_page page;
    ndd_status status =
        input->as_text ? ndd_read_text(reader, input->page, input->n, input->key, &page)
                       : ndd_read_html(reader, input->page, input->n, input->directory,
                                       input->directory_length, input->key, &page);
    MUST(status == NDD_OK);
    return page;
}

static int same(const ndd_page *a, const ndd_page *b) { return memcmp(a, b, sizeof *a) == 0; }

/* ---------------------------------------------------------------------------- plain arithmetic */

struct feature {
    uint64_t hash;
    uint64_t weight;
};

static int by_hash(const void *a, const void *b) {
    const struct feature *left = a, *right = b;
    return left->hash < right->hash ? -1 : left->hash > right->hash;
}

/* Puts equal hashes together, their weights summed up to the cap; returns how many are left. */
static size_t unite(struct feature *features, size_t n, uint64_t cap) {
    size_t made = 0;
    if (n > 1) qsort(features, n, sizeof *features, by_hash);
    for (size_t i = 0; i < n; i++) {
        if (made == 0 || features[made - 1].hash != features[i].hash) features[made++] = features[i];
        else features[made - 1].weight += features[i].weight;
        if (features[made - 1].weight > cap) features[made - 1].weight = cap;
    }
    return made;
}

static uint64_t plain_simhash(const struct feature *features, size_t n) {
    uint64_t value = 0;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t set = 0, all = 0;
        for (size_t i = 0; i < n; i++) {
            all += features[i].weight;
            if (features[i].hash >> bit & 1) set += features[i].weight;
        }
        if (2 * set > all) value |= UINT64_C(1) << bit;
    }
    return value;
}

/* Whether the input may have an element that makes the title count beside more text: main or article, by name or role,
 * or a link, for the page may be a list of links. */
static int may_need_title(const struct input *input) {
    static const char *const names[] = {"main", "article", "&#", "<a"}; /* a role may be spelled with references */
    for (size_t name = 0; name < sizeof names / sizeof *names; name++) {
        size_t length = strlen(names[name]), same = 0;
        for (size_t i = 0; i + length <= input->n; i++) {
            for (same = 0; same < length && (input->page[i + same] | 0x20) == names[name][same]; same++) {}
            if (same == length) return 1;
        }
    }
    return 0;
}

/* The page's words, a line for each block ("weight TAB token token ..."), give its fingerprints. In the sketch of
 * HTML with little text the hash of the page stands in the place of that of its shingles. */
static void must_follow_from_words(const ndd_page *page, const uint8_t *words, size_t n, const struct input *input) {
    struct feature *features = malloc((n + 1) * sizeof *features);
    struct feature *shingles = malloc((n + 1) * sizeof *shingles);
    MUST(features != NULL && shingles != NULL);
    size_t count = 0, at = 0, bytes = 0;
    while (at < n) {
        uint64_t weight = 0;
        for (; at < n && words[at] != '\t'; at++) {
            MUST(words[at] >= '0' && words[at] <= '9');
            weight = 10 * weight + (uint64_t)(words[at] - '0');
        }
        MUST(at < n && weight >= 2 && weight <= 30);
        do { /* a token */
            size_t start = ++at;
            while (at < n && words[at] != ' ' && words[at] != '\n') at++;
            MUST(at < n && at > start && at - start <= 128);
            features[count].hash = ndd_hash_token(words + start, at - start, input->key);
            features[count++].weight = weight;
            bytes += at - start;
        } while (words[at] == ' ');
        at++;
    }
    MUST(bytes <= page->text_bytes);
    size_t runs = count > 2 ? count - 2 : count > 0;
    for (size_t i = 0; i < runs; i++) {
        uint64_t second = count > 1 ? features[i + 1].hash : 0;
        uint64_t third = count > 2 ? features[i + 2].hash : 0;
        shingles[i] = (struct feature){hash_shingle(features[i].hash, second, third), 1};
    }
    count = unite(features, count, WEIGHT_CAP);
    struct sketch sketch;
    uint8_t bytes_of_it[NDD_SKETCH_BYTES];
    uint64_t sequence = 0;
    for (size_t i = 0; i < runs; i++) sequence = sequence * NDD_HASH_C0 + shingles[i].hash;
    runs = unite(shingles, runs, 1);
    sketch_begin(&sketch);
    for (size_t i = runs; i > 0; i--) sketch_add(&sketch, shingles[i - 1].hash);
    sketch.sequence = sequence; /* of all of them in their order; the rest takes each once, in any order */
    sketch_end(&sketch, bytes_of_it);
    int marked = !input->as_text && input->n > 0 && (page->unread || count < FEATURES_LEAST);
    MUST(page->features == (page->unread ? 0 : count));
    MUST(page->unread || page->value == plain_simhash(features, count));
    /* Beside little text the title counts, whose words are not handed out. */
    int title_counts = page->title != 0 && (page->words_read < 80 || may_need_title(input));
    int more_counts = !input->as_text && page->words_read > 0 && title_counts;
    MUST(marked || memcmp(page->sketch + 33, bytes_of_it + 33, 4) == 0);
    if (!more_counts) MUST(memcmp(page->sketch, bytes_of_it, 33) == 0);
    if (!more_counts && !marked) {
        MUST(ndd_similarity(page->sketch, bytes_of_it) == 1);
    }
    MUST(page->words_read >= count && page->words_read <= page->words);
    free(features);
    free(shingles);
}

/* ------------------------------------------------------------------------------------- harness */

static int by_number(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* The links are distinct, none is the page's own, and there are no more than find room. */
static void must_be_links(ndd_reader *reader, size_t n) {
    const uint64_t *links;
    uint64_t own, *sorted;
    size_t found[3];
    ndd_reader_links(reader, &links, found, &own);
    size_t count = found[0];
    MUST(found[2] <= found[1] && found[1] <= count && count <= n / 8);
    sorted = malloc((count + 1) * sizeof *sorted);
    MUST(sorted != NULL);
    if (count > 0) memcpy(sorted, links, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_number);
    for (size_t i = 0; i < count; i++) MUST(sorted[i] != own && (i == 0 || sorted[i] != sorted[i - 1]));
    free(sorted);
}

/* The numbers of the page come in runs: a word, at least one, and a 0. Each of its blocks has words. */
static void must_be_runs(ndd_reader *reader, size_t most) {
    const uint64_t *hashes;
    size_t n, of_run = 0;
    MUST(ndd_reader_numbers(reader, &hashes, &n) == NDD_OK && n <= 3 * most);
    for (size_t i = 0; i < n; i++) {
        if (hashes[i] == 0) MUST(of_run >= 2);
        of_run = hashes[i] == 0 ? 0 : of_run + 1;
    }
    MUST(of_run == 0);
    MUST(ndd_reader_texts(reader, &hashes, &n) == NDD_OK && n <= most);
    for (size_t i = 0; i < n; i++) MUST(hashes[i] >> 32 != 0);
}

/* The blocks of the page: no two with one hash, those that were read first, and their words are not more than its own. */
static void must_be_blocks(ndd_reader *reader, size_t most, const ndd_page *page) {
    const uint64_t *blocks;
    size_t n, words = 0, read = 0;
    MUST(ndd_reader_blocks(reader, &blocks, &n) == NDD_OK && n <= 400);
    for (size_t i = 0; i < n; i++) {
        size_t tokens = (size_t)(blocks[i] >> 32 & 0x3fffffff);
        MUST(tokens > 0 && (i == 0 || blocks[i] >> 63 <= blocks[i - 1] >> 63));
        words += tokens;
        read += blocks[i] >> 63 ? tokens : 0;
        for (size_t j = 0; j < i && j < 8; j++) MUST((uint32_t)blocks[i] != (uint32_t)blocks[j]);
    }
    MUST(words <= most && read <= page->words_read);
}

static ndd_page must_read_in_bounds(const struct input *input, int keep_words) {
    ndd_reader *reader;
    const uint8_t *words;
    size_t n;
    fuzz_count_memory();
    MUST(ndd_reader_open(&reader) == NDD_OK);
    ndd_reader_keep_words(reader, keep_words);
    if (keep_words) ndd_reader_keep_links(reader, input->address, input->address_length);
    ndd_page page = read_with(reader, input);
    must_be_links(reader, keep_words && !input->as_text ? input->n : 0);
    MUST(fuzz_memory_taken() <= MEMORY_FIXED + MEMORY_MULTIPLE * input->n);
    must_be_runs(reader, input->n);
    must_be_blocks(reader, 8 * input->n + 8, &page);
    MUST(page.text_bytes <= 8 * input->n + 8 && page.data_bytes <= input->n);
    if (keep_words) {
        MUST(ndd_reader_words(reader, &words, &n) == NDD_OK);
        must_follow_from_words(&page, words, n, input);
    } else {
        MUST(ndd_reader_words(reader, &words, &n) == NDD_BAD_ARGUMENT);
    }
    ndd_reader_close(reader);
    return page;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static ndd_reader *used; /* by every page before */
    if (used == NULL) MUST(ndd_reader_open(&used) == NDD_OK);
    if (n < 2) return 0;
    int flags = bytes[0];
    size_t shift = (size_t)flags >> 3 & 7, length = bytes[1];
    bytes += 2, n -= 2;
    if (length > n) length = n;
    uint8_t *directory = fuzz_exact(bytes, length, 0);
    bytes += length, n -= length;
    uint8_t *page = fuzz_exact(bytes, n, shift);
    struct input input = {page, (flags & NO_DIRECTORY) ? NULL : directory, directory,
                          n, length, length, {0, 0}, flags & AS_TEXT};
    if (flags & WITH_KEY) input.key = (ndd_key){UINT64_C(0x0706050403020100), UINT64_C(0xf0debc9a78563412)};

    ndd_page first = must_read_in_bounds(&input, 1), other = must_read_in_bounds(&input, 0);
    MUST(same(&first, &other));
    other = read_with(used, &input);
    MUST(same(&first, &other));

    uint8_t *moved = fuzz_exact(bytes, n, 7 - shift);
    struct input elsewhere = input;
    elsewhere.page = moved;
    other = read_with(used, &elsewhere);
    MUST(same(&first, &other));

    elsewhere.directory = NULL; /* decides about the canonical URL only, and no part or thing depends on it */
    other = read_with(used, &elsewhere);
    MUST((other.canonical == 0) == (first.canonical == 0));
    other.canonical = first.canonical;
    MUST(same(&first, &other));

    if (first.features >= FEATURES_LEAST && memchr(bytes, '<', n) == NULL && memchr(bytes, '&', n) == NULL) { /* then all is text */
        elsewhere.as_text = !input.as_text;
        other = read_with(used, &elsewhere);
        MUST(same(&first, &other));
    }
    if (n >= NDD_SKETCH_BYTES) { /* any bytes may come as a sketch */
        double one = ndd_similarity(first.sketch, bytes), other_way = ndd_similarity(bytes, first.sketch);
        MUST(one >= 0 && one <= 1 && one == other_way && ndd_similarity(bytes, bytes) == 1);
    }
    fuzz_drop(moved, 7 - shift);
    fuzz_drop(page, shift);
    fuzz_drop(directory, 0);
    return 0;
}
