"""Whole sites and their mistakes: what tests/bench counts is what a naive count gives."""

import json
import random
from pathlib import Path

import oracle
import pytest
import zstandard
from cases import bench
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_site import picture
from site_peers import Setting, Signed, extractors, signed
from sizes import examples
from whole_sites import contents_of, tokens_of, twins
from whole_sites import similarity as content_similarity

from dedup import fingerprint, recipe_of
from dedup.evaluate.sets import SetPage
from dedup.model.errors import UsageError
from dedup.model.policy import Options
from dedup.scan import ScanJob, scan


def call(*args: object) -> Result:
    return CliRunner().invoke(bench, [*map(str, args)])


def lines(records) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def html(text: str) -> str:
    return f"<html><body><p>{text}</p></body></html>"


def sited(folder: Path) -> list[tuple[str, str]]:
    """Write a corpus: (url, content) of pages whose content a menu of words surrounds."""
    rng = random.Random(3)
    word = [f"word{i}" for i in range(900)]
    made: list[tuple[str, str]] = []
    for i in range(60):
        text = rng.sample(word, 80)
        if made and i % 3 == 0:  # a copy of an earlier page, some of them changed
            text = made[rng.randrange(len(made))][1].split()
            for place in rng.sample(range(80), rng.choice((0, 1, 6))):
                text[place] = f"new{i}x{place}"
        made.append((f"http://site.example/{i:02}", " ".join(text)))
    made[40] = (made[40][0], "too few")
    pages = [{"url": url, "html": html(text)} for url, text in made]
    truth = [{"url": url, "title": "", "text": text} for url, text in made]
    (folder / "site.jsonl").write_bytes(lines(pages))
    compressed = zstandard.ZstdCompressor().compress(lines(truth))
    (folder / "site.truth.jsonl.zst").write_bytes(compressed)
    return made


def jaccard(a: str, b: str) -> float:
    sets = [{*zip(t.split(), t.split()[1:], t.split()[2:], strict=False)} for t in (a, b)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1]) if all(sets) else 0.0


def test_a_site_is_judged_as_a_naive_crawl_judges_it(tmp_path):
    """Drops, right and wrong ones, twins and those found: all counted again page by page."""
    made = sited(tmp_path)
    prints = [fingerprint(html(text), url=url) for url, text in made]
    policy = Options().policy(recipe_of())
    kept: list[int] = []
    drops, twins_had, twins_found = [], 0, 0
    for i, page in enumerate(prints):
        near = [
            (-oracle.similarity(page.sketch, prints[o].sketch), o)
            for o in kept
            if page.features >= 20 <= prints[o].features
            and (page.value ^ prints[o].value).bit_count() <= 8
        ]
        near = [one for one in near if -one[0] >= policy.similarity]
        twin = max((jaccard(made[i][1], made[o][1]) for o in kept), default=0) >= 0.9
        twins_had += twin
        twins_found += twin and bool(near)
        if near:
            drops.append(jaccard(made[i][1], made[min(near)[1]][1]))
        else:
            kept.append(i)
    rows = json.loads(call("sites", "--corpora", tmp_path, "--json").stdout)["rows"]
    assert [*rows] == ["site", "all"]
    found = {name: figure["median"] for name, figure in rows["all"].items()}
    assert (found["pages"], found["drops"]) == (60, len(drops))
    assert (found["right"], found["wrong"]) == (
        sum(j >= 0.8 for j in drops),
        sum(j < 0.5 for j in drops),
    )
    assert (found["twins"], found["found"]) == (twins_had, twins_found)


