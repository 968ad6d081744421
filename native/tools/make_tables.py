"""Writes the reader's tables: make_tables.py OUTPUT_FOLDER (run by hand, results are committed).

They are committed and not made at build time because a fingerprint must not depend on the Python
that built the core: a newer Unicode version would change words, and so the recipe. Run it with a
Python whose unicodedata is of the version named below; any other is refused.
"""

import random
import sys
import unicodedata
from collections.abc import Callable, Iterable
from html.entities import html5
from pathlib import Path

UNICODE = "15.1.0"

# --------------------------------------------------------------------------------------- tags

# What a tag does to the scan: the flag TAG_<name> of tag_flags.h.
TAGS = {
    "BLOCK": "address article aside blockquote body caption center col colgroup dd details dialog dir "
    "div dl dt fieldset figcaption figure footer foreignobject form frameset h1 h2 h3 h4 h5 h6 header hgroup hr "
    "html legend li main menu nav ol optgroup option p pre search section summary table tbody td "
    "tfoot th thead tr ul",
    "VOID": "area base basefont bgsound br col embed frame hr img input keygen link meta param source "
    "track wbr",
    "BREAK": "br img input embed object svg math canvas audio video iframe select textarea button "
    "label template",
    "RAW": "script style textarea title iframe xmp noembed noframes plaintext",
    "SKIP": "template svg select object canvas audio video noscript",
    "DROP": "nav footer dialog",
    "MAIN": "article main",
    "HEADER": "header",
    "HEADING": "h1 h2 h3 h4 h5 h6",
    "LINK": "a",
    "FORM": "form fieldset",
    "ASIDE": "aside menu button label figcaption",
    "ROOT": "html body head",
    "CELL": "td th caption",
    "ROW": "tr",
    "TABLE": "table",
    "GROUP": "tbody thead tfoot",
    "ITEM": "li",
    "LIST": "ul ol menu dir",
    "TERM": "dt dd",
    "TERMS": "dl",
    "PARAGRAPH": "p",
    "SCRIPT": "script",
    "OPTION": "option optgroup",
    "TITLE": "title",
    "REL": "link",
    "META": "meta",
    "SOURCE": "img iframe embed video audio source",
    "TOP": "h1",
    "VEIL": "noscript",
    "FOREIGN": "svg math foreignobject",
}


def tag_table() -> str:
    flags = list(TAGS)
    names = sorted({name for group in TAGS.values() for name in group.split()})
    numbers = random.Random(1)
    for multiplier in (numbers.getrandbits(64) | 1 for _ in range(100_000)):
        slots: dict[int, str] = {}
        for name in names:
            slot = (packed(name) * multiplier & 0xFFFFFFFFFFFFFFFF) >> 54
            if slot in slots:
                break
            slots[slot] = name
        else:
            break
    else:
        raise SystemExit("no multiplier keeps the tags apart")
    lines = ["/* A tag stands at slot (tag_name() * NDD_TAG_MULTIPLIER) >> 54, or nowhere. */"]
    lines += [f"#define NDD_TAG_MULTIPLIER UINT64_C({multiplier:#x})", ""]
    lines += [
        "static const struct tag_entry { uint64_t name; uint32_t flags; } tag_entries[1024] = {"
    ]
    for slot, name in sorted(slots.items()):
        value = sum(1 << i for i, flag in enumerate(flags) if name in TAGS[flag].split())
        lines.append(f"    [{slot}] = {{UINT64_C({packed(name):#018x}), {value:#x}}}, /* {name} */")
    lines += ["};", ""]
    return "\n".join(lines)


def flag_list() -> str:
    lines = ["/* What a tag does to the scan. */", "enum {"]
    lines += [f"    TAG_{flag} = 1 << {i}," for i, flag in enumerate(TAGS)]
    return "\n".join([*lines, "};", ""])


def packed(name: str) -> int:
    """A name as tag_name() of tags.c has it: up to 8 bytes as they are, a hash of more."""
    if len(name) <= 8:
        return int.from_bytes(name.encode(), "little")
    value = 0
    for byte in name.encode():
        value = mix(value ^ byte)
    return value | 1 << 63


def mix(x: int) -> int:
    """hash_mix() of hash.h."""
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD & 0xFFFFFFFFFFFFFFFF
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53 & 0xFFFFFFFFFFFFFFFF
    return x ^ x >> 33


# --------------------------------------------------------------------------------- characters

SEPARATOR, WORD, SPACELESS, IGNORED = range(4)

SPACELESS_RANGES = [
    # Line-breaking class SA (Unicode Standard Annex 14)
    (0x0E00, 0x0E7F),  # Thai
    (0x0E80, 0x0EFF),  # Lao
    (0x1000, 0x109F),
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAA7F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x197F),  # Tai Le
    (0x1980, 0x19DF),  # New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0xAA80, 0xAADF),  # Tai Viet
    (0x11700, 0x1174F),  # Ahom
    # Classes AK and AS, of scripts that are written in syllables without spaces
    (0x1B00, 0x1B7F),  # Balinese
    (0xA980, 0xA9DF),  # Javanese
    (0x1BC0, 0x1BFF),  # Batak
    (0xAA00, 0xAA5F),  # Cham
    (0x11EE0, 0x11EFF),  # Makasar
    (0x11F00, 0x11F5F),  # Kawi
    # Class ID, and H2, H3, JL, JV, JT
    (0x1100, 0x11FF),
    (0x3130, 0x318F),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),  # Hangul
    (0x3005, 0x3007),
    (0x3021, 0x3029),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x323AF),  # CJK
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0xFF66, 0xFF9F),
    (0x1AFF0, 0x1B16F),  # Kana
    (0x3100, 0x312F),
    (0x31A0, 0x31BF),  # Bopomofo
]


