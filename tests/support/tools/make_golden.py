"""Writes the golden numbers: python tests/support make_golden (by hand, after a new recipe).

They come from the oracle, never from the native core, and go into golden/golden.json. A changed number is a new
recipe id.
"""

import hashlib
import json
import sys
from typing import Any

import oracle

RECIPE = "words-0-9"
SECRETS = ("a secret of this crawl", "Geheimnis ä 秘密")
TOKENS = (
    *("", "a", "the", "naïve", "中文", "0123456", "01234567", "012345678", "0123456789abcdef"),
    *("0123456789abcdefg", "the_quick_brown_fox_jumps_over_the_lazy_dog"),
)
SHINGLES = (("the", "quick", "brown"), ("brown", "quick", "the"), ("the", "quick"), ("the",))
ONE = 0x123456789ABCDEF0
COUNTS = ("features", "words", "words_read", "text_bytes", "data_bytes")
SIMHASHES: tuple[tuple[list[int], list[float] | None], ...] = (
    ([], None),
    ([0xDEADBEEF] * 100, None),
    ([ONE, ONE ^ (2**64 - 1)], None),
    ([0xABCD, 0xBCDE, 0xCDEF], None),
    ([0xABCD, 0xBCDE, 0xCDEF], [1, 1, 3]),
    ([0xF0, 0x0F], [2, 1]),
    ([0xF0, 0x0F], [0, 0]),
    ([0xFF00, 0x0FF0, 0x00FF], [0.5, 0.25, 0.3]),
    ([2**64 - 1, 0], [2**32 - 1, 2**32 - 2]),
)  # fmt: skip
TARGETS = (
    *("/x?b=1&sid=9", "https://host/docs/one.html", "HTTP://host", "//host/a/b?c#d", "./x", "././"),
    *("?", "?page=2", "?&&a=1&&b&utm_source=x&c=", "/a;jsessionid=1;v=2/b;SID/c?d"),
    *("/x;jsessionid=1?x=1&PHPSESSID=3", "/a?aspsessionidqqx=1&gclid&_ga=2&_gal=3"),
    *("/a?x=1&amp;copy=2&copy;=3&lt=4", " /a\n/b\t ", "#top", "", "mailto:a@b", "javascript:x()"),
    *("ftp:/x", "http:x", "x:y", "/docs/", "/docs/a/../b", "/Docs/x", "/%7ex?Q=%41", "é?ü=ß"),
    *("/a?b?c&d", "&#x2f;x&#47;y&num;z", "/" + "a" * 3000),
)
TEXTS = (
    "The quick brown fox jumps over the lazy dog",
    "the QUICK brown fox, jumps: over the lazy DOG!",
    *("one", "one two", "Привет, мир! Как дела?", "港口的钟又走了", "ساعة الميناء تدور من جديد"),
    *("นาฬิกาท่าเรือเดินอีกครั้ง", "한국어 문장과 カタカナ"),
    "soft\u00adhyphen zero\u200bwidth \u0130stanbul 10,000.5 x_y e\u0301 \u00e9",
    " - ",
)
PAGES = {  # file -> its URL and that URL's directory
    "english.html": ("https://news.example/2026/harbour.html", b"/2026/"),
    **dict.fromkeys(("chinese.html", "arabic.html", "thai.html", "russian.html"), (None, b"")),
    "listing.html": ("https://shop.example/shop/rope/index.html?page=2", b"/shop/rope/"),
    **dict.fromkeys(("short.html", "markup.html", "webforms.html", "forum.html"), (None, b"")),
    **dict.fromkeys(("product.html", "hidden.html", "shirt.html", "index.html"), (None, b"")),
    "beside.html": (None, b""),
}
CHARACTERS = {
    "unicode": "15.1.0",
    "sha256": "accc2d1e5712e8f770dd07fcb7c99911e608db1f428a963f88a7a654cc3b248a",
    "lines": 141177,
}  # of the native core: the oracle has the running Python's Unicode


def hexadecimal(number: int) -> str:
    return f"{number:016x}"


