"""The embedded store: what lasts, through kills, damage, and other people's processes."""

import logging
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup.errors import DedupError, RecipeMismatch, StoreDamaged, StoreLocked, UsageError
from dedup.recipes import recipe_of
from dedup.store import Store, documents, snapshot, store, verify_store
from dedup.store.structure import read_structure
from dedup.values import Document, PageFingerprint

RECIPE = "words-0-1"


def document(key: str, value: int = 0, domain: str = "example.com", **fields: object) -> Document:
    page = {"check": 7, "links": 9, "features": 300, "link_count": 12, "recipe": RECIPE} | fields
    return Document(key, PageFingerprint(value, **page), domain, 1700000000.5)


def spread(i: int) -> int:
    """Values far from each other."""
    return i * 0x9E3779B97F4A7C15 % 2**64


def fill(path, count: int, first: int = 0) -> None:
    with Store.open(path) as s:
        for i in range(first, first + count):
            s.insert(document(f"http://example.com/{i}", spread(i)))


def run(code: str, *args: object) -> subprocess.CompletedProcess:
    """Run Python code in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


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


# ------------------------------------------------------------------------ documents in and out


def test_a_document_comes_back_as_it_was_stored(tmp_path):
    """get() returns the very document that was inserted, in this opening and the next."""
    stored = document("http://example.com/ü", 2**64 - 1, "example.com")
    with Store.open(tmp_path) as s:
        s.insert(stored)
        assert s.get(stored.key) == stored
    with Store.open(tmp_path) as s:
        assert s.get(stored.key) == stored
        assert s.get("http://example.com/other") is None
        assert (len(s), stored.key in s, "other" in s) == (1, True, False)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["insert", "insert", "insert", "forget", "reopen", "widen"]),
            st.integers(0, 9),
            st.integers(0, 2**64 - 1).map(lambda v: v & 0xC000_0100_0001_0007),
        ),
        max_size=30,
    )
)
def test_a_store_equals_a_dictionary(tmp_path_factory, steps):
    """After any steps, get() and near() answer what a plain dictionary and a scan answer."""
    path, model, k = tmp_path_factory.mktemp("store"), {}, 2
    s = Store.open(path, k=k)
    try:
        for action, number, value in steps:
            key = f"key {number}"
            if action == "insert":
                model[key] = document(key, value)
                s.insert(model[key])
            elif action == "forget":
                assert s.forget(key) == (model.pop(key, None) is not None)
            elif action == "widen":
                k = max(k, number % 7)
                s.widen(k)
            else:
                s.close()
                s = Store.open(path, k=k)
            assert len(s) == len(model)
            assert s.get(key) == model.get(key)
            expected = sorted(
                ((d.page.value ^ value).bit_count(), name)
                for name, d in model.items()
                if (d.page.value ^ value).bit_count() <= k
            )
            found = s.near(value)
            assert [d for _, d in found] == sorted(d for _, d in found)
            assert sorted((d, found.key) for found, d in found) == expected
        assert s.verify().problems == []
    finally:
        s.close()


def test_keys_longer_than_lmdb_takes(tmp_path):
    """A URL of 20,000 characters is a key like any other."""
    long, other = "http://example.com/" + "a" * 20_000, "http://example.com/" + "a" * 19_999
    with Store.open(tmp_path) as s:
        s.insert(document(long, 1))
        s.insert(document(other, 2))
        assert s.get(long).page.value == 1
        assert s.get(other).page.value == 2
    assert verify_store(tmp_path).problems == []


def test_a_known_key_replaces_its_fingerprint(tmp_path):
    """The old fingerprint is no longer found, the new one is, and the count stays."""
    with Store.open(tmp_path) as s:
        s.insert(document("a", 0))
        s.insert(document("a", 2**64 - 1))
        assert s.near(0) == []
        assert [d.key for d, _ in s.near(2**64 - 1)] == ["a"]
        assert len(s) == 1


def test_ids_are_never_used_twice(tmp_path):
    """After the newest document was forgotten, the next one gets an id of its own."""
    with Store.open(tmp_path) as s:
        s.insert(document("a", 1))
        s.forget("a")
    with Store.open(tmp_path) as s:
        s.insert(document("b", 2))
        assert s._documents.next_id == 2


def test_forget_says_whether_there_was_something(tmp_path):
    """forget() is True once; then the document is gone from every answer, also after reopening."""
    with Store.open(tmp_path) as s:
        s.insert(document("a", 5))
        assert s.forget("a")
        assert not s.forget("a")
        assert (s.get("a"), s.near(5), len(s)) == (None, [], 0)
    with Store.open(tmp_path) as s:
        assert (s.get("a"), s.near(5), len(s)) == (None, [], 0)


def test_near_is_bounded_to_the_nearest(tmp_path, monkeypatch):
    """Of more matches than the limit the nearest are returned."""
    monkeypatch.setattr(store, "NEAR_LIMIT", 3)
    with Store.open(tmp_path, k=3) as s:
        for i in range(4):
            s.insert(document(f"far {i}", 0b111))
        for i in range(2):
            s.insert(document(f"near {i}", 0))
        assert [(d.key, n) for d, n in s.near(0)] == [("near 0", 0), ("near 1", 0), ("far 0", 3)]
        assert [d.key for d, _ in s.near(0, k=2)] == ["near 0", "near 1"]


def test_what_is_kept_in_memory_is_bounded(tmp_path, monkeypatch):
    """near() answers alike however few documents are kept after reading, and keeps no more."""
    monkeypatch.setattr(documents, "RECENT", 5)
    with Store.open(tmp_path, k=3) as s:
        for i in range(12):
            s.insert(document(f"{i}", i % 4 << 8 * (i % 4)))
        for value in (0, 1 << 8, 2 << 16, 3 << 24, 0):
            assert sorted(int(d.key) for d, n in s.near(value, k=3)) == [
                i for i in range(12) if ((i % 4 << 8 * (i % 4)) ^ value).bit_count() <= 3
            ]
            s.near(value, k=0)
            assert len(s._documents._recent) <= 12
        s.forget("0")
        assert "0" not in [d.key for d, _ in s.near(0)]


def test_invalid_keys_are_refused(tmp_path):
    """A key that is not valid Unicode is a usage error and stores nothing."""
    with Store.open(tmp_path) as s:
        with pytest.raises(UsageError, match="Unicode"):
            s.insert(document("\ud800"))
        assert len(s) == 0


def test_a_closed_store_says_so(tmp_path):
    """Every call after close() is a usage error naming the store; a second close is nothing."""
    s = Store.open(tmp_path)
    s.close()
    s.close()
    with pytest.raises(UsageError, match="closed"):
        s.get("a")


def test_the_file_grows_past_its_map(tmp_path, monkeypatch):
    """A full map is enlarged and the insert that met it is stored."""
    monkeypatch.setattr(documents, "MAP_BYTES", 128 * 1024)
    fill(tmp_path, 3000)
    assert (tmp_path / "default" / "documents.mdb").stat().st_size > 256 * 1024
    report = verify_store(tmp_path)
    assert (report.documents, report.problems) == (3000, [])


def test_many_threads_at_once(tmp_path):
    """Inserts and probes from four threads leave a store that verifies."""

    def work(thread: int) -> None:
        for i in range(150):
            s.insert(document(f"{thread}/{i}", spread(thread * 1000 + i)))
            assert s.near(spread(thread * 1000 + i))

    with Store.open(tmp_path) as s:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(s) == 600
        assert s.verify().problems == []


# ---------------------------------------------------------------------- recipes and namespaces


def test_promise_5_a_store_keeps_its_recipe(tmp_path):
    """A new store takes the newest recipe; another one is refused with both named."""
    with Store.open(tmp_path) as s:
        assert s.recipe == RECIPE
        with pytest.raises(RecipeMismatch, match="words-0-1.*words-0-0"):
            s.insert(document("a", recipe="words-0-0"))
    keyed = recipe_of(secret="s").id
    with pytest.raises(RecipeMismatch, match=rf"'{RECIPE}'.*'{keyed}'"):
        Store.open(tmp_path, secret="s")
    with Store.open(tmp_path) as s:
        assert s.recipe == RECIPE


def test_promise_5_a_store_made_with_a_secret_keeps_it(tmp_path):
    """It opens without the secret, with the right one, and not with another."""
    with Store.open(tmp_path, secret="one") as s:
        keyed = s.recipe
    for options in ({}, {"secret": "one"}, {"recipe_id": keyed}):
        with Store.open(tmp_path, **options) as s:
            assert s.recipe == keyed
    for options in ({"secret": "two"}, {"recipe_id": RECIPE}):
        with pytest.raises(RecipeMismatch):
            Store.open(tmp_path, **options)


@pytest.mark.parametrize("namespace", ["", ".a", "a/b", "..", "a b", "é", "x" * 65])
def test_namespaces_are_checked(tmp_path, namespace):
    """What could leave the folder, or is too long, is a usage error."""
    with pytest.raises(UsageError, match="namespace"):
        Store.open(tmp_path, namespace)


def test_a_namespace_is_a_store_of_its_own(tmp_path):
    """Documents of one namespace are unknown in another; a renamed folder is refused."""
    with Store.open(tmp_path, "a") as a, Store.open(tmp_path, "b") as b:
        a.insert(document("x"))
        assert "x" not in b
    (tmp_path / "a").rename(tmp_path / "c")
    with pytest.raises(UsageError, match="'a'.*'c'"):
        Store.open(tmp_path, "c")


def test_open_makes_nothing_where_it_may_not(tmp_path):
    """create=False, and verify, raise FileNotFoundError and leave no folder behind."""
    with pytest.raises(FileNotFoundError):
        Store.open(tmp_path / "x", create=False)
    with pytest.raises(FileNotFoundError):
        verify_store(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------- processes


def test_a_second_process_is_told_who_holds_the_store(tmp_path):
    """StoreLocked names the holder's process, the path, and `dedup serve`."""
    with Store.open(tmp_path):
        code = """
            import sys
            from dedup.store import Store, verify_store
            from dedup.errors import StoreLocked
            for action in (Store.open, verify_store):
                try:
                    action(sys.argv[1])
                except StoreLocked as error:
                    print(error)
        """
        lines = run(code, tmp_path).stdout.splitlines()
        assert len(lines) == 2
        for line in lines:
            assert f"process {os.getpid()} " in line
            assert str(tmp_path / "default") in line
            assert "dedup serve" in line
        with pytest.raises(StoreLocked):
            Store.open(tmp_path)
    Store.open(tmp_path).close()


