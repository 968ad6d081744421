"""Encodings: a page gives the fingerprint of its UTF-8 form, however it says what it is written in."""

import codecs
import random
import sys
import types

import oracle
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scrapy.http import HtmlResponse
from sizes import examples
from w3lib.encoding import html_body_declared_encoding

from dedup.core import encodings
from dedup.core.encodings import SAMPLE_BYTES, plain_text
from dedup.core.fingerprint import fingerprint, main_words, read_page
from dedup.core.native import ffi, lib
from dedup.model.errors import UsageError

# One text of a clock in a harbour, in the languages that are met in encodings of their own.
TEXTS = {
    "arabic": """بعد تسعة عشر عاما من الصمت دقت ساعة الميناء من جديد عند الظهر. وقف الناس في السوق ورفعوا
        رؤوسهم إلى البرج القديم. قال الحارس إن العقارب تتحرك الآن كما كانت تتحرك في طفولته.""",
    "bulgarian": """След деветнадесет години мълчание часовникът на пристанището удари отново по обяд. Хората
        на пазара спряха и вдигнаха глави към старата кула. Пазачът каза, че стрелките пак се движат.""",
    "chinese": """沉默了十九年以后，港口的大钟在中午重新敲响。市场里的人们停下脚步，抬头望着古老的塔楼。
        看守人说，指针又像他小时候那样走动了，他每天早晨都要爬上去给它上发条。""",
    "chinese, traditional": """沉默了十九年以後，港口的大鐘在中午重新敲響。市場裡的人們停下腳步，抬頭望著古老的
        塔樓。看守人說，指針又像他小時候那樣走動了，他每天早晨都要爬上去給它上發條。""",
    "czech": """Po devatenácti letech ticha odbily přístavní hodiny znovu poledne. Lidé na tržišti se zastavili
        a zvedli hlavy ke staré věži. Hlídač řekl, že se ručičky pohybují jako v jeho dětství.""",
    "english": """After nineteen years of silence the harbour clock struck noon again. \u201cNobody believed
        it,\u201d said the keeper \u2013 he\u2019d wound it every morning \u2013 \u201cuntil they heard it.\u201d""",
    "french": """Après dix-neuf années de silence, l\u2019horloge du port a de nouveau sonné midi. Les gens du
        marché se sont arrêtés et ont levé la tête. À l\u2019été, dit le gardien, tout sera réparé.""",
    "german": """Nach neunzehn Jahren schlug die Uhr am Hafen wieder zwölf. Die Leute auf dem Markt blieben
        stehen und blickten hinauf. Früher, erzählte der Wärter, hörte man sie über die Dächer.""",
    "greek": """Μετά από δεκαεννέα χρόνια σιωπής το ρολόι του λιμανιού χτύπησε ξανά μεσημέρι. Ο κόσμος στην
        αγορά σταμάτησε και σήκωσε το κεφάλι προς τον παλιό πύργο. Οι δείκτες κινούνται πάλι.""",
    "hebrew": """אחרי תשע עשרה שנים של שתיקה צלצל שעון הנמל שוב בצהריים. האנשים בשוק נעצרו והרימו את הראש אל
        המגדל הישן. השומר אמר שהמחוגים זזים עכשיו כמו בימי ילדותו, והוא מותח אותו בכל בוקר.""",
    "hungarian": """Tizenkilenc év csend után a kikötői óra újra elütötte a delet. Az emberek a piacon megálltak,
        és felnéztek a régi toronyra. Az őr szerint a mutatók úgy járnak, mint gyerekkorában, hűvös szélben,
        esős időben is; ő húzza fel őket minden reggel.""",
    "japanese": """十九年の沈黙の後、港の時計が正午に再び鳴った。市場の人々は足を止め、古い塔を見上げた。
        番人によると、針は子供の頃と同じように動いているそうだ。彼は毎朝ねじを巻いている。""",
    "korean": """십구 년의 침묵 끝에 항구의 시계가 정오에 다시 울렸다. 시장 사람들은 걸음을 멈추고 오래된 탑을
        올려다보았다. 관리인은 바늘이 어린 시절처럼 다시 움직인다고 말했다.""",
    "polish": """Po dziewiętnastu latach ciszy zegar w porcie znów wybił południe. Ludzie na targu zatrzymali się
        i podnieśli głowy ku starej wieży. Strażnik mówi, że wskazówki poruszają się jak dawniej.""",
    "russian": """После девятнадцати лет молчания портовые часы снова пробили полдень. Люди на рынке
        остановились и подняли головы к старой башне. Сторож сказал, что стрелки опять движутся.""",
    "thai": """หลังจากเงียบมาสิบเก้าปี นาฬิกาท่าเรือก็ตีบอกเวลาเที่ยงอีกครั้ง ผู้คนในตลาดหยุดเดินและเงยหน้ามองหอคอยเก่า
        คนเฝ้าบอกว่าเข็มเดินเหมือนตอนที่เขายังเป็นเด็ก""",
    "turkish": """On dokuz yıl süren sessizlikten sonra liman saati öğlen yeniden çaldı. Pazardaki insanlar durdu
        ve başlarını eski kuleye kaldırdı. Bekçi, ibrelerin çocukluğundaki gibi döndüğünü söyledi.""",
    "ukrainian": """Після дев'ятнадцяти років мовчання портовий годинник знову пробив полудень. Люди на ринку
        зупинилися й підвели голови до старої вежі. Сторож сказав, що стрілки рухаються, як у дитинстві.""",
}  # fmt: skip

