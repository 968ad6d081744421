"""Fields of a page are declared once: what is made of them has each."""

from __future__ import annotations

from pathlib import Path

import pytest

import dedup
from dedup.model.forms import FIELDS, RECORD
from dedup.model.page import Document, PageFingerprint, ReserveKeywords, ReserveOptions

PACKAGE = Path(dedup.__file__).parent


def test_every_field_is_in_a_record_but_the_recipe():
    """The recipe is the store's; what only judging a page needs is never stored."""
    recorded = {field.name for field in RECORD} | {"recipe", "unread", "partly", "least", "page"}
    declared = {*PageFingerprint.__struct_fields__, *Document.__struct_fields__}
    assert recorded == declared


def test_keywords_of_reserve_are_its_options():
    """Type checkers see the options that there are."""
    assert ReserveKeywords.__annotations__.keys() == set(ReserveOptions.__struct_fields__)
    with pytest.raises(TypeError, match="gaurd"):
        ReserveOptions(gaurd=False)  # type: ignore[call-arg]


def test_documents_name_every_field():
    """docs/reference/events.md has each field of an event, docs/reference/store-format.md each place of a record."""
    docs = PACKAGE.parent / "docs"
    events = (docs / "reference" / "events.md").read_text(encoding="utf-8")
    places = (docs / "reference" / "store-format.md").read_text(encoding="utf-8")
    for field in FIELDS:
        assert f"| `{field.event}` |" in events, field.name
        assert field.form.place is None or f"| {field.form.place} |" in places, field.name
