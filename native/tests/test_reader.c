/* The reader on pages whose outcome is plain, and on every cut of them. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ndd.h"

static ndd_reader *reader;
static const ndd_key public_recipe = {0, 0};

static ndd_page read_page(const char *html) {
    ndd_page page;
    size_t n = strlen(html);
    uint8_t *exact = malloc(n + 1); /* its own allocation, so that a read past the end is seen */
    CHECK(exact != NULL);
    memcpy(exact, html, n);
    CHECK(ndd_read_html(reader, exact, n, NULL, 0, public_recipe, &page) == NDD_OK);
    free(exact);
    return page;
}

/* The words of a page, blocks and weights as ndd_reader_words gives them. */
static const char *words(const char *html) {
    static char text[1 << 16];
    const uint8_t *at;
    size_t n;
    read_page(html);
    CHECK(ndd_reader_words(reader, &at, &n) == NDD_OK);
    CHECK(n < sizeof text);
    if (n > 0) memcpy(text, at, n);
    text[n] = '\0';
    return text;
}

static int says(const char *html, const char *expected) {
    const char *found = words(html);
    if (strcmp(found, expected) == 0) return 1;
    fprintf(stderr, "%s\n gives %s\n not   %s\n", html, found, expected);
    return 0;
}

#define TWENTY "a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 b1 b2 b3 b4 b5 b6 b7 b8 b9 b10"

static void test_words(void) {
    /* Fewer than 20 tokens: the whole page counts, at the greatest weight. */
    CHECK(says("Hello, World", "30\thello world\n"));
    CHECK(says("foo<b>bar</b> baz<br>qux", "30\tfoobar baz qux\n"));
    CHECK(says("<p>one<p>two", "30\tone\n30\ttwo\n"));
    CHECK(says("a &amp; b&nbsp;c &eacute;t&eacute &#x41;&#66; &unknown; &am", "30\ta b c \xc3\xa9t\xc3\xa9 ab unknown am\n"));
    CHECK(says("STRASSE \xc3\x89T\xc3\x89", "30\tstrasse \xc3\xa9t\xc3\xa9\n"));
    CHECK(says("\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97", "30\t\xe4\xb8\xad\xe6\x96\x87 \xe6\x96\x87\xe5\xad\x97\n"));
    CHECK(says("x\xe4\xb8\xad!", "30\tx \xe4\xb8\xad\n"));
    CHECK(says("soft\xc2\xadhyphen \xff\xfe bad", "30\tsofthyphen bad\n"));
    CHECK(says("1 < 2 <3 a<", "30\t1 2 3 a\n"));
    CHECK(says("", ""));
    CHECK(says("<!-- a --> b <!--> c <!-- d", "30\tb c\n"));
    CHECK(says("<script>var x = '<p>no</p>';</script>yes<style>a{}</style>", "30\tyes\n"));
    CHECK(says("a<script>unclosed", "30\ta\n"));
    CHECK(says("<title>no</title><textarea>no</textarea><template><p>no</template>yes", "30\tyes\n"));
    CHECK(says("<div hidden>no</div><p style='Display : NONE'>no</p><i aria-hidden=true>no</i>yes", "30\tyes\n"));
    CHECK(says("<body hidden>yes</body>", "30\tyes\n"));
    CHECK(says("<a href='unclosed>no", ""));
}

static void test_blocks(void) {
    CHECK(says("<nav>menu</nav><p>" TWENTY "</p><footer>end</footer>", "20\t" TWENTY "\n"));
    CHECK(says("<h1>title</h1><p>" TWENTY "</p>", "20\ttitle\n20\t" TWENTY "\n"));
    CHECK(says("<div class='post-comments'>no</div><p>" TWENTY "</p>", "20\t" TWENTY "\n"));
    CHECK(says("<div role=navigation>no</div><p>" TWENTY "</p>", "20\t" TWENTY "\n"));
    CHECK(says("<header>no</header><p>" TWENTY "</p>", "20\t" TWENTY "\n"));
    CHECK(says("<ul><li><a href=/>link link</a> x</ul><p>" TWENTY "</p>", "20\t" TWENTY "\n"));
    CHECK(says("<p>" TWENTY "</p><p>short one</p>", "20\t" TWENTY "\n2\tshort one\n"));
    /* article holds 80 tokens: what is outside goes */
    CHECK(says("<p>outside words</p><article><p>" TWENTY " " TWENTY "<p>" TWENTY " x " TWENTY "</article>",
               "30\t" TWENTY " " TWENTY "\n30\t" TWENTY " x " TWENTY "\n"));
    /* What the page says twice counts once, wherever it stands. */
    CHECK(says("<p>" TWENTY "</p><h2>a b c d</h2><p>x</p><ul><li>a b<li>a b<li>A b, C d.</ul><p>" TWENTY,
               "20\t" TWENTY "\n2\ta b c d\n2\tx\n2\ta b\n2\ta b\n"));
    /* an unclosed nav ends with the element around it */
    CHECK(says("<div><nav>no</div><p>" TWENTY "</p>", "20\t" TWENTY "\n"));
    /* an end tag within a line does not close a block */
    CHECK(says("<b><nav></b>no</nav><p>" TWENTY "</p>", "20\t" TWENTY "\n"));
}

