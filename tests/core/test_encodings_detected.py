"""A page that says nothing of its encoding: when it is guessed, from how much of it, and how well."""

import random
import sys
import tomllib
import types
from pathlib import Path

import oracle
import pytest
from chardetng_py import detector
from encoded_pages import ENCODED, GOLDEN, MISTAKEN, PYTHON, TEXTS, encoded, meta, page_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from dedup.core import encodings
from dedup.core.encodings import SAMPLE_BYTES, plain_text
from dedup.core.fingerprint import fingerprint

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("language", "encoding"), [pair for pair in ENCODED if pair[0] not in MISTAKEN]
)
def test_what_nothing_says_is_detected(language: str, encoding: str) -> None:
    """A page that says nothing, or nothing that is known, is read by what its text looks like."""
    for declaration in ("", meta("x-unheard-of")):
        page = page_of(language, declaration)
        assert fingerprint(encoded(page, encoding)) == fingerprint(page)


def fails(*_: object) -> str:
    raise AssertionError("the detector was asked")


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.name)
def test_a_page_in_utf8_never_meets_the_detector(
    file: oracle.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valid UTF-8 is UTF-8, declared or not, and is not even decoded."""
    monkeypatch.setattr(encodings, "guessed_utf8", fails)
    monkeypatch.setattr(encodings, "to_unicode", fails)
    html = file.read_bytes().replace(b"charset", b"x")
    assert html.decode() and fingerprint(html) == fingerprint(html, encoding="utf-8")


def test_a_declared_encoding_never_meets_the_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a page that says what it is, however wrong: UTF-8 declared is UTF-8."""
    monkeypatch.setattr(encodings, "_detected_encoding", fails)
    raw = page_of("russian", meta("utf-8")).encode("windows-1251")
    assert fingerprint(raw) == fingerprint(raw, encoding="utf-8")
    raw = page_of("russian", meta("windows-1252")).encode("windows-1251")
    assert fingerprint(raw) == fingerprint(raw, encoding="windows-1252")


@pytest.mark.parametrize(
    "junk", [b"\xff", b"caf\xe9 ", b"\x80\x81", b"\xe2\x80", b"\xef\xbf\xbd\xff"]
)
def test_utf8_with_a_little_junk_is_utf8(junk: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stray byte, a quotation in another encoding, an end cut short: the rest is read right."""
    monkeypatch.setattr(encodings, "_detected_encoding", fails)
    for language in set(TEXTS) - {"english"}:
        for raw in (page_of(language).encode() + junk, junk + page_of(language).encode()):
            assert fingerprint(raw) == fingerprint(raw, encoding="utf-8")


def test_bytes_that_are_not_read_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments and scripts may be written in anything."""
    monkeypatch.setattr(encodings, "_detected_encoding", fails)
    around = "<!-- после -->{}<script>// после</script>"
    raw = around.format(page_of("english").replace("\u2019", "'")).encode("koi8-r", "replace")
    assert fingerprint(raw) == fingerprint(raw, encoding="utf-8")


def test_the_detector_sees_a_bounded_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large page it sees the text that is not ASCII, however far inside, and not much of it."""
    seen = []

    class Watched:
        def __init__(self) -> None:
            self.inner = detector.EncodingDetector()

        def feed(self, buffer: bytes, *, last: bool) -> bool:
            seen.append(len(buffer))
            return self.inner.feed(buffer, last=last)

        def guess(self, **how: object) -> str:
            return self.inner.guess(**how)

    watching = types.SimpleNamespace(EncodingDetector=Watched)
    monkeypatch.setitem(sys.modules, "chardetng_py.detector", watching)
    page = "<p>" + "plain words, " * 50_000 + TEXTS["korean"] * 2_000
    assert fingerprint(page.encode("euc-kr")) == fingerprint(page)
    assert seen == [SAMPLE_BYTES]


@pytest.mark.parametrize(
    ("language", "encoding"),
    [pair for pair in ENCODED if pair[0] in ("chinese", "japanese", "korean")],
)
def test_a_sample_may_end_inside_a_character(language: str, encoding: str) -> None:
    """The last byte that the detector sees may be the first of two."""
    text = " ".join(TEXTS[language].split())
    for before in range(4):
        page = text[:2] + "a" * before + text * 900
        assert len(encoded(page, encoding)) > SAMPLE_BYTES + 16
        assert fingerprint(encoded(page, encoding)) == fingerprint(page)


def test_a_missing_detector_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a dependency on every Python; without it pages are read as the web reads what has no name, and that is said once."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "dependencies"
    ]
    assert [each for each in dependencies if each.startswith("chardetng-py") and ";" not in each]
    monkeypatch.setitem(sys.modules, "chardetng_py.detector", None)
    encodings._warn.cache_clear()
    raw = page_of("german").encode("iso-8859-1")
    assert fingerprint(raw) == fingerprint(page_of("german"))
    raw = page_of("russian").encode("windows-1251")
    assert fingerprint(raw) == fingerprint(raw, encoding="windows-1252")
    (said,) = caplog.messages
    assert "chardetng-py" in said and "pip install" in said


@settings(max_examples=examples(200))
@given(st.binary(max_size=300), st.sampled_from(sorted(TEXTS)), st.randoms())
def test_promise_7_damaged_pages_that_say_nothing_are_safe(
    junk: bytes, language: str, numbers: random.Random
) -> None:
    """Whatever is guessed of whatever bytes, there is a fingerprint, the same every time."""
    encoding = numbers.choice([encoding for name, encoding in ENCODED if name == language])
    raw = bytearray(encoded(page_of(language), encoding))
    at = numbers.randrange(len(raw))
    raw[at : at + numbers.randrange(400)] = junk
    assert fingerprint(bytes(raw)) == fingerprint(bytes(raw))


@pytest.mark.parametrize(
    ("language", "encoding"), [*ENCODED, ("russian", "utf-8"), ("thai", "utf-16")]
)
def test_plain_text_is_decoded_too(language: str, encoding: str) -> None:
    """A text file by its name, its mark, as UTF-8, or by what it looks like."""
    raw = encoded(TEXTS[language], encoding)
    assert plain_text(raw, encoding) == raw.decode(PYTHON.get(encoding, encoding))
    if encoding in ("utf-8", "utf-16"):
        assert plain_text(raw, None) == TEXTS[language]
    elif language not in MISTAKEN | {"japanese"}:
        assert plain_text(raw, None) == raw.decode(PYTHON.get(encoding, encoding))
