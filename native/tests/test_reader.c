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
#define EIGHTY TWENTY " " TWENTY " " TWENTY " " TWENTY
#define MUCH EIGHTY " " EIGHTY

static void test_words(void) {
    CHECK(says("Hello, World", "2\thello world\n"));
    CHECK(says("foo<b>bar</b> baz<br>qux", "3\tfoobar baz qux\n"));
    CHECK(says("<p>one<p>two", "2\tone\n2\ttwo\n"));
    CHECK(says("a &amp; b&nbsp;c &eacute;t&eacute &#x41;&#66;&#x43g &unknown; &am", "7\ta b c \xc3\xa9t\xc3\xa9 abcg unknown am\n"));
    CHECK(says("STRASSE \xc3\x89T\xc3\x89", "2\tstrasse \xc3\xa9t\xc3\xa9\n"));
    CHECK(says("\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97", "2\t\xe4\xb8\xad\xe6\x96\x87 \xe6\x96\x87\xe5\xad\x97\n"));
    CHECK(says("x\xe4\xb8\xad!", "2\tx \xe4\xb8\xad\n"));
    CHECK(says("soft\xc2\xadhyphen \xff\xfe bad", "2\tsofthyphen bad\n"));
    CHECK(says("1 < 2 <3 a<", "4\t1 2 3 a\n"));
    CHECK(says("", ""));
    CHECK(says("<!-- a --> b <!--> c <!-- d", "2\tb c\n"));
    CHECK(says("<script>var x = '<p>no</p>';</script>yes<style>a{}</style>", "2\tyes\n"));
    CHECK(says("a<script>unclosed", "2\ta\n"));
    CHECK(says("<title>no</title><template><p>no</template>yes", "2\tyes\n"));
    CHECK(says("<textarea>a <b>&amp; c</textarea><xmp>d</xmp><iframe srcdoc='<p>e'>no</iframe>", "3\ta b c\n2\td\n2\tp e\n"));
    CHECK(says("<textarea hidden>no</textarea><svg><textarea>no</textarea></svg>yes", "2\tyes\n"));
    CHECK(says("<x-a><template shadowrootmode=open><p>seen</template></x-a><dialog open>too</dialog><p hidden=until-found>this", "2\tseen\n2\ttoo\n2\tthis\n"));
    CHECK(says("<svg><title/><style/><script/><path d=x></svg>yes", "2\tyes\n"));
    CHECK(says("<svg><path><p>ends it", "2\tends it\n"));
    CHECK(says("<svg><foreignObject><p>no</p></foreignObject></svg>yes", "2\tyes\n"));
    CHECK(says("<math><mi>x<![CDATA[ y<b ]]></mi></math> a<![CDATA[no]]>b", "4\tx y b ab\n"));
    CHECK(says("<?xml version='1.0'?><p><![CDATA[a <b> c]]> d</p>", "4\ta b c d\n"));
    CHECK(says("{\"a\": \"no\"}", "") && says("[1, 2]", "") && says("<html><pre>{\"a\": 1}</pre></html>", ""));
    CHECK(says("[edit] yes", "2\tedit yes\n") && says("a<pre>{\"b\": 1}</pre>", "2\ta\n2\tb 1\n"));
    CHECK(says("<div hidden>no</div><p style='Display : NONE'>no</p><i aria-hidden=true>no</i>yes I say", "3\tyes i say\n"));
    CHECK(says("<body hidden>yes</body>", "2\tyes\n"));
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

/* Forms and comments that hold most of the text are the content (tests/core/test_wrappers.py has every limit). */
static void test_wrappers(void) {
    CHECK(says("<p>x y</p><form><p>" MUCH "</p><nav>no</nav></form>", "2\tx y\n30\t" MUCH "\n"));
    CHECK(says("<p>" TWENTY "</p><form><p>c " TWENTY "</p></form>", "20\t" TWENTY "\n"));
    CHECK(says("<div class=has-comments><p>" TWENTY "</p><div id=comments>no</div></div>", "20\t" TWENTY "\n"));
    CHECK(says("<div id=comments><form><div class=reply><p>" MUCH "</div></form></div><p class=reply>x y",
               "30\t" MUCH "\n2\tx y\n"));
    CHECK(says("<aside><p>" MUCH "</aside><p>x", "30\t" MUCH "\n2\tx\n"));
    CHECK(says("<div role=complementary><form><p>" MUCH "</form></div><p>x", "30\t" MUCH "\n2\tx\n"));
    CHECK(says("<div><label>" MUCH "</div><p>x", "30\t" MUCH "\n2\tx\n")); /* unclosed */
    CHECK(says("<footer><p>" TWENTY "</footer><dialog>" TWENTY "</dialog><p>x", "2\tx\n")); /* never */
}

/* What is hidden counts where it holds most of the page and more text than is seen. */
static void test_hidden(void) {
    CHECK(says("<p>wait a moment<div hidden id=S:0><p>" TWENTY "</div>", "3\twait a moment\n20\t" TWENTY "\n"));
    CHECK(says("<div style='display:none'><p>" TWENTY "<nav>no</nav></div>", "20\t" TWENTY "\n"));
    CHECK(says("<p>a b c d e f g h i j<div hidden><p>" TWENTY "</div>", "10\ta b c d e f g h i j\n"));
    CHECK(says("<p>a b c d e f g h i j<div hidden><p>k " TWENTY "</div><nav>" TWENTY " " TWENTY "</nav>",
               "10\ta b c d e f g h i j\n21\tk " TWENTY "\n"));
    /* A list of links is the content where hardly more text is hidden. */
    CHECK(says("<a href=/1>" TWENTY "</a><div hidden><p>" TWENTY "</div>", "20\t" TWENTY "\n"));
    CHECK(says("<a href=/1>" TWENTY "</a><div hidden><p>k " TWENTY "</div>", "21\tk " TWENTY "\n"));
    CHECK(says("<span hidden>" TWENTY "</span>yes", "2\tyes\n")); /* within a line it is no content, */
    CHECK(says("<my-app hidden>no<p>" TWENTY "</p>no</my-app> yes", "20\t" TWENTY "\n2\tyes\n")); /* but blocks in it may be, */
    CHECK(says("<div>x " TWENTY "<span hidden><p>" TWENTY "<svg><p>no</svg></span>", "21\tx " TWENTY "\n"));
    CHECK(says("<svg hidden><foreignObject><p>no</p></foreignObject></svg><p>yes", "2\tyes\n")); /* and what holds no text does not */
    ndd_page page = read_page("<p>some words<div hidden>more</div>");
    CHECK(page.words == 2 && page.words_read == 2 && page.text_bytes == 9);
}

/* Words of comments count on what holds blocks, not on what stands within a line. */
static void test_highlighted_code(void) {
    CHECK(says("<pre><span class=comment>" TWENTY "</span> <code class=reply>x</code> <a id=comments>y</a></pre>",
               "22\t" TWENTY " x y\n"));
}

/* Elements that HTML lets stand open do not bury an end tag. */
static void test_options(void) {
    char bold[8192] = "<div><nav>";
    for (int i = 0; i < 600; i++) strcat(bold, "<font>no ");
    strcat(bold, "</nav><p>yes</div><i><aside><b>no</i>no</aside>yes");
    CHECK(says(bold, "2\tyes\n2\tyes\n"));
    char html[4096] = "<p>" TWENTY "<select>";
    for (int i = 0; i < 200; i++) strcat(html, i % 20 == 0 ? "<optgroup label=x>" : "<option>no");
    strcat(html, "</select><p>behind");
    CHECK(says(html, "20\t" TWENTY "\n2\tbehind\n"));
}

/* A few words between lists of links are of the lists; a page that is nothing but links is read. */
static void test_lists_of_links(void) {
    CHECK(says("<a href=/1>one</a><p>label<p><a href=/2>two</a><p>" TWENTY, "20\t" TWENTY "\n"));
    CHECK(says("<a href=/1>one</a><p>a b c d e f g h i j k l m n o p<p><a href=/2>two</a><p>" TWENTY, "20\t" TWENTY "\n"));
    CHECK(says("<a href=/1>one</a><p>a b c d e f g h i j k l m n o p q<p><a href=/2>two</a><p>" TWENTY,
               "17\ta b c d e f g h i j k l m n o p q\n20\t" TWENTY "\n"));
    /* a long link is one entry of a list, and makes no list of a text */
    CHECK(says("<p>" TWENTY "<p><a href=/1>" TWENTY " " TWENTY " " TWENTY " x</a>", "20\t" TWENTY "\n"));
    CHECK(says("<a href=/1>one</a><h2>label</h2><a href=/2>two</a><p>" TWENTY, "2\tlabel\n20\t" TWENTY "\n"));
    CHECK(says("<nav>no</nav><ul><li><a href=/1>one</a><li>two<li><a href=/3>three</a></ul><footer>no</footer>",
               "2\tone\n2\ttwo\n2\tthree\n"));
}

/* What little follows the last copyright sign is no content, wherever it stands. */
static void test_notices(void) {
    /* but a column may stand before the content, and have its sign there */
    CHECK(says("<p>a b<p>&copy; us<h1>title</h1><p>" TWENTY, "2\ta b\n2\tus\n20\ttitle\n20\t" TWENTY "\n"));
    CHECK(says("<p>" TWENTY " " TWENTY "<p>&copy; us<h4>legal</h4><p>" TWENTY, "30\t" TWENTY " " TWENTY "\n"));
    CHECK(says("<p>" TWENTY "<div>&copy; 2026 us<p>our licence</div>", "20\t" TWENTY "\n"));
    CHECK(says("<p>" TWENTY "<p>\xc2\xa9<p>our licence", "20\t" TWENTY "\n2\tour licence\n")); /* a block without words */
    CHECK(says("<p>photo \xc2\xa9 me<p>" TWENTY " " TWENTY "<p>x " TWENTY " " TWENTY "<p>y " TWENTY,
               "2\tphoto me\n30\t" TWENTY " " TWENTY "\n30\tx " TWENTY " " TWENTY "\n21\ty " TWENTY "\n"));
}

static uint32_t title(const char *html) { return read_page(html).title; }

static uint32_t canonical(const char *html) { return read_page(html).canonical; }

static void test_identity(void) {
    CHECK(title("<title>A title</title>") != 0 && title("<p>x") == 0 && title("<title> \n</title>") == 0);
    CHECK(title("<title>\n A&nbsp;&nbsp;title\t</title>") == title("<title>A title</title>"));
    CHECK(title("<title>A Title</title>") != title("<title>A title</title>"));
    CHECK(title("<title>operator+</title>") != title("<title>operator-</title>"));
    CHECK(title("<svg><title>icon</title></svg><title> </title><title>A</title><title>B") == title("<title>A"));
    uint32_t x = canonical("<link rel=canonical href=https://h/x>");
    CHECK(x != 0 && x == canonical("<link href='/x?utm_source=a#b' REL='shortlink Canonical'/>"));
    CHECK(canonical("<link rel=canonicals href=/x><a rel=canonical href=/x>") == 0);
    CHECK(canonical("<link rel=canonical href='#'><link rel=canonical href=/x><link rel=canonical href=/y>") == x);

    ndd_page relative;
    const uint8_t folder[] = "/docs/";
    const char *html = "<link rel=canonical href=./x>";
    CHECK(ndd_read_html(reader, (const uint8_t *)html, strlen(html), folder, 6, public_recipe, &relative) == NDD_OK);
    CHECK(relative.canonical == canonical("<link rel=canonical href=/docs/x>"));
}

/* The same text is wholly alike, an unlike one hardly, whatever its size; and so are sketches of nothing. */
static void test_similarity(void) {
    static char text[3][40000];
    for (int words = 3; words < 3000; words *= 3) {
        for (int which = 0; which < 3; which++) {
            char *at = text[which];
            for (int i = 0; i < words; i++) {
                at += sprintf(at, "%s%d ", which == 0 || (which == 1 && i < words - words / 9) ? "a" : "b", i);
            }
        }
        ndd_page a = read_page(text[0]), near = read_page(text[1]), far = read_page(text[2]);
        CHECK(ndd_similarity(a.sketch, a.sketch) == 1);
        CHECK(ndd_similarity(a.sketch, far.sketch) < 0.6);
        CHECK(ndd_similarity(a.sketch, near.sketch) == ndd_similarity(near.sketch, a.sketch));
        if (words >= 27) CHECK(ndd_similarity(a.sketch, near.sketch) > 0.68 && ndd_similarity(a.sketch, near.sketch) < 0.92);
    }
    ndd_page empty = read_page(""), some = read_page("some words");
    CHECK(ndd_similarity(empty.sketch, empty.sketch) == 1 && ndd_similarity(empty.sketch, some.sketch) == 0);
    uint8_t two[2 * NDD_SKETCH_BYTES];
    double similarities[2];
    memcpy(two, some.sketch, NDD_SKETCH_BYTES);
    memcpy(two + NDD_SKETCH_BYTES, empty.sketch, NDD_SKETCH_BYTES);
    ndd_similarities(some.sketch, two, 2, similarities);
    CHECK(similarities[0] == 1 && similarities[1] == 0);
}

/* Texts that the estimate takes for the same, but that are not: words in another order or repeated, one more
 * token, another word among many; and the same text in other blocks, which is the same. */
static void test_same_word_for_word(void) {
    static char one[30000], other[30000];
    char *at = one;
    for (int i = 0; i < 4000; i++) at += sprintf(at, "w%d ", i);
    for (int changed = 0; changed < 4000; changed += 97) {
        memcpy(other, one, sizeof one);
        char *word = strstr(other, " w3999") + 1;
        for (int i = 0; i < changed; i++) while (*--word != 'w') {}
        *word = 'v';
        ndd_page a = read_page(one), b = read_page(other);
        CHECK(ndd_similarity(a.sketch, b.sketch) > 0.98 && ndd_similarity(a.sketch, b.sketch) <= 0.9999);
        CHECK(ndd_similarity(a.sketch, read_page(one).sketch) == 1);
    }
    static const char *const unlike[][2] = {
        {"a b c a b c a b c", "a b c a b c a b c a b c"}, /* one set of shingles */
        {"a b x a b y a b", "a b y a b x a b"},           /* and one multiset */
        {"a a a", "a a a a"},
        {"a", "b"},
        {"a b", "b a"},
    };
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++) {
        ndd_page a = read_page(unlike[i][0]), b = read_page(unlike[i][1]);
        CHECK(ndd_similarity(a.sketch, b.sketch) <= 0.9999 && ndd_similarity(a.sketch, a.sketch) == 1);
    }
    ndd_page whole = read_page("<p>one two three four five six seven eight</p>");
    ndd_page parts = read_page("<p>one two three four</p><p>five six seven eight</p>");
    CHECK(ndd_similarity(whole.sketch, parts.sketch) == 1);
    ndd_page few = read_page("<p>one two three four</p>"), apart = read_page("<p>one two</p><p>three four</p>");
    CHECK(ndd_similarity(few.sketch, apart.sketch) == 0.9999); /* so little text that the bytes decide */
}