INSERTER = """
    import sys
    from dedup.store import Store
    from dedup.values import Document, PageFingerprint
    s = Store.open(sys.argv[1])
    first = int(sys.argv[2])
    for i in range(first, first + 100_000):
        page = PageFingerprint(i * 0x9E3779B97F4A7C15 % 2**64, 7, 9, 300, 12, "words-0-1")
        s.insert(Document(f"http://example.com/{i}", page, "example.com", 1700000000.5))
        print(i, flush=True)
"""


def test_promise_6_what_was_acknowledged_survives_kill_9(tmp_path):
    """Every insert that returned before a kill -9 is found, by key and by value, every time."""
    acknowledged = -1
    for more in (1, 700, 1500):
        command = [sys.executable, "-c", textwrap.dedent(INSERTER), str(tmp_path)]
        with subprocess.Popen(
            [*command, str(acknowledged + 1)], stdout=subprocess.PIPE, text=True
        ) as child:
            for line in child.stdout:
                acknowledged = int(line)
                if (more := more - 1) <= 0 and child.poll() is None:
                    child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL
        with Store.open(tmp_path) as s:
            for i in range(acknowledged + 1):
                key = f"http://example.com/{i}"
                assert s.get(key) == document(key, spread(i))
                assert (key, 0) in [(d.key, n) for d, n in s.near(spread(i))]
        assert verify_store(tmp_path).problems == []