/* What holds most of the page is none of what its hints say (tests/core/test_wrappers.py has every limit). */
static void test_wrappers(void) {
    CHECK(says("<p>x y</p><form><p>" TWENTY "</p><nav>no</nav></form>", "2\tx y\n20\t" TWENTY "\n"));
    CHECK(says("<p>" TWENTY "</p><form><p>" TWENTY "</p></form>", "20\t" TWENTY "\n"));
    CHECK(says("<div class=has-comments><p>" TWENTY "</p><div id=comments>no</div></div>", "20\t" TWENTY "\n"));
    CHECK(says("<div class=reply><i class=comment><p>" TWENTY "</i></div><p class=reply>x y", "20\t" TWENTY "\n2\tx y\n"));
    CHECK(read_page("<aside><p>" TWENTY "<a href=/1>x</a> <a href=/2>y</a><nav><a href=/3>no</a></aside>").link_count == 2);
}

/* So many outermost elements are told apart; all behind them count as one. */
static void test_many_outermost(void) {
    static const char nav[] = "<nav></nav>", text[] = "<nav>a b c d e f g h i j k l</nav><nav>m n o p q r s t u v w x</nav>";
    size_t n = sizeof nav - 1, told_apart = (1 << 20) - 2, size = told_apart * n + sizeof text;
    char *html = malloc(size);
    CHECK(html != NULL);
    for (size_t i = 0; i < told_apart; i++) memcpy(html + i * n, nav, n);
    memcpy(html + told_apart * n, text, sizeof text);
    CHECK(says(html, "12\ta b c d e f g h i j k l\n12\tm n o p q r s t u v w x\n"));
    CHECK(says(html + n, "30\ta b c d e f g h i j k l\n30\tm n o p q r s t u v w x\n"));
    free(html);
}

static void test_links(void) {
    ndd_page a = read_page("<a href='/x?b=1&sid=9'>x</a><a href=\"http://host/y;jsessionid=1?utm_source=z#f\">y</a>");
    ndd_page b = read_page("<a href=/x?b=1>x</a><a href=/y>y</a><a href=/x?b=1&amp;sid=77>again</a>"
                           "<a href='#top'>no</a><a href='javascript:x()'>no</a><nav><a href=/z>no</a></nav>");
    CHECK(a.link_count == 2 && b.link_count == 2);
    CHECK(a.links == b.links && a.links != 0);
    CHECK(read_page("<a href=/x?b=2>x</a><a href=/y>y</a>").links != a.links);

    ndd_page relative, absolute;
    const uint8_t folder[] = "/docs/";
    const char *r = "<a href=./one.html>1</a>", *s = "<a href=https://h/docs/one.html>1</a>";
    CHECK(ndd_read_html(reader, (const uint8_t *)r, strlen(r), folder, 6, public_recipe, &relative) == NDD_OK);
    CHECK(ndd_read_html(reader, (const uint8_t *)s, strlen(s), folder, 6, public_recipe, &absolute) == NDD_OK);
    CHECK(relative.links == absolute.links && relative.link_count == 1);
}

/* A word of a class counts only whole, at whatever place in it and in the page. */
static void test_words_of_classes(void) {
    for (int before = 0; before < 50; before++) {
        for (int behind = 0; behind < 24; behind++) {
            static const char *const ends[] = {"comment", "-comment", "comments2", "-replies-", " Livefyre"};
            for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
                char page[128];
                snprintf(page, sizeof page, "<a href=x class=\"%.*s%s\">%*s", before,
                         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", ends[i], behind, "");
                int dropped = i == 0 ? before == 0 : i != 2;
                CHECK(read_page(page).link_count == (dropped ? 0 : 1));
            }
        }
    }
}

static void test_counts(void) {
    ndd_page page = read_page("<script type='application/json'>{\"a\": 1}</script><p>two two words");
    CHECK(page.data_bytes == 8 && page.text_bytes == 11 && page.features == 2);
    ndd_page empty = read_page("<p></p>");
    CHECK(empty.value == 0 && empty.check == 0 && empty.links == 0 && empty.features == 0);
    ndd_key secret = {1, 2};
    ndd_page keyed, open;
    const uint8_t text[] = "some words of text";
    CHECK(ndd_read_text(reader, text, sizeof text - 1, secret, &keyed) == NDD_OK);
    CHECK(ndd_read_text(reader, text, sizeof text - 1, public_recipe, &open) == NDD_OK);
    CHECK(keyed.value != open.value && keyed.check != open.check && keyed.features == open.features);
    CHECK(ndd_read_text(reader, NULL, 1, public_recipe, &open) == NDD_BAD_ARGUMENT);
}

