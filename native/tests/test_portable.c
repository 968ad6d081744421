/* The reader that looks at 16 bytes at a time against the one that looks at each: pages put together
 * from what either could take for something else give the same, to the last bit. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ndd.h"

/* The same reader built with NDD_PORTABLE (portable.h). */
ndd_status portable_reader_open(ndd_reader **reader);
void portable_reader_close(ndd_reader *reader);
void portable_reader_keep_words(ndd_reader *reader, int on);
ndd_status portable_read_html(ndd_reader *reader, const uint8_t *html, size_t n, const uint8_t *directory,
                              size_t directory_length, ndd_key key, ndd_page *page);
ndd_status portable_read_text(ndd_reader *reader, const uint8_t *text, size_t n, ndd_key key, ndd_page *page);
int portable_seems_utf8(const uint8_t *html, size_t n);
ndd_status portable_simhash_weighted(const uint64_t *hashes, const uint32_t *weights, size_t n, uint64_t *value);

static unsigned long long state = 11;

static size_t below(size_t n) {
    return (size_t)(random_bits(&state) % n);
}

static const char *const pieces[] = {
    /* text: lengths around 16, all that ends a word or goes on in it */
    "a", "Of", "the", "Word", "sixteen_letters_", "fifteen_letters", "seventeen_letters", "X9", " ", "  ", ", ",
    "\n\t      ", "-", ".", "_", "@[`{", "\x0b", "\x01", "\x7f", "caf\xc3\xa9", "\xc3\x89t\xc3\xa9", "\xe4\xb8\xad\xe6\x96\x87",
    "\xe0\xb8\x81", "\xf0\x9f\x98\x80", "\xc2\xad", "\xff", "\xe4\xb8", "&amp;", "&", "&eacute", "&#x4e2d;", "&lt;",
    /* tags: names around 8 letters, attributes around 16, values that hide, drop or lead somewhere */
    "<p>", "</p>", "<DIV>", "</div>", "<b>", "</b>", "<article>", "</article>", "<blockquote>", "</BLOCKQUOTE>",
    "<template>", "</template>", "<x-unknown-name>", "</x-unknown-name>", "<li>", "<td>", "<br/>", "<svg/>", "<nav ",
    "<div class=\"", "<a href='", "<a href=", "<a href=/x>", "<a href='y.html#z'>", "</a>", "<p id=", "<h1 ", "<script>",
    "</script>", "<script type=x/y+json>", "</SCRIPT >", "<!--", "-->", "<!-- -->", "<", ">", ">", ">", "\">", "'>",
    "class='a comment'", "class=\"col-xs-12 container disc replies\"", "id=\"sixteen-letters-reply\"", "id=re",
    "comments", "related", "popup", "class=\"a-modal newsletter", "signup", "<noscript>", "</noscript>", "Disqus", "livefyre", "respond ", "discussion", "role=main", "role=\"navigation x\"", "hidden", "style='",
    "display : none;", "aria-hidden=\"true\"", "data-a-very-long-attribute-name=\"\"", "data-\x02\x03=", "type=application/json",
    "href=\"/a/b?sid=1&amp;x=2#f\"", "href='http://host/path;jsessionid=3/x?utm_a=1&b'", "href=\" ./x\n\"", "href=//h?q",
    "=", "\"", "'", ">", "/", "/>", "<title>", "</title>", "<link rel=canonical ", "<link rel=canonical href=/x>", "\xc2\xa9", "<meta charset=", "<META CHARSET ='", "utf-8", "UTF8'", "latin1>", "charset=utf-8", "encoding=x", "\x1b$B"};

/* A page of random pieces in memory of exactly its size, so that a read past its end is seen. */
static uint8_t *make_page(size_t *n) {
    static char page[1 << 14];
    size_t length = 0, count = below(4) == 0 ? below(4) : below(300);
    if (count > 0 && below(3) == 0) length = below(16); /* white space before, so that all lies otherwise */
    memset(page, ' ', length);
    while (count-- > 0) {
        size_t kinds = sizeof pieces / sizeof *pieces, text = 32;
        const char *piece = pieces[below(3) == 0 ? below(kinds) : below(text)];
        memcpy(page + length, piece, strlen(piece));
        length += strlen(piece);
        if (below(16) == 0) page[length++] = (char)random_bits(&state);
        if (length > sizeof page - 100) break;
    }
    if (length > 0 && below(4) == 0) length = below(length); /* cut anywhere */
    uint8_t *exact = malloc(length > 0 ? length : 1);
    CHECK(exact != NULL);
    memcpy(exact, page, length);
    *n = length;
    return exact;
}

static void test_pages(void) {
    ndd_reader *reader, *portable;
    CHECK(ndd_reader_open(&reader) == NDD_OK && portable_reader_open(&portable) == NDD_OK);
    uint64_t features = 0, canonical = 0, titles = 0, data = 0, plain = 0;
    for (int i = 0; i < 20000; i++) {
        size_t n;
        uint8_t *html = make_page(&n);
        ndd_key key = {i % 3 == 0 ? random_bits(&state) : 0, 0};
        ndd_page one, other;
        CHECK(ndd_read_html(reader, html, n, NULL, 0, key, &one) == NDD_OK);
        portable_reader_keep_words(portable, i & 1);
        CHECK(portable_read_html(portable, html, n, NULL, 0, key, &other) == NDD_OK);
        CHECK(memcmp(&one, &other, sizeof one) == 0);
        features += one.features;
        canonical += one.canonical != 0;
        titles += one.title != 0;
        data += one.data_bytes;
        CHECK(ndd_read_text(reader, html, n, key, &one) == NDD_OK);
        CHECK(portable_read_text(portable, html, n, key, &other) == NDD_OK);
        CHECK(memcmp(&one, &other, sizeof one) == 0);
        CHECK(ndd_seems_utf8(html, n) == portable_seems_utf8(html, n));
        plain += (uint64_t)ndd_seems_utf8(html, n);
        free(html);
    }
    CHECK(plain > 1000 && plain < 19000);
    CHECK(features > 100000 && canonical > 50 && titles > 50 && data > 0); /* the pages were about something */
    ndd_reader_close(reader);
    portable_reader_close(portable);
}

/* Sums in lanes of 16 bits against bit-sliced counters, up to the greatest weight and past it. */
static void test_weights(void) {
    static uint64_t hashes[1000];
    static uint32_t weights[1000];
    for (uint32_t most = 1; most <= 1024; most *= 2) {
        for (size_t n = 0; n < 1000; n += 1 + below(70)) {
            for (size_t i = 0; i < n; i++) {
                hashes[i] = n % 2 == 0 || below(8) == 0 ? ~UINT64_C(0) : random_bits(&state);
                weights[i] = n % 2 == 0 || below(2) == 0 ? most - 1 : (uint32_t)below(most);
            }
            uint64_t one = 0, other = 1;
            CHECK(ndd_simhash_weighted(hashes, weights, n, &one) == NDD_OK);
            CHECK(portable_simhash_weighted(hashes, weights, n, &other) == NDD_OK);
            CHECK(one == other);
        }
    }
}

int main(void) {
    test_pages();
    test_weights();
    return 0;
}
