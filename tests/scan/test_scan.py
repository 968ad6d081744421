"""`dedup scan`: what it says of pages, whatever files hold them and however many processes read them."""

import json
import os
from functools import partial

import command_line
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scanning import (
    FIELDS,
    Page,
    judged,
    mixed,
    page,
    records,
    response,
    scanned,
    verdicts,
    write_lines,
    write_parquet,
    write_warc,
)
from sizes import examples

from dedup import fingerprint
from dedup.model.errors import DedupError, UsageError
from dedup.model.recipes import recipe_of
from dedup.scan import ScanJob, scan
from dedup.scan.reading import read_all
from dedup.scan.values import ReadingOptions, Task, Unit
from dedup.store import Store

PAGES = mixed(150)
STATUS = FIELDS.index("status")

call = partial(command_line.call, "scan", "--processes", 1)


def test_the_pages_hold_every_case():
    """What the other tests compare holds every status and reason."""
    seen = {(row[2], row[3]) for row in judged(PAGES, identity=True)}
    assert seen == {
        ("unique", ""),
        ("near_duplicate", ""),
        ("refetch", ""),
        ("exempt", "short"),
        ("exempt", "unread"),
        ("exempt", "other_title"),
    }


# ----------------------------------------------------------------------------------- what it says


@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_every_verdict_is_that_of_a_plain_slow_judge(tmp_path_factory, data):
    """Any pages in any order, any rule, scope and say of titles: the verdicts of a linear scan."""
    pages = mixed(data.draw(st.integers(1, 60)), data.draw(st.integers(0, 10**6)))
    options = {
        "identity": data.draw(st.booleans()),
        "scope": data.draw(st.sampled_from(("global", "site"))),
        "distance": data.draw(st.integers(0, 15)),
        "min_features": data.draw(st.sampled_from((8, 14, 60))),
        "similarity": data.draw(st.sampled_from((None, 0.0, 0.6, 0.9, 1.0))),
    }
    folder = tmp_path_factory.mktemp("scan")
    file = write_lines(folder / "pages.jsonl", pages)
    found = scanned(folder, file, **options)
    assert found == judged(pages, **options)


FORMATS = ".warc .warc.gz .warc.zst .jsonl .jsonl.gz .jsonl.zst .parquet".split()


@pytest.mark.parametrize(
    ("suffix", "output"), [*((each, "v.jsonl") for each in FORMATS), (".jsonl", "v.parquet")]
)
def test_every_format_gives_the_same_verdicts(tmp_path, suffix, output):
    """A page's verdict does not depend on what file it lies in, or on what it is written to."""
    path = tmp_path / f"p{suffix}"
    if "warc" in suffix:
        write_warc(path, records(PAGES))
    else:
        (write_parquet if suffix == ".parquet" else write_lines)(path, PAGES)
    assert scanned(tmp_path, path, output=output) == judged(PAGES)


def test_columns_may_have_other_names(tmp_path):
    """Here each has the name of the other."""
    swapped = write_parquet(tmp_path / "q.parquet", [Page(p.html, p.url) for p in PAGES])
    assert scanned(tmp_path, swapped, url_field="html", html_field="url") == judged(PAGES)


@pytest.mark.parametrize("processes", [1, 3])
def test_processes_change_nothing(tmp_path, processes):
    """Files are read side by side, and judged in the order of the input."""
    files = [write_warc(tmp_path / f"{i}.warc.gz", records(PAGES[i::9])) for i in range(9)]
    pages = [p for i in range(9) for p in PAGES[i::9]]
    assert scanned(tmp_path, *files, processes=processes) == judged(pages)


def test_html_files_are_known_by_their_path(tmp_path):
    """A folder's HTML files are read in the order of their names; others are passed over."""
    texts = {"b/2.htm": "two", "b/1.html": "one", "a.xhtml": "two", "c.txt": "x", ".d.html": "x"}
    for name, seed in texts.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(page("", seed).html)
    found = scanned(tmp_path, tmp_path / "in")
    base = str(tmp_path / "in")
    assert [(row[0], row[2], row[4]) for row in found] == [
        (f"{base}/a.xhtml", "unique", None),
        (f"{base}/b/1.html", "unique", None),
        (f"{base}/b/2.htm", "near_duplicate", f"{base}/a.xhtml"),
    ]


