"""`dedup compare`: two texts in the terminal, and as one HTML page."""

import json
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from command_line import WORDS, call, html
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from dedup.report.texts import differences, regions, sides


@given(
    st.lists(st.sampled_from(["a", "b", "cc", "北京", "京大", "ไท", "longer" * 9]), max_size=25),
    st.lists(st.sampled_from(["a", "b", "cc", "北京", "京大", "ไท", "longer" * 9]), max_size=25),
)
@settings(deadline=None, max_examples=examples(200))
def test_two_texts_in_pieces_lose_nothing(a, b):
    """Whatever the scripts: hunks turn one text into the other, each is in a region, and no word is lost."""
    hunks = differences(a, b)
    built, at = [], 0
    for hunk in hunks:
        built += [*a[at : hunk.a_begin], *b[hunk.b_begin : hunk.b_end]]
        at = hunk.a_end
    assert built + a[at:] == b
    shown = regions(a, b, hunks)
    assert [hunk for region in shown for hunk in region.hunks] == hunks
    assert all(x.a_end <= y.a_begin for x, y in pairwise(shown))
    for region in shown:
        texts = [" ".join(piece.text for piece in pieces) for pieces in sides(a, b, region)]
        for text, words, begin, end in (
            (texts[0], a, region.a_begin, region.a_end),
            (texts[1], b, region.b_begin, region.b_end),
        ):
            if not any(word[0] >= "\u0e00" for word in words):
                assert text.split() == words[begin:end]


@pytest.fixture
def two(tmp_path):
    """Two pages whose words differ in two places far apart; b adds markup of its own as text."""
    changed = [*WORDS[:50], "fresh", *WORDS[51:150], "&lt;script&gt;alert", *WORDS[150:]]
    for name, words in (("a", WORDS), ("b", changed)):
        (tmp_path / f"{name}.html").write_text(html(words))
    return tmp_path / "a.html", tmp_path / "b.html"


class Seen(HTMLParser):
    """What a page shows: tags, and the text inside some of them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.inside: dict[str, list[str]] = {}
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.inside.setdefault(tag, []).append(data)


def test_the_html_page_shows_everything(two, tmp_path):
    """Verdict, distance and similarity, the words that differ and those around them, nothing loaded."""
    result = call("compare", *two, "--html", tmp_path / "page.html")
    assert result.exit_code == 0
    text = (tmp_path / "page.html").read_text()
    seen = Seen()
    seen.feed(text)
    assert not seen.open
    assert "".join(seen.inside["h1"]).endswith("b.html: near-duplicate")
    assert any(text in result.stdout for text in seen.inside["p"])
    cells = seen.inside["td"]
    found = json.loads(call("compare", *two, "--json").stdout)
    assert cells[cells.index("distance of value") + 1] == "1 bit"
    assert found["distance"] == 1
    assert cells[cells.index("similarity") + 1] == f"{int(100 * found['similarity'])} %"
    assert cells[cells.index("title") + 1] == found["title"] == "unknown"
    assert found["a"]["value"] in cells
    assert seen.inside["del"] == ["word50"]
    assert seen.inside["ins"] == ["fresh", "script alert"]
    assert not {"script", "link", "img", "iframe"} & set(seen.tags)
    assert "http" not in text


def test_a_path_cannot_write_markup(tmp_path):
    """Names and words are escaped."""
    names = ["<b>a&.html", "'\"b.html"]
    for name in names:
        (tmp_path / name).write_text(f"<p>{' '.join(WORDS)}")
    page = tmp_path / "page.html"
    call("compare", *(tmp_path / name for name in names), "--html", page)
    seen = Seen()
    seen.feed(page.read_text())
    assert "b" not in seen.tags
    assert f"{tmp_path}/{names[0]}" in seen.inside["td"]
