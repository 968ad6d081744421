"""The command line: what a person, a pipe and a program get from each command."""

import inspect
import json
import os
import random
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click import Context
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from sketches import sketch

from dedup import fingerprint, fingerprint_text, near_duplicate, recipe_of
from dedup.cli import _COMMANDS, main, terminal
from dedup.core.fingerprint import similarity
from dedup.model.recipes import NEWEST
from dedup.model.report.differences import differences
from dedup.model.report.texts import running
from dedup.model.values import Document, PageFingerprint
from dedup.store import Store

WORDS = [f"word{i}" for i in range(200)]
LARGEST = 2**64 - 1


def html(words: list[str], links: int = 0) -> str:
    anchors = "".join(
        f"<p>more words about it <a href=/{words[0]}/{i}>x{i}</a>" for i in range(links)
    )
    return f"<html><body><p>{' '.join(words)}</p>{anchors}</body></html>"


# click 8.1 keeps stdout and stderr apart only when told, later ones always
_MIXES = "mix_stderr" in inspect.signature(CliRunner).parameters
RUNNER = CliRunner(**{"mix_stderr": False} if _MIXES else {})


def call(
    *args: object, data: str | bytes | None = None, env: dict[str, str] | None = None
) -> Result:
    """Run a command in this process."""
    return RUNNER.invoke(main, [str(a) for a in args], input=data, env=env, prog_name="dedup")


def run(*args: object, **options: object) -> subprocess.CompletedProcess:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "dedup", *map(str, args)]
    return subprocess.run(command, check=False, capture_output=True, timeout=600, **options)


