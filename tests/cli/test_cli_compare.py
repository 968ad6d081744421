"""`dedup compare`: the answer, the rule that decided, and where two texts differ."""

import json
import re

from command_line import WORDS, call, html
from crawling import Page, serve

from dedup import fingerprint, near_duplicate
from dedup.core.fingerprint import similarity
from dedup.model.names import running
from dedup.report.texts import differences


def test_compare_near_duplicates(pages):
    """Two versions of a page: near-duplicate, distance, similarity, and the words that changed."""
    result = call("compare", pages / "a.html", pages / "b.html")
    assert result.exit_code == 0
    assert "verdict: near-duplicate (" in result.stdout
    assert "differ in 1 place, " in result.stdout
    assert "word99 [-word100-] {+changed words+} word101" in result.stdout
    a, b = (fingerprint((pages / name).read_bytes()) for name in ("a.html", "b.html"))
    assert f"distance of value     {(a.value ^ b.value).bit_count()} bits " in result.stdout
    assert f"similarity            {int(100 * similarity(a, b))} % " in result.stdout


def test_compare_json_agrees_with_the_library(pages):
    """The JSON of each pair carries near_duplicate()'s answer, the similarity, and the rule."""
    names = ["a.html", "b.html", "other.html", "short.html"]
    for a in names:
        for b in names:
            seen = json.loads(call("compare", "--json", pages / a, pages / b).stdout)
            one, two = (fingerprint((pages / name).read_bytes()) for name in (a, b))
            assert seen["near_duplicate"] is near_duplicate(one, two)
            assert seen["rule"] in ("copy", "short", "distance", "similarity")
            assert seen["similarity"] == similarity(one, two)
            assert seen["a"]["value"] == f"{one.value:016x}"
            assert len(seen["differences"]) == seen["difference_count"]
            assert (seen["difference_count"] == 0) is (a == b)


def test_compare_tells_what_pages_say_of_themselves(tmp_path):
    """Alike text under another title is near-duplicate, and that a crawl keeps it is said beside it."""
    for name, words in (("a", WORDS), ("b", ["new", *WORDS[1:]])):
        (tmp_path / name).write_text(f"<title>page {name}</title><p>{' '.join(words)}</p>")
    result = call("compare", tmp_path / "a", tmp_path / "b")
    assert "verdict: near-duplicate" in result.stdout
    assert "the titles differ: on one site --identity keeps B" in result.stdout
    seen = json.loads(call("compare", "--json", tmp_path / "a", tmp_path / "b").stdout)
    assert (seen["identity"], seen["title"], seen["canonical"]) == ("other", "other", "unknown")
    pages = {f"/{name}": Page((tmp_path / name).read_bytes(), "text/html") for name in "ab"}
    with serve(pages) as site:
        elsewhere = site.url.replace("127.0.0.1", "localhost")
        apart = call("compare", f"{site.url}/a", f"{elsewhere}/b").stdout
    assert "threshold 75.0% (on two sites)" in apart
    assert "the titles differ" not in apart


def test_compare_names_the_rule(pages, tmp_path):
    """Values far apart; few words, where the pages are not said to be of one site; unread pages match only their copies."""
    other = call("compare", pages / "a.html", pages / "other.html").stdout
    assert re.search(r"not near-duplicate \(distance: \d+ bits, more than \d+\)", other)
    (tmp_path / "few").write_text(html(WORDS[:12]))
    (tmp_path / "menu").write_text(
        f"<header>{' '.join(WORDS * 2)}</header><p>{' '.join(WORDS[:15])}"
    )
    with serve({"/few": Page((tmp_path / "few").read_bytes(), "text/html")}) as site:
        url, elsewhere = f"{site.url}/few", f"{site.url}/few".replace("127.0.0.1", "localhost")
        asked = ([tmp_path / "few"] * 2, [url, url], [url, elsewhere])
        seen = [json.loads(call("compare", "--json", *each).stdout) for each in asked]
    assert [one["near_duplicate"] for one in seen] == [False, True, False]
    assert [one["rule"] for one in seen] == ["short", "similarity", "short"]
    (tmp_path / "other").write_text((tmp_path / "menu").read_text() + " more")
    assert "near-duplicate (copies: " in call("compare", *[tmp_path / "menu"] * 2).stdout
    unread = call("compare", tmp_path / "menu", tmp_path / "other").stdout
    assert "not near-duplicate (unread: too little of A and B was read" in unread


