"""What fuzzes the Python side: the readers of files and pages that are not ours.

    documents  a store whose files were changed: refused by name, or exactly what was stored
    records    bytes in place of a record or a state: ValueError or DedupError, or a round trip
    events     bytes as the key and the value of a record: an event, or a fault that is named
    lines      an input of `store import`: each line a document or a named fault
    page       bytes in any encoding, against the specification's own reader (tests/support/oracle.py)
    values     a record of the worker: each format reads a page, or names the fault
    resp       what a client sends to the table service (fuzzing_resp.py)

Each harness takes bytes and raises if a rule is broken. `make test` feeds them chance mutations of
the seeds (test_hostile_files.py); fuzz_atheris.py runs one under Atheris, guided by coverage
(`make fuzz`).
"""

import contextlib
import io
import math
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import fuzzing_resp
import msgspec
import oracle
from sketches import sketch

from dedup.core.fingerprint import PageReading, fingerprint, main_words, read_page
from dedup.model import events
from dedup.model.errors import DedupError, EventInvalid, RecipeMismatch, StoreDamaged, UsageError
from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST, recipe_of
from dedup.store import Store, transfer, verify
from dedup.store import documents as records
from dedup.store.documents import Documents
from dedup.worker import adapters

RECIPE = NEWEST
PAGE = 4096
BASES = 4


def document(i: int, length: int = 0) -> Document:
    key = f"http://example.com/{i}" + "/long" * length
    page = PageFingerprint(i * 0x9E3779B97F4A7C15 % 2**64, sketch(i), 9, 300 + i, RECIPE)
    return Document(key, page, "example.com", 1700000000.5 + i)


# ------------------------------------------------------------------------------------ documents

Content = dict[int, Document]


class Base:
    """A small store: what its files hold, now and one transaction ago."""

    def __init__(self, number: int) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "default"
            with Store.open(name) as store:
                few = [document(i, 1500 * (i % 7 == 3)) for i in range((0, 3, 40, 160)[number])]
                store.insert_many(few)
                for each in few[::5]:
                    store.forget(each.key)
            if number % 2:
                with Store.open(name) as store:  # an index, and changes after it
                    store._index.write()
                    store.insert_many([document(i) for i in range(1000, 1020)])
                    store.forget(document(1).key)
            index = (path for name in ("keys", "values") for path in (folder / name).glob("*"))
            self.names = [DATABASE, *sorted(str(path.relative_to(folder)) for path in index)]
            self.files = [(folder / name).read_bytes() for name in self.names]
            self.states: list[Content] = [content(folder)]
            (folder / DATABASE).write_bytes(before_last_transaction(self.files[0]))
            with contextlib.suppress(StoreDamaged):  # of a new store: nothing is before it
                self.states.append(content(folder))


DATABASE = "documents.mdb"


def before_last_transaction(file: bytes) -> bytes:
    """Return documents.mdb with its newest meta page as if it had never been written (mdb.c, MDB_meta).

    A meta page that is a copy of the other one cannot be told from a write that was lost.
    """
    ages = [int.from_bytes(file[at : at + 8], "little") for at in (144, PAGE + 144)]
    newest = PAGE * (ages[1] > ages[0])
    older = PAGE - newest
    return file[: newest + 16] + file[older + 16 : older + 152] + file[newest + 152 :]


@cache
def base(number: int) -> Base:
    return Base(number)


@cache
def workplace() -> Path:
    """A folder of our own, gone with the process; a fuzzer's end skips that, so run.py sees to it."""
    folder = tempfile.TemporaryDirectory()
    workplace.folder = folder  # type: ignore[attr-defined]
    return Path(folder.name)


def content(folder: Path) -> Content:
    """Return every document of a store. Raises StoreDamaged if one is not readable."""
    documents = Documents(folder / DATABASE, read_only=True)
    try:
        return dict(documents.batch(0, 10_000))
    finally:
        documents.close()


