"""The option own_words: pages of one site are near-duplicates by the words that hardly another page of it has (rules A, U)."""

import json
from pathlib import Path
from typing import Any

import oracle
import pytest
from detecting import page
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from picture_site import article, catalogue, text
from sizes import examples
from sketches import differing, sketch

import dedup
from dedup.core.fingerprint import read_page
from dedup.core.site_blocks import Share, SiteBlocks
from dedup.detector.rules import has_own_words, near_duplicates, unread_twins
from dedup.model.page import PART, Document
from dedup.model.policy import Options
from dedup.model.recipes import recipe_of
from dedup.scan import ScanJob, ScanProgress, scan, scanner

SITE = "http://own.example"
POLICY = Options().policy(recipe_of())

# ------------------------------------------------------------------------------------ the decision


def parts(**hashes: int) -> bytes:
    """Return the parts of a page, of which some have these hashes."""
    made = bytearray(32)
    for letter, number in hashes.items():
        made[PART[letter]] = number.to_bytes(4, "little")
    return bytes(made)


def document(name: str, read: float = 1, own: float = 1, **more: Any) -> Document:
    """Return a page of which what was read, and its own words, are so similar to those of document("")."""
    shape = {"kind": more.pop("kind", ""), "domain": more.pop("domain", "own.example")}
    tail = more.pop("links", b"")
    words = more.pop("words", sketch(differing(own))) + tail
    fields = {"parts": parts(h=1, n=1), "own": words} | more
    return Document(f"{SITE}/{name}", page(0, differing(read), **fields), **shape)


A = {"read": 0.7, "own": 0.93}
U: dict[str, Any] = {"unread": True, "links": bytes(8), "own": 0.93}


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ({}, True),
        ({"read": 0.61}, True),
        ({"read": 0.55}, False),
        ({"own": 0.86}, False),
        ({"domain": "other.example"}, False),
        ({"kind": "other"}, False),
        ({"parts": parts(h=2, n=1)}, False),  # another heading, the same numbers: a template
        ({"parts": parts(h=2, n=2)}, True),
        ({"thing": 2 | 1 << 30}, False),
        ({"features": 7}, False),
        ({"words": b""}, False),  # too few words of its own
        ({"links": bytes(8)}, False),  # of an unread page
    ],
)
def test_pages_are_alike_by_own_words(missing: dict[str, Any], expected: bool) -> None:
    """Rule A: each of its conditions keeps a page that meets all others; what was read alone is not similar enough."""
    asked = document("", kind="its", thing=1 | 1 << 30 if "thing" in missing else 0)
    other = document("other", **({"kind": "its"} | A | missing))
    found = near_duplicates(asked, [(other, 3)], POLICY)
    assert [(near.key, near.by_own_words) for near in found] == [(other.key, True)] * expected
    back = near_duplicates(other, [(asked, 3)], POLICY)
    assert len(back) == expected
    if expected:
        assert 0.9 <= found[0].similarity < 1
        assert not near_duplicates(
            replace(asked, page=replace(asked.page, own=b"")), [(other, 3)], POLICY
        )


def test_a_page_like_the_text_comes_first() -> None:
    """A match by what was read stands before one by own words, however similar these are."""
    by_text, by_own = document("text", read=0.9, own=0.1), document("own", read=0.7, own=1)
    found = near_duplicates(document(""), [(by_own, 1), (by_text, 5)], POLICY)
    assert [near.key for near in found] == [by_text.key, by_own.key]


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ({}, True),
        ({"own": 0.86}, False),
        ({"links": b"\1" * 8}, False),
        ({"domain": "other.example"}, False),
        ({"kind": "other"}, False),
        ({"thing": 2 | 1 << 30}, False),
    ],
)
def test_unread_pages_are_alike_by_own_words(missing: dict[str, Any], expected: bool) -> None:
    """Rule U: each of its conditions keeps an unread page that meets all others."""
    asked = document(
        "", kind="its", thing=1 | 1 << 30 if "thing" in missing else 0, **U | {"own": 1}
    )
    other = document("other", **({"kind": "its", "read": 0.1} | U | missing))
    found = unread_twins(asked, [other, asked], POLICY)
    assert [near.key for near in found] == [other.key] * expected
    assert not near_duplicates(asked, [(other, 3)], POLICY)