def test_inputs_keep_the_order_they_are_given_in(tmp_path):
    """The first input's page is the original; a glob's files come by name."""
    for name in ("a", "b", "c"):
        write_lines(tmp_path / f"{name}.jsonl", [page(f"http://{name}.example.com/", 1)])
    order = [tmp_path / "c.jsonl", str(tmp_path / "[ab].jsonl")]
    assert [row[5] is None for row in scanned(tmp_path, *order)] == [True, False, False]
    assert [row[0] for row in scanned(tmp_path, *order)] == [
        "http://c.example.com/",
        "http://a.example.com/",
        "http://b.example.com/",
    ]


def test_the_output_is_no_input(tmp_path):
    """Scanning a folder twice into a file in it gives the same both times."""
    write_lines(tmp_path / "p.jsonl", PAGES)
    first = scanned(tmp_path, tmp_path)
    assert scanned(tmp_path, tmp_path) == first == judged(PAGES)


# -------------------------------------------------------------------------------------- the store


def test_a_store_is_compared_with_and_left_alone(tmp_path):
    """Pages of a store come first; without --update it holds afterwards what it held before."""
    older, newer = PAGES[:60], PAGES[60:]
    scanned(
        tmp_path, write_lines(tmp_path / "a.jsonl", older), store=str(tmp_path / "s"), update=True
    )
    accepted: dict = {}
    judged(older, accepted=accepted)
    held = contents(tmp_path / "s")
    assert held == stored(accepted)
    found = scanned(tmp_path, write_lines(tmp_path / "b.jsonl", newer), store=str(tmp_path / "s"))
    assert found == judged(newer, accepted=accepted)
    assert contents(tmp_path / "s") == held


def test_an_updated_store_holds_what_was_accepted(tmp_path):
    """--update inserts accepted pages, replaces those that came again, and makes a missing store."""
    accepted: dict = {}
    for number, part in enumerate((PAGES[:70], PAGES[70:])):
        file = write_lines(tmp_path / f"{number}.jsonl", part)
        place = tmp_path / "s" / "default" if number else tmp_path / "s"  # the same one
        found = scanned(tmp_path, file, store=str(place), update=True)
        assert found == judged(part, accepted=accepted)
    assert contents(tmp_path / "s") == stored(accepted)


def stored(accepted):
    """The fingerprints of accepted pages as a store has them."""
    return {key: msgspec.structs.replace(p, unread=False) for key, (p, _) in accepted.items()}


def contents(path, namespace="default"):
    with Store.open(path, namespace, create=False) as store:
        documents = [d for _, d in store._documents.batch(0, 10**6)]
    return {d.key: d.page for d in documents}


def test_another_recipe_is_refused(tmp_path):
    """A store that was made with a secret is not compared without it."""
    with Store.open(tmp_path / "s", secret="x"):
        pass
    write_lines(tmp_path / "p.jsonl", PAGES[:3])
    done = call(tmp_path / "p.jsonl", "--store", tmp_path / "s")
    assert done.exit_code == 1
    assert "needs its secret" in done.stderr
    assert (
        call(tmp_path / "p.jsonl", "--store", tmp_path / "s", env={"DEDUP_SECRET": "x"}).exit_code
        == 0
    )


# ------------------------------------------------------------------------- what a WARC's pages are


def body_of(tmp_path, *found: bytes) -> list[tuple]:
    return scanned(tmp_path, write_warc(tmp_path / "p.warc.gz", found))


@pytest.mark.parametrize(
    "encoding", ["koi8-r", "windows-1251", "utf-16", "no-such-encoding", "punycode"]
)
def test_the_http_charset_counts(tmp_path, encoding):
    """A page is decoded as its HTTP header says; one that nobody knows is passed over."""
    text = "<p>" + " ".join(f"слово{chr(0x430 + i)}{chr(0x430 + i // 7)}" for i in range(32))
    known = encoding not in {"no-such-encoding", "punycode"}
    data = text.encode(encoding if known else "utf-8")
    headers = [f"Content-Type: text/html; charset={encoding}"]
    ((_, value, *_),) = body_of(tmp_path, response("http://a/", data, headers=headers))
    assert value == f"{fingerprint(text).value:016x}"
    data = f'<html><meta charset="koi8-r">{text}'.encode("koi8-r")  # without one the page's own
    for headers in (["Content-Type: text/html"], []):
        ((_, value, *_),) = body_of(tmp_path, response("http://a/", data, headers=headers))
        assert value == f"{fingerprint(text).value:016x}"