@pytest.fixture
def pages(tmp_path):
    """A page, a near-duplicate of it, and one with other words."""
    contents = {
        "a.html": html(WORDS),
        "b.html": html([*WORDS[:100], "changed", "words", *WORDS[101:]]),
        "other.html": html([f"other{i}" for i in range(200)]),
        "short.html": "<p>only four words here",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def fill(path, namespace: str = "default", count: int = 3) -> None:
    with Store.open(path, namespace) as store:
        for i in range(count):
            page = PageFingerprint(i * 0x9E3779B97F4A7C15 % 2**64, sketch(), 9, 300, store.recipe)
            store.insert(Document(f"http://example.com/{i}", page, "example.com", 1700000000.5))


# ------------------------------------------------------------------------------------ the commands


def test_version():
    """`--version` is one line."""
    result = call("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"dedup \d+\.\d+\.\d+\S*\n", result.output)


def test_help_lists_every_command_and_imports_none():
    """`--help` shows each command with a line, and loads no command's module."""
    code = "import sys; from dedup.cli import main; main(['--help'], standalone_mode=False); print([m for m in sys.modules if m.startswith(('dedup.cli.', 'dedup.lab'))])"
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600
    )
    for name, (_, text) in _COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", result.stdout, re.MULTILINE)
    assert result.stdout.endswith("['dedup.cli.terminal']\n")


@pytest.mark.parametrize(
    "command",
    [
        "fingerprint",
        "compare",
        "find-all",
        "find-clusters",
        "store info",
        "store verify",
        "store export",
        "store import",
        "store prune",
    ],
)
def test_each_help_shows_an_example(command):
    """The help of a command ends with an example that calls it."""
    result = call(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"dedup {command}" in result.output.rpartition("Example:")[2]


@pytest.mark.parametrize("name", list(_COMMANDS))
def test_each_command_is_found_by_its_name(name):
    """Every name in the list loads a command that is called so."""
    command = main.get_command(Context(main), name)
    assert command is not None
    assert command.name == name


def test_an_unknown_command_gets_the_list():
    """A command that is not there is a usage error that names those that are."""
    result = call("fingerprints")
    assert result.exit_code == 2
    assert "No such command 'fingerprints'; known are demo, fingerprint, " in result.stderr


# ------------------------------------------------------------------------------------- fingerprint


def test_fingerprint_prints_value_features_path(pages):
    """A line is `%016x %d %s`, in the order of the files."""
    paths = [pages / "a.html", pages / "other.html"]
    result = call("fingerprint", *paths)
    assert result.exit_code == 0
    expected = ""
    for path in paths:
        page = fingerprint(path.read_bytes())
        expected += f"{page.value:016x} {page.features} {path}\n"
    assert result.stdout == expected


@pytest.mark.parametrize("args", [(), ("-",)])
def test_fingerprint_reads_stdin(pages, args):
    """Without a file, and for "-", the page comes from stdin and is called "-"."""
    data = (pages / "a.html").read_bytes()
    page = fingerprint(data)
    result = call("fingerprint", *args, data=data)
    assert result.stdout == f"{page.value:016x} {page.features} -\n"


def test_fingerprint_json(pages):
    """`--json` gives one object a line with all fields, numbers and sketch in hex digits."""
    path = pages / "a.html"
    page = fingerprint(path.read_bytes())
    (line,) = call("fingerprint", "--json", path).stdout.splitlines()
    assert json.loads(line) == {
        "path": str(path),
        "value": f"{page.value:016x}",
        "sketch": page.sketch.hex(),
        "identity": f"{page.identity:016x}",
        "features": page.features,
        "recipe": page.recipe,
        "unread": False,
    }


def test_fingerprint_goes_on_after_an_unreadable_file(pages):
    """A missing file and a folder are errors on stderr; the rest is printed; the exit code is 1."""
    result = call("fingerprint", pages / "missing", pages, pages / "a.html")
    assert result.exit_code == 1
    assert result.stdout.endswith("a.html\n")
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr.splitlines() == [
        f"dedup: {pages / 'missing'}: No such file or directory; check the path",
        f"dedup: {pages}: Is a directory; give a file",
    ]


def test_fingerprint_text():
    """`--text` takes plain text, without its byte order mark, in the encoding given."""
    page = fingerprint_text("größer <b>words</b>")
    for data, options in (
        ("größer <b>words</b>".encode("utf-8-sig"), ()),
        ("größer <b>words</b>".encode("latin-1"), ("--encoding", "latin-1")),
        ("größer <b>words</b>".encode("utf-16"), ()),
    ):
        result = call("fingerprint", "--text", *options, data=data)
        assert result.stdout.split()[:2] == [f"{page.value:016x}", str(page.features)]
    assert call("fingerprint", "--text", "--url", "http://example.com/", data="x").exit_code == 2


def test_fingerprint_encoding_and_url():
    """`--encoding` decodes the page, `--url` completes a canonical URL."""
    data = "<link rel=canonical href=1><p>größer als zuvor".encode("latin-1")
    result = call(
        "fingerprint", "--json", "--encoding", "latin-1", "--url", "http://e.com/shop/", data=data
    )
    page = fingerprint(data, encoding="latin-1", url="http://e.com/shop/")
    seen = json.loads(result.stdout)
    assert (seen["value"], seen["identity"]) == (f"{page.value:016x}", f"{page.identity:016x}")
    assert page.identity != fingerprint(data, encoding="latin-1").identity


def test_an_unknown_encoding_is_a_usage_error():
    """An encoding that nobody knows ends with exit code 2 and no output."""
    result = call("fingerprint", "--encoding", "klingon", data="<p>x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("dedup: unknown encoding 'klingon'; ")


def test_the_secret_comes_from_the_environment():
    """DEDUP_SECRET keys the recipe as --secret does; an empty --secret is a usage error."""
    data = html(WORDS)
    recipe = recipe_of(None, "s3cret")
    expected = fingerprint(data, recipe=recipe)
    for result in (
        call("fingerprint", "--json", data=data, env={"DEDUP_SECRET": "s3cret"}),
        call("fingerprint", "--json", "--secret", "s3cret", data=data),
    ):
        seen = json.loads(result.stdout)
        assert (seen["value"], seen["recipe"]) == (f"{expected.value:016x}", recipe.id)
    assert call("fingerprint", "--secret", "", data=data).exit_code == 2


def test_odd_file_names_come_out_as_they_went_in(pages):
    """A file name that is not UTF-8 is printed byte for byte, and its JSON parses."""
    name = os.fsencode(pages) + b"/\xff.html"
    Path(os.fsdecode(name)).write_bytes(b"<p>some words")
    result = run("fingerprint", os.fsdecode(name))
    assert result.returncode == 0
    assert result.stdout.endswith(b" " + name + b"\n")
    result = run("fingerprint", "--json", os.fsdecode(name))
    assert os.fsencode(json.loads(result.stdout)["path"]) == name


# ----------------------------------------------------------------------------------------- compare


def test_compare_near_duplicates(pages):
    """Two versions of a page: near-duplicate, distance, similarity, and the words that changed."""
    result = call("compare", pages / "a.html", pages / "b.html")
    assert result.exit_code == 0
    assert "verdict: near-duplicate (similarity: " in result.stdout
    assert "differ in 1 place, " in result.stdout
    assert "word99 [-word100-] {+changed words+} word101" in result.stdout
    a, b = (fingerprint((pages / name).read_bytes()) for name in ("a.html", "b.html"))
    assert f"distance of value     {(a.value ^ b.value).bit_count()} bits " in result.stdout
    assert f"word triples alike    {int(100 * similarity(a, b))} % " in result.stdout


def test_compare_names_the_rule(pages):
    """Too few features, and values far apart, are named as what decided."""
    short = call("compare", pages / "a.html", pages / "short.html").stdout
    assert "verdict: not near-duplicate (short page: B has 4 features, judged are pages" in short
    other = call("compare", pages / "a.html", pages / "other.html").stdout
    assert re.search(r"not near-duplicate \(distance: \d+ bits, more than \d+\)", other)


def test_compare_names_the_similarity(tmp_path):
    """The same words in another order have the same value; the similarity keeps them apart."""
    shuffled = WORDS.copy()
    random.Random(1).shuffle(shuffled)
    for name, words in (("a", WORDS), ("b", shuffled)):
        (tmp_path / name).write_text(html(words))
    seen = json.loads(call("compare", "--json", tmp_path / "a", tmp_path / "b").stdout)
    assert (seen["distance"], seen["near_duplicate"], seen["rule"]) == (0, False, "similarity")


def test_compare_json_agrees_with_the_library(pages):
    """The JSON of each pair carries near_duplicate()'s answer, the similarity, and the rule."""
    names = ["a.html", "b.html", "other.html", "short.html"]
    for a in names:
        for b in names:
            seen = json.loads(call("compare", "--json", pages / a, pages / b).stdout)
            one, two = (fingerprint((pages / name).read_bytes()) for name in (a, b))
            assert seen["near_duplicate"] is near_duplicate(one, two)
            assert seen["rule"] in ("short", "distance", "similarity")
            assert seen["similarity"] == similarity(one, two)
            assert seen["a"]["value"] == f"{one.value:016x}"
            assert len(seen["differences"]) == seen["difference_count"] <= 10
            assert (seen["difference_count"] == 0) is (a == b)


def test_compare_tells_what_pages_say_of_themselves(tmp_path):
    """Alike text under another title is near-duplicate, and that a crawl keeps it is said beside it."""
    for name, words in (("a", WORDS), ("b", ["new", *WORDS[1:]])):
        (tmp_path / name).write_text(f"<title>page {name}</title><p>{' '.join(words)}</p>")
    result = call("compare", tmp_path / "a", tmp_path / "b")
    assert "verdict: near-duplicate" in result.stdout
    assert "the titles differ: on one site a crawl keeps B as another page" in result.stdout
    seen = json.loads(call("compare", "--json", tmp_path / "a", tmp_path / "b").stdout)
    assert (seen["identity"], seen["title"], seen["canonical"]) == ("other", "other", "unknown")
    apart = call("compare", "--two-sites", tmp_path / "a", tmp_path / "b").stdout
    assert "near-duplicates from 75.0%, on two sites" in apart
    assert "the titles differ" not in apart


def test_compare_judges_short_pages_of_one_site_only(tmp_path):
    """Pages of few words are compared where both are said to be of one site; unread ones never."""
    (tmp_path / "few").write_text(html(WORDS[:12]))
    (tmp_path / "menu").write_text(f"<nav>{' '.join(WORDS)}</nav><p>{' '.join(WORDS[:15])}")
    seen = {
        option: json.loads(call("compare", "--json", *[tmp_path / "few"] * 2, *option).stdout)
        for option in ((), ("--one-site",), ("--two-sites",))
    }
    assert [one["near_duplicate"] for one in seen.values()] == [False, True, False]
    assert [one["rule"] for one in seen.values()] == ["short", "similarity", "short"]
    unread = call("compare", *[tmp_path / "menu"] * 2).stdout
    assert "not near-duplicate (unread: too little of A and B was read" in unread


def test_compare_shows_ten_differences_or_all(tmp_path):
    """Of many differences ten are shown, unless --all asks for the rest."""
    changed = [f"new{i}" if i % 10 == 5 else w for i, w in enumerate(WORDS)]
    for name, words in (("a", WORDS), ("b", changed)):
        (tmp_path / name).write_text(html(words))
    some = call("compare", tmp_path / "a", tmp_path / "b").stdout
    assert some.count("{+new") == 10
    assert some.endswith("  and 10 more; --all shows them\n")
    assert call("compare", "--all", tmp_path / "a", tmp_path / "b").stdout.count("{+new") == 20
    seen = json.loads(call("compare", "--json", "--all", tmp_path / "a", tmp_path / "b").stdout)
    assert seen["difference_count"] == len(seen["differences"]) == 20


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
    assert (
        running(["北京", "京大", "大学", "and", "de", "es", "не", "ем"])
        == "北京大学 and de es не ем"
    )


@given(
    st.lists(st.sampled_from("abcdefg"), max_size=40),
    st.lists(st.sampled_from("abcdefg"), max_size=40),
)
@settings(deadline=None, max_examples=examples(300))
def test_hunks_turn_one_text_into_the_other(a, b):
    """Whatever the texts are: replacing the hunks of A by those of B gives B."""
    built, at = [], 0
    for hunk in differences(a, b):
        assert hunk.a_begin >= at
        built += a[at : hunk.a_begin]
        assert len(built) == hunk.b_begin
        built += b[hunk.b_begin : hunk.b_end]
        at = hunk.a_end
    assert built + a[at:] == b


def test_repetitive_texts_are_compared_at_once():
    """Half a million words without one that is unique, where a plain diff is quadratic."""
    assert differences(["a", "b"] * 250_000, ["b", "b", "a"] * 150_000)  # or this takes hours


# -------------------------------------------------------------------------- find-all, find-clusters


def test_find_all_lists_pairs():
    """Pairs a < b, sorted, each an array a line; a value that occurs twice pairs with itself."""
    result = call("find-all", data="1000\n0\n\n3\n  1000 \r\n")
    assert result.exit_code == 0
    assert result.stdout == "[0, 3]\n[1000, 1000]\n"


def test_find_clusters_lists_members():
    """Clusters of two and more, every occurrence, sorted inside and by their first members."""
    values = [LARGEST, 1, 0, 1, 0xFF00FF00, LARGEST - 1]
    result = call("find-clusters", "--distance", 1, data="\n".join(map(str, values)))
    assert result.stdout == f"[0, 1, 1]\n[{LARGEST - 1}, {LARGEST}]\n"


def test_find_with_hex():
    """With --hex hex digits are read, short or long, and 16 of them are written."""
    result = call("find-all", "--hex", data="FFFFFFFFFFFFFFFF\nfffffffffffffffe\n\n1\n0\n")
    assert result.stdout == (
        '["0000000000000000", "0000000000000001"]\n["fffffffffffffffe", "ffffffffffffffff"]\n'
    )
    result = call("find-clusters", "--hex", data="00000000000000ff\n00000000000000fe\n")
    assert result.stdout == '["00000000000000fe", "00000000000000ff"]\n'


def test_the_distance_is_three_by_default():
    """The paper's k holds where none is given."""
    assert call("find-all", data="0\n7\n").stdout == "[0, 7]\n"
    assert call("find-all", data="0\n15\n").stdout == ""
    assert call("find-all", "--distance", 4, data="0\n15\n").stdout == "[0, 15]\n"


@pytest.mark.parametrize("command", ["find-all", "find-clusters"])
@pytest.mark.parametrize("data", ["", "\n\n", "5\n", "5"])
def test_nothing_in_nothing_out(command, data):
    """No fingerprint, or one, gives no line and no error."""
    result = call(command, data=data)
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("abc", "give --hex for hex digits"),
        ("-1", "correct or remove it"),
        ("+1", "correct or remove it"),
        ("1_0", "correct or remove it"),
        ("1 2", "correct or remove it"),
        ("1.5", "correct or remove it"),
        ("18446744073709551616", "correct or remove it"),
        ("9" * 5000, "correct or remove it"),
        ("\u0663", "correct or remove it"),
    ],
)
def test_a_bad_line_is_named(text, advice):
    """What is no decimal number up to 2**64-1 is an error with the number and text of the line."""
    data = "7\n" * 14 + f"\n{LARGEST}\n{text}\nbad too\n"
    result = call("find-all", data=data)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"dedup: stdin: line 17: {text[:40]!r} is not a decimal number 0 to 2**64-1; {advice}\n"
    )