def share(**fields: int) -> Share:
    usual = {"pages": 30, "read": 100, "frame": 69, "own": 30, "own_blocks": 8}
    return Share(**({"left": 0, "frame_pages": 0} | usual | fields))


@pytest.mark.parametrize(
    ("found", "unread", "expected"),
    [
        (share(), False, True),
        (share(pages=29), False, False),
        (share(own=29), False, False),
        (share(own_blocks=7), False, False),
        (share(frame=70), False, False),
        (share(own=20, own_blocks=1, frame=100), True, True),
        (share(own=19), True, False),
        (share(pages=29), True, False),
    ],
)
def test_a_page_has_own_words_if_they_are_enough(
    found: Share, unread: bool, expected: bool
) -> None:
    """Each bound, from which a page is compared by its own words."""
    assert has_own_words(found, unread=unread) is expected


# -------------------------------------------------------------------------------------- the sketch

LINES = st.lists(st.integers(0, 12), min_size=0, max_size=12)


@settings(max_examples=examples(60))
@given(st.lists(LINES, min_size=1, max_size=12), st.integers(0, 3))
def test_the_sketch_is_that_of_the_own_blocks(pages: list[list[int]], own_most: int) -> None:
    """Of the shingles of those blocks that stand on at most so many pages: what a plain loop over the words finds."""
    sites, counts = SiteBlocks(), dict.fromkeys(range(13), 0)
    for title, lines in enumerate(pages, 1):
        html = "".join(f"<p>{line(n)}" for n in lines)
        reading = read_page(html, blocks=True, shingles=True)
        sites.count("a.example", title, reading.blocks)
        for n in {*lines}:
            counts[n] += 1
    shingles = []
    for n in dict.fromkeys(lines):
        if counts[n] <= own_most:
            tokens = [oracle.token_hash(word.encode()) for word in line(n).split()]
            tokens += [0] * (3 - len(tokens))
            shingles += [oracle.shingle_hash(*tokens[i : i + 3]) for i in range(len(tokens) - 2)]
    expected = oracle.sketch_of(oracle.mix(shingle >> 32) for shingle in shingles)
    made = sites.own_sketch("a.example", reading.blocks, reading.shingles, own_most)
    assert made == expected
    told = sites.tell("a.example", reading.blocks, 99, own_most)
    assert (told.own, told.own_blocks) == (
        len(shingles),
        sum(counts[n] <= own_most for n in {*lines}),
    )


def line(number: int) -> str:
    """Return a block; some have one or two long words."""
    return " ".join(
        f"{word}{'x' * 20 * (number % 3)}"
        for word in text(number, 3 + number).split()[: number or 9]
    )


def test_shingles_that_are_cut_off_are_no_fault() -> None:
    """Of a page with more than 65,536 of them the others are left out; a sketch needs no more bytes than there are."""
    reading = read_page(
        "".join(f"<p>{text(i, 400)}" for i in range(200)), blocks=True, shingles=True
    )
    assert len(reading.shingles) == 4 * 65_536
    sites = SiteBlocks()
    made = [
        sites.own_sketch("a", reading.blocks, reading.shingles[:n], 1) for n in (0, 4, 4 * 65_536)
    ]
    assert made[0] == oracle.sketch_of(())
    assert made[1][0] == 1
    assert made[2][0] == 255


# --------------------------------------------------------------------------------------- by every way in


def run(detector: dedup.Detector, pages: dict[str, str]) -> dict[str, tuple[str, str, str | None]]:
    """Judge pages one after the other, and insert what is kept."""
    found = {}
    for name, html in pages.items():
        url = f"{SITE}/{name}"
        verdict = detector.reserve(detector.fingerprint(html, url=url), url, guard=False)
        if verdict.token is not None:
            detector.insert(verdict)
        found[name] = (verdict.status, verdict.reason, verdict.of)
    return found