def test_compare_shows_ten_differences(tmp_path):
    """Of many differences ten are shown; the JSON and the page have them all."""
    changed = [f"new{i}" if i % 10 == 5 else w for i, w in enumerate(WORDS)]
    for name, words in (("a", WORDS), ("b", changed)):
        (tmp_path / name).write_text(html(words))
    some = call("compare", tmp_path / "a", tmp_path / "b").stdout
    assert some.count("{+new") == 10
    assert some.endswith("  and 10 more; --json has them all\n")
    page = ("--html", tmp_path / "c.html")
    seen = json.loads(call("compare", "--json", *page, tmp_path / "a", tmp_path / "b").stdout)
    assert len(seen["differences"]) == seen["difference_count"] == 20
    assert (tmp_path / "c.html").read_text().count("<ins>new") == 20


def test_compare_needs_two_readable_pages(pages):
    """A missing file ends with exit code 1, two times stdin with 2; one may be stdin."""
    result = call("compare", pages / "a.html", pages / "missing")
    assert result.exit_code == 1
    assert (
        result.stderr == f"dedup: {pages / 'missing'}: No such file or directory; check the path\n"
    )
    assert call("compare", "-", "-").exit_code == 2
    result = call("compare", "-", pages / "a.html", data=(pages / "a.html").read_bytes())
    assert result.stdout.endswith("the main texts are the same, 200 words\n")


def test_chinese_words_are_shown_as_text():
    """Character pairs are joined again; short words of other scripts are not."""
    assert running("北京 京大 大学 and de es не ем".split()) == "北京大学 and de es не ем"


def test_repetitive_texts_are_compared_at_once():
    """A hundred thousand words without one that is unique, where a plain diff is quadratic."""
    assert differences(["a", "b"] * 60_000, ["b", "b", "a"] * 36_000)  # or this takes hours


def test_compare_fetches_urls(pages):
    """A page may be a URL; its server's encoding counts, and a failure is one line that says what to do."""
    text = " ".join([*WORDS, "größer"])
    bodies = {
        "/a": Page(text.encode("latin-1"), "text/html; charset=latin-1"),
        "/odd": Page(text.encode(), "text/html; charset=no-such"),
        "/gone": Page(b"", status=404),
    }
    (pages / "local").write_text(f"<meta charset=utf-8><p>{text}")
    with serve(bodies) as site:
        result = call("compare", f"{site.url}/a", pages / "local")
        assert result.exit_code == 0
        assert "the main texts are the same" in result.stdout
        odd = call("compare", f"{site.url}/odd", pages / "local")
        assert "the main texts are the same" in odd.stdout
        both = call("compare", f"{site.url}/a", f"{site.url}/odd")
        assert "(on one site)" in both.stdout
        gone = call("compare", f"{site.url}/gone", pages / "local")
    refused = call("compare", f"{site.url}/a", pages / "local")
    for failed in (gone, refused):
        assert failed.exit_code == 1
        assert len(failed.stderr.splitlines()) == 1
        assert "check the URL" in failed.stderr


def listing(name: str, seed: int, entries: int) -> str:
    """Return a page of an introduction that all share, and a list of its own links of ten words each."""
    links = (" ".join(f"{name}{seed}w{i}x{j}" for j in range(10)) for i in range(entries))
    items = "".join(f"<li><a href=/>{words}</a>" for words in links)
    return f"<title>{name}</title><p>{' '.join(WORDS)}</p><ul>{items}</ul>"


def test_compare_says_what_was_not_read_and_what_a_crawl_would_do(tmp_path):
    """Equal texts are no equal pages: the words that only one page has are counted, and what they decide is said."""
    kept = {20: "for its title", 60: "keeps B as unread", 1: ""}
    for entries, said in kept.items():
        for name in "ab":
            (tmp_path / name).write_text(listing(name, 1, entries))
        shown = call("compare", tmp_path / "a", tmp_path / "b").stdout
        assert f"{10 * entries:,} words not read differ: equal texts, not equal pages" in shown
        assert ("a crawl of their site" in shown) == bool(said)
        assert said in shown
        assert "a crawl of their site" not in call("compare", *[tmp_path / "a"] * 2).stdout
        seen = json.loads(call("compare", "--json", tmp_path / "a", tmp_path / "b").stdout)
        assert seen["a"]["not_read_alone"] == seen["b"]["not_read_alone"] == 10 * entries