static int seems_utf8(const char *html) {
    size_t n = strlen(html);
    uint8_t *exact = malloc(n + 1);
    CHECK(exact != NULL);
    memcpy(exact, html, n);
    int answer = ndd_seems_utf8(exact, n);
    free(exact);
    return answer;
}

/* The quick look at encodings says yes only where nothing else is declared or shows. */
static void test_declarations(void) {
    static const char *const yes[] = {"", "=", "<p class=x>", "<meta charset=utf-8>", "<META CHARSET = ' UTF-8 '>", "charset=utf8",
                                      "<meta content=\"text/html; charset=utf-8\">", "<?xml encoding=\"UTF-8\"?>", "arset=x"};
    static const char *const no[] = {"<meta charset=latin1>", "charset=", "charset=utf-16", "charset=utf-8-x", "charset\x0b=\"koi8-r\"",
                                     "<?xml Encoding='gbk'", "charset=utf-8 charset=big5", "charset=utf-8\xe9", "charset=ut"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) CHECK(seems_utf8(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) CHECK(!seems_utf8(no[i]));
    static char page[5000] = "";
    memset(page, '=', sizeof page - 1);
    memcpy(page + 4090, "charset=x", 9); /* cut at 4096 bytes */
    CHECK(seems_utf8(page));
    memcpy(page + 4080, "charset=x", 9);
    CHECK(!seems_utf8(page));
    CHECK(!seems_utf8("\x1b$B") && ndd_seems_utf8((const uint8_t *)"ab", 2));
    CHECK(!ndd_seems_utf8((const uint8_t *)"a", 2)); /* with its NUL */
}

/* Bytes of text that are no UTF-8 are counted; those outside text, and U+FFFD itself, are not. */
static void test_invalid_bytes(void) {
    CHECK(read_page("<p>caf\xc3\xa9 \xef\xbf\xbd &#xfffd; \xe4\xb8\xad\xe2\x80\x99").invalid_bytes == 0);
    CHECK(read_page("<p>caf\xe9 \xff\xe4\xb8").invalid_bytes == 4);
    CHECK(read_page("<!-- \xff --><p title='\xe9'>a<script>\xff</script>").invalid_bytes == 0);
}

/* Every beginning of a page is read without a fault, and reading it twice gives the same. */
static void test_cuts(void) {
    static const char page[] =
        "<!doctype html><html lang=zh><title>t</title><body class=x><nav><a href='/a?sid=1'>a</a></nav>"
        "<article><h1>\xe4\xb8\xad\xe6\x96\x87</h1><p>text &copy; &#8212; &notin; caf\xc3\xa9<!-- c --><br/>"
        "<table><tr><td>x<td>y</table><svg><path d='z'/></svg><ul><li>1<li>2</ul></article>"
        "<script type=application/json>{}</script><![CDATA[x]]></bogus \xf0\x9f\x98\x80";
    for (size_t n = 0; n < sizeof page; n++) {
        ndd_page once, twice;
        uint8_t *exact = malloc(n > 0 ? n : 1);
        CHECK(exact != NULL);
        memcpy(exact, page, n);
        CHECK(ndd_read_html(reader, exact, n, NULL, 0, public_recipe, &once) == NDD_OK);
        CHECK(ndd_read_html(reader, exact, n, NULL, 0, public_recipe, &twice) == NDD_OK);
        CHECK(memcmp(&once, &twice, sizeof once) == 0);
        free(exact);
    }
}

/* Pages made to be deep, long or endless are read in one pass. */
static void test_hostile(void) {
    static const char *const pieces[] = {"<div>", "<a href=x>", "</p>", "<p ", "<!--", "&", "<b><i>",
                                         "<li>", "<table><tr><td>", "<script>", "<a b='", "\xe4\xb8\xad", "x"};
    size_t n = 1 << 20;
    char *html = malloc(n);
    CHECK(html != NULL);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t length = strlen(pieces[i]);
        for (size_t at = 0; at < n; at++) html[at] = pieces[i][at % length];
        ndd_page page;
        CHECK(ndd_read_html(reader, (const uint8_t *)html, n, NULL, 0, public_recipe, &page) == NDD_OK);
    }
    free(html);
}

int main(void) {
    CHECK(ndd_reader_open(&reader) == NDD_OK);
    ndd_reader_keep_words(reader, 1);
    test_words();
    test_blocks();
    test_wrappers();
    test_many_outermost();
    test_links();
    test_words_of_classes();
    test_counts();
    test_declarations();
    test_invalid_bytes();
    test_cuts();
    ndd_reader_keep_words(reader, 0);
    test_hostile();
    ndd_reader_close(reader);
    ndd_reader_close(NULL);
    return 0;
}