ENCODED = [
    ("arabic", "windows-1256"),
    ("arabic", "iso-8859-6"),
    ("bulgarian", "windows-1251"),
    ("chinese", "gb2312"),
    ("chinese", "gbk"),
    ("chinese", "gb18030"),
    ("chinese, traditional", "big5"),
    ("czech", "windows-1250"),
    ("czech", "iso-8859-2"),
    ("english", "windows-1252"),
    ("french", "windows-1252"),
    ("german", "iso-8859-1"),
    ("greek", "windows-1253"),
    ("greek", "iso-8859-7"),
    ("hebrew", "windows-1255"),
    ("hebrew", "iso-8859-8"),
    ("hungarian", "iso-8859-2"),
    ("japanese", "shift_jis"),
    ("japanese", "euc-jp"),
    ("japanese", "iso-2022-jp"),
    ("korean", "euc-kr"),
    ("polish", "windows-1250"),
    ("polish", "iso-8859-2"),
    ("russian", "windows-1251"),
    ("russian", "koi8-r"),
    ("russian", "iso-8859-5"),
    ("russian", "ibm866"),
    ("thai", "windows-874"),
    ("thai", "tis-620"),
    ("turkish", "windows-1254"),
    ("turkish", "iso-8859-9"),
    ("ukrainian", "koi8-u"),
    ("ukrainian", "windows-1251"),
]
# The detector takes Hungarian for a western language where no country is named (docs/quality.md).
MISTAKEN = {"hungarian"}
PYTHON = {"windows-874": "cp874"}
GOLDEN = sorted(oracle.GOLDEN.glob("[!m]*.html"))  # markup.html has invalid bytes

# What stands around a text: far more ASCII than there is text.
SHELL = """<!DOCTYPE html>
<html><head>{declaration}<title>{title}</title><script>window.dataLayer = [{{"page": 1}}];</script>
<style>body {{font: 13px arial}}</style></head><body class="home page"><div id="top" class="bar">
<ul class="menu"><li><a href="/index.php?id=1">Home</a></li><li><a href="/contact">Contact</a></li></ul></div>
<div class="content"><h1>{title}</h1><p>{text}</p><p>{text}</p></div>
<div class="footer"><a href="/rss.xml">RSS</a> Copyright 2004 Example Media</div></body></html>"""


def page_of(language: str, declaration: str = "") -> str:
    """Return a page with a language's text."""
    text = " ".join(TEXTS[language].split())
    return SHELL.format(declaration=declaration, title=text.split(".")[0][:40], text=text)


def encoded(page: str, encoding: str) -> bytes:
    """Return a page in an encoding, by the name that the web has for it."""
    return page.encode(PYTHON.get(encoding, encoding), "xmlcharrefreplace")


def meta(encoding: str) -> str:
    return f'<meta charset="{encoding}">'


