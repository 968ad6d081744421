"""The embedded store: documents in and out, recipes, and namespaces."""

import pytest
from stores import RECIPE, document, fill

from dedup.model.errors import RecipeMismatch, UsageError
from dedup.model.recipes import recipe_of
from dedup.store import Store, documents
from dedup.store.verify import verify_store

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


def test_keys_longer_than_lmdb_takes(tmp_path):
    """A URL of 20,000 characters is a key like any other."""
    long, other = "http://example.com/" + "a" * 20_000, "http://example.com/" + "a" * 19_999
    with Store.open(tmp_path) as s:
        s.insert(document(long, 1))
        s.insert(document(other, 2))
        assert s.get(long).page.value == 1
        assert s.get(other).page.value == 2
    assert verify_store(tmp_path).problems == []


def test_near_is_bounded_to_the_nearest(tmp_path, monkeypatch):
    """Of more matches than the limit the nearest are returned."""
    monkeypatch.setattr("dedup.store.store.NEAR_LIMIT", 3)
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


def test_the_file_grows_past_its_map(tmp_path, monkeypatch):
    """A full map is enlarged and the insert that met it is stored."""
    monkeypatch.setattr(documents, "MAP_BYTES", 128 * 1024)
    fill(tmp_path, 3000)
    assert (tmp_path / "default" / "documents.mdb").stat().st_size > 256 * 1024
    report = verify_store(tmp_path)
    assert (report.documents, report.problems) == (3000, [])


# ---------------------------------------------------------------------- recipes and namespaces


def test_promise_5_a_store_keeps_its_recipe(tmp_path):
    """A new store takes the newest recipe; another one is refused with both named."""
    with Store.open(tmp_path) as s:
        assert s.recipe == RECIPE
        with pytest.raises(RecipeMismatch, match=f"{RECIPE}.*words-0-0"):
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
