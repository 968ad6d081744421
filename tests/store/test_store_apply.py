"""Changes of a log in the store: all of a batch and its offsets, or nothing; and what they count."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from sketches import sketch
from stores import document, replace, spread, verified

import dedup
from dedup.model.errors import RecipeMismatch, StoreDamaged, UsageError
from dedup.model.page import PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Applied, Store

KEYS = st.integers(0, 7).map(str)
VALUES = st.integers(0, 40).map(spread)
CHANGES = st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=12)
OFFSETS = st.dictionaries(st.integers(0, 3), st.integers(0, 2**62), max_size=3)


def one_by_one(model: dict[str, int], changes: list[tuple[str, int | None]]) -> Applied:
    """The model: a plain dictionary, and a count of what each change does to it."""
    counts = {"inserted": 0, "replaced": 0, "forgotten": 0}
    for key, value in changes:
        if value is not None:
            counts["replaced" if key in model else "inserted"] += 1
            model[key] = value
        elif model.pop(key, None) is not None:
            counts["forgotten"] += 1
    return Applied(**counts)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(CHANGES, OFFSETS, st.booleans()), max_size=6))
def test_a_store_that_applies_a_log_is_a_dictionary_that_does(tmp_path_factory, batches):
    """Also across closing and opening: documents, counts, what is found, and offsets."""
    path = tmp_path_factory.mktemp("store")
    model: dict[str, int] = {}
    offsets: dict[int, int] = {}
    store = Store.open(path)
    try:
        for changes, noted, reopen in batches:
            expected = one_by_one(model, changes)
            made = [(k, None if v is None else document(k, v)) for k, v in changes]
            assert store.apply(made, noted) == expected
            offsets |= noted
            if reopen:
                store.close()
                store = Store.open(path)
            assert len(store) == len(model)
            assert store.offsets() == offsets
            for key, value in model.items():
                assert store.get(key) == document(key, value)
            for value in {v for _, v in changes if v is not None}:
                found = {d.key for d, distance in store.near(value) if distance == 0}
                assert found == {k for k, v in model.items() if v == value}
        assert verified(store).problems == []
    finally:
        store.close()


def test_offsets_of_other_partitions_stay(tmp_path):
    with Store.open(tmp_path) as store:
        assert store.offsets() == {}
        store.apply([], {0: 5, 1: 7})
        store.apply([], {1: 9, 300: 2**63})
        assert store.offsets() == {0: 5, 1: 9, 300: 2**63}


def test_a_batch_with_a_wrong_document_changes_nothing(tmp_path):
    """Another recipe, or a key that is not Unicode: neither the others nor the offsets are taken."""
    with Store.open(tmp_path) as store:
        store.apply([("a", document("a", 1))], {0: 1})
        for wrong, error in (
            (document("b", 2, recipe="words-9-9"), RecipeMismatch),
            (document("\ud800", 2), UsageError),
        ):
            with pytest.raises(error):
                store.apply([("c", document("c", 3)), (wrong.key, wrong), ("a", None)], {0: 4})
        assert store.offsets() == {0: 1}
        assert (len(store), "a" in store, "c" in store) == (1, True, False)


def test_damaged_offsets_are_named(tmp_path):
    with Store.open(tmp_path) as store:
        store.apply([], {5: 0x7777777777})
    replace(tmp_path / "default" / "documents.mdb", bytes.fromhex("7777777777"), b"wwwwv")
    with pytest.raises(StoreDamaged, match="offsets"):
        Store.open(tmp_path)


# --------------------------------------------------------------------------------- the detector

PAGE = PageFingerprint(spread(5), sketch(77), 9, 300, NEWEST)


def replaced(page: PageFingerprint, **fields: object) -> PageFingerprint:
    return msgspec.structs.replace(page, **fields)


def applied(page: PageFingerprint, key: str, domain: str = "example.com"):
    return key, dedup.model.page.Document(key, page, domain, 1.5)


@pytest.mark.parametrize(
    ("key", "page", "ends"),
    [
        ("k", PAGE, True),
        ("other", PAGE, False),
        ("k", replaced(PAGE, value=PAGE.value ^ 1), False),
        ("k", replaced(PAGE, sketch=sketch(78)), False),
        ("k", replaced(PAGE, identity=1, features=301), True),
    ],
)
def test_an_event_ends_the_reservation_with_its_key_value_and_sketch(tmp_path, key, page, ends):
    """Of another key or fingerprint it does not: that page is still in flight."""
    with dedup.open(tmp_path) as detector:
        verdict = detector.reserve(PAGE, "k")
        detector.apply([applied(page, key)], {0: 1})
        assert detector.info()["in_flight"] == (0 if ends else 1)
        assert not detector.insert(verdict) or not ends  # inserting again changes nothing
        assert len(detector) == len({key, "k"})


def test_a_superseded_event_of_a_batch_ends_its_reservation_too(tmp_path):
    with dedup.open(tmp_path) as detector:
        detector.reserve(PAGE, "k")
        detector.apply([applied(PAGE, "k"), ("k", None)], {0: 2})
        assert (detector.info()["in_flight"], len(detector)) == (0, 0)