@pytest.mark.parametrize(("language", "encoding"), ENCODED)
class TestEncodings:
    """The same page, in an encoding and in UTF-8."""

    def test_http_charset(self, language: str, encoding: str) -> None:
        """The encoding that the HTTP header gives is right."""
        page = page_of(language)
        assert fingerprint(encoded(page, encoding), encoding=encoding) == fingerprint(page)

    def test_http_charset_goes_before_the_page(self, language: str, encoding: str) -> None:
        """It is, whatever the page says of itself."""
        page = page_of(language, meta("utf-8"))
        assert fingerprint(encoded(page, encoding), encoding=encoding) == fingerprint(page)

    @pytest.mark.parametrize(
        "declaration",
        [
            '<meta charset="{}">',
            "<META CHARSET={}>",
            '<meta http-equiv="Content-Type" content="text/html; charset={}" />',
        ],
    )
    def test_meta_charset(self, language: str, encoding: str, declaration: str) -> None:
        """So is the one that the page declares."""
        page = page_of(language, declaration.format(encoding))
        assert fingerprint(encoded(page, encoding)) == fingerprint(page)

    def test_xml_declaration(self, language: str, encoding: str) -> None:
        """In the manner of XHTML too."""
        page = f"<?xml version='1.0' encoding='{encoding}'?>" + page_of(language)
        assert fingerprint(encoded(page, encoding)) == fingerprint(page)

    def test_words(self, language: str, encoding: str) -> None:
        """main_words() reads the same."""
        page = page_of(language, meta(encoding))
        words = main_words(encoded(page, encoding))
        assert words == main_words(page) and len(words) >= 3


@pytest.mark.parametrize(
    ("language", "encoding"), [pair for pair in ENCODED if pair[0] not in MISTAKEN]
)
@pytest.mark.parametrize("declaration", ["", meta("x-unheard-of")])
def test_what_nothing_says_is_detected(language: str, encoding: str, declaration: str) -> None:
    """A page that says nothing, or nothing that is known, is read by what its text looks like."""
    pytest.importorskip("chardetng_py", reason="no wheel for this Python yet")
    page = page_of(language, declaration)
    assert fingerprint(encoded(page, encoding)) == fingerprint(page)


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_shows_in_its_tags(language: str, encoding: str) -> None:
    """Nothing need say that it is UTF-16, and a meta tag inside of it changes nothing."""
    for declaration in ("", meta("windows-1251"), meta("utf-16")):
        page = page_of(language, declaration)
        assert fingerprint(page.encode(encoding)) == fingerprint(page)


@pytest.mark.parametrize(
    ("label", "codec"),
    [("utf-16", "utf-16-le"), ("UTF-16LE", "utf-16-le"), ("utf-16be", "utf-16-be")],
)
def test_utf_16_by_name_alone(label: str, codec: str) -> None:
    """UTF-16 that does not say which is little-endian, on every machine."""
    text = "слова and 言葉, without markup"
    assert fingerprint(text.encode(codec), encoding=label) == fingerprint(text)


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8-sig"]
)
def test_a_byte_order_mark_decides(encoding: str) -> None:
    """A page with a byte order mark is read by it, and the mark is no part of a word."""
    marks = {
        "utf-16-le": codecs.BOM_UTF16_LE,
        "utf-16-be": codecs.BOM_UTF16_BE,
        "utf-32-le": codecs.BOM_UTF32_LE,
        "utf-32-be": codecs.BOM_UTF32_BE,
    }
    text = "слова and words and 言葉"
    html = marks.get(encoding, b"") + text.encode(encoding)
    assert fingerprint(html) == fingerprint(html, encoding=encoding) == fingerprint(text)
    assert plain_text(html, "windows-1251") == text


