"""The template of a site, learned: a page that is that template and nearly nothing else is kept, by every way in."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from detecting import RECIPE
from detecting import page as made
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from picture_site import SITE, learned_late, picture, text

import dedup
from dedup.core.fingerprint import read_page
from dedup.scan import scan
from dedup.scan.values import ScanJob
from dedup.store.templates import (
    FIRST_SETS,
    SET_BYTES,
    SITE_BLOCKS,
    Share,
    Templates,
    is_partly,
    is_unread,
    template_above,
)


def urls(count: int) -> Iterator[tuple[int, str]]:
    return ((number, f"{SITE}/{number}") for number in range(count))


def verdicts(detector: dedup.Detector, count: int = 60) -> list[str]:
    """Judge pictures one after the other; return status and reason of each."""
    found = []
    for number, url in urls(count):
        page = detector.fingerprint(picture(number), url=url)
        verdict = detector.reserve(page, url, guard=False)
        if verdict.token is not None:
            detector.insert(verdict)
        found.append(f"{verdict.status} {verdict.reason}".strip())
    return found


@pytest.mark.parametrize(
    ("pages", "above"), [(0, 10), (30, 10), (40, 12), (100, 30), (167, 50), (10**6, 50)]
)
def test_frame_stands_on_a_share_of_the_pages(pages: int, above: int) -> None:
    """Three tenths of the pages counted, at least ten, at most fifty."""
    assert template_above(pages) == above


@pytest.mark.parametrize(
    ("read", "template", "left", "expected"),
    [
        (100, 70, 0, True),
        (100, 69, 0, False),
        (133, 94, 0, True),
        (134, 94, 0, False),
        (100, 0, 120, False),
        (100, 0, 121, True),
        (0, 0, 0, False),
        (1, 0, 0, False),
    ],
)
def test_a_page_is_unread_if_what_was_read_does_not_stand_for_it(
    read: int, template: int, left: int, expected: bool
) -> None:
    """Seven tenths of it are template, and fewer than 40 words are not; or more that no page had was not read."""
    assert is_unread(Share(99, read, template, left, 60)) is expected


def test_a_page_whose_own_words_were_not_read_is_kept(tmp_path: Path) -> None:
    """An introduction that two pages share does not stand for 200 words of each that were not read: no copies."""
    with dedup.open(tmp_path) as detector:
        for name in ("a", "b"):
            links = "".join(f"<li><a href=/>{text(ord(name) + i * 99, 10)}</a>" for i in range(20))
            html = f"<p>{text(1, 80)}.</p><ul>{links}</ul>"
            page = detector.fingerprint(html, url=f"{SITE}/{name}")
            verdict = detector.reserve(page, f"{SITE}/{name}")
            detector.insert(verdict)
            assert (verdict.status, verdict.reason) == ("exempt", "unread")


@pytest.mark.parametrize(("left", "expected"), [(0, False), (70, False), (71, True), (500, True)])
def test_a_page_is_partly_read_if_much_that_is_new_was_not(left: int, expected: bool) -> None:
    """Half as many words as were read, and 20 more, of those that no other page has."""
    assert is_partly(Share(99, 100, 0, left, 60)) is expected


LISTS = {
    "links": "<ul>{}</ul>",
    "table": "<table><tr><td>{}</table>",
    "fields": "<form>{}</form>",
    "drawing": "<svg>{}</svg>",
    "browsers without scripts": "<noscript>{}</noscript>",
    "footer": "<footer>{}</footer>",
    "navigation": "<nav>{}</nav>",
    "hidden": "<div style='display: none'>{}</div>",
    "hidden in a line": "<span aria-hidden=true>{}</span>",
    "options": "<select>{}</select>",
    "pictures": "<div>{}</div>",
    "words": "<ul>{}</ul>",
}


def part(kind: str, seed: int) -> str:
    """Return 160 words of a page that are not read, in 16 pieces."""
    words = [text(seed * 99 + i, 10) for i in range(16)]
    piece = {
        "links": "<li><a href=/{0}>{0}</a>",
        "table": "<tr><td><a href=/{0}>{0}</a>",
        "fields": "<input readonly value='{}'>",
        "drawing": "<text>{}</text>",
        "hidden in a line": "<b>{}</b>",
        "options": "<option>{}",
        "pictures": "<img src=a.png alt='{}'>",
        "words": "<li><a href=/{0}>{0}</a>",
    }.get(kind, "<p>{}</p>")
    if kind == "words":
        words = " ".join(words).split()
    return LISTS[kind].format("".join(map(piece.format, words)))


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("read", [40, 130, 260])
def test_what_was_not_read_makes_no_equal_pages(tmp_path: Path, kind: str, read: int) -> None:
    """Beside the same words, pages of two titles with other lists, fields or drawings are two; with the same ones a page is a copy."""
    pages = {"first": ("One", 1), "other": ("Two", 2), "copy": ("Three", 1)}
    rows = [
        {
            "url": f"{SITE}/{name}",
            "html": f"<title>{title}</title><p>{text(0, read)}.</p>{part(kind, seed)}",
        }
        for name, (title, seed) in pages.items()
    ]
    file, output = tmp_path / "pages.jsonl", tmp_path / "out.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scan(ScanJob(inputs=(str(file),), output=str(output), processes=1))
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert found[1]["status"] in {"exempt", "unique"}
    assert (found[2]["status"], found[2]["of"]) == ("near_duplicate", f"{SITE}/first")


def forum(detector: dedup.Detector, name: str, comments: list[int]) -> str:
    """Judge a page of one topic that shows so many comments, 40 words each; return its status."""
    below = "".join(f"<p>{text(seed, 40)}.</p>" for seed in comments)
    html = f"<title>Topic</title><p>{text(0, 130)}.</p><aside>{below}</aside>"
    page = detector.fingerprint(html, url=f"{SITE}/{name}")
    verdict = detector.reserve(page, f"{SITE}/{name}")
    if verdict.token is not None:
        detector.insert(verdict)
    return verdict.status


def test_a_page_with_much_that_no_page_had_is_kept_whatever_its_title(tmp_path: Path) -> None:
    """The second page of a topic has other comments: it is no copy, though its title is known and the same words were read."""
    with dedup.open(tmp_path) as detector:
        for number in range(1, 20):  # the site is known
            html = f"<title>{number}</title><p>{text(number, 90)}.</p>"
            detector.fingerprint(html, url=f"{SITE}/known/{number}")
        assert forum(detector, "topic", [1, 2]) == "unique"
        assert forum(detector, "topic?page=2", [3, 4, 5, 6, 7]) == "exempt"


def test_what_visits_repeat_is_not_new(tmp_path: Path) -> None:
    """What copies of one title have beside their text counts once: the next ones that have it are copies."""
    with dedup.open(tmp_path) as detector:
        assert forum(detector, "topic", []) == "unique"
        found = [forum(detector, f"topic?visit={i}", [3, 4, 5, 6, 7]) for i in range(1, 6)]
        assert found == ["exempt"] + ["near_duplicate"] * 4


def test_pages_that_are_nearly_all_frame_are_kept(tmp_path: Path) -> None:
    """An embedded store keeps them once the template is known."""
    with dedup.open(tmp_path) as detector:
        assert learned_late(verdicts(detector))


def test_pages_with_text_of_their_own_are_judged(tmp_path: Path) -> None:
    """A copy under the same template is dropped: its own words are its text."""
    with dedup.open(tmp_path) as detector:
        verdicts(detector)
        for key in ("a", "b"):
            page = detector.fingerprint(picture(7000, own=300), url=f"{SITE}/{key}")
            verdict = detector.reserve(page, f"{SITE}/{key}")
            if verdict.token is not None:
                detector.insert(verdict)
        assert verdict.status == "near_duplicate"


@pytest.mark.parametrize(
    ("html", "status"),
    [
        (picture(40), "near_duplicate"),
        (picture(40, source=41), "exempt"),
        (picture(40) + "<nav>" + text(1, 9) + "</nav>", "near_duplicate"),
        (picture(40) + "<aside>" + text(1, 9) + "</aside>", "exempt"),
    ],
    ids=["the same", "another picture", "other navigation", "other text beside it"],
)
def test_a_page_of_frame_is_dropped_if_it_is_the_same(
    tmp_path: Path, html: str, status: str
) -> None:
    """Word for word, also where it was not read, and with the same pictures."""
    with dedup.open(tmp_path) as detector:
        verdicts(detector)
        page = detector.fingerprint(html, url=f"{SITE}/other")
        assert page.unread
        verdict = detector.reserve(page, f"{SITE}/other")
        assert (verdict.status, verdict.of) == (
            status,
            f"{SITE}/40" if status == "near_duplicate" else None,
        )


STUB = picture(7000, own=20)
DATED = STUB + "<p>" + text(77, 6) + "</p>"


@pytest.mark.parametrize(
    ("html", "status"),
    [
        (DATED, "near_duplicate"),
        (STUB + "<p>" + text(78, 12) + "</p>", "exempt"),
        (DATED.replace("7000.jpg", "7001.jpg"), "exempt"),
        (DATED.replace("Picture 7000", "Picture"), "exempt"),
        (DATED.replace(text(7000, 20), text(7001, 20)), "exempt"),
    ],
    ids=["words that others have", "words that none has", "another picture", "title", "own words"],
)
def test_a_page_of_template_may_have_words_more_that_other_pages_have(
    tmp_path: Path, html: str, status: str
) -> None:
    """It has the title and the pictures of an earlier one, half of the same own words, and hardly anything new."""
    with dedup.open(tmp_path) as detector:
        verdicts(detector)
        for number, known in enumerate((DATED, picture(7001, own=20), STUB)):
            url = f"{SITE}/known/{number}"
            verdict = detector.reserve(detector.fingerprint(known, url=url), url)
            if number == 2:
                detector.insert(verdict)
            else:
                detector.release(verdict)
        page = detector.fingerprint(html, url=f"{SITE}/other")
        assert page.unread
        assert detector.reserve(page, f"{SITE}/other").status == status


def test_a_page_counts_once_and_a_title_counts_once() -> None:
    """A page that comes again, and a hundred pages of one title, teach nothing."""
    templates = Templates(RECIPE)
    for number in [*range(9), *range(9)] * 5 + [8] * 100:
        html = picture(number).replace("Picture 8", "Picture 7")
        reading = read_page(html, blocks=True)
        page = templates.learned(reading.fingerprint, reading.blocks, "pictures.example")
        assert not page.unread


def test_what_was_learned_is_kept_with_the_namespace(tmp_path: Path) -> None:
    """A store that is opened again knows its sites' templates; nothing is known of another site, or in another namespace."""
    with dedup.open(tmp_path) as detector:
        verdicts(detector)
    with dedup.open(tmp_path) as detector, dedup.open(tmp_path, namespace="other") as other:
        assert detector.fingerprint(picture(99), url=f"{SITE}/99").unread
        assert not other.fingerprint(picture(99), url=f"{SITE}/99").unread
        assert not detector.fingerprint(picture(1), url="http://other.example/1").unread
        assert not detector.fingerprint(picture(1)).unread  # of no site


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_file_is_made_again(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The store opens, says so, and learns anew; the next time the file is sound."""
    with dedup.open(tmp_path) as detector:
        verdicts(detector)
    file = tmp_path / "default" / SITE_BLOCKS
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes({"cut": content[:-1], "flip": content, "empty": b""}[damage])
    with caplog.at_level(logging.WARNING), dedup.open(tmp_path) as detector:
        assert not detector.fingerprint(picture(99), url=f"{SITE}/99").unread
        for number, url in urls(40):
            detector.fingerprint(picture(number), url=url)
    assert f"{file} is damaged" in caplog.text
    with dedup.open(tmp_path) as detector:
        assert detector.fingerprint(picture(99), url=f"{SITE}/99").unread


# ---------------------------------------------------------------------------------------- its counts


def block(number: int) -> bytes:
    """Return the entry of a block of five words that was read, for each number another one."""
    return (1 << 63 | 5 << 32 | number * 0x9E3779B1 % 2**32).to_bytes(8, "little")


def counted(templates: Templates, site: str, title: int, number: int = 7) -> None:
    templates.learned(made(0, identity=title << 32), block(number), site)


def test_a_site_that_was_not_seen_has_no_frame() -> None:
    """Nothing is known of it."""
    assert Templates("words").share(block(7), "a.example") == Share(0, 0, 0, 0, 0)


def test_sites_that_were_not_seen_for_long_are_forgotten() -> None:
    """All sites together take no more than the bound."""
    templates = Templates("words", most_bytes=10 * (FIRST_SETS + 1) * SET_BYTES)
    for i in range(100):
        counted(templates, f"{i}.example", 1)
        counted(templates, "often.example", i)
    assert len(templates.sites()) == 10
    assert templates.share(block(7), "often.example").template == 5
    assert templates.share(block(7), "0.example").pages == 0


def test_counts_are_kept_in_a_file(tmp_path: Path) -> None:
    """What was counted is known again; of another recipe nothing is."""
    templates = Templates("words", tmp_path)
    for title in range(1, 13):
        counted(templates, "a.example", title)
        counted(templates, "\ud800", title, 8)
    templates.save()
    again = Templates("words", tmp_path)
    assert again.share(block(7), "a.example") == templates.share(block(7), "a.example")
    assert (again.sites(), again.bytes) == (templates.sites(), templates.bytes)
    (tmp_path / "copy").mkdir()
    again.save(tmp_path / "copy")
    files = [folder / SITE_BLOCKS for folder in (tmp_path, tmp_path / "copy")]
    assert files[0].read_bytes() == files[1].read_bytes()
    counted(again, "a.example", 8)
    assert again.share(block(7), "a.example").pages == 12
    assert Templates("other", tmp_path).sites() == []


@given(st.integers(0, 10**6), st.integers(1, 255))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_counts_are_learned_again(tmp_path: Path, at: int, change: int) -> None:
    """A flipped bit, or a cut anywhere, is noticed."""
    templates = Templates("words", tmp_path)
    counted(templates, "a.example", 1)
    templates.save()
    content = (tmp_path / SITE_BLOCKS).read_bytes()
    at %= len(content)
    for damaged in (content[:at], content[:at] + bytes([content[at] ^ change]) + content[at + 1 :]):
        (tmp_path / SITE_BLOCKS).write_bytes(damaged)
        assert Templates("words", tmp_path).sites() == []
    (tmp_path / SITE_BLOCKS).unlink()
