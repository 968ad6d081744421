"""`dedup text` and dedup.main_text: the words that a fingerprint counts, block by block."""

import json
from pathlib import Path

import pytest
from command_line import call

from dedup import fingerprint, fingerprint_text, main_text, main_words

GOLDEN = Path(__file__).parents[1] / "golden"
PAGE = (
    "<nav><a href=/a>Home</a> <a href=/b>News</a></nav><article><p>The harbour <b>Clock</b> struck noon again, after "
    "nineteen years of silence above the fish market.<p>It was built in 1874 &amp; wound by hand.</article>"
)
TEXT = (
    "the harbour clock struck noon again after nineteen years of silence above the fish market\n"
    "it was built in 1874 wound by hand"
)


def test_main_text_is_the_main_content_in_order():
    """Navigation, punctuation and capitals are gone; each block is a line."""
    assert main_text(PAGE) == TEXT


@pytest.mark.parametrize("name", ["english", "russian", "chinese", "thai", "arabic", "forum"])
def test_its_words_are_those_of_the_fingerprint(name):
    """Read as plain text again, it has the tokens of main_words and the same similarity sketch."""
    html = (GOLDEN / f"{name}.html").read_bytes()
    tokens = {token for block in main_words(html) for token in block.tokens}
    again = {token for block in main_words(f"<p>{main_text(html)}") for token in block.tokens}
    assert fingerprint_text(main_text(html)).features <= fingerprint(html).features
    assert len(tokens & again) >= 0.97 * len(tokens)  # a pair across a space is no pair


def test_the_command_prints_a_block_a_line(tmp_path):
    """A file, or stdin."""
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    assert call("text", path).stdout == f"{TEXT}\n"
    assert call("text", data=PAGE.encode()).stdout == f"{TEXT}\n"


def test_of_several_files_each_has_a_heading(tmp_path):
    """A missing one is reported, the others follow, and the exit code is 1."""
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    result = call("text", path, tmp_path / "missing")
    assert result.exit_code == 1
    assert result.stdout == f"==> {path} <==\n{TEXT}\n"
    assert f"{tmp_path / 'missing'}: No such file" in result.stderr


def test_json_has_the_weights(tmp_path):
    """An object a page, with its blocks."""
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    found = json.loads(call("text", "--json", path).stdout)
    assert found["path"] == str(path)
    assert [block["text"] for block in found["blocks"]] == TEXT.split("\n")
    assert [block["weight"] for block in found["blocks"]] == [b.weight for b in main_words(PAGE)]