def changed(files: list[bytes], patches: bytes) -> list[bytearray]:
    """Return the files after a list of patches.

    patch = operation (1 byte), page (1), place (2), length (1), bytes (length)
    """
    made = [bytearray(file) for file in files]
    stream = io.BytesIO(patches)
    while len(head := stream.read(5)) == 5:
        operation, page, place, length = (
            head[0],
            head[1],
            int.from_bytes(head[2:4], "little"),
            head[4],
        )
        data = made[page % len(made) if operation >> 7 else 0]
        new = stream.read(length)
        if not data:
            continue
        pages = -(-len(data) // PAGE)
        start = (page % pages * PAGE + place % PAGE) % len(data)
        kind = operation & 7
        if kind == 1:  # bits turned over
            new = bytes(a ^ b for a, b in zip(data[start : start + length], new, strict=False))
        elif kind == 2:  # a page takes the place of another, under that one's number
            target = place % pages * PAGE
            copy = bytes(data[page % pages * PAGE :][: min(PAGE, len(data) - target)])
            data[target : target + len(copy)] = copy
            data[target : target + 8] = (place % pages).to_bytes(8, "little")
            continue
        elif kind == 3:  # the page's head, where its numbers stand
            start = start // PAGE * PAGE + place % 64
        elif kind == 4:
            del data[start:]
            continue
        elif kind == 5:  # longer than it was
            data.extend(new * (1 + place % 64))
            continue
        new = new[: max(len(data) - start, 0)]
        data[start : start + len(new)] = new
    return made


def documents(data: bytes) -> None:
    """Hold a changed store to its rule: what can be read was stored, and what is missing is named.

    Of two meta pages LMDB takes the newest that it can read, so a store whose newest one was
    damaged may stand where it stood one transaction before.
    """
    if not data:
        return
    store = base(data[0] % BASES)
    folder = workplace() / "default"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, file in zip(store.names, changed(store.files, data[1:]), strict=True):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(file)
    try:
        opened = Documents(folder / DATABASE, read_only=True)
    except DedupError:
        return
    except OSError:  # an empty file is no store, and is not made one by reading
        assert not (folder / DATABASE).stat().st_size
        return
    try:
        report = verify.verify_documents(opened, None, folder)
        sound = {i: d for i, d in opened.scan() if isinstance(d, Document)}
    except StoreDamaged:
        return
    finally:
        opened.close()
    stored = store.states[0] | store.states[-1]
    assert sound.items() <= stored.items(), "a document is not what was stored"
    if report.problem_count == 0:
        assert sound in store.states, "documents are missing, and nobody says so"
    go_on(folder, sound if report.problem_count == 0 else None)


def go_on(folder: Path, sound: Content | None) -> None:
    """Open the store for writing, add to it and open it again."""
    new = document(5000)
    with contextlib.suppress(DedupError):
        with Store.open(folder.parent) as store:
            assert sound is None or len(store) == len(sound)
            store.insert(new)
            for each in list((sound or {}).values())[:10]:
                assert each in [found for found, _ in store.near(each.page.value, 0)]
        after = content(folder)
        assert sound is None or list(after.values()) == [*sound.values(), new]
        assert new in after.values()


# -------------------------------------------------------------------------------------- records


def record(data: bytes) -> None:
    """Decode bytes whose checksum is right as a record and as a state."""
    body, number = data[1:], data[0] if data else 0
    name = records.pack_number(number)
    try:
        found = records.decode_record(name, records._signed(name, body), RECIPE)
    except ValueError:
        pass
    else:
        (again,), _ = records.encode_records([name], [found])
        # a time that is no number equals nothing
        assert records.decode_record(name, again, RECIPE) == found or math.isnan(
            found.inserted_seconds
        )
    signed = records._signed(records.STATE_NAME, body)
    try:
        state = records.decode_state(signed)
    except (ValueError, DedupError):
        pass
    else:
        assert records.decode_state(records.encode_state(state)) == state
    if number % 2:
        try:
            records.decode_record(name, data, RECIPE)
        except ValueError:
            return
        raise AssertionError("a record without its checksum was taken")


# --------------------------------------------------------------------------------------- events


def event(data: bytes) -> None:
    """Decode a record; what is an event comes back from its own record as it was.

    data = the key's length (2 bytes), key, value; the lengths 65535 and 65534 stand for no key and
    for no value.
    """
    length = int.from_bytes(data[:2], "big")
    key = None if length == 65535 else data[2 : 2 + length]
    value = None if length == 65534 else data[2 + len(key or b"") :]
    try:
        found = events.decode(key, value)
    except EventInvalid as error:
        assert str(error)
        return
    if found.document is None:
        assert value is None
        assert events.record_key(found.namespace, found.key) == key
    else:
        again = events.encode(found.namespace, found.document)
        assert again[0] == key
        assert events.decode(*again) == found


# ---------------------------------------------------------------------------------------- lines


def lines(data: bytes) -> None:
    """Survey and import an input; every good line is a document of the store afterwards."""
    good: dict[str, dict[str, Document]] = {}
    recipes: dict[str, str] = {}  # each namespace's: of its first line whose recipe is known
    total = bad = 0
    for line in io.BytesIO(data):
        total += 1
        if not line.strip():
            continue
        try:
            namespace, found = transfer.decode_line(line)
            if namespace not in recipes:
                recipe_of(found.page.recipe)
                recipes[namespace] = found.page.recipe
        except (EventInvalid, RecipeMismatch) as error:
            assert str(error)
            bad += 1
            continue
        if found.page.recipe != recipes[namespace]:
            bad += 1
            continue
        assert transfer.decode_line(transfer.encode_line(namespace, found)) == (namespace, found)
        good.setdefault(namespace, {}).pop(found.key, None)
        good[namespace][found.key] = found
    faults: list[int] = []
    survey = transfer.survey(io.BytesIO(data), lambda number, _: faults.append(number))
    assert (survey.lines, survey.bad, len(faults)) == (total, bad, bad)
    assert survey.recipes == recipes
    if not good or len(good) > 4:
        return
    folder = workplace()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        stores = {}
        for namespace in good:
            try:
                stores[namespace] = stack.enter_context(
                    Store.open(folder, namespace, recipe_id=recipes[namespace])
                )
            except RecipeMismatch:  # a recipe with a secret that we do not know
                return
        transfer.import_lines(io.BytesIO(data), survey, stores)
        for namespace, store in stores.items():
            assert {key: store.get(key) for key in good[namespace]} == good[namespace]
            assert len(store) == len(good[namespace])


# ----------------------------------------------------------------------------------------- page

ENCODINGS = (
    "utf-8 utf-16 utf-16-le utf-32 gb18030 gbk big5 big5-hkscs shift_jis cp932 euc-jp iso-2022-jp "
    "euc-kr hz windows-1251 latin-1 ascii koi8-r cp437 utf-7 mac-roman windows-874 johab x-nothing"
).split()
UNKNOWN = ("utf-7", "x-nothing")  # to the web, which has no UTF-7
ORACLE_BYTES = 3000  # of pages that the slow reader reads too


def page(data: bytes) -> None:
    """Read bytes as a page: declared or given encodings, twice, and by the specification's reader."""
    number, html = (data[0] if data else 0) % 32, data[1:]
    encoding = ENCODINGS[number] if number < len(ENCODINGS) else None
    try:
        found = fingerprint(html, encoding=encoding)
    except UsageError:
        assert encoding in UNKNOWN
        return
    completed = fingerprint(html, encoding=encoding, url="http://h/a/b")
    title = found.identity >> 32
    assert completed.identity >> 32 == title  # a URL completes a canonical one, and nothing else
    assert msgspec.structs.replace(completed, identity=found.identity) == found
    main_words(html, encoding=encoding)
    if len(html) <= ORACLE_BYTES:
        expected = oracle.read_html(html)
        assert main_words(html, encoding="utf-8") == expected.blocks
        made = PageFingerprint(
            expected.value,
            expected.sketch,
            expected.title << 32 | expected.canonical,
            expected.features,
            RECIPE,
            expected.unread,
            thing=expected.thing,
            parts=expected.parts,
        )
        sizes = (expected.text_bytes, expected.data_bytes, expected.words, expected.words_read)
        assert read_page(html, encoding="utf-8") == PageReading(made, *sizes)


# --------------------------------------------------------------------------------------- values

READERS = [
    adapters.adapter(form, max_bytes=1 << 12)
    for base in adapters.FORMATS.values()
    for form in (base, msgspec.structs.replace(base, body_encoding="base64"))
]


def values(data: bytes) -> None:
    """Read bytes as a record of every format: a page within the bounds, or EventInvalid, twice."""
    for read in READERS:
        try:
            found = read(data)
        except EventInvalid as error:
            assert 0 < len(str(error)) < 500
            continue
        assert found == read(data)
        assert 0 < len(found.key) <= 12 * adapters.URL_BYTES
        assert len(found.url) <= adapters.URL_BYTES
        assert len(found.content) <= 1 << 12
        found.key.encode()


# ---------------------------------------------------------------------------------------- seeds

HARNESSES: dict[str, Callable[[bytes], None]] = {
    "documents": documents,
    "records": record,
    "events": event,
    "lines": lines,
    "page": page,
    "values": values,
    "resp": fuzzing_resp.resp,
}


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield (harness, input); those of `page` are made with the reader's, in make_corpus.py."""
    for data in fuzzing_resp.seeds():
        yield "resp", data
    rng = random.Random(9)
    for number in range(BASES):
        yield "documents", bytes([number])
        for i in range(60):
            patch = bytes([i % 6 | 128 * (i % 5 == 4), rng.randrange(40)]) + rng.randbytes(2)
            yield "documents", bytes([number]) + patch + bytes([i % 9]) + rng.randbytes(i % 9)
    for i in range(12):
        each = document(i, i % 3)
        yield (
            "records",
            bytes([i]) + records.encode_records([records.pack_number(i)], [each])[0][0][8:],
        )
        key, value = events.encode("news", each)
        for one, two in ((key, value), (key, b""), (b"", value), (key, value[:-9] + b"}")):
            yield "events", len(one).to_bytes(2, "big") + one + two
        yield "events", b"\xff\xff" + value
        yield "events", b"\xff\xfe" + key
        line = transfer.encode_line("default" if i % 2 else "news", each)
        yield "lines", line
        yield "lines", line * 2 + b"\n\n{}\n" + line.replace(b"example", "é中".encode())
        yield "lines", line[:-10] + b"\n" + line
    headers = '"response_headers":{"Content-Type":["text/html"]},"status_code":200'
    for body in ("<p>one</p>", "PHA+b25lPC9wPg==", "\\ud83d\\ude00 \\u00e9", "é中"):
        yield "values", f'{{"url":"http://a.example/b?c=d","html":"{body}"}}'.encode()
        yield "values", f'{{"url":["http://é.example/"],"content":["{body}"],"n":NaN}}'.encode()
        first = '{"url":"http://a.example/","response_url":"http://b.example/","encoding":"latin-1"'
        yield "values", f'{first},{headers},"body":"{body}","links":[{{}}]}}'.encode()
    yield "values", adapters.FAILED_DUMP
    yield (
        "records",
        b"\0" + records.encode_state(records.StoreState(1, "default", RECIPE, 4, 3, 2, 1))[8:],
    )


# ------------------------------------------------------------------------------------- by chance

TELLING = [b"\0", b"\xff", b"<", b">", b"&", b'"', b"\n", b"{", b"}", b"[", b"\x80", b"\x7f\xff"]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the input with a few bytes changed, cut, copied or put in."""
    made = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(made) + 1)
        cut = rng.choice([0, 0, 1, 1, 4, rng.randrange(40)])
        run = rng.randrange(40)
        made[at : at + cut] = rng.choice(
            [rng.randbytes(cut), rng.choice(TELLING), b"", bytes(made[at : at + run]) * 2]
        )
    return bytes(made)


def fuzz(name: str, inputs: list[bytes], rng: random.Random, count: int) -> None:
    """Run a harness on so many mutations of the inputs. An error carries the input as a note."""
    for i in range(count):
        data = inputs[i % len(inputs)]
        data = mutated(data, rng) if i >= len(inputs) else data
        try:
            HARNESSES[name](data)
        except Exception as error:
            error.add_note(f"fuzzing.HARNESSES[{name!r}]({data!r})")
            raise


def main(name: str, folder: Path) -> None:
    """Run a harness on the seeds in a folder for FUZZ_SECONDS (default 2)."""
    began = time.monotonic()
    inputs = [path.read_bytes() for path in sorted(folder.iterdir())]
    rng = random.Random()
    done = len(inputs)
    fuzz(name, inputs, rng, done)
    while time.monotonic() - began < float(os.environ.get("FUZZ_SECONDS", "2")):
        fuzz(name, [mutated(rng.choice(inputs), rng)], rng, 20)
        done += 20
    print(f"{done} inputs, no finding")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
