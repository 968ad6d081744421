"""Kinds of pages whose own text was not read, from public reports: what a browser shows tells them apart."""

import random

import pytest
from picture_site import text

import dedup
from dedup.core.fingerprint import read_page

SHARED = f"<p>{text(0, 90)}.</p>"


def near(html: str) -> bool:
    """Whether two pages are near-duplicates that have 120 other words where OWN stands."""
    a, b = (dedup.fingerprint(html.replace("OWN", text(seed, 120))) for seed in (1, 2))
    return dedup.near_duplicate(a, b, same_site=True)


@pytest.mark.parametrize(
    "html",
    [
        "<x-article><template shadowrootmode=open><p>OWN</p></template></x-article>",
        "<form><textarea readonly>OWN</textarea></form>",
        "<iframe srcdoc='<p>OWN</p>'></iframe>",
        "<dialog open><p>OWN</p></dialog>",
        "<xmp>OWN</xmp>",
        "<div hidden=until-found><p>OWN</p></div>",
        "<details><p>OWN</p></details>",
        "<math><mtext>OWN</mtext></math>",
    ],
)
def test_text_in_unusual_places_is_read(html: str) -> None:
    """Beside 90 words that both pages share, what only one of them shows counts."""
    assert not near(SHARED + html)


@pytest.mark.parametrize(
    "html",
    [
        "<template><p>OWN</p></template>",
        "<dialog><p>OWN</p></dialog>",
        "<textarea hidden>OWN</textarea>",
        "<div hidden><p>OWN</p></div>",
    ],
)
def test_what_nobody_sees_is_not_read(html: str) -> None:
    """The same places, closed or hidden."""
    assert near(SHARED + html)


SEEN = [
    ("<input readonly value='{}'>", True),
    ("<input type=text disabled value='{}'>", True),
    ("<input value='{}'>", False),
    ("<input type=hidden readonly value='{}'>", False),
    ("<input type=checkbox disabled value='{}'>", False),
    ("<input readonly hidden value='{}'>", False),
    ("<select><input readonly value='{}'></select>", False),
    ("<svg><g><text>{}</text></g></svg>", True),
    ("<svg><text><tspan>{}</tspan></text></svg>", True),
    ("<svg><foreignObject><div>{}</div></foreignObject></svg>", True),
    ("<svg><title>{}</title></svg>", False),
    ("<svg aria-hidden=true><text>{}</text></svg>", False),
    ("<span hidden><svg><text>{}</text></svg></span>", False),
]


@pytest.mark.parametrize(("html", "seen"), SEEN)
def test_fields_and_drawings_are_of_the_page(html: str, seen: bool) -> None:
    """What they show is not read beside a text, but is counted, listed, and a part that tells pages apart."""
    one, other = (
        read_page(f"{SHARED}{html.format(text(seed, 40))}<p>{text(3, 20)}", blocks=True)
        for seed in (1, 2)
    )
    assert (one.words_read, one.words) == (110, 150 if seen else 110)
    passed_by = html.startswith(("<svg", "<span"))  # which is listed, too
    assert len(one.blocks) == (24 if seen or passed_by else 16)
    assert (one.fingerprint.sketch, one.fingerprint.value) == (
        other.fingerprint.sketch,
        other.fingerprint.value,
    )
    assert (one.fingerprint.parts != other.fingerprint.parts) == seen


def test_all_text_of_a_drawing_is_one_block_and_ends_none_without_text() -> None:
    """Labels are too short to be listed one by one; an icon inside of a paragraph leaves it whole."""
    chart = "<svg>" + "".join(f"<text>label{i}</text>" for i in range(30)) + "</svg>"
    found = read_page(f"<p>{text(0, 40)} {chart} {text(1, 40)}", blocks=True).blocks
    assert [
        int.from_bytes(found[i + 4 : i + 8], "little") & 0xFFFF for i in range(0, len(found), 8)
    ] == [40, 40, 30]
    icon = "<svg><path d=x /><title>x</title></svg>"
    found = read_page(f"<p>{text(0, 40)} {icon} {text(1, 40)}", blocks=True).blocks
    assert int.from_bytes(found[4:8], "little") & 0xFFFF == 80


def test_what_is_for_browsers_without_scripts_is_listed() -> None:
    """It is not read where the rest of the page is, and neither is hidden text."""
    html = f"{SHARED}<noscript><p>{text(1, 30)}</p></noscript><div hidden>{text(2, 30)}</div>"
    found = read_page(html, blocks=True)
    assert (found.words, len(found.blocks)) == (90, 24)


@pytest.mark.parametrize(
    "icon",
    ["<title/>", "<style/>", "<script/>", "<title></title>", "<path>", "<g><title>x", "<desc/>"],
)
@pytest.mark.parametrize("name", ["svg", "math"])
def test_foreign_content_swallows_nothing(icon: str, name: str) -> None:
    """A tag that closes itself in an icon, or an icon that stays open, hides nothing of what follows."""
    end = "" if icon in ("<path>", "<g><title>x") else f"</{name}>"
    assert not near(f"{SHARED}<{name} viewBox='0 0 9 9'>{icon}{end}<h1>Part</h1><p>OWN</p>")


