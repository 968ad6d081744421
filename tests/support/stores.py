"""What the tests of the embedded store share: documents, filled stores, and ways to harm them."""

import subprocess
import threading
from pathlib import Path

from forking import completed
from sketches import sketch

from dedup.model.errors import StoreDamaged
from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store, segmented_table
from dedup.store.verify import VerifyReport, verify_documents

RECIPE = NEWEST


def document(key: str, value: int = 0, domain: str = "example.com", **fields: object) -> Document:
    page = {"sketch": sketch(7), "identity": 9, "features": 300, "recipe": RECIPE} | fields
    return Document(key, PageFingerprint(value, **page), domain, 1700000000.5)


def spread(i: int) -> int:
    """Values far from each other."""
    return i * 0x9E3779B97F4A7C15 % 2**64


def fill(path, count: int, first: int = 0) -> None:
    with Store.open(path) as s:
        s.insert_many(
            [document(f"http://example.com/{i}", spread(i)) for i in range(first, first + count)]
        )


def held_up(monkeypatch) -> tuple[threading.Event, threading.Event]:
    """Have whoever writes a segment wait; return what tells that one does, and what lets it go on."""
    writing, go_on = threading.Event(), threading.Event()
    real = segmented_table.write_pairs

    def slow(*arguments):
        writing.set()
        assert go_on.wait(60)
        return real(*arguments)

    monkeypatch.setattr(segmented_table, "write_pairs", slow)
    return writing, go_on


def run(code: str, *args: object) -> subprocess.CompletedProcess:
    """Run Python code in a process of its own, to which other packages are imported."""
    return completed(code, args)


def replace(path, old: bytes, new: bytes) -> None:
    """Replace bytes wherever they stand; freed pages hold old copies of them."""
    data = path.read_bytes()
    assert old in data
    assert len(old) == len(new)
    path.write_bytes(data.replace(old, new))


def is_sound(path, count: int) -> bool:
    """Tell whether a filled store opens and gives every document; else it is refused by name."""
    try:
        with Store.open(path) as s:
            for i in range(count):
                key = f"http://example.com/{i}"
                assert s.get(key) == document(key, spread(i))
            assert len(s) == count
    except StoreDamaged as error:
        assert str(path / "default" / "documents.mdb") in str(error)
        return False
    return True


def index_files(tmp_path) -> list[Path]:
    """The files of a store's index: first the manifests, then what they list."""
    folder = tmp_path / "default"
    manifests = [folder / name / "manifest.json" for name in ("values", "keys")]
    parts = sorted(file for name in ("values", "keys") for file in (folder / name).glob("*.ndd"))
    return [file for file in manifests if file.exists()] + parts


def verified(store: Store) -> VerifyReport:
    """Verify an open store, by its own index."""
    with store._lock:
        return verify_documents(store._documents, store._ready(), store.path)