def test_a_full_disk_loses_nothing(tmp_path):
    """An insert that the disk does not take raises OSError with the path; all before it stay."""
    file = tmp_path / "default" / "documents.mdb"
    fill(tmp_path, 500)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    s = Store.open(tmp_path)
    stored = 500
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 40_960, hard))
        with pytest.raises(OSError) as caught:
            for stored in range(500, 5000):
                s.insert(document(f"http://example.com/{stored}", spread(stored)))
        assert caught.value.filename == str(file)
        assert len(s) == stored
        assert s.get("http://example.com/499") is not None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    s.insert(document("http://example.com/after", 1))
    s.close()
    report = verify_store(tmp_path)
    assert (report.documents, report.problems) == (stored + 1, [])


def test_a_folder_that_takes_no_files_is_named(tmp_path, monkeypatch):
    """On a read-only disk opening raises OSError with the path."""

    def refuse(path, *_):
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr("dedup.store.lock.os.open", refuse)
    with pytest.raises(OSError, match="Read-only") as caught:
        Store.open(tmp_path)
    assert caught.value.filename == str(tmp_path / "default" / "lock")


def test_a_file_in_the_way_is_named(tmp_path):
    """Where documents.mdb cannot be opened, the error bears its path and the lock is given back."""
    (tmp_path / "default" / "documents.mdb").mkdir(parents=True)
    with pytest.raises(OSError) as caught:
        Store.open(tmp_path)
    assert "documents.mdb" in str(caught.value)
    (tmp_path / "default" / "documents.mdb").rmdir()
    Store.open(tmp_path).close()