@pytest.mark.parametrize("text", ["0123456789abcdef0", "0x12", "xyz", "-1"])
def test_a_bad_hex_line_is_named(text):
    """With --hex more than 64 bits, a prefix or other letters are errors."""
    result = call("find-all", "--hex", data=f"0123456789abcdef\n{text}\n")
    assert result.exit_code == 1
    assert f"line 2: {text!r} is not 1 to 16 hex digits; " in result.stderr


@pytest.mark.parametrize("as_hex", [False, True])
def test_a_bad_line_far_down_is_named(tmp_path, as_hex):
    """The line number holds across the chunks in which a long file is read."""
    file = tmp_path / "values"
    file.write_text("".join(f"{i:016x}\n" if as_hex else f"{i}\n" for i in range(250_000)) + "x\n")
    result = call("find-all", "--input", file, *["--hex"] * as_hex)
    assert result.stderr.startswith(f"dedup: {file}: line 250001: 'x' is not ")


@pytest.mark.parametrize("byte", ["0", " "])
def test_a_line_without_end_is_refused(byte):
    """Megabytes without a newline are an error, not a number and not a blank line."""
    result = call("find-all", data="1\n" + byte * 3_000_000)
    assert result.exit_code == 1
    assert result.stderr == "dedup: stdin: line 2 has no end; give one fingerprint a line\n"


