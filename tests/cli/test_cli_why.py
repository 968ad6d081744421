"""`dedup why`: what happened to a page, from the file of drops, a report, and a service."""

import json
from urllib.parse import quote

import msgspec
import pytest
from command_line import call
from services import Serving

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
        ("compare", "the mode 'drop' would parse it, and withhold what is known\n"),
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
    assert listed.exit_code == (would == "compare")
    assert ("1 of 1 flagged page, the most doubtful first" in listed.stdout) == (would == "drop")


def test_why_of_an_original_and_of_an_unknown_page(drops):
    """A page that others resembled was kept; a page that is not listed is an error that says so."""
    kept = call("why", "http://shop.test/shirt")
    assert kept.exit_code == 0
    assert "was kept, and is the original of 2 pages" in kept.stdout
    unknown = call("why", "http://shop.test/none")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "is not listed: it was kept, exempt or not fetched" in unknown.stderr


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


def test_why_reads_a_report(tmp_path):
    """A JSON report has examples of the drops, those that differ in numbers only first; another file is refused."""
    report = tmp_path / "r.json"
    examples = [
        {"url": f"http://a.test/{name}", "distance": 1, "similarity": likeness}
        | ({"differences": [{"of": old, "page": new}]} if old else {})
        for name, likeness, old, new in (
            ("unknown", 0.91, "", ""),
            ("word", 0.92, "red", "blue 2"),
            ("price", 0.99, "19 90", "24 90"),
        )
    ]
    group = {"of": "http://a.test/a", "pages": 3, "examples": examples}
    report.write_text(json.dumps({"mode": "tag", "near_duplicates": [group]}))
    listed = call("why", "--report", report, "--top", 3, "--json").stdout.splitlines()
    names = [json.loads(line)["url"].rpartition("/")[2] for line in listed]
    assert names == ["price", "unknown", "word"]
    told = call("why", "http://a.test/word", "--report", report).stdout
    assert "flagged only" in told
    assert "http://a.test/a" in told
    report.write_text("[]")
    refused = call("why", "http://a.test/b", "--report", report)
    assert refused.exit_code == 2
    assert "DEDUP_REPORT = 'report.json'" in refused.stderr


@pytest.mark.parametrize(
    ("args", "advised"),
    [
        ((), "give a URL, or --top"),
        (("http://a.test/", "--top", 3), "give a URL, or --top"),
        (("http://a.test/",), "DEDUP_DROPPED = 'dropped.jsonl'"),
        (("http://a.test/", "--drops", "a", "--report", "b"), "not both"),
        (("http://a.test/", "--service", "redis://127.0.0.1:7700"), "is not the HTTP port"),
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


def test_why_asks_a_service(tmp_path):
    """A stored page, a recent near-duplicate of it, and a page that the service never saw."""
    pytest.importorskip("starlette", reason="the extra `service` is not installed")
    import dedup

    with Serving(tmp_path, token="secret of this test") as service:
        target = f"redis://:{quote('secret of this test')}@127.0.0.1:{service.port}"
        with dedup.open(target) as detector:
            page = detector.fingerprint("<p>" + " ".join(f"word{n}" for n in range(100)))
            detector.insert(detector.reserve(page, "http://a.test/one"))
            assert detector.reserve(page, "http://a.test/two").status == "near_duplicate"
        web = f"http://127.0.0.1:{service.http_port}"
        told = {
            name: call(
                "why", f"http://a.test/{name}", "--service", web, env={"DEDUP_TOKEN": service.token}
            )
            for name in ("one", "two", "three")
        }
        refused = call("why", "http://a.test/one", "--service", web, env={"DEDUP_TOKEN": ""})
        with dedup.open(target, namespace="news") as detector:
            detector.insert(detector.reserve(page, "http://a.test/\x1b[2J\x9bm"))
        environment = {"DEDUP_TOKEN": service.token}
        several = call("why", "http://a.test/one", "--service", web, env=environment)
        key = "http://a.test/%1B[2J%C2%9Bm"
        steering = call("why", key, "--service", web, "--namespace", "news", env=environment)
    assert (
        "is stored in 'default': it was kept; 1 recent near-duplicate of it" in told["one"].stdout
    )
    assert "was judged near-duplicate of http://a.test/one at 20" in told["two"].stdout
    assert [each.exit_code for each in told.values()] == [0, 0, 1]
    assert "none of the last near-duplicates" in told["three"].stderr
    assert refused.exit_code == 1
    assert "DEDUP_TOKEN" in refused.stderr
    assert several.exit_code == 2
    assert "give --namespace" in several.stderr
    assert "default, news" in several.stderr
    assert "\x1b" not in steering.output