BEFORE = {f"a{i}": article(i) for i in range(40)} | {f"c{i}": catalogue(i) for i in range(100, 140)}
VISITS = {
    "copy": article(35, 1),
    "list": catalogue(135, 1),
    "new": article(50),
    "other": catalogue(150),
}
KEPT = {"copy": ("unique", "", None), "list": ("exempt", "unread", None)}
DROPPED = {
    name: ("near_duplicate", "own_words", f"{SITE}/{of}")
    for name, of in (("copy", "a35"), ("list", "c135"))
}
ALWAYS = {"new": ("unique", "", None), "other": ("exempt", "unread", None)}


@pytest.mark.parametrize(
    ("first", "then"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_a_store_compares_own_words_if_asked_to(tmp_path: Path, first: bool, then: bool) -> None:
    """Another visit of a page, and of a list that is not read, are dropped by their own words, which are stored.

    Pages that were stored or are judged without the option are kept, and so is what has its own words.
    """
    with dedup.open(tmp_path, own_words=first) as detector:
        run(detector, BEFORE)
    with dedup.open(tmp_path, own_words=then) as detector:
        assert run(detector, VISITS) == (DROPPED if first and then else KEPT) | ALWAYS


def test_an_unread_page_that_is_forgotten_or_replaced_is_no_original(tmp_path: Path) -> None:
    """A list is dropped for what is stored now."""
    with dedup.open(tmp_path, own_words=True) as detector:
        run(detector, BEFORE)
        detector.forget(f"{SITE}/c135")
        run(detector, {"c136": catalogue(200)})
        visits = {"list": catalogue(135, 1), "more": catalogue(136, 1)}
        assert [status for status, *_ in run(detector, visits).values()] == ["exempt"] * 2
        assert run(detector, {"again": catalogue(135, 2)})["again"][2] == f"{SITE}/list"


def scanned(
    tmp_path: Path, pages: dict[str, str], **options: Any
) -> dict[str, tuple[str, str, str | None]]:
    """Return the verdicts of a scan."""
    file, output = written(tmp_path / "pages.jsonl", pages), tmp_path / "out.jsonl"
    scan(ScanJob(inputs=(file,), output=str(output), **options))
    return told(output)


def written(file: Path, pages: dict[str, str]) -> str:
    """Write pages as a scan reads them."""
    rows = [{"url": f"{SITE}/{name}", "html": html} for name, html in pages.items()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def told(output: Path) -> dict[str, tuple[str, str, str | None]]:
    """Return the verdicts in the output of a scan."""
    lines = map(json.loads, output.read_text().splitlines())
    return {
        row["key"].rpartition("/")[2]: (row["status"], row["reason"], row["of"]) for row in lines
    }


@pytest.mark.parametrize("processes", [1, 2])
def test_a_scan_compares_own_words(tmp_path: Path, processes: int) -> None:
    """If it is asked to; read by several processes, too."""
    found = scanned(tmp_path, BEFORE | VISITS, own_words=True, processes=processes)
    assert {name: found[name] for name in VISITS} == DROPPED | ALWAYS
    found = scanned(tmp_path, BEFORE | VISITS, processes=processes)
    assert {name: found[name] for name in VISITS} == KEPT | ALWAYS


class Stopped(Exception):
    """A scan is stopped."""


@pytest.mark.parametrize("stopped_at", [1, 2])
def test_a_scan_that_was_stopped_compares_own_words(
    tmp_path: Path, stopped_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped and resumed it knows what it has stored: the verdicts are those of an unbroken one."""
    monkeypatch.setattr(scanner, "COMMIT_SECONDS", 0.0)
    parts = (BEFORE, VISITS, {"again": catalogue(135, 2)})
    files = tuple(written(tmp_path / f"{n}.jsonl", part) for n, part in enumerate(parts))
    output = tmp_path / "out.jsonl"
    job = ScanJob(inputs=files, output=str(output), own_words=True)
    calls: list[ScanProgress] = []

    def stop(progress: ScanProgress) -> None:
        calls.append(progress)
        if len(calls) == stopped_at:
            raise Stopped

    with pytest.raises(Stopped):
        scan(job, progress=stop)
    assert not output.exists()
    scan(replace(job, resume=True), progress=calls.append)
    found = told(output)
    assert len(found) == len(BEFORE) + len(VISITS) + 1
    expected = DROPPED | ALWAYS | {"again": DROPPED["list"]}
    assert {name: found[name] for name in expected} == expected