@given(
    st.lists(st.integers(0, LARGEST) | st.sampled_from([0, LARGEST]), max_size=30), st.booleans()
)
@settings(deadline=None, max_examples=examples(60))
def test_every_number_is_read_as_it_is(values, as_hex):
    """Clusters at distance 0 of each number given twice are those numbers, fast path or slow."""
    lines = [f"{v:016x}" if as_hex else str(v) for v in values]
    options = ["--distance", 0, *["--hex"] * as_hex]
    plain = call("find-all", *options, data="".join(f"{t}\n" for t in lines * 2))
    spaced = call("find-all", *options, data="\r\n".join(f" {t}\t" for t in lines * 2))
    seen = [
        [int(n, 16) for n in json.loads(x)] if as_hex else json.loads(x)
        for x in plain.stdout.splitlines()
    ]
    assert seen == [[v, v] for v in sorted(set(values))]
    assert spaced.stdout == plain.stdout


def test_find_with_files(tmp_path):
    """--input and --output name files; a missing one is an error, and leaves the output alone."""
    (tmp_path / "in").write_text("1\n2\n")
    result = call("find-all", "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "out").read_text() == "[1, 2]\n"
    result = call("find-all", "--input", tmp_path / "none", "--output", tmp_path / "out")
    assert result.exit_code == 1
    assert (
        result.stderr == f"dedup: {tmp_path / 'none'}: No such file or directory; check the path\n"
    )
    assert (tmp_path / "out").read_text() == "[1, 2]\n"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--blocks", 4), 0),
        (("--blocks", 64), 0),
        (("--blocks", 3), 2),
        (("--blocks", 65), 2),
        (("--distance", 6, "--blocks", 6), 2),
        (("--distance", 16), 2),
        (("--distance", -1), 2),
    ],
)
def test_blocks_and_distance_are_checked(options, code):
    """--blocks is more than the distance and up to 64, the distance 0 to 15; else usage."""
    assert call("find-all", *options, data="1\n").exit_code == code


