/* Any bytes as a page and as text: no fault, no endless run, the same answer twice. */
#include <stdlib.h>
#include <string.h>

#include "ndd.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
uint8_t *fuzz_seed(size_t i, size_t *n);

static const char *const seeds[] = {
    "<!doctype html><html><head><title>t</title><style>a{}</style></head><body><nav><a href='/a?sid=1&b=2'>a</a>"
    "</nav><main><article><h1>Head</h1><p>Some words &amp; more &#8212; caf\xc3\xa9 &notit; &eacute</p><ul><li>1<li>2"
    "</ul><table><tr><td>x<td>y</table></article></main><div class='comments'>no</div><footer>f</footer>",
    "\xe4\xb8\xad\xe6\x96\x87<b>\xe5\xad\x97</b>\xe0\xb8\x81\xe0\xb8\xa1 <a href=\"//h/p;jsessionid=3?x=1#f\">l</a>",
    "<script type=application/json>{\"a\":\"</scr\"}</script><svg><path/><title>x</title></svg><!-- - -- --!> <![CDATA[",
    "<p hidden><div style='display: none'><b><i><div role=main></b></i><textarea></textarea x><select><option>"};

uint8_t *fuzz_seed(size_t i, size_t *n) {
    if (i >= sizeof seeds / sizeof *seeds) return NULL;
    *n = strlen(seeds[i]);
    uint8_t *copy = malloc(*n);
    if (copy != NULL) memcpy(copy, seeds[i], *n);
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static ndd_reader *reader;
    static const ndd_key key = {0, 0};
    if (reader == NULL && ndd_reader_open(&reader) != NDD_OK) abort();
    ndd_page once, twice;
    size_t folder = n < 7 ? n : 7;
    ndd_reader_keep_words(reader, 1);
    if (ndd_read_html(reader, bytes, n, bytes, folder, key, &once) != NDD_OK) abort();
    const uint8_t *words;
    size_t length;
    if (ndd_reader_words(reader, &words, &length) != NDD_OK) abort();
    if (length > 9 * n + 9) abort(); /* memory is bounded by the input */
    ndd_reader_keep_words(reader, 0);
    if (ndd_read_html(reader, bytes, n, bytes, folder, key, &twice) != NDD_OK) abort();
    if (memcmp(&once, &twice, sizeof once) != 0) abort();
    if (ndd_read_text(reader, bytes, n, key, &once) != NDD_OK) abort();
    return 0;
}
