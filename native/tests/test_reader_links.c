/* Where a page leads: the targets of its links, on pages whose outcome is plain. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ndd.h"

static ndd_reader *reader;
static const ndd_key public_recipe = {0, 0};

struct targets { size_t all, n, off; uint64_t own, at[64]; }; /* n of the main content */

static struct targets targets_at(const char *url, const char *html) {
    struct targets found;
    ndd_page page;
    const uint64_t *links;
    size_t n = strlen(html), length = strlen(url), found_n[3];
    uint8_t *exact = malloc(n + 1), *address = malloc(length + 1); /* so that a read past an end is seen */
    CHECK(exact != NULL && address != NULL);
    memcpy(exact, html, n);
    memcpy(address, url, length);
    ndd_reader_keep_links(reader, address, length);
    CHECK(ndd_read_html(reader, exact, n, NULL, 0, public_recipe, &page) == NDD_OK);
    ndd_reader_links(reader, &links, found_n, &found.own);
    found.all = found_n[0];
    found.n = found_n[1];
    found.off = found_n[2];
    CHECK(found.off <= found.n && found.n <= found.all && found.all <= 64);
    if (found.all > 0) memcpy(found.at, links, found.all * sizeof *links);
    free(exact);
    free(address);
    return found;
}

#define HERE "https://h.example/docs/x?id=7"

static struct targets targets(const char *html) { return targets_at(HERE, html); }

static uint64_t target(const char *href) {
    char html[5000];
    snprintf(html, sizeof html, "<a href=\"%s\">", href);
    struct targets found = targets(html);
    CHECK(found.n <= 1);
    return found.n > 0 ? found.at[0] : 0;
}

static int same(const char *a, const char *b) { return target(a) != 0 && target(a) == target(b); }

static void test_targets(void) {
    CHECK(target("/a") != 0 && target("/a") != target("/b") && target("/a") != target("/a/"));
    CHECK(same("y", "/docs/y") && same("./y", "/docs/y") && same("../y", "/y") && same("../../y", "/y"));
    CHECK(same("?id=8", "/docs/x?id=8") && same("/a/./b/../c", "/a/c") && same("a/..", "/docs/"));
    CHECK(same("https://h.example/a", "/a") && same("//H.Example/a", "/a") && same("HTTP://h.example", "/"));
    CHECK(!same("https://other.example/a", "/a") && same("https://other.example", "//OTHER.example/"));
    CHECK(same("/a#b", "/a") && same(" /a\n", "/a") && same("/a?b=1&amp;c=2", "/a?b=1&c=2"));
    CHECK(same("/a?c=2&b=1", "/a?b=1&c=2") && !same("/a?b=1&b=1", "/a?b=1") && same("/a?", "/a"));
    CHECK(target("#top") == 0 && target("") == 0 && target("javascript:x()") == 0 && target("mailto:x@h") == 0);
    /* sessions and campaigns */
    CHECK(same("/a?sid=1&utm_source=b&c=2", "/a?c=2") && same("/a;jsessionid=1?c=2", "/a?c=2"));
    CHECK(same("/(S(abc))/a", "/a") && same("/x/(A(q)S(abc))/a", "/x/a") && same("/(S(abc))", "/"));
    CHECK(!same("/(s)/a", "/a") && !same("/wiki/A_(b)", "/wiki/A_"));
}

/* A page that links to itself leads nowhere; nor does a button that shares its address. */
static void test_own_address(void) {
    CHECK(targets("").own == targets_at("https://h.example/", "<a href=/docs/x?id=7>").at[0]);
    CHECK(target("x?id=7") == 0 && target("?id=7") == 0 && target(HERE "#comments") == 0 && target("x?id=8") != 0);
    CHECK(same("/login?next=/docs/x", "/login") && same("/login?next=%2Fdocs%2fx%3Fid%3d7", "/login"));
    CHECK(same("https://s.example/?u=https%3A%2F%2Fh.example%2Fdocs%2Fx%3Fid%3D7&amp;t=1", "https://s.example/?t=1"));
    CHECK(!same("/login?next=/docs/y", "/login") && !same("/login?next=/docs/xy", "/login"));
    CHECK(!same("/out?u=http://other.example/docs/x", "/out"));
    struct targets shared = targets_at("http://h.example", "<a href='/s?u=http://h.example'><a href=/s>");
    CHECK(shared.n == 1);
    CHECK(targets_at("", "<a href=x><a href=/x><a href='//h/x'><a href=?>").n == 2);
}

#define TEXT "<p>a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 b1 b2 b3 b4 b5 b6 b7 b8 b9 b10"

/* What of a page counts. */
static void test_places(void) {
    CHECK(targets("<a href=/a>a</a><a href=/a?sid=1>b</a><a name=x>c</a><a href=/b>d</a>").n == 2);
    CHECK(targets(TEXT "<ul><li><a href=/a>a</a><li><a href=/b>b</a></ul>").n == 2); /* lists of links, too */
    CHECK(targets(TEXT "<nav><a href=/a>a</a></nav><footer><a href=/b>b</a></footer><form><a href=/c>c</a></form>").n == 0);
    CHECK(targets("<form>" TEXT "<a href=/c>c</a></form>").n == 1); /* the page is inside */
    CHECK(targets(TEXT "<div hidden><a href=/a>a</a></div><svg><a href=/b></svg>").n == 0);
    CHECK(targets("<div hidden>" TEXT "<a href=/a>a</a></div>").n == 1);
    CHECK(targets("<main>" TEXT TEXT TEXT TEXT "<a href=/a>a</a></main><div><a href=/b>b</a></div>").n == 1);
}