def test_a_flush_that_fails_is_told_to_the_next_insert(tmp_path, monkeypatch, caplog):
    """An error of the background flush is logged and raised once."""
    with Store.open(tmp_path) as s:
        failed = threading.Event()
        sync = s._documents.sync

        def refuse():
            failed.set()
            raise OSError(5, "Input/output error", "documents.mdb")

        monkeypatch.setattr(s._documents, "sync", refuse)
        s.insert(document("a"))
        assert failed.wait(10)
        monkeypatch.setattr(s._documents, "sync", sync)
        while s._flush_error is None:
            pass
        with pytest.raises(OSError, match="Input/output"):
            s.insert(document("b"))
        s.insert(document("b"))
        assert len(s) == 2
    assert "not flushed" in caplog.text


# ----------------------------------------------------------------------------- damaged files


def test_a_damaged_record_is_refused_by_name(tmp_path):
    """A changed byte in a record: get() and near() raise StoreDamaged naming the file."""
    fill(tmp_path, 3)
    file = tmp_path / "default" / "documents.mdb"
    replace(file, b"http://example.com/1", b"http://exemple.com/1")
    with pytest.raises(StoreDamaged, match=r"documents\.mdb.*document 1: its checksum"):
        Store.open(tmp_path)  # three documents are a tail: each is read at opening
    report = verify_store(tmp_path)
    assert report.problem_count == 1
    assert report.problems == ["document 1: its checksum does not fit"]


def test_a_damaged_record_behind_a_snapshot_is_refused_when_read(tmp_path):
    """With a snapshot the store opens, serves the sound documents, and refuses the damaged one."""
    fill(tmp_path, 1200)
    file = tmp_path / "default" / "documents.mdb"
    replace(file, b"http://example.com/77\xab", b"http://example.com/76\xab")
    with Store.open(tmp_path) as s:
        assert s.get("http://example.com/78") is not None
        for action in (
            lambda: s.get("http://example.com/77"),
            lambda: s.near(spread(77)),
            lambda: s.forget("http://example.com/77"),
            lambda: s.insert(document("http://example.com/77")),
        ):
            with pytest.raises(StoreDamaged, match=r"documents\.mdb"):
                action()
    assert verify_store(tmp_path).problem_count == 1


def test_any_byte_of_the_documents_may_be_damaged(tmp_path):
    """A changed byte anywhere is refused by name, or lies where it changes no answer."""
    fill(tmp_path, 300)
    file = tmp_path / "default" / "documents.mdb"
    sound = file.read_bytes()
    generator, refused = random.Random(5), 0
    for _ in range(150):
        data = bytearray(sound)
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        file.write_bytes(data)
        refused += not is_sound(tmp_path, 300)
        (tmp_path / "default" / "table.ndd").unlink(missing_ok=True)
    assert refused > 20