def test_what_is_no_page_is_counted(tmp_path):
    """Revisits, other types and other statuses are counted by reason, and have no verdict."""
    html = page("", 1).html.encode()
    found = [
        response("http://a/1", html, kind="revisit"),
        response("http://a/2", b"%PDF", headers=["Content-Type: application/pdf"]),
        response("http://a/3", html, status="404 Not Found"),
        response("http://a/4", b"", status="301 Moved", headers=["Location: /"]),
        response("http://a/5", b"just text", headers=[]),
        response("http://a/6", html, headers=[]),
        response("http://a/7", html, kind="request"),
    ]
    file = write_warc(tmp_path / "p.warc.gz", found)
    summary = scan(ScanJob(inputs=(str(file),)))
    assert summary.skipped == {"revisit": 1, "non_html": 2, "status": 2}
    assert (summary.pages, summary.unique, summary.broken) == (1, 1, 0)


def test_bodies_are_decoded_as_their_headers_say(tmp_path):
    """Chunked and compressed bodies, and decoded ones under headers that still say so."""
    import gzip
    import zlib

    import brotli
    import zstandard

    html = page("", 1).html.encode()
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(html), html)
    raw = zlib.compressobj(wbits=-15)
    bodies = {
        "Content-Encoding: gzip": gzip.compress(html),
        "Content-Encoding: br": brotli.compress(html),
        "Content-Encoding: deflate": zlib.compress(html),
        "Content-encoding:  Deflate": raw.compress(html) + raw.flush(),
        "Content-Encoding: zstd": zstandard.compress(html),
        "Transfer-Encoding: chunked": chunked,
        "Content-Encoding: identity": html,
    }
    headers = "Content-Type: text/html"
    found = [response("http://a/", body, headers=[headers, h]) for h, body in bodies.items()]
    found += [response("http://a/", html, headers=[headers, h]) for h in bodies]
    both = gzip.compress(html)
    both = b"%x\r\n%s\r\n0\r\n\r\n" % (len(both), both)
    two = ["Content-Encoding: gzip", "Transfer-Encoding: chunked"]
    found.append(response("http://a/", both, headers=[headers, *two]))
    rows = body_of(tmp_path, *found)
    assert len(rows) == len(found)
    assert {row[1] for row in rows} == {f"{fingerprint(html, url='http://a/').value:016x}"}


def test_a_page_beyond_the_limit_is_kept_unread(tmp_path):
    """A page of more than DEDUP_MAX_BYTES has a verdict, exempt/too_large, whatever file holds it."""
    pages = [page("http://a/1", 1), page("http://a/2", 2, words=300)]
    limit = len(pages[0].html)
    files = [
        write_warc(tmp_path / "p.warc.gz", records(pages)),
        write_lines(tmp_path / "p.jsonl", pages),
        write_parquet(tmp_path / "p.parquet", pages),
    ]
    for file in files:
        rows = scanned(tmp_path, file, max_bytes=limit)
        assert [(row[2], row[3]) for row in rows] == [("unique", ""), ("exempt", "too_large")]
        assert rows[1][:2] == ("http://a/2", None)
    scanned(tmp_path, files[0], max_bytes=limit, output="v.parquet")
    assert verdicts(tmp_path / "v.parquet")[1][:2] == ("http://a/2", None)


# --------------------------------------------------------------------------------- the command line