@pytest.mark.parametrize("header", ["iso-8859-1", "utf-16", "shift_jis", "windows-1256"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_goes_before_a_header(encoding: str, header: str) -> None:
    """As in browsers and Scrapy: a page is the same in every crawl, whatever its server is set to."""
    text = page_of("russian", meta("koi8-r"))
    html = text.encode(encoding)
    headers = {"Content-Type": f"text/html; charset={header}"}
    response = HtmlResponse("http://a.example/", headers=headers, body=html)
    assert fingerprint(html, encoding=header) == fingerprint(text)
    assert fingerprint(html, encoding=response.encoding) == fingerprint(text)


@pytest.mark.parametrize("label", ["utf-8", "UTF8"])
def test_a_caller_who_says_utf_8_is_taken_at_his_word(label: str) -> None:
    """The bytes are read as they are, even behind the mark of another encoding."""
    html = codecs.BOM_UTF16_LE + page_of("russian").encode()
    assert fingerprint(html, encoding=label) == fingerprint(page_of("russian"))


LABELS = {
    "iso-8859-8-i": "hebrew",
    "logical": "hebrew",
    "x-sjis": "japanese",
    "Windows-31J": "japanese",
    "ms932": "japanese",
    "x-euc-jp": "japanese",
    "ks_c_5601-1987": "korean",
    "ks_c_5601-1989": "korean",
    "windows-949": "korean",
    "x-gbk": "chinese",
    "gb_2312-80": "chinese",
    "x-x-big5": "chinese, traditional",
    "dos-874": "thai",
    "iso-8859-11": "thai",
    "x-cp1251": "russian",
    "koi8-ru": "ukrainian",
    " KOI8 ": "russian",
    "latin1": "german",
}
LABELLED = {
    "hebrew": "iso-8859-8", "japanese": "shift_jis", "korean": "euc-kr", "chinese": "gbk",
    "chinese, traditional": "big5", "thai": "cp874", "russian": "cp1251", "ukrainian": "koi8-u",
    "german": "cp1252",
}  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
def test_labels_of_the_web_are_known(label: str) -> None:
    """Encodings have more names on the web than in Python."""
    page = page_of(LABELS[label])
    codec = {"x-euc-jp": "euc-jp", " KOI8 ": "koi8-r"}.get(label, LABELLED[LABELS[label]])
    assert fingerprint(page.encode(codec), encoding=label) == fingerprint(page)


@pytest.mark.parametrize("encoding", ["nonsense", "", "utf-88", "\0"])
def test_an_unknown_encoding_is_a_usage_error(encoding: str) -> None:
    """The error names it."""
    with pytest.raises(UsageError, match="unknown encoding"):
        fingerprint(b"page", encoding=encoding)


def test_euc_kr_is_read_with_its_extension() -> None:
    """As browsers do: EUC-KR is what Windows made of it, Shift_JIS and Big5 likewise."""
    for encoding, codec, text in (
        ("euc-kr", "cp949", "똠방각하 펲시콜라"),
        ("shift_jis", "cp932", "①髙﨑"),
        ("big5", "big5hkscs", "嘅咁啲"),
    ):
        assert fingerprint(text.encode(codec), encoding=encoding) == fingerprint(text)


# ------------------------------------------------------------------------------ the way of UTF-8


def fails(*_: object) -> str:
    raise AssertionError("the detector was asked")


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.name)
def test_a_page_in_utf8_never_meets_the_detector(
    file: oracle.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valid UTF-8 is UTF-8, declared or not, and is not even decoded."""
    monkeypatch.setattr(sys.modules["dedup.core.fingerprint"], "guessed_utf8", fails)
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


# -------------------------------------------------------------------------------- the detector


def test_the_detector_sees_a_bounded_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large page it sees the text that is not ASCII, however far inside, and not much of it."""
    detector = pytest.importorskip("chardetng_py.detector")
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
    pytest.importorskip("chardetng_py", reason="no wheel for this Python yet")
    text = " ".join(TEXTS[language].split())
    for before in range(4):
        page = text[:2] + "a" * before + text * 900
        assert len(encoded(page, encoding)) > SAMPLE_BYTES + 16
        assert fingerprint(encoded(page, encoding)) == fingerprint(page)


def test_the_same_page_is_detected_alike_wherever_it_lies() -> None:
    """No host and no language hint takes part: a copy elsewhere has the same words."""
    raw = page_of("polish").encode("iso-8859-2")
    found = {fingerprint(raw, url=f"http://example.{tld}/").value for tld in ("pl", "ru", "com")}
    assert len(found) == 1


def test_without_a_detector_a_page_is_read_as_latin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is installed, as the web reads what has no name."""
    monkeypatch.setitem(sys.modules, "chardetng_py.detector", None)
    raw = page_of("german").encode("iso-8859-1")
    assert fingerprint(raw) == fingerprint(page_of("german"))
    raw = page_of("russian").encode("windows-1251")
    assert fingerprint(raw) == fingerprint(raw, encoding="windows-1252")


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
        pytest.importorskip("chardetng_py", reason="no wheel for this Python yet")
        assert plain_text(raw, None) == raw.decode(PYTHON.get(encoding, encoding))


# ------------------------------------------------------------------------- what a page declares


DECLARING = st.lists(
    st.sampled_from(
        '<meta |<?xml |<!--|-->|charset|Encoding|content|http-equiv|=|=|content-type|utf-8|UTF8|"|'
        "koi8-r|latin1|'| |\n|\x0b|\xa0|>|;|/|é|<body>".split("|")
    ),
    max_size=30,
)


@settings(max_examples=examples(300))
@given(DECLARING)
@example(["<meta ", "charset", "\x0b", "=", "koi8-r", ">"])
@example(["<meta ", "charset", "=", "utf-8", "é", ">"])
def test_the_quick_look_at_encodings_agrees_with_the_careful_one(pieces: list[str]) -> None:
    """Where the core sees nothing declared but UTF-8, w3lib finds no other encoding."""
    html = "".join(pieces).encode("latin-1")
    if lib.ndd_seems_utf8(ffi.from_buffer(html), len(html)):
        assert html_body_declared_encoding(html) in (None, "utf-8")


def test_an_unknown_declared_encoding_means_utf8() -> None:
    """What a page says wrongly does not stop it."""
    assert fingerprint("<meta charset=nonsense>é".encode()) == fingerprint("é")


def test_a_declaration_does_not_change_a_page_given_as_text() -> None:
    """Text has no encoding any more."""
    assert fingerprint("<meta charset=shift_jis>é") == fingerprint("é")


def test_a_page_in_ascii_bytes_is_not_utf_16() -> None:
    """What declares UTF-16 in ASCII is neither: the declaration counts for UTF-8, as on the web."""
    html = "<meta charset=utf-16>one two-é".encode()
    assert fingerprint(html) == fingerprint(html, encoding="utf-8")


@settings(max_examples=examples(200))
@given(
    st.binary(max_size=200),
    st.sampled_from(
        "utf-8 utf-16 utf-32 gb18030 gbk big5 big5-hkscs shift_jis euc-jp iso-2022-jp euc-kr "
        "hz windows-1251 latin-1 ascii koi8-r cp437".split()
    ),
)
def test_promise_7_any_bytes_are_safe_in_any_encoding(data: bytes, encoding: str) -> None:
    """Bytes that do not decode give a fingerprint, declared or given."""
    declared = b"<meta charset=" + encoding.encode() + b">" + data
    for found in (fingerprint(declared), fingerprint(data, encoding=encoding)):
        assert found.recipe == "words-0-4"


NO_ENCODINGS = ["rot13", "base64", "hex", "zlib", "idna", "punycode", "undefined"]


@pytest.mark.parametrize("codec", NO_ENCODINGS)
def test_promise_7_a_page_cannot_name_a_codec_that_is_no_encoding(codec: str) -> None:
    """Python's other codecs are no encodings of pages: declared they count for nothing."""
    html = f"<meta charset={codec}>one two-é".encode()
    assert fingerprint(html) == fingerprint(html, encoding="utf-8")


@pytest.mark.parametrize("codec", NO_ENCODINGS)
def test_a_codec_that_is_no_encoding_is_a_usage_error(codec: str) -> None:
    """Given by the caller, they are unknown encodings."""
    with pytest.raises(UsageError, match="unknown encoding"):
        fingerprint("é".encode(), encoding=codec)


def test_a_page_is_read_alike_with_and_without_its_reading() -> None:
    """read_page() and fingerprint() guess the same."""
    raw = page_of("greek").encode("iso-8859-7")
    assert read_page(raw).fingerprint == fingerprint(raw)
