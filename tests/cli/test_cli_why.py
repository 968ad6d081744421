"""`dedup why`: what happened to a page, from the file of drops."""

import json

import msgspec
import pytest
from command_line import call

from dedup.report.drops import Drop, by_risk, compare_words, encode, read_drops

SHIRT = Drop(
    time="2026-11-23T06:00:00.000+00:00",
    action="dropped",
    url="http://shop.test/shirt?b=2&a=1",
    key="http://shop.test/shirt?a=1&b=2",
    of="http://shop.test/shirt",
    similarity=0.96,
    distance=2,
    identity="unknown",
    reason="",
    callback="parse_item",
    differs=[("red", "blue")],
)
PRICE = msgspec.structs.replace(
    SHIRT,
    url="http://shop.test/price",
    key="http://shop.test/price",
    similarity=0.99,
    differs=[("19.90", "24.90")],
    numbers_only=True,
)


@pytest.fixture
def drops(tmp_path, monkeypatch):
    path = tmp_path / "dropped.jsonl"
    path.write_bytes(encode(SHIRT) + b'{"cut off\n' + encode(PRICE) + encode(SHIRT)[:40])
    monkeypatch.chdir(tmp_path)
    return path


def test_a_line_that_was_cut_off_hides_no_other(drops):
    """A kill may leave half a line, and a resumed crawl ends it: the others are read."""
    assert list(read_drops(drops)) == [SHIRT, PRICE]


@pytest.mark.parametrize(
    "url", ["http://shop.test/shirt?b=2&a=1", "http://shop.test/shirt?a=1&b=2"]
)
def test_why_explains_a_drop(drops, url):
    """By its URL or its key: the original, how alike, what differs, the callback, what to change."""
    for options in ((), ("--drops", drops)):
        result = call("why", url, *options)
        assert result.exit_code == 0
        assert "was dropped before it was parsed" in result.stdout
        for text in (
            "original          http://shop.test/shirt\n",
            "96 % similar, 2 bits apart",
            "[-red-] {+blue+}",
            "parse_item",
            "DEDUP_SIMILARITY = 0.961",
            "DEDUP_DISTANCE = 1",
            "dont_dedup",
        ):
            assert text in result.stdout, text


@pytest.mark.parametrize(
    ("would", "said"),
    [
        ("drop", "flagged only (DEDUP_MODE = 'tag'); the mode 'drop' would drop it unparsed\n"),
        ("check", "the mode 'drop' would parse it, and withhold its seen items and requests\n"),
    ],
)
def test_why_says_what_drop_would_do(drops, would, said):
    """Of a page flagged in tag mode: dropped, or compared; the most doubtful are only those that would be dropped."""
    flagged = msgspec.structs.replace(SHIRT, action="flagged", would=would, items=2)
    drops.write_bytes(encode(flagged))
    shown = call("why", SHIRT.url).stdout
    assert said in shown
    assert "withheld          2 items\n" in shown
    listed = call("why", "--top", 1)
    assert listed.exit_code == (would == "check")
    assert ("1 of 1 flagged page, the most doubtful first" in listed.stdout) == (would == "drop")


def test_why_of_an_original_and_of_an_unknown_page(drops):
    """A page that others resembled was kept; a page that is not listed is an error that says so."""
    kept = call("why", "http://shop.test/shirt")
    assert kept.exit_code == 0
    assert "was kept, and is the original of 2 pages" in kept.stdout
    unknown = call("why", "http://shop.test/none")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "is not listed: it was kept or not fetched" in unknown.stderr


def test_why_lists_the_most_doubtful_first(drops):
    """Numbers-only differences first, then the least similar; N of them; JSON a line each."""
    result = call("why", "--top", 20)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "http://shop.test/price" in lines[1]
    assert "numbers" in lines[1]
    assert "http://shop.test/shirt?b=2&a=1" in lines[2]
    assert lines[-1] == "2 of 2 drops, the most doubtful first"
    (one,) = call("why", "--top", 1, "--json").stdout.splitlines()
    assert json.loads(one)["url"] == PRICE.url
    assert sorted([SHIRT, PRICE], key=by_risk) == [PRICE, SHIRT]


@pytest.mark.parametrize(
    ("args", "advised"),
    [
        ((), "give a URL, or --top"),
        (("http://a.test/", "--top", 3), "give a URL, or --top"),
        (("http://a.test/",), "DEDUP_DROPPED = 'dropped.jsonl'"),
        (("http://a.test/", "--drops", __file__), "lists no drops; give a file"),
    ],
)
def test_why_refuses_what_it_cannot_answer(tmp_path, monkeypatch, args, advised):
    """A usage error says what is missing."""
    monkeypatch.chdir(tmp_path)
    result = call("why", *args)
    assert result.exit_code == 2
    assert advised in result.stderr


def test_numbers_are_told_from_words():
    """A difference counts as numbers only if every differing word has a digit."""
    text = "the price of this is {} and nothing else differs here".format
    old, new, word = (text(each).split() for each in ("19,90", "24,90", "low"))
    assert compare_words(old, new) == ([("19,90", "24,90")], True)
    assert compare_words(old, word) == ([("19,90", "low")], False)
    assert compare_words(old, old) == ([], False)
    differs, _ = compare_words(["a"] * 3 + [f"b{n}" for n in range(40)], ["a"] * 3)
    assert differs[0][0].endswith(" ...")
