"""Writes the golden vectors as C: golden_header.py GOLDEN_FOLDER OUTPUT_H.

So the C tests hold every build of the core, for any processor, to the vectors that the Python tests
know (tests/golden). Made at build time: no second copy to go stale.
"""

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

folder, output = map(Path, sys.argv[1:])
golden = json.loads((folder / "golden.json").read_text(encoding="utf-8"))
blobs: list[str] = []


def blob(data: bytes | None) -> str:
    """Return a `struct bytes` with this content."""
    if data is None:
        return "{NULL, 0}"
    name = f"bytes_{len(blobs)}"
    content = ",".join(map(str, data or b"\0"))
    blobs.append(f"static const uint8_t {name}[] = {{{content}}};")
    return f"{{{name}, {len(data)}}}"


def word(digits: str) -> str:
    return f"UINT64_C(0x{digits})"


def sketch(digits: str) -> str:
    return ",".join(map(str, bytes.fromhex(digits)))


def array(type_: str, name: str, rows: list[str]) -> str:
    return f"static const {type_} {name}[] = {{\n    " + ",\n    ".join(rows) + "};"


def directory(url: str | None) -> bytes | None:
    return None if url is None else urlsplit(url).path.rpartition("/")[0].encode() + b"/"


def page_row(vector: dict, content: bytes, url: str | None) -> str:
    numbers = [
        f"{{{word(vector[f'{prefix}value'])}, {{{sketch(vector[f'{prefix}sketch'])}}}, "
        f"{{{sketch(vector[f'{prefix}parts'])}}}, "
        f"0x{vector.get(f'{prefix}title', '0')}, 0x{vector.get(f'{prefix}canonical', '0')}, "
        f"0x{vector.get(f'{prefix}thing', '0')}, "
        f"{vector['features']}, {vector.get('words', 0)}, {vector.get('words_read', 0)}, 0, "
        f"{vector.get('text_bytes', 0)}, {vector.get('data_bytes', 0)}, 0}}"  # all are read, and UTF-8
        for prefix in ("", "keyed_")
    ]
    return f"{{{blob(content)}, {blob(directory(url))}, {', '.join(numbers)}}}"


def simhash_row(vector: dict) -> str:
    hashes = "".join(int(h, 16).to_bytes(8, "little").hex() for h in vector["hashes"])
    weights = b"".join(w.to_bytes(4, "little") for w in vector["weights"] or [])
    weighted = int(vector["weights"] is not None)
    return (
        f"{{{blob(bytes.fromhex(hashes))}, {blob(weights)}, {weighted}, {word(vector['value'])}}}"
    )


def target_row(vector: dict) -> str:
    target = vector["target"]
    page = f'<link rel=canonical href="{vector["href"]}">'.encode()
    wanted = None if target is None else target.encode()
    return f"{{{blob(page)}, {blob(vector['directory'].encode())}, {blob(wanted)}}}"


tokens = [
    f"{{{blob(v['token'].encode())}, {word(v['public'])}, {word(v['keyed'])}}}"
    for v in golden["token_hashes"]
]
simhashes = [  # weights that are no integers are made ones by Python
    simhash_row(v) for v in golden["simhash"] if all(isinstance(w, int) for w in v["weights"] or [])
]
targets = [target_row(v) for v in golden["targets"]]
texts = [page_row(v, v["text"].encode(), None) for v in golden["texts"]]
pages = [page_row(v, (folder / v["file"]).read_bytes(), v["url"]) for v in golden["pages"]]
secret = golden["secrets"][0]

output.write_text(
    "\n".join(
        [
            "/* Made by native/tools/golden_header.py. */",
            *blobs,
            f'#define GOLDEN_RECIPE "{golden["recipe"]}"',
            f"static const ndd_key golden_key = {{{word(secret['k0'])}, {word(secret['k1'])}}};",
            array("struct golden_token", "golden_tokens", tokens),
            array("struct golden_simhash", "golden_simhashes", simhashes),
            array("struct golden_target", "golden_targets", targets),
            array("struct golden_page", "golden_texts", texts),
            array("struct golden_page", "golden_pages", pages),
            "",
        ]
    ),
    encoding="utf-8",
)