def test_the_summary_counts_every_page(tmp_path):
    """--json gives one object, and its counts are those of the verdicts."""
    write_lines(tmp_path / "p.jsonl", PAGES)
    done = call(tmp_path / "p.jsonl", "--output", tmp_path / "v.jsonl", "--json")
    summary, rows = json.loads(done.stdout), judged(PAGES)
    assert summary["pages"] == len(PAGES)
    for status in ("unique", "near_duplicate", "refetch"):
        assert summary[status] == sum(row[2] == status for row in rows)
    assert sum(summary["exempt"].values()) == sum(row[2] == "exempt" for row in rows)
    assert sum(summary["distances"].values()) == summary["near_duplicate"]
    assert summary["bytes"] == (tmp_path / "p.jsonl").stat().st_size
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.jsonl", "v.jsonl"]


def test_stdin_to_stdout(tmp_path):
    """JSON lines on stdin give verdicts on stdout, and the summary on stderr."""
    data = write_lines(tmp_path / "p.jsonl", PAGES).read_bytes()
    done = command_line.run("scan", "-", "--output", "-", input=data)
    (tmp_path / "v.jsonl").write_bytes(done.stdout)
    assert verdicts(tmp_path / "v.jsonl") == judged(PAGES)
    assert b"150 pages of 1 file" in done.stderr
    assert done.returncode == 0


def test_a_broken_line_of_stdin_is_named():
    """It has the name that a person knows, not the dash of the command line."""
    done = call("-", data=b"not json\n")
    assert "dedup: stdin line 1: not a JSON object" in done.stderr


def test_the_paper_at_a_greater_distance_is_warned_of(tmp_path):
    """No texts are compared then: allowed, and said on stderr; not at the preset's own distance."""
    file = write_lines(tmp_path / "p.jsonl", PAGES[:2])
    for distance, warned in ((8, True), (3, False)):
        done = call(file, "--similarity", "paper", "--distance", distance)
        assert ("--similarity paper compares no texts" in done.stderr) == warned
        assert done.exit_code == 0


def test_wrong_use_is_named(tmp_path):
    """Options that do not go together, names that say nothing, inputs that are not there."""
    file = write_lines(tmp_path / "p.jsonl", PAGES[:2])
    (tmp_path / "x.bin").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    cases = {
        (file, "--resume"): (2, "--output"),
        (file, "--update"): (2, "--store"),
        (file, "--json", "--output", "-"): (2, "stdout"),
        (file, "--output", "v.csv"): (2, ".parquet"),
        (file, "--report", "r.txt"): (2, ".html"),
        (file, "--distance", "16"): (2, "16"),
        (tmp_path / "x.bin",): (2, "--format"),
        (tmp_path / "empty",): (1, "nothing to scan"),
        (tmp_path / "missing.jsonl",): (1, "no such file"),
        (file, "--store", tmp_path / "none"): (1, "no store"),
        (): (2, "INPUT"),
    }
    for args, (code, words) in cases.items():
        done = call(*args)
        assert (done.exit_code, words in done.stderr) == (code, True), (args, done.stderr)


def test_files_of_a_folder_that_are_not_read_are_counted(tmp_path):
    """Names that say no format: one line with an example. What Spark writes for itself is left out, as Spark does."""
    folder = tmp_path / "in"
    for name in ("_temporary/0", ".git", "_SUCCESS.jsonl", "day=1", "_day=2"):
        (folder / name).mkdir(parents=True)
        write_lines(folder / name / "a.jsonl", PAGES[:20])
    write_lines(folder / "_part.jsonl", PAGES[:20])
    assert "40 pages of 2 files" in call(folder).stdout
    names = ("c4-train.json.gz", "part-00000.json", "page", "view.php?id=1", "x.arc.gz")
    for name in names:
        (folder / name).write_text("{}")
    done = call(folder)
    assert done.exit_code == 0
    assert (
        f"5 files not read, such as {folder / names[0]}: no format is known by that name"
        in done.stdout
    )
    assert json.loads(call(folder, "--json").stdout)["files_not_read"] == 5


def test_a_wrong_input_leaves_no_work_behind(tmp_path):
    """Corrected, the same command begins anew: there is nothing that it would have to resume."""
    file, output = write_lines(tmp_path / "p.jsonl", PAGES[:2]), tmp_path / "v.jsonl"
    assert call(tmp_path / "missing.jsonl", "--output", output).exit_code == 1
    assert call(file, tmp_path / "missing.jsonl", "--output", output).exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["p.jsonl"]
    assert call(file, "--output", output).exit_code == 0