def test_a_closed_pipe_is_quiet():
    """`dedup find-all | head -1` ends without a word on stderr."""
    data = "\n".join(str(i) for i in range(3000)).encode()
    with subprocess.Popen(
        [sys.executable, "-m", "dedup", "find-all"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdin.write(data)
        process.stdin.close()
        assert process.stdout.readline() == b"[0, 1]\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=120) == 1


# ------------------------------------------------------------------------------------------- store


def test_store_info(tmp_path):
    """A store's folder gives its namespace, documents and recipe, as a table and as JSON."""
    fill(tmp_path, "spider", 3)
    result = call("store", "info", tmp_path / "spider")
    assert result.exit_code == 0
    head, row = result.stdout.splitlines()
    assert head.split()[:3] == ["namespace", "documents", "recipe"]
    assert row.split()[:3] == ["spider", "3", NEWEST]
    (seen,) = json.loads(call("store", "info", "--json", tmp_path / "spider").stdout)["stores"]
    assert (seen["namespace"], seen["documents"], seen["tail_documents"]) == ("spider", 3, 3)
    assert seen["path"] == str(tmp_path / "spider")


def test_store_info_of_namespaces(tmp_path):
    """A folder of namespaces gives all of them, and leaves other folders out."""
    fill(tmp_path, "b", 2)
    fill(tmp_path, "a", 1)
    (tmp_path / "notes").mkdir()
    (tmp_path / "file").write_text("x")
    seen = json.loads(call("store", "info", "--json", tmp_path).stdout)["stores"]
    assert [(s["namespace"], s["documents"]) for s in seen] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("command", ["info", "verify"])
def test_looking_at_a_store_changes_nothing(tmp_path, command):
    """info and verify leave every file's bytes and time as they were."""
    fill(tmp_path, count=1500)  # enough for a snapshot

    def state():
        return {
            f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in (tmp_path / "default").iterdir()
        }

    before = state()
    assert call("store", command, tmp_path).exit_code == 0
    assert state() == before


@pytest.mark.parametrize("command", ["info", "verify"])
def test_no_store_is_an_error(tmp_path, command):
    """A folder without a store, and one that is missing, end with exit code 1 and what to do."""
    result = call("store", command, tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"dedup: {tmp_path}: there is no store here, ")
    result = call("store", command, tmp_path / "none")
    assert result.exit_code == 1
    assert (
        result.stderr == f"dedup: {tmp_path / 'none'}: No such file or directory; check the path\n"
    )


def test_store_verify_sound(tmp_path):
    """A sound store is called so, by text and by JSON, with nothing on stderr."""
    fill(tmp_path, count=2)
    result = call("store", "verify", tmp_path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{tmp_path / 'default'}: 2 documents, 0 in the snapshot: sound\n"
    seen = json.loads(call("store", "verify", "--json", tmp_path).stdout)
    assert seen["sound"] is True
    assert seen["stores"][0]["problems"] == []


def test_store_verify_names_a_damaged_snapshot(tmp_path):
    """A changed byte in the snapshot is a problem with its file's name, and exit code 1."""
    fill(tmp_path, "good")
    fill(tmp_path, "bad", 1500)
    file = tmp_path / "bad" / "table.ndd"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    result = call("store", "verify", tmp_path)
    assert result.exit_code == 1
    assert f"{tmp_path / 'bad'}: 1,500 documents, 0 in the snapshot: 1 problem\n" in result.stdout
    assert f"{file} is not readable" in result.stdout
    assert f"{tmp_path / 'good'}: 3 documents, 0 in the snapshot: sound\n" in result.stdout
    assert result.stderr.startswith(f"dedup: {tmp_path / 'bad'} is damaged; ")
    seen = json.loads(call("store", "verify", "--json", tmp_path).stdout)
    assert [(s["namespace"], s["sound"]) for s in seen["stores"]] == [
        ("bad", False),
        ("good", True),
    ]
    assert seen["sound"] is False


@pytest.mark.parametrize("command", ["info", "verify"])
def test_damaged_documents_do_not_hide_other_stores(tmp_path, command):
    """A cut and a missing documents.mdb are each an error with a name; the sound store is shown."""
    for namespace, count in (("cut", 3), ("good", 3), ("lost", 1500)):
        fill(tmp_path, namespace, count)
    os.truncate(tmp_path / "cut" / "documents.mdb", 5000)
    (tmp_path / "lost" / "documents.mdb").unlink()
    result = call("store", command, "--json", tmp_path)
    assert result.exit_code == 1
    cut, good, lost = json.loads(result.stdout)["stores"]
    assert "is damaged" in cut["error"]
    assert good["documents"] == 3
    assert "is missing or empty" in lost["error"]
    assert [line[:7] for line in result.stderr.splitlines()] == ["dedup: ", "dedup: "]
    assert "good" in call("store", command, tmp_path).stdout


@pytest.mark.parametrize("command", ["info", "verify"])
def test_a_store_in_use_is_named(tmp_path, command):
    """While another process holds a store, the error says which process, and what to do."""
    fill(tmp_path, "busy")
    fill(tmp_path, "free")
    code = """
        import sys
        from dedup.store import Store
        with Store.open(sys.argv[1], "busy"):
            print("open", flush=True)
            sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline() == b"open\n"
        result = run("store", command, tmp_path / "busy", text=True)
        assert (result.returncode, result.stdout) == (1, "")
        assert f"{tmp_path / 'busy'} is held by process {holder.pid} " in result.stderr
        assert "`dedup serve`" in result.stderr
        assert len(result.stderr.splitlines()) == 1
        result = call("store", command, tmp_path)
        assert result.exit_code == 1
        assert "free" in result.stdout
        holder.stdin.close()
        holder.wait(timeout=120)
    assert call("store", command, tmp_path).exit_code == 0


def test_progress_is_for_a_terminal_only(tmp_path):
    """verify shows how far it is on a terminal, and clears the line; a pipe gets none of it."""
    fill(tmp_path, count=2)
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "dedup", "store", "verify", str(tmp_path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=slave, timeout=600)
    os.close(slave)
    seen = os.read(master, 10_000)
    os.close(master)
    assert b"of 2 (100 %" in seen
    assert seen.endswith(b"\r\x1b[K")
    assert run("store", "verify", tmp_path).stderr == b""


def test_progress_has_rate_and_remaining_time(monkeypatch, capsys):
    """From the second step on: how many a second, or how long each takes, and how long it takes yet."""
    now = [0.0]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "100")
    said = []
    for label, steps, total in (("lines", 1000, 4000), ("rounds", 1, 4), ("bytes", 10, 0)):
        show = terminal.progress(label)
        for done in range(2):
            show(done * steps, total)
            now[0] += 20
        show(2 * steps, total)
        said.append(capsys.readouterr().err.split("\r")[-1].removesuffix("\x1b[K"))
        terminal.status.clear()
    assert said == [
        "lines: 2,000 of 4,000 (50 %), 50 a second, 0:40 left",
        "rounds: 2 of 4 (50 %), 20 s each, 0:40 left",
        "bytes: 20, 2 s each",
    ]


@pytest.mark.parametrize("columns", [48, 60, 80])
def test_a_table_fits_the_terminal_and_keeps_every_word(monkeypatch, columns):
    """Texts go on in further lines; only a path at the end, to be copied, may stick out."""
    path = "/a/rather/long/path/of/a/store/that/is/to/be/copied/from/the/terminal"
    rows = [
        ("some words that are many, " * 3, 12_345, "0123456789abcdef", terminal.Bar(3, 4), "end"),
        ("few", 1, "0123456789abcdef", terminal.Bar(4, 4), path),
    ]
    monkeypatch.setenv("COLUMNS", str(columns))
    text = terminal.table(("what it is", "how many", "value", "", "path"), rows)
    lines = text.splitlines()
    assert all(len(line) <= columns for line in lines if path not in line)
    assert text.split().count("0123456789abcdef") == 2
    assert text.split().count("words") == 3
    assert path in text
    monkeypatch.delenv("COLUMNS")
    assert len(terminal.table(("a",), [("x " * 200,)]).splitlines()) == 2  # in a pipe


# ------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (MemoryError(), 1, "out of memory; "),
        (OSError(28, "No space left on device", "/x"), 1, "/x: No space left on device; free some"),
        (OSError("odd"), 1, "odd"),
        (
            ModuleNotFoundError("no", name="scrapy.http"),
            1,
            "scrapy.http is not installed; run: pip ",
        ),
        (KeyError("x"), 1, "internal error: KeyError: 'x'; please report it "),
    ],
)
def test_every_failure_is_one_line(monkeypatch, failure, code, message):
    """Whatever a command raises becomes a line on stderr and an exit code; --debug shows it all."""

    def fail(*_):
        raise failure

    monkeypatch.setattr("dedup.core.pairs.find_all", fail)
    result = call("find-all", data="1\n")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(f"dedup: {message}")
    assert len(result.stderr.splitlines()) == 1
    result = call("--debug", "find-all", data="1\n")
    assert result.exit_code == code
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert f"\ndedup: {message}" in result.stderr


def test_a_missing_extra_is_named():
    """A package that is not installed is named with the extra that brings it."""
    message = terminal.describe(ModuleNotFoundError("no", name="scrapy.http"))
    assert message.endswith("pip install 'crawl-dedup[scrapy]'")
    assert "[scrapy]" in terminal.describe(ModuleNotFoundError("no", name="scrapy"))


def test_exit_codes_of_a_process(tmp_path):
    """`python -m dedup` ends with 0, 1 or 2, as the command does, and shows no traceback."""
    assert run("find-all", input=b"1\n2\n").returncode == 0
    failed = run("find-all", input=b"one\n")
    assert failed.returncode == 1
    assert failed.stderr.startswith(b"dedup: stdin: line 1: 'one' is not a decimal number")
    assert b"Traceback" not in failed.stderr
    usage = run("find-all", "--distance", "many")
    assert usage.returncode == 2
    assert b"Traceback" not in usage.stderr
    assert b"Traceback" in run("--debug", "compare", tmp_path / "a", tmp_path / "b").stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("dedup st", "store"), ("dedup store re", "report"), ("dedup compare --ht", "--html")],
)
def test_the_tab_key_completes(typed, offered):
    """What the shell asks for the Tab key is answered: commands, their commands, their options."""
    asked = {"_DEDUP_COMPLETE": "bash_complete", "COMP_WORDS": typed}
    asked["COMP_CWORD"] = str(len(typed.split()) - 1)
    done = run(env=os.environ | asked, text=True)
    assert f"plain,{offered}" in done.stdout.splitlines()
