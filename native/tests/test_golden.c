/*
 * The golden vectors (tests/golden), held against this build of the core.
 *
 * The rule they prove: a fingerprint and a segment are the same on every machine, compiler and
 * endianness. `make test-endian` runs this for a big-endian processor.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "hash/hash.h"
#include "ndd.h"
#include "segments.h"

struct bytes {
    const uint8_t *at;
    size_t n;
};

struct golden_token {
    struct bytes token;
    uint64_t hash, keyed;
};

struct golden_simhash {
    struct bytes hashes, weights; /* little-endian */
    int weighted;
    uint64_t value;
};

struct golden_target {
    struct bytes page, directory, target;
};

struct golden_page {
    struct bytes content, directory;
    ndd_page found, keyed;
};

#include "golden.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const ndd_key no_key = {0, 0};
static ndd_reader *reader;

static void test_tokens(void) {
    for (size_t i = 0; i < COUNT(golden_tokens); i++) {
        const struct golden_token *v = &golden_tokens[i];
        CHECK(ndd_hash_token(v->token.at, v->token.n, no_key) == v->hash);
        CHECK(ndd_hash_token(v->token.at, v->token.n, golden_key) == v->keyed);
    }
}

static void test_simhashes(void) {
    uint64_t hashes[128] = {0};
    uint32_t weights[128] = {0};
    for (size_t i = 0; i < COUNT(golden_simhashes); i++) {
        const struct golden_simhash *v = &golden_simhashes[i];
        size_t n = v->hashes.n / 8;
        uint64_t value = 0;
        CHECK(n <= COUNT(hashes));
        for (size_t j = 0; j < n; j++) {
            hashes[j] = load_le(v->hashes.at + 8 * j, 8);
            if (v->weighted) weights[j] = (uint32_t)load_le(v->weights.at + 4 * j, 4);
        }
        if (v->weighted) {
            CHECK(ndd_simhash_weighted(hashes, weights, n, &value) == NDD_OK);
        } else {
            value = ndd_simhash(hashes, n);
        }
        CHECK(value == v->value);
    }
}

static void test_targets(void) {
    for (size_t i = 0; i < COUNT(golden_targets); i++) {
        const struct golden_target *v = &golden_targets[i];
        ndd_page page;
        CHECK(ndd_read_html(reader, v->page.at, v->page.n, v->directory.at, v->directory.n, no_key,
                            &page) == NDD_OK);
        uint32_t half = 0;
        if (v->target.at != NULL) half = (uint32_t)(ndd_hash_token(v->target.at, v->target.n, no_key) >> 32);
        CHECK(page.canonical == half);
    }
}

static int same_page(const ndd_page *a, const ndd_page *b) {
    return a->value == b->value && memcmp(a->sketch, b->sketch, sizeof a->sketch) == 0 &&
           a->title == b->title && a->canonical == b->canonical && a->thing == b->thing &&
           memcmp(a->parts, b->parts, sizeof a->parts) == 0 && a->features == b->features;
}

static void test_texts(void) {
    for (size_t i = 0; i < COUNT(golden_texts); i++) {
        const struct golden_page *v = &golden_texts[i];
        ndd_page page;
        CHECK(ndd_read_text(reader, v->content.at, v->content.n, no_key, &page) == NDD_OK);
        CHECK(same_page(&page, &v->found));
        CHECK(ndd_read_text(reader, v->content.at, v->content.n, golden_key, &page) == NDD_OK);
        CHECK(same_page(&page, &v->keyed));
    }
}

static void test_pages(void) {
    for (size_t i = 0; i < COUNT(golden_pages); i++) {
        const struct golden_page *v = &golden_pages[i];
        ndd_page page;
        CHECK(ndd_read_html(reader, v->content.at, v->content.n, v->directory.at, v->directory.n,
                            no_key, &page) == NDD_OK);
        CHECK(same_page(&page, &v->found));
        CHECK(page.text_bytes == v->found.text_bytes && page.data_bytes == v->found.data_bytes);
        CHECK(page.words == v->found.words && page.words_read == v->found.words_read);
        CHECK(ndd_read_html(reader, v->content.at, v->content.n, v->directory.at, v->directory.n,
                            golden_key, &page) == NDD_OK);
        CHECK(same_page(&page, &v->keyed));
    }
}

/* A segment of many pairs: its bytes have the hash they had on the machine where this was written. */
static void test_segment_of_many(void) {
    enum { N = 20000 };
    static uint64_t values[N], documents[N];
    unsigned long long state = 11;
    for (size_t i = 0; i < N; i++) {
        values[i] = i % 7 == 6 ? values[i - 3] : random_bits(&state);
        documents[i] = i % 5 == 4 ? random_bits(&state) : i;
    }
    struct pairs pairs = {values, documents, N};
    uint64_t size;
    CHECK(ndd_sort_pairs(values, documents, N, NULL, &pairs.n) == NDD_OK && pairs.n == N);
    uint8_t *bytes = write_segment(&pairs, 6, N, &size);
    uint64_t found = ndd_hash_fnv1a(bytes, (size_t)size);
    CHECK(found == UINT64_C(0x49ddc5ed9c02afb3));
    free(bytes);
}

int main(void) {
    CHECK(strcmp(ndd_recipe(), GOLDEN_RECIPE) == 0);
    CHECK(ndd_reader_open(&reader) == NDD_OK);
    test_tokens();
    test_simhashes();
    test_targets();
    test_texts();
    test_pages();
    test_segment_of_many();
    ndd_reader_close(reader);
    return 0;
}