def test_the_report_names_the_greatest_clusters(tmp_path):
    """--report writes what stands most often, as JSON or as a page; both escape what they show."""
    pages = [
        page("http://a.example.com/<1>", 1),
        *(page(f"http://b.example.com/{i}", 1) for i in range(5)),
    ]
    file = write_lines(tmp_path / "p.jsonl", pages)
    assert call(file, "--report", tmp_path / "r.json").exit_code == 0
    report = json.loads((tmp_path / "r.json").read_text())
    name = judged(pages)[0][0]
    ((key, examples),) = [(each["name"], each.pop("examples")) for each in report["clusters"]]
    assert (key, report["clusters"]) == (name, [{"name": name, "near_duplicates": 5}])
    assert [each["key"] for each in examples] == [f"http://b.example.com/{i}" for i in range(5)]
    assert all(each["similarity"] == 1 for each in examples)
    assert report["hosts"] == [{"name": "b.example.com", "near_duplicates": 5}]
    assert report["summary"]["pages"] == 6
    assert call(file, "--report", tmp_path / "r.html").exit_code == 0
    text = (tmp_path / "r.html").read_text()
    assert "b.example.com" in text and "<1>" not in text


# ------------------------------------------------------------------------------------ the processes


def test_what_waits_for_its_turn_is_bounded(tmp_path, monkeypatch):
    """With no room ahead, workers wait; the order and the results stay."""
    monkeypatch.setattr("dedup.scan.reading.AHEAD_BATCHES", 1)
    monkeypatch.setattr("dedup.scan.reading.UNIT_BATCHES", 1)
    monkeypatch.setattr("dedup.scan.reading.AHEAD_UNITS", 3)
    units = []
    for i in range(8):
        path = write_lines(tmp_path / f"{i}.jsonl", PAGES[i::8])
        units.append(Unit("jsonl", (os.fsencode(path),), 0))
    tasks = (Task(n, unit) for n, unit in enumerate(units))
    reading = ReadingOptions("url", "html", 1 << 20, recipe_of())
    parts = list(read_all(tasks, reading, 3))
    keys = [r.key for _, results, _ in parts for r in results]
    assert keys == [row[0] for i in range(8) for row in judged(PAGES[i::8])]


def test_a_worker_that_dies_is_an_error(tmp_path, monkeypatch):
    """A process that ends before its time ends the scan with exit code 1, and its name."""
    file = write_lines(tmp_path / "p.jsonl", PAGES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, os\nif 'dedup.scan.reading' in sys.orig_argv[-1]: os._exit(9)\n"
    )
    with pytest.raises(DedupError, match=r"p\.jsonl.*ended \(code 9\)"):
        scan(ScanJob(inputs=(str(file),), processes=2))


def test_a_fault_in_the_listing_reaches_the_caller(tmp_path):
    """What listing the inputs raises half way is raised, not lost in a thread."""

    def tasks():
        path = write_lines(tmp_path / "p.jsonl", PAGES[:2])
        yield Task(0, Unit("jsonl", (os.fsencode(path),), 0))
        raise UsageError("as asked")

    with pytest.raises(UsageError, match="as asked"):
        list(read_all(tasks(), ReadingOptions("url", "html", 1 << 20, recipe_of()), 2))


# ----------------------------------------------------------------------------- what a person sees


def test_files_are_of_one_site(tmp_path):
    """So what their structured data and, if asked, their titles say of them counts."""
    text = " ".join(f"word{i}" for i in range(100))
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, title, sku in (("a", "One", 1), ("b", "One", 1), ("c", "One", 2), ("d", "Two", 1)):
        linked = f'<script type="application/ld+json">{{"sku": {sku}}}</script>'
        (folder / f"{name}.html").write_text(f"<title>{title}</title>{linked}<p>{text} {name}")
    assert [row[STATUS] for row in scanned(tmp_path, folder)] == [
        "unique", "near_duplicate", "unique", "near_duplicate",
    ]  # fmt: skip
    assert [row[STATUS] for row in scanned(tmp_path, folder, identity=True)] == [
        "unique", "near_duplicate", "unique", "exempt",
    ]  # fmt: skip