def character(code: int) -> tuple[int, int]:
    """The class of a code point and what to add to it to lower its case."""
    text = chr(code)
    category = unicodedata.category(text)
    if (
        (category == "Cf" and code != 0x200B)
        or 0xFE00 <= code <= 0xFE0F
        or 0xE0100 <= code <= 0xE01EF
    ):
        return IGNORED, 0
    if category[0] in "LMN":
        if any(first <= code <= last for first, last in SPACELESS_RANGES):
            return SPACELESS, 0
        return WORD, ord(text.lower()[0]) - code
    return (WORD, 0) if text == "_" else (SEPARATOR, 0)


def character_table() -> str:
    kinds: dict[tuple[int, int], int] = {}
    pages: dict[bytes, int] = {}
    index = []
    for page in range(0x110000 >> 8):
        row = bytes(
            kinds.setdefault(character(code), len(kinds))
            for code in range(page << 8, (page + 1) << 8)
        )
        index.append(pages.setdefault(row, len(pages)))
    lines = [f"/* Unicode {UNICODE} */", ""]
    lines += [
        "static const struct character_kind { int32_t lower; uint8_t kind; } character_kinds[] = {"
    ]
    lines += _wrapped([f"{{{delta},{kind}}}" for kind, delta in kinds], str)
    lines += ["};", "", "/* By the code point's upper bytes, its page; each has 256 kinds. */"]
    lines += ["static const uint8_t character_page[] = {", *_wrapped(index, str), "};", ""]
    lines += ["static const uint8_t character_rows[] = {"]
    lines += _wrapped((kind for page in pages for kind in page), str)
    lines += ["};", ""]
    return "\n".join(lines)


# ----------------------------------------------------------------------------------- entities


def entity_table() -> str:
    """Names by their length, so that each length is searched in words of one width and no place is stored."""
    names = sorted(html5, key=lambda name: (len(name), name.encode()))
    pairs = sorted({html5[name] for name in names if len(html5[name]) == 2})
    lines = [
        "/* The names, the shortest first, those of one length sorted; one without its semicolon needs none. */"
    ]
    lines += ["static const char entity_names[] = { /* a string may have 4095 bytes in C11 */"]
    lines += _wrapped("".join(names), repr)
    lines += ["};", "", f"#define NDD_ENTITY_BYTES {len(names[-1])} /* of the longest name */", ""]
    lines += ["/* By length: how many names are shorter, and how many bytes these take. */"]
    lines += ["static const struct entity_length { uint16_t names, bytes; } entity_lengths[] = {"]
    shorter = [[n for n in names if len(n) < length] for length in range(len(names[-1]) + 2)]
    lines += _wrapped([f"{{{len(each)}, {len(''.join(each))}}}" for each in shorter], str)
    lines += ["};", ""]
    lines += [
        "/* What each name stands for: a character; one above 0xffff (all are 0x1d400 to 0x1d7ff) less 0x10000; or from"
    ]
    lines += [" * 0xe000 on, where no name has a character, the number of a pair. */"]
    lines += ["static const uint16_t entity_codes[] = {"]
    lines += _wrapped([_entity_code(html5[name], pairs) for name in names], "{:#x}".format)
    lines += ["};", "", "static const uint16_t entity_pairs[][2] = {"]
    lines += _wrapped(pairs, lambda pair: f"{{{ord(pair[0]):#x}, {ord(pair[1]):#x}}}")
    lines += ["};", ""]
    return "\n".join(lines)


def _entity_code(characters: str, pairs: list[str]) -> int:
    if len(characters) == 2:
        return 0xE000 + pairs.index(characters)
    code = ord(characters)
    if 0xD400 <= code < 0xF900 or (code > 0xFFFF and not 0x1D400 <= code < 0x1D800):
        raise SystemExit(f"an entity stands for {code:#x}, which the table has no room for")
    return code & 0xFFFF


def _wrapped(values: Iterable[object], form: Callable[..., str]) -> list[str]:
    """Lines of 120 columns, without a space: the files are data, and nobody reads them."""
    lines = [""]
    for value in map(form, values):
        if len(lines[-1]) + len(value) >= 120:
            lines.append("")
        lines[-1] += f"{value},"
    return lines


def main() -> None:
    if unicodedata.unidata_version != UNICODE:
        raise SystemExit(
            f"this Python has Unicode {unicodedata.unidata_version}, the tables need {UNICODE}"
        )
    folder = Path(sys.argv[1])
    made = {
        "tag_flags.h": flag_list(),
        "tag_table.h": tag_table(),
        "character_table.h": character_table(),
        "entity_table.h": entity_table(),
    }
    for name, text in made.items():
        head = "/* Written by native/tools/make_tables.py; change that, not this. */\n#include <stdint.h>\n\n"
        (folder / name).write_text(head + text, encoding="ascii")


main()