def test_a_site_is_judged_as_a_scan_judges_it(tmp_path):
    """With what is learned of its frame: pictures, and another visit of each."""
    pages = [picture(n) for n in range(60)]
    pages += pages
    rows = [{"url": f"http://site.example/{n:03}", "html": html} for n, html in enumerate(pages)]
    (tmp_path / "site.jsonl").write_bytes(lines(rows))
    truth = [{"url": row["url"], "title": "", "text": str(n)} for n, row in enumerate(rows)]
    (tmp_path / "site.truth.jsonl").write_bytes(lines(truth))
    found = json.loads(call("sites", "--corpora", tmp_path, "--json").stdout)
    job = ScanJob(
        inputs=(str(tmp_path / "site.jsonl"),),
        output=str(tmp_path / "out.jsonl"),
        processes=1,
    )
    assert found["rows"]["all"]["drops"]["median"] == scan(job).near_duplicate > 0


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=30).map(" ".join), max_size=8))
@settings(deadline=None, max_examples=examples(100))
def test_twins_are_those_of_all_pairs(texts):
    """Every earlier page of similarity .9 and more, and no other, with the similarity of plain sets."""
    contents = contents_of(texts)
    seen = twins(contents)
    for i, text in enumerate(texts):
        large = [
            len({*zip(t.split(), t.split()[1:], t.split()[2:], strict=False)}) >= 5 for t in texts
        ]
        expected = {
            o: jaccard(text, texts[o])
            for o in range(i)
            if large[i] and large[o] and jaccard(text, texts[o]) >= 0.9
        }
        assert dict(seen[i]) == pytest.approx(expected)


def test_contents_of_few_words_and_of_unspaced_scripts():
    """Fewer than three tokens are one shingle, none are none; a Chinese character is a token."""
    few, same, none, chinese, other = contents_of(["A b", "a, B!", "", "北京大学", "北京大学的人"])
    assert content_similarity(few, same) == 1
    assert content_similarity(few, none) == content_similarity(none, none) == 0
    assert content_similarity(chinese, other) == pytest.approx(2 / 4)


def test_truth_of_other_pages_is_refused(tmp_path):
    """A line too few, or of another URL, ends with its file named."""
    sited(tmp_path)
    read = zstandard.ZstdDecompressor().decompress
    whole = read((tmp_path / "site.truth.jsonl.zst").read_bytes()).splitlines(keepends=True)
    (tmp_path / "site.truth.jsonl.zst").unlink()
    for truth, message in ((whole[:-1], "has 59 lines"), (whole[::-1], "line 1: ")):
        (tmp_path / "site.truth.jsonl").write_bytes(b"".join(truth))
        result = call("sites", "--corpora", tmp_path)
        assert message in str(result.exception)


def test_a_peer_drops_for_the_most_similar_page_that_was_kept():
    """Similarity and tokens are those of the setting; a page that was fetched again is no page of the crawl."""
    near = [[], [(0.9, 0)], [(0.8, 0), (0.95, 1)], [(0.9, 2), (0.85, 0)], [(1.0, 0)]]
    made = Signed([60, 60, 60, 60, 10], near, 0.0)
    assert made.drops(Setting(0.8, 3), ()) == {1: 0, 2: 0, 3: 0, 4: 0}
    assert made.drops(Setting(0.9, 3), ()) == {1: 0, 3: 2, 4: 0}
    assert made.drops(Setting(0.8, 20), ()) == {1: 0, 2: 0, 3: 0}
    assert made.drops(Setting(0.8, 3), {0}) == {2: 1}


def test_a_peer_finds_equal_texts(tmp_path):
    """MinHash of what an extractor gives: equal shingles are similar by 1, and too few words by nothing."""
    pytest.importorskip("datasketch", reason="the dependency group `bench` is not installed")
    words = " ".join(f"word{n}" for n in range(40))
    texts = (words, "two words", words, f"{words} more", "two words")
    pages = [SetPage(str(n), text) for n, text in enumerate(texts)]
    made = signed(pages, lambda html: html, tokens_of)
    assert made.tokens == [40, 2, 40, 41, 2]
    assert made.near[2] == [(1.0, 0)]
    assert {other for _, other in made.near[3]} == {0, 2}
    assert made.near[4] == []


def test_peers_are_judged_on_the_same_pages(tmp_path):
    """Each setting of each extractor has a row beside ours; without the tools the command says what to install."""
    sited(tmp_path)
    try:
        names = extractors()
    except UsageError as error:
        assert "pip install --group bench" in str(error)
        return
    result = call("sites", "--corpora", tmp_path, "--peers", "--count", 30, "--json")
    rows = json.loads(result.stdout)["rows"]
    assert {name.partition(",")[0] for name in rows} == {"dedup", *names}
    assert {cells["pages"]["median"] for cells in rows.values()} == {30}