/* Links outside of the main content are handed out behind its own; hidden ones and those to other sites are not. */
static void test_elsewhere(void) {
    struct targets found = targets(TEXT "<a href=/a>a</a><a href=//o.test/>o</a><nav><a href=/b>b</a><a href=/a>a</a></nav>");
    CHECK(found.all == 3 && found.n == 2 && found.off == 1);
    CHECK(found.at[1] == target("/a") && found.at[2] == target("/b") && found.at[0] == target("//o.test/"));
    found = targets("<main>" TEXT TEXT TEXT TEXT "</main><aside><a href=/b>b</a></aside><footer><a href=//x.test/>x</a></footer>");
    CHECK(found.all == 1 && found.n == 0 && found.at[0] == target("/b"));
    CHECK(targets(TEXT "<nav><a href=//www.h.example/b>b</a><a href=//h.example.test/>x</a></nav>").all == 1);
    CHECK(targets(TEXT "<nav><div hidden><a href=/b>b</a></div></nav>").all == 0);
}

static void test_paging(void) {
    CHECK(targets(TEXT "<nav><a href=?page=2>2</a><a href=?page=3> 3 </a><a href=/b>1st</a><a href=/c>123456</a></nav>").n == 2);
    CHECK(targets(TEXT "<nav><a class='btn page-next' href=?page=2>on</a><a class=context href=/b>b</a></nav>").n == 1);
    CHECK(targets(TEXT "<nav><a rel='nofollow next' href=?page=2>on</a><a rel=prev href=/b>b</a></nav>").n == 1);
    CHECK(targets("<link rel=next href=/2><link rel=prev href=/0><link rel=stylesheet href=/s.css>" TEXT).n == 1);
}

static size_t gathered(void) {
    const uint64_t *links;
    size_t n[3];
    uint64_t own;
    ndd_reader_links(reader, &links, n, &own);
    return n[0];
}

/* They are gathered for one page, and only when asked; the fingerprint knows nothing of them. */
static void test_calls(void) {
    ndd_page page, other;
    const uint8_t html[] = "<title>t</title><p>some words <a href=/a>a</a>", *here = (const uint8_t *)HERE;
    CHECK(ndd_read_html(reader, html, sizeof html - 1, NULL, 0, public_recipe, &page) == NDD_OK && gathered() == 0);
    ndd_reader_keep_links(reader, here, strlen(HERE));
    CHECK(ndd_read_html(reader, html, sizeof html - 1, NULL, 0, public_recipe, &other) == NDD_OK && gathered() == 1);
    CHECK(memcmp(&page, &other, sizeof page) == 0);
    CHECK(ndd_read_html(reader, html, sizeof html - 1, NULL, 0, public_recipe, &page) == NDD_OK && gathered() == 0);
    ndd_reader_keep_links(reader, here, strlen(HERE));
    CHECK(ndd_read_text(reader, html, sizeof html - 1, public_recipe, &other) == NDD_OK && gathered() == 0);
    ndd_key secret = {1, 2};
    uint64_t open = target("/a");
    const uint64_t *links;
    size_t n[3];
    uint64_t own;
    ndd_reader_keep_links(reader, here, strlen(HERE));
    CHECK(ndd_read_html(reader, (const uint8_t *)"<a href=/a>", 11, NULL, 0, secret, &page) == NDD_OK);
    ndd_reader_links(reader, &links, n, &own);
    CHECK(n[0] == 1 && links[0] != open);
}

/* Many links, long ones, and ones that end with the page. */
static void test_hostile(void) {
    static const char *const pieces[] = {"<a href=x>", "<a href=//", "<a href='?a=%2", "<a href=\"/./;(\">", "<a href=/a/../>",
                                         "<a href='&amp;&#x41;'>", "/(S(x))", "1 <a href=y class=next>1"};
    size_t n = 1 << 20;
    char *html = malloc(n);
    CHECK(html != NULL);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        for (int first = 0; first < 2; first++) {
            size_t length = strlen(pieces[i]);
            for (size_t at = 0; at < n; at++) html[at] = pieces[i][at % length];
            if (first) memcpy(html, "<a href=\"/", 10);
            ndd_page page;
            ndd_reader_keep_links(reader, (const uint8_t *)html, n);
            CHECK(ndd_read_html(reader, (const uint8_t *)html, n, NULL, 0, public_recipe, &page) == NDD_OK);
            CHECK(gathered() <= 3);
        }
    }
    size_t at = 0, count = 0;
    for (; at + 20 < n; count++) at += (size_t)snprintf(html + at, n - at, "<a href=%zu>", count);
    ndd_page page;
    ndd_reader_keep_links(reader, (const uint8_t *)HERE, strlen(HERE));
    CHECK(ndd_read_html(reader, (const uint8_t *)html, at, NULL, 0, public_recipe, &page) == NDD_OK);
    CHECK(gathered() == count);
    free(html);
}

int main(void) {
    CHECK(ndd_reader_open(&reader) == NDD_OK);
    test_targets();
    test_own_address();
    test_places();
    test_elsewhere();
    test_paging();
    test_calls();
    test_hostile();
    ndd_reader_close(reader);
    return 0;
}