@pytest.mark.parametrize(
    "page",
    [
        "<?xml version='1.0'?><html><p>SHARED</p><pre><![CDATA[OWN]]></pre></html>",
        "<?xml version='1.0'?><rss><channel><title>News</title><description>SHARED</description>"
        "<item><description><![CDATA[<p>OWN</p>]]></description></item></channel></rss>",
    ],
)
def test_cdata_is_text_in_xml(page: str) -> None:
    """XHTML and feeds keep their text in it."""
    assert not near(page.replace("SHARED", text(0, 40)))


@pytest.mark.parametrize("cards", [3, 4, 5, 9])
def test_teasers_do_not_outweigh_the_page(cards: int) -> None:
    """Small articles, of other pages, are not the content because there are many."""
    teasers = "".join(
        f"<article><h3><a href=/{i}>{text(50 + i, 7)}</a></h3><p>{text(70 + i, 26)}</p></article>"
        for i in range(cards)
    )
    assert not near(f"<div><h1>Entry</h1><p>OWN</p></div><section>{teasers}</section>")


@pytest.mark.parametrize(
    "words", ["post category-comment", "tag-newsletter", "tag-related", "tag-cookies tag-bar"]
)
@pytest.mark.parametrize("tag", ["article", "div", "section"])
def test_a_class_on_what_holds_the_heading_is_of_its_subject(words: str, tag: str) -> None:
    """Categories and tags of an article, which themes write into its class, name no comments and no box."""
    html = f"<{tag} class='{words}'><h1>Some heading</h1><p>OWN</p></{tag}><div>{SHARED}</div>"
    assert not near(html)


@pytest.mark.parametrize("sign", ["Picture \u00a9 Agency", "The sign \u00a9 stands for copyright."])
def test_text_behind_a_copyright_sign_is_read(sign: str) -> None:
    """A credit, or a sentence about the sign, ends no page; an imprint at its end is still left out."""
    for words in (40, 60, 90):
        pages = [
            f"<p>{text(0, 40)}.</p><p>{sign}</p><p>{text(seed, words)}.</p>" for seed in (1, 2)
        ]
        a, b = map(dedup.fingerprint, pages)
        assert not dedup.near_duplicate(a, b, same_site=True)
    imprint = read_page(f"{SHARED}<p>\u00a9 2026 by some publisher</p><p>All rights reserved</p>")
    assert imprint.words_read == 90


@pytest.mark.parametrize("around", ["{}", "\ufeff {}", "<html><body><pre>{}</pre></body></html>"])
def test_json_that_is_called_html_is_data(around: str) -> None:
    """Records of an interface are no prose: all of it is data, and only the same bytes are a copy."""
    names = ", ".join(f'"{word}": null' for word in text(3, 150).split())
    pages = [around.replace("{}", f'{{"id": {i}, {names}}}') for i in (1, 2, 2)]
    readings = [read_page(page) for page in pages]
    assert all(reading.data_bytes > reading.text_bytes == 0 for reading in readings)
    one, other, same = (reading.fingerprint for reading in readings)
    assert not dedup.near_duplicate(one, other, same_site=True)
    assert dedup.near_duplicate(other, same, same_site=True)


def test_code_on_a_page_is_no_data() -> None:
    """A sample below text, or with more behind it, is read."""
    for html in (f'{SHARED}<pre>{{"a": 1}}</pre>', f'<pre>{{"a": 1}}</pre>{SHARED}', "[edit] x"):
        reading = read_page(html)
        assert (reading.data_bytes, reading.text_bytes > 0) == (0, True)


@pytest.mark.parametrize(
    "letters",
    ["ກຂຄງຈສຊຍດຕຖທນບ", "កខគឃងចឆជញដតថទធន", "ကခဂငစဆဇညတထဒနပဖဗမ", "ꦏꦒꦔꦕꦗꦚꦠꦢꦤꦥꦧꦩ", "ᬅᬓᬕᬗᬘᬚᬜᬢᬤᬦᬧᬩ"],
    ids=["Lao", "Khmer", "Burmese", "Javanese", "Balinese"],
)
def test_scripts_without_spaces_are_cut_into_pairs(letters: str) -> None:
    """A word that changes in each of some long phrases leaves most of a text's shingles as they were."""
    numbers = random.Random(5)
    words = ["".join(numbers.choices(letters, k=numbers.randrange(2, 6))) for _ in range(300)]
    phrases = [numbers.choices(words, k=12) for _ in range(50)]
    a = " ".join(map("".join, phrases))
    for phrase in phrases[:8]:
        phrase[5] = numbers.choice(words)
    b = " ".join(map("".join, phrases))
    assert dedup.near_duplicate(dedup.fingerprint_text(a), dedup.fingerprint_text(b))
