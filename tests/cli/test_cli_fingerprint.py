"""`dedup fingerprint`: a line for each page."""

import json
import os
from pathlib import Path

import pytest
from command_line import WORDS, call, html, run

from dedup import fingerprint, fingerprint_text, recipe_of


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
    """`--json` gives one object a line with all fields, words and bytes in hex digits."""
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
        "parts": page.parts.hex(),
        "thing": f"{page.thing:08x}",
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
    """`--text` takes plain text, without its byte order mark."""
    page = fingerprint_text("größer <b>words</b>")
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        result = call("fingerprint", "--text", data="größer <b>words</b>".encode(encoding))
        assert result.stdout.split()[:2] == [f"{page.value:016x}", str(page.features)]


def test_the_secret_comes_from_the_environment():
    """DEDUP_SECRET keys the recipe."""
    data = html(WORDS)
    recipe = recipe_of(None, "s3cret")
    expected = fingerprint(data, recipe=recipe)
    result = call("fingerprint", "--json", data=data, env={"DEDUP_SECRET": "s3cret"})
    seen = json.loads(result.stdout)
    assert (seen["value"], seen["recipe"]) == (f"{expected.value:016x}", recipe.id)


def test_odd_file_names_come_out_as_they_went_in(pages):
    """A file name that is not UTF-8 is printed byte for byte, and its JSON parses."""
    name = os.fsencode(pages) + b"/\xff.html"
    Path(os.fsdecode(name)).write_bytes(b"<p>some words")
    result = run("fingerprint", os.fsdecode(name))
    assert result.returncode == 0
    assert result.stdout.endswith(b" " + name + b"\n")
    result = run("fingerprint", "--json", os.fsdecode(name))
    assert os.fsencode(json.loads(result.stdout)["path"]) == name
