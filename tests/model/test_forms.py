"""Fields of a page are declared once: no file outside the model spells them out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dedup
from dedup.model.forms import FIELDS, RECORD
from dedup.model.page import Document, PageFingerprint, ReserveKeywords, ReserveOptions

PACKAGE = Path(dedup.__file__).parent

# Names that mean much else, too.
COMMON = {"key", "value", "kind"}
NAMES = {field.name for field in FIELDS} - COMMON
MOST = 4


def spelled(node: ast.AST) -> set[str]:
    """The fields that a function names, or those that a class declares."""
    found = set()
    for each in ast.walk(node) if not isinstance(node, ast.ClassDef) else node.body:
        if isinstance(each, ast.Attribute):
            found.add(each.attr)
        elif isinstance(each, ast.keyword) and each.arg:
            found.add(each.arg)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found.add(each.value)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found.add(each.target.id)
    return found & NAMES


@pytest.mark.long
def test_no_file_outside_the_model_names_five_fields_of_a_page():
    """A field that has to be spelled in several places is forgotten in one of them."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(("model/",)):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                fields = spelled(node)
                if len(fields) > MOST:
                    wrong.append(f"{name}:{node.lineno} {node.name}: {', '.join(sorted(fields))}")
    assert not wrong, "\n".join(wrong)


def test_every_field_is_in_a_record_but_the_recipe():
    """The recipe is the store's; what is unread, all or partly, is never stored."""
    recorded = {field.name for field in RECORD} | {"recipe", "unread", "partly", "page"}
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
