"""`dedup store export`, `import` and `prune`: documents out as lines, in again, and away."""

import json
import time

import pytest
from command_line import call
from forking import completed
from hypothesis import given
from hypothesis import strategies as st
from sketches import sketch
from stores import verified

from dedup.model.page import SKETCH_BYTES, Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store
from dedup.store.transfer import decode_line, encode_line
from dedup.store.verify import verify_store

RECIPE = NEWEST
WORD = st.integers(0, 2**64 - 1)
SKETCH = st.binary(min_size=SKETCH_BYTES, max_size=SKETCH_BYTES)
COUNT = st.integers(0, 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LINE = {"v": 1, "ns": "spider", "key": "k", "value": "0" * 15 + "f", "sketch": "0" * 74} | {
    "identity": "0" * 16,
    "features": 1,
    "recipe": RECIPE,
    "domain": "",
    "ts": 1,
}


def lines(*changes: dict) -> str:
    return "".join(json.dumps(LINE | change) + "\n" for change in changes)


def document(key: str, value: int = 0, seconds: float = 1700000000.5) -> Document:
    return Document(key, PageFingerprint(value, sketch(7), 9, 300, RECIPE), "example.com", seconds)


def fill(path, *documents: Document, namespace: str = "spider") -> None:
    with Store.open(path, namespace) as store:
        store.insert_many(documents)


@given(
    st.builds(
        Document,
        TEXT,
        st.builds(PageFingerprint, WORD, SKETCH, WORD, COUNT, st.just(RECIPE)),
        TEXT,
        st.integers(-(10**15), 10**15).map(lambda ms: ms / 1000),
    )
)
def test_a_document_survives_its_line(stored):
    """Any document comes back from its line as it was, and the line is one line."""
    line = encode_line("spider", stored)
    assert line.count(b"\n") == 1
    assert decode_line(line) == ("spider", stored)


def test_export_and_import_round_trip(tmp_path):
    """What was exported from two namespaces and imported elsewhere is exported alike."""
    fill(tmp_path / "a", document("ü\u2028\n", 2**64 - 1), document("b"), namespace="one")
    fill(tmp_path / "a", document("b", 3), namespace="two")
    file = tmp_path / "documents.jsonl"
    assert call("store", "export", tmp_path / "a", "--output", file).exit_code == 0
    result = call("store", "import", tmp_path / "b", "--input", file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert call("store", "export", tmp_path / "b").stdout_bytes == file.read_bytes()
    assert [verify_store(tmp_path / "b", n).problems for n in ("one", "two")] == [[], []]


def test_a_new_folder_with_the_namespaces_name_is_the_store(tmp_path):
    """import PATH/spider makes that very store, and so does import PATH."""
    for path in (tmp_path / "a" / "spider", tmp_path / "b"):
        assert call("store", "import", path, data=lines({})).exit_code == 0
    for path in (tmp_path / "a", tmp_path / "b"):
        assert verify_store(path, "spider").documents == 1


def test_a_known_key_is_replaced(tmp_path):
    """Also by a later line of the same input; the others stay."""
    fill(tmp_path, document("k", 1), document("other", 2))
    data = lines({}, {"key": "new"}, {"key": "new"})
    done = call("store", "import", tmp_path, data=data)
    assert done.stdout == f"{tmp_path / 'spider'}: 3 documents imported, 2 in place of another\n"
    with Store.open(tmp_path, "spider", create=False) as store:
        assert store.get("k").page.value == 15
        assert len(store) == 3


BAD = [{"v": 2}, {"value": "F" * 16}, {"sketch": "0" * 73}, {"identity": 5}, {"features": -1}]
BAD += [{"ns": "../up"}, {"ts": 1.5}, {"more": 1}, {"key": "\ud800"}, {"key": None}]


@pytest.mark.parametrize("change", BAD, ids=str)
def test_a_bad_line_is_named_and_left_out(tmp_path, change):
    """Its number is told, nothing of it is stored, the other lines are, and the exit code is 1."""
    data = lines({"key": "a"}, {"key": "bad"} | change, {"key": "c"})
    result = call("store", "import", tmp_path / "a", data=data)
    assert result.exit_code == 1
    assert result.stderr.startswith("dedup: stdin: line 2: ")
    assert [f.name for f in tmp_path.iterdir()] == ["a"]
    with Store.open(tmp_path / "a", "spider", create=False) as store:
        assert (len(store), "a" in store, "c" in store) == (2, True, True)


def test_equal_faults_are_one_line(tmp_path):
    """An export of a retired recipe: its first line is named, the others are counted with the reason."""
    data = lines(*({"key": f"{i}", "recipe": "words-0-1"} for i in range(50)), {"v": 2})
    result = call("store", "import", tmp_path / "a", data=data)
    assert result.exit_code == 1
    first, other, counted = result.stderr.splitlines()[:3]
    assert first.startswith("dedup: stdin: line 1: recipe 'words-0-1' is retired")
    assert other.startswith("dedup: stdin: line 51: ")
    assert counted.startswith(
        "dedup: stdin: and 49 more lines left out: recipe 'words-0-1' is retired"
    )


def test_lines_of_another_recipe_are_left_out(tmp_path):
    """Of another than the store's, or than the first line's: named, counted, exit code 1; the others are imported."""
    keyed = RECIPE + ".3f2a9c1e"
    data = lines({"ns": "new"}, {"recipe": keyed})
    fill(tmp_path / "a", document("old"))
    result = call("store", "import", tmp_path / "a", data=data)
    assert result.exit_code == 1
    assert repr(RECIPE) in result.stderr
    assert repr(keyed) in result.stderr
    assert "line 2: has the recipe" in result.stderr
    assert {f.name for f in (tmp_path / "a").iterdir()} == {"spider", "new"}
    assert verify_store(tmp_path / "a", "spider").documents == 1
    result = call("store", "import", tmp_path / "b", data=lines({}, {"recipe": keyed}))
    assert result.exit_code == 1
    assert "line 2: has the recipe" in result.stderr
    assert verify_store(tmp_path / "b", "spider").documents == 1


def test_another_namespace_than_the_stores_is_refused(tmp_path):
    """A store's own folder takes lines of its namespace only."""
    fill(tmp_path, document("old"))
    result = call("store", "import", tmp_path / "spider", data=lines({}, {"ns": "other"}))
    assert result.exit_code == 1
    assert "line 2 is of the namespace 'other'" in result.stderr
    assert verify_store(tmp_path, "spider").documents == 1


@pytest.mark.parametrize(("age", "pruned"), [("2d", 1), ("36h", 1), ("30m", 2), ("0", 3)])
def test_prune_by_age(tmp_path, age, pruned):
    """Documents older than the age go, also from later answers; a dry run counts the same."""
    now = time.time()
    ages = (3 * 86_400, 3600, 10)
    fill(tmp_path, *(document(str(i), i << 20, now - s) for i, s in enumerate(ages)))
    args = ("store", "prune", tmp_path, "--older-than", age)
    for dry in (["--dry-run"], []):
        said = f"{pruned} document{'s' * (pruned > 1)} {'would be ' * bool(dry)}pruned, {3 - pruned} left"
        assert call(*args, *dry).stdout == f"{tmp_path / 'spider'}: {said}\n"
    with Store.open(tmp_path, "spider", create=False) as store:
        assert [str(i) in store for i in range(3)] == [i >= pruned for i in range(3)]
        assert store.near(0, k=0) == []
        assert verified(store).problems == []


def test_prune_by_date(tmp_path):
    """A date is UTC; a document of that very moment stays."""
    fill(tmp_path, document("before", 1, 1767225599.999), document("at", 2, 1767225600.0))
    result = call("store", "prune", tmp_path, "--older-than", "2026-01-01")
    assert result.stdout == f"{tmp_path / 'spider'}: 1 document pruned, 1 left\n"
    with Store.open(tmp_path, "spider", create=False) as store:
        assert "at" in store


@pytest.mark.parametrize("age", ["3w", "-1d", "", "2026-13-01", "9" * 11])
def test_what_is_no_age_is_a_usage_error(tmp_path, age):
    """It is named, with what is allowed."""
    result = call("store", "prune", tmp_path, "--older-than", age)
    assert result.exit_code == 2
    assert "is neither an age" in result.stderr


def test_export_leaves_out_a_damaged_document(tmp_path):
    """A record that is not readable is named by its id; the others are written; exit code 1."""
    fill(tmp_path, document("first"), document("second"), document("third"))
    file = tmp_path / "spider" / "documents.mdb"
    file.write_bytes(file.read_bytes().replace(b"second", b"sXcond"))
    result = call("store", "export", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"dedup: {file}: document 1: ")
    assert [json.loads(line)["key"] for line in result.stdout.splitlines()] == ["first", "third"]


def test_an_export_that_fails_leaves_the_file_of_before(tmp_path):
    """A disk that is full, or a store that is in use: the old file stays, nothing lies beside it."""
    fill(tmp_path / "a", *(document(f"http://example.com/{i}") for i in range(5000)))
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "documents.jsonl"
    file.write_text("before")
    code = """
        import resource; from dedup.cli import main
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))
        main()
    """
    arguments = ["store", "export", tmp_path / "a", "--output", file]
    full = completed(code, arguments)
    assert full.returncode == 1, full.stderr
    assert "File too large" in full.stderr
    with Store.open(tmp_path / "a", "spider"):
        held = call(*arguments)
    assert held.exit_code == 1
    assert f"{file} was not written" in held.stderr
    assert (file.read_text(), list(file.parent.iterdir())) == ("before", [file])
    assert call(*arguments).exit_code == 0
    assert len(file.read_text().splitlines()) == 5000
    assert list(file.parent.iterdir()) == [file]


def test_an_export_goes_through_a_link_and_into_a_pipe(tmp_path):
    """A link to a file stays a link; what is no file is written to as it is."""
    fill(tmp_path / "a", document("k"))
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(file)
    assert call("store", "export", tmp_path / "a", "--output", link).exit_code == 0
    assert link.is_symlink()
    assert json.loads(file.read_text())["key"] == "k"
    assert call("store", "export", tmp_path / "a", "--output", "/dev/null").exit_code == 0


@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["prune", "dry run"])
def test_prune_refuses_a_store_with_a_damaged_document(tmp_path, dry):
    """The document is named, the exit code is 1, and the store keeps all it held."""
    fill(tmp_path, *(document(f"key {i:04}", i << 20, 1.0) for i in range(1500)))
    file = tmp_path / "spider" / "documents.mdb"
    file.write_bytes(file.read_bytes().replace(b"key 0700", b"key X700"))
    result = call("store", "prune", tmp_path, "--older-than", "1d", *dry)
    assert result.exit_code == 1
    assert f"{file}" in result.stderr
    assert "document 700" in result.stderr
    report = verify_store(tmp_path, "spider")
    assert (report.documents, report.problem_count) == (1500, 1)