def test_cut_documents_are_refused(tmp_path):
    """A file that ends too early is named, and does not end the process.

    Unless only free pages are missing at its end: then every document is there.
    """
    fill(tmp_path, 1500)
    file = tmp_path / "default" / "documents.mdb"
    data = file.read_bytes()
    for length in (0, 1, 4095, 4096, 8192, *range(10_000, len(data), len(data) // 20)):
        file.write_bytes(data[:length])
        assert not is_sound(tmp_path, 1500) or length > 0.9 * len(data)


def test_a_page_of_an_older_state_is_refused(tmp_path):
    """A page that the disk never wrote (a torn write) does not add up and is refused."""
    file = tmp_path / "default" / "documents.mdb"
    fill(tmp_path, 600)
    old = file.read_bytes()
    with Store.open(tmp_path) as s:
        for i in range(0, 600, 7):
            s.insert(document(f"http://example.com/{i}", i))
    new = file.read_bytes()
    refused = 0
    for page in range(2, len(old) // 4096):
        place = slice(page * 4096, (page + 1) * 4096)
        if old[place] != new[place]:
            file.write_bytes(new[: place.start] + old[place] + new[place.stop :])
            try:
                read = Store.open(tmp_path)
            except StoreDamaged:
                refused += 1
            else:
                assert read.get("http://example.com/7").page.value == 7
                assert read.verify().problems == []
                read.close()
    assert refused > 10


def test_another_file_in_its_place_is_refused(tmp_path):
    """Text where documents.mdb should be is named and refused."""
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "documents.mdb").write_bytes(b"not a database\n" * 1000)
    with pytest.raises(StoreDamaged, match=r"documents\.mdb"):
        Store.open(tmp_path)


def test_lost_documents_are_not_taken_for_a_new_store(tmp_path):
    """A snapshot without its documents is a damaged store, never an empty one."""
    fill(tmp_path, 1200)
    (tmp_path / "default" / "documents.mdb").unlink()
    with pytest.raises(StoreDamaged, match="missing"):
        Store.open(tmp_path)


@pytest.mark.parametrize(("version", "upgrade"), [(2, True), (0, False)])
def test_another_format_says_the_way_over(tmp_path, monkeypatch, version, upgrade):
    """A store of a newer or older format is refused with both numbers and what to do; it is not
    called damaged, and not a byte of it changes, whoever looks at it."""
    file = tmp_path / "default" / "documents.mdb"
    monkeypatch.setattr(documents, "FORMAT", version)
    Store.open(tmp_path).close()
    monkeypatch.undo()
    before = file.read_bytes()
    for look in (Store.open, verify_store):
        with pytest.raises(DedupError, match=f"format {version}.*format 1") as caught:
            look(tmp_path)
        assert not isinstance(caught.value, StoreDamaged)
        assert str(file) in str(caught.value)
        assert "dedup store export" in str(caught.value)
        assert "dedup store import" in str(caught.value)
        assert ("upgrade" in str(caught.value)) == upgrade
    assert file.read_bytes() == before


def test_the_structure_counts_what_is_there(tmp_path):
    """read_structure() finds as many keys and documents as there are, through several levels."""
    with Store.open(tmp_path) as s:
        for i in range(4000):
            s.insert(document(f"http://example.com/{i}" + "x" * (i % 50 * 100), spread(i)))
        for i in range(0, 4000, 3):
            s.forget(f"http://example.com/{i}" + "x" * (i % 50 * 100))
        count = len(s)
    found = read_structure(tmp_path / "default" / "documents.mdb")
    assert (found.documents, found.keys) == (count, count)


# -------------------------------------------------------------------------------- snapshots


def table_file(tmp_path):
    return tmp_path / "default" / "table.ndd"


def test_a_snapshot_is_written_when_it_is_worth_it(tmp_path):
    """999 new documents leave none, 1000 do, and reopening gives the same answers."""
    fill(tmp_path, 999)
    assert not table_file(tmp_path).exists()
    fill(tmp_path, 1, first=999)
    assert table_file(tmp_path).exists()
    with Store.open(tmp_path) as s:
        assert s.info()["tail_documents"] == 0
        assert all(s.near(spread(i)) for i in range(1000))


def test_a_long_tail_is_replayed_and_then_saved(tmp_path, monkeypatch):
    """A store that was killed with a long tail gets its snapshot at the next opening."""
    monkeypatch.setattr(store, "TAIL_AT_CLOSE", 10**9)
    fill(tmp_path, 300)
    monkeypatch.setattr(snapshot, "TAIL_AT_OPEN", 300)
    Store.open(tmp_path).close()
    assert table_file(tmp_path).exists()


def damaged(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path):
    path.write_bytes(b"")


def missing(path):
    path.unlink()


def another_version(path):
    path.write_bytes(b"another table, of a time to come" * 100)


@pytest.mark.parametrize("harm", [damaged, cut, emptied, missing, another_version])
def test_promise_6_a_damaged_snapshot_is_named_and_made_anew(tmp_path, caplog, harm):
    """The table is rebuilt from the documents with a warning naming the file; nothing is lost."""
    fill(tmp_path, 1000)
    with Store.open(tmp_path) as s:
        s.forget("http://example.com/3")
        s.insert(document("http://example.com/4", spread(5000)))
    harm(table_file(tmp_path))
    assert "table.ndd" in verify_store(tmp_path).problems[0]
    with caplog.at_level(logging.WARNING), Store.open(tmp_path) as s:
        assert str(table_file(tmp_path)) in caplog.text
        assert len(s) == 999
        assert s.near(spread(3)) == []
        assert s.near(spread(4)) == []
        assert [d.key for d, _ in s.near(spread(5000))] == ["http://example.com/4"]
        assert all(s.near(spread(i)) for i in range(5, 1000))
    assert verify_store(tmp_path).problems == []


def test_an_old_snapshot_put_back_is_noticed(tmp_path, caplog):
    """A snapshot whose removals are forgotten does not add up and is made anew."""
    fill(tmp_path, 1000)
    old = table_file(tmp_path).read_bytes()
    with Store.open(tmp_path) as s:
        for i in range(500):
            s.forget(f"http://example.com/{i}")
            s.insert(document(f"http://example.com/{2000 + i}", spread(2000 + i)))
    assert table_file(tmp_path).read_bytes() != old
    table_file(tmp_path).write_bytes(old)
    assert verify_store(tmp_path).problem_count > 0
    with Store.open(tmp_path) as s:
        assert "come" in caplog.text
        assert s.near(spread(3)) == []
        assert s.near(spread(2003))


@pytest.mark.parametrize(
    "step",
    [
        "store.documents.Documents.sync",
        "store.snapshot.Table.save",
        "table._replace_file",
        "table.os.replace",
        "store.documents.Documents.snapshot_taken",
    ],
)
def test_promise_6_a_kill_between_the_steps_of_a_snapshot(tmp_path, caplog, step):
    """Killed before any step of writing a snapshot, a store opens with the very same answers."""
    fill(tmp_path, 1000)
    code = """
        import importlib, os, sys
        from dedup.store import Store
        from dedup.values import Document, PageFingerprint
        s = Store.open(sys.argv[1])
        for i in range(600):
            s.forget(f"http://example.com/{i}")
            page = PageFingerprint(i, 7, 9, 300, 12, "words-0-1")
            s.insert(Document(f"http://example.com/{i + 100}", page, "example.com", 1700000000.5))
        s._end.set()
        s._dirty.set()
        s._flusher.join()
        module, *names, last = sys.argv[2].split(".")
        place = importlib.import_module("dedup." + module)
        for name in names:
            place = getattr(place, name)
        setattr(place, last, lambda *_: os._exit(9))
        s.close()
    """
    assert run(code, tmp_path, step).returncode == 9
    assert verify_store(tmp_path).problems == []
    with Store.open(tmp_path) as s:
        assert caplog.text == ""
        expected = {f"http://example.com/{i}" for i in range(600, 1000)}
        for i in range(600, 700):  # replaced once, not forgotten afterwards
            key = f"http://example.com/{i}"
            assert s.get(key).page.value == i - 100
            assert key in [d.key for d, _ in s.near(i - 100)]
        for i in range(700, 1000):
            assert [d.key for d, n in s.near(spread(i)) if n == 0] == [f"http://example.com/{i}"]
        assert len(s) == len(expected)
    assert verify_store(tmp_path).problems == []
    assert {f.name for f in table_file(tmp_path).parent.iterdir()} == {
        "documents.mdb",
        "lock",
        "table.ndd",
    }


def test_a_snapshot_that_cannot_be_written_is_only_a_warning(tmp_path, monkeypatch, caplog):
    """Closing succeeds, the documents are there, the log names the file."""

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot.Table, "save", refuse)
    fill(tmp_path, 1000)
    assert "table.ndd" in caplog.text
    assert verify_store(tmp_path).documents == 1000


# --------------------------------------------------------------------------------- verifying


def test_verify_reports_progress(tmp_path, monkeypatch):
    """The callback gets the documents done, and all of them at last."""
    monkeypatch.setattr("dedup.store.verify.STEP", 400)
    fill(tmp_path, 1000)
    calls = []
    verify_store(tmp_path, progress=lambda *call: calls.append(call))
    assert calls == [(400, 1000), (800, 1000), (1000, 1000)]


def test_verify_writes_nothing(tmp_path):
    """Verifying a closed store leaves every byte and time of its folder as it was."""
    fill(tmp_path, 1000)
    folder = tmp_path / "default"
    before = {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in folder.iterdir()}
    report = verify_store(tmp_path)
    after = {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in folder.iterdir()}
    assert before == after
    assert (report.documents, report.snapshot, report.recipe) == (1000, 1000, RECIPE)


def test_info_says_what_a_store_holds(tmp_path):
    """info() gives plain values, with units in the names."""
    with Store.open(tmp_path, "n", k=4) as s:
        s.insert(document("a", 1))
        s.insert(document("b", 1))
        info = s.info()
    assert info | {"table_bytes": 0, "documents_file_bytes": 0} == {
        "path": str(tmp_path / "n"),
        "namespace": "n",
        "recipe": RECIPE,
        "format": 1,
        "distance": 4,
        "documents": 2,
        "values": 1,
        "table_bytes": 0,
        "documents_file_bytes": 0,
        "tail_documents": 2,
    }
