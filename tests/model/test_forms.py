"""Fields of a page are declared once: what is made of them has each."""

from __future__ import annotations

from pathlib import Path

import pytest

import dedup
from dedup.model.errors import EventInvalid, UsageError
from dedup.model.events import decode_value, encode_value
from dedup.model.forms import (
    FIELDS,
    RECORD,
    Field,
    Record,
    TooLong,
    check_field,
    check_storable,
    decode_page,
    encode_page,
    of_record,
    to_record,
)
from dedup.model.page import Document, PageFingerprint, ReserveKeywords, ReserveOptions
from dedup.model.recipes import NEWEST

PACKAGE = Path(dedup.__file__).parent


def test_every_field_is_in_a_record_but_the_recipe():
    """The recipe is the store's; what only judging a page needs is never stored."""
    recorded = {field.name for field in RECORD} | {"recipe", "unread", "partly", "least", "page"}
    declared = {*PageFingerprint.__struct_fields__, *Document.__struct_fields__}
    assert recorded == declared


def greatest(field: Field, more: int = 0) -> object:
    """The greatest value of a field, or one beyond it."""
    form = field.form
    if form.codec in {"word", "number"}:
        most = 2**form.most - 1 if form.codec == "word" else form.most
        return most + more
    if form.codec == "bytes":
        return b"\xff" * (form.most + more)
    if field.name == "recipe" and not more:
        return NEWEST
    return {"text": "é" * (form.most // 2) + "a" * more, "flag": False, "seconds": 1.5}[form.codec]


def document(**fields: object) -> Document:
    """A document with the greatest value in each field."""
    values = {field.name: greatest(field) for field in FIELDS} | fields
    page = PageFingerprint(**{f.name: values[f.name] for f in FIELDS if f.of_page})
    return Document(page=page, **{f.name: values[f.name] for f in FIELDS if not f.of_page})


def test_every_form_has_every_field_and_holds_its_greatest_value():
    """A document comes back from its record, and from its JSON; a page that is asked about from its."""
    full = document()
    check_storable(full)
    assert of_record(Record(*to_record(full)), NEWEST) == full
    assert decode_value(encode_value("news", full)) == ("news", full)
    asked = decode_page(encode_page(full))
    assert asked == Document("", full.page, full.domain, kind=full.kind)
    event = decode_page(encode_value("news", full))
    assert (event.key, event.page, event.domain, event.kind) == ("", *asked_of(full))


def asked_of(full: Document) -> tuple[object, ...]:
    return full.page, full.domain, full.kind


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_no_field_is_taken_beyond_its_bound(field):
    """What a store could not read again is refused before the insert, in events, and where a client sends it."""
    codec = field.form.codec
    if codec in {"flag", "seconds"}:
        return
    for value in (greatest(field, 1), -1) if codec in {"word", "number"} else (greatest(field, 1),):
        with pytest.raises(UsageError, match="cannot be stored"):
            check_storable(document(**{field.name: value}))
        with pytest.raises(EventInvalid):
            decode_value(encode_value("news", document(**{field.name: value})))
    if codec == "text":
        check_field(field.name, str(greatest(field)))
        with pytest.raises(TooLong, match=field.name):
            check_field(field.name, str(greatest(field, 1)))


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
