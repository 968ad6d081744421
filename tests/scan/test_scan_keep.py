"""`dedup scan --keep`: which page of a group stays, and that the copy holds exactly what stays."""

import gzip
import json
import os
from pathlib import Path

import pytest
from scanning import WORDS, Page, mixed, page, response, write_lines, write_warc

from dedup import document_key, fingerprint, near_duplicate
from dedup.model.errors import UsageError
from dedup.scan import ScanJob, scan
from dedup.scan import keep as keep_module

TEXT = " ".join(WORDS[:120])


def rows_of(tmp_path: Path, path: Path, **options: object) -> list[dict]:
    """The verdicts of a scan."""
    output = tmp_path / "verdicts.jsonl"
    scan(ScanJob(inputs=(str(path),), output=str(output), **options))
    return [json.loads(line) for line in output.read_bytes().splitlines()]


def kept(rows: list[dict]) -> list[str]:
    """The keys of the pages that stay."""
    return [row["key"] for row in rows if row["status"] != "near_duplicate"]


def test_the_longest_stays(tmp_path):
    """Of three alike the one with most words, and the first of equal ones; the others name it."""
    texts = [TEXT, f"{TEXT} two more", f"{TEXT} also two", " ".join(WORDS[200:300])]
    pages = [Page(f"http://a.example/{i}", f"<p>{t}") for i, t in enumerate(texts)]
    path = write_lines(tmp_path / "pages.jsonl", pages)
    rows = rows_of(tmp_path, path, keep="longest")
    assert [row["status"] for row in rows] == [
        "near_duplicate",
        "unique",
        "near_duplicate",
        "unique",
    ]
    assert {row["of"] for row in rows} == {None, "http://a.example/1"}
    assert [row["cluster"] for row in rows[:3]] == ["http://a.example/1"] * 3
    assert kept(rows_of(tmp_path, path)) == ["http://a.example/0", "http://a.example/3"]


def test_the_newest_stays(tmp_path):
    """By a field with Unix time or ISO 8601; without a date a page is the oldest."""
    dates = [None, "2026-01-02T00:00:00Z", 1767312000 + 86400, "2025-12-31", "yesterday"]
    path = tmp_path / "pages.jsonl"
    lines = [
        json.dumps({"url": f"http://a.example/{i}", "html": f"<p>{TEXT}", "meta": {"date": date}})
        for i, date in enumerate(dates)
    ]
    path.write_text("\n".join(lines))
    rows = rows_of(tmp_path, path, keep="newest", date_field="meta.date")
    assert kept(rows) == ["http://a.example/2"]


def test_the_newest_html_file_stays(tmp_path):
    """By the time of the file."""
    for i, seconds in enumerate((1000, 3000, 2000)):
        path = tmp_path / "pages" / f"{i}.html"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"<p>{TEXT}")
        os.utime(path, (seconds, seconds))
    (stays,) = kept(rows_of(tmp_path, tmp_path / "pages", keep="newest"))
    assert stays.endswith("1.html")


def test_the_page_that_is_declared_canonical_stays(tmp_path):
    """The URL that most pages of the group declare; also if it declares nothing itself."""
    link = '<link rel="canonical" href="http://a.example/real?a=1&amp;b=2">'
    pages = [
        Page("http://a.example/x?session=1", f"{link}<p>{TEXT}"),
        Page("http://a.example/x?session=2", f"{link}<p>{TEXT}"),
        Page("http://a.example/y", f'<link rel="canonical" href="/y"><p>{TEXT}'),
        Page("http://a.example/real?b=2&a=1", f"<p>{TEXT}"),
    ]
    path = write_lines(tmp_path / "pages.jsonl", pages)
    assert kept(rows_of(tmp_path, path, keep="canonical")) == ["http://a.example/real?a=1&b=2"]


def test_a_page_is_left_out_only_for_one_that_stays(tmp_path):
    """In a chain the page in the middle is alike to both ends; an end that is chosen does not stand for the other."""
    base = TEXT.split(" ")
    texts = [[*(f"x{step}y{i}" for i in range(4 * step)), *base[4 * step :]] for step in range(3)]
    middle, short, end = texts[1], texts[0], [*texts[2], "one", "more"]
    pages = [
        Page(f"http://a.example/{i}", f"<p>{' '.join(t)}")
        for i, t in enumerate((middle, short, end))
    ]
    path = write_lines(tmp_path / "pages.jsonl", pages)
    found = [fingerprint(html, url=url) for url, html in pages]
    first, rows = kept(rows_of(tmp_path, path)), rows_of(tmp_path, path, keep="longest")
    by_key = {document_key(url): p for (url, _), p in zip(pages, found, strict=True)}
    assert first[0] == "http://a.example/0"
    for row in rows:
        if row["status"] == "near_duplicate":
            assert row["of"] in kept(rows)
            assert near_duplicate(by_key[row["key"]], by_key[row["of"]], same_site=True)