def key_of(secret: str) -> tuple[oracle.Key, str]:
    """Return the key and the recipe id that a secret gives (specification, "Secrets")."""
    digest = hashlib.blake2b(secret.encode(), digest_size=24, person=b"dedup-recipe").digest()
    key = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")
    return key, f"{RECIPE}.{digest[16:20].hex()}"


def shingle(tokens: tuple[str, ...]) -> int:
    hashes = [oracle.token_hash(token.encode()) for token in tokens] + [0, 0]
    return oracle.shingle_hash(*hashes[:3])


def text_vector(text: str, key: oracle.Key) -> dict[str, Any]:
    public, keyed = oracle.read_text(text), oracle.read_text(text, key)
    return {
        "text": text,
        "tokens": [word for block in public.blocks for word in block.tokens],
        "value": hexadecimal(public.value),
        "sketch": public.sketch.hex(),
        "features": public.features,
        "keyed_value": hexadecimal(keyed.value),
        "keyed_sketch": keyed.sketch.hex(),
        "parts": public.parts.hex(),
        "keyed_parts": keyed.parts.hex(),
    }


def hashes_of(page: oracle.Reading) -> dict[str, str]:
    return {
        "value": hexadecimal(page.value),
        "sketch": page.sketch.hex(),
        "title": f"{page.title:08x}",
        "canonical": f"{page.canonical:08x}",
        "thing": f"{page.thing:08x}",
        "parts": page.parts.hex(),
    }


def page_vector(name: str, key: oracle.Key) -> dict[str, Any]:
    url, directory = PAGES[name]
    html = (oracle.GOLDEN / name).read_bytes()
    public = oracle.read_html(html, directory)
    keyed = oracle.read_html(html, directory, key)
    return {
        "file": name,
        "url": url,
        **hashes_of(public),
        **{count: getattr(public, count) for count in COUNTS},
        **{f"keyed_{name}": digits for name, digits in hashes_of(keyed).items()},
        "blocks": [[block.weight, " ".join(block.tokens)] for block in public.blocks],
        "block_list": [hexadecimal(entry) for entry in oracle.block_list(html)],
        "keyed_block_list": [hexadecimal(entry) for entry in oracle.block_list(html, key)],
    }


def golden() -> dict[str, Any]:
    """Return all golden numbers, as golden.json holds them."""
    keys = {secret: key_of(secret) for secret in SECRETS}
    key = keys[SECRETS[0]][0]
    targets = {href: oracle.target_of(href.encode(), b"/docs/") for href in TARGETS}
    return {
        "recipe": RECIPE,
        "secrets": [
            {"secret": secret, "id": id_, "k0": hexadecimal(k[0]), "k1": hexadecimal(k[1])}
            for secret, (k, id_) in keys.items()
        ],
        "token_hashes": [
            {
                "token": token,
                "public": hexadecimal(oracle.token_hash(token.encode())),
                "keyed": hexadecimal(oracle.token_hash(token.encode(), key)),
            }
            for token in TOKENS
        ],
        "shingle_hashes": [{"tokens": list(t), "hash": hexadecimal(shingle(t))} for t in SHINGLES],
        "simhash": [
            {
                "hashes": [hexadecimal(one) for one in hashes],
                "weights": weights,
                "value": hexadecimal(oracle.simhash(hashes, weights)),
            }
            for hashes, weights in SIMHASHES
        ],
        "targets": [
            {"href": href, "directory": "/docs/", "target": target and target.decode()}
            if target
            else {"href": href, "directory": "/docs/", "target": None if target is None else ""}
            for href, target in targets.items()
        ],
        "texts": [text_vector(text, key) for text in TEXTS],
        "pages": [page_vector(name, key) for name in PAGES],
        "characters": CHARACTERS,
    }


def main() -> None:
    vectors = golden()
    text = json.dumps(vectors, ensure_ascii=False, indent=1) + "\n"
    (oracle.GOLDEN / "golden.json").write_text(text, encoding="utf-8")
    sys.stdout.write("golden/golden.json is written\n")


if __name__ == "__main__":
    main()