/* A word of a class counts only whole, at whatever place in it and in the page. */
static void test_words_of_classes(void) {
    for (int before = 0; before < 50; before++) {
        for (int behind = 0; behind < 24; behind++) {
            static const char *const ends[] = {"comment", "-comment", "comments2", "-replies-", " Livefyre",
                                                 " related", ":popup", "-Modal ", " newsletter", "_signup"};
            for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
                char page[160];
                snprintf(page, sizeof page, "<p>a b<p class=\"%.*s%s\">%*s c", before,
                         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", ends[i], behind, "");
                int dropped = i == 0 ? before == 0 : i != 2;
                CHECK(read_page(page).words_read == (dropped ? 2 : 3));
            }
        }
    }
}

static void test_counts(void) {
    ndd_page page = read_page("<script type='application/json'>{\"a\": 1}</script><p>two two words");
    CHECK(page.data_bytes == 8 && page.text_bytes == 11 && page.features == 2);
    ndd_page empty = read_page("<p></p>");
    CHECK(empty.value == 0 && empty.sketch[0] == 0 && empty.title == 0 && empty.features == 0);
    ndd_key secret = {1, 2};
    ndd_page keyed, open;
    const uint8_t text[] = "some words of text";
    CHECK(ndd_read_text(reader, text, sizeof text - 1, secret, &keyed) == NDD_OK);
    CHECK(ndd_read_text(reader, text, sizeof text - 1, public_recipe, &open) == NDD_OK);
    CHECK(!open.unread && !keyed.unread); /* plain text is all read */
    CHECK(keyed.value != open.value && keyed.features == open.features);
    CHECK(memcmp(keyed.sketch, open.sketch, sizeof open.sketch) != 0);
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

/* The runs of tokens with digits, each behind a word; without those of navigation. */
static void test_numbers(void) {
    const uint64_t *hashes;
    size_t n;
    read_page("<p>7 seven 1 2<p>a3<nav>4 5</nav><p>end");
    CHECK(ndd_reader_numbers(reader, &hashes, &n) == NDD_OK && n == 8);
    CHECK(hashes[2] == 0 && hashes[7] == 0);
    const char *expected[] = {"seven", "7", "", "seven", "1", "2", "a3"};
    for (size_t i = 0; i < n - 1; i++) {
        const char *token = expected[i];
        if (*token) CHECK(hashes[i] == ndd_hash_token((const uint8_t *)token, strlen(token), public_recipe));
    }
    read_page("<p>none");
    CHECK(ndd_reader_numbers(reader, &hashes, &n) == NDD_OK && n == 0);
    read_page("<p>1<h1>2 two 3</h1><p>4");
    CHECK(ndd_reader_numbers(reader, &hashes, &n) == NDD_OK && n == 12);
    CHECK(hashes[0] == 1 && hashes[3] == NDD_IN_HEADING && hashes[6] == NDD_IN_HEADING && hashes[9] != NDD_IN_HEADING);
    CHECK(ndd_reader_numbers(NULL, &hashes, &n) == NDD_BAD_ARGUMENT);
}

static size_t texts_of(const char *html, uint64_t *to) {
    const uint64_t *hashes;
    size_t n;
    read_page(html);
    CHECK(ndd_reader_texts(reader, &hashes, &n) == NDD_OK && n <= 8);
    memcpy(to, hashes, n * sizeof *to);
    return n;
}

/* The other words, block by block; without the title's where one names the page, and without the first headings. */
static void test_texts(void) {
    const uint64_t *hashes;
    uint64_t one[8], other[8];
    size_t n;
    CHECK(texts_of("<p>7 seven 1 2<p>a3<nav>4 5</nav><p>end", one) == 2);
    CHECK(texts_of("<p>8 9 seven 2<p>b3<p>end 4", other) == 2 && memcmp(one, other, 16) == 0);
    CHECK(texts_of("<p>end<p>8 9 seven 2", other) == 2 && one[0] == other[1] && one[1] == other[0]);
    CHECK(texts_of("<p>Printed 5<p>seven<p>end", other) == 3 && memcmp(one, other + 1, 16) == 0);
    CHECK((uint32_t)one[0] == one[0] >> 32 && (uint32_t)one[0] != 0);
    CHECK(texts_of("<p>8 9<p>b3", other) == 0);
    CHECK(texts_of("<title>Git</title><h1>Git</h1><p>Tag git 2<p>git", one) == 2);
    CHECK(texts_of("<title>Hub</title><h1>Hub</h1><p>Tag hub 3<p>hub", other) == 2);
    CHECK((uint32_t)one[0] == (uint32_t)other[0] && one[0] != other[0] && (uint32_t)one[1] == 0 && one[1] != 0);
    CHECK(texts_of("<title>Git basics | Site</title><h1>Site</h1><p>slogan<h2>Git basics</h2><p>text", one) == 2);
    CHECK(texts_of("<title>Git basics | Site</title><h1>Site</h1><p>other<h2>Git basics</h2><p>text", other) == 2 && memcmp(one, other, 16) == 0);
    CHECK(texts_of("<title>Git basics</title><h1>Git basics</h1><p>text<h2>Git</h2><p>more", one) == 3);
    CHECK(texts_of("<title>Git basics</title><h1>Site</h1><p>text<h2>Git more</h2><p>more", one) == 3);
    CHECK(ndd_reader_texts(NULL, &hashes, &n) == NDD_BAD_ARGUMENT);
}

int main(void) {
    CHECK(ndd_reader_open(&reader) == NDD_OK);
    ndd_reader_keep_words(reader, 1);
    test_words();
    test_numbers();
    test_texts();
    test_blocks();
    test_wrappers();
    test_hidden();
    test_highlighted_code();
    test_options();
    test_lists_of_links();
    test_notices();
    test_identity();
    test_similarity();
    test_same_word_for_word();
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