@pytest.mark.parametrize("keep", ["longest", "newest", "canonical"])
@pytest.mark.parametrize("identity", [False, True])
def test_every_page_that_is_left_out_has_a_kept_one(tmp_path, keep, identity):
    """On pages of all kinds: each near-duplicate names a page that stays, the summary counts the rows, and a
    group keeps its number of lines."""
    pages = mixed(150)
    path = write_lines(tmp_path / "pages.jsonl", pages)
    output = tmp_path / "verdicts.jsonl"
    summary = scan(ScanJob(inputs=(str(path),), output=str(output), keep=keep, identity=identity))
    rows = [json.loads(line) for line in output.read_bytes().splitlines()]
    assert [row["key"] for row in rows] == [document_key(url) for url, _ in pages]
    stays = set(kept(rows))
    assert all(row["of"] in stays for row in rows if row["status"] == "near_duplicate")
    assert summary.near_duplicate == sum(row["status"] == "near_duplicate" for row in rows) > 20
    assert summary.pages == len(rows)


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.warc.gz"])
def test_the_copy_holds_what_stays(tmp_path, name):
    """`--kept` leaves out the near-duplicates of the verdicts, and nothing else."""
    pages = [page(f"http://a.example/{i}", i // 3, words=60 + i) for i in range(9)]
    path = (
        write_lines(tmp_path / name, pages)
        if "jsonl" in name
        else write_warc(tmp_path / name, [response(p.url, p.html.encode()) for p in pages])
    )
    target = tmp_path / f"kept-{name}"
    rows = rows_of(tmp_path, path, keep="longest", kept=str(target))
    assert 0 < len(kept(rows)) < len(rows)
    if "jsonl" in name:
        assert [json.loads(line)["url"] for line in target.read_text().splitlines()] == kept(rows)
    else:
        copied = gzip.decompress(target.read_bytes())
        assert copied.count(b"WARC-Type: revisit") == sum(
            r["status"] == "near_duplicate" for r in rows
        )


@pytest.mark.parametrize("step", ["_write", "replace_file"])
def test_a_kill_at_the_choice_costs_nothing(tmp_path, monkeypatch, step):
    """The scan resumes, and says what an unbroken one says."""
    path = write_lines(tmp_path / "pages.jsonl", mixed(60))
    whole = rows_of(tmp_path, path, keep="longest")
    (tmp_path / "verdicts.jsonl").unlink()

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(keep_module, step, kill)
        with pytest.raises(KeyboardInterrupt):
            rows_of(tmp_path, path, keep="longest")
    assert rows_of(tmp_path, path, keep="longest", resume=True) == whole


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"keep": "longest", "output": "-"}, "verdicts on stdout"),
        ({"keep": "longest", "store": "s"}, "the pages of a store"),
        ({"date_field": "d"}, "--keep newest"),
    ],
)
def test_what_does_not_go_together_is_named(tmp_path, options, named):
    """A choice at the end goes with no stream."""
    with pytest.raises(UsageError, match=named):
        scan(ScanJob(inputs=(str(tmp_path),), **options))


def test_what_was_learned_of_the_site_holds_for_the_choice(tmp_path):
    """A page of which much was not read goes by its title when the longest is chosen, too, as in the scan."""

    def html(title: str, unread: int, more: str = "") -> str:
        links = f"<li><a href=/>{' '.join(WORDS[unread : unread + 90])}</a>"
        return f"<title>{title}</title><p>{TEXT} {more}</p><ul>{links}</ul>"

    pages = [
        Page("http://a.example/0", html("One", 200)),
        Page("http://a.example/1", html("One", 300)),
        Page("http://a.example/2", html("Two", 200, "two more")),
    ]
    path = write_lines(tmp_path / "pages.jsonl", pages)
    assert kept(rows_of(tmp_path, path)) == ["http://a.example/0"]
    rows = rows_of(tmp_path, path, keep="longest")
    assert [(row["status"], row["reason"]) for row in rows] == [
        ("exempt", "other_title"),
        ("near_duplicate", ""),
        ("unique", ""),
    ]
    assert rows[1]["of"] == "http://a.example/0"
