"""The folders of native/: includes only go down, without circles."""

from __future__ import annotations

import house_native


def test_includes_have_no_circle():
    """No module of native/src includes itself by way of others."""
    assert house_native.circles(house_native.modules()) == []


def test_includes_only_go_down():
    """A folder of native/src includes only from lower floors, and every folder is on one."""
    assert house_native.upward(house_native.modules()) == []


def test_every_include_is_by_its_folder():
    """An include names a file below native/src or native/include, so its floor can be read."""
    source, public = house_native.NATIVE / "src", house_native.NATIVE / "include"
    wrong = [
        f"{path}: {name}"
        for path in source.rglob("*.[ch]")
        for name in house_native.includes(path)
        if not (source / name).is_file() and not (public / name).is_file()
    ]
    assert wrong == []


def test_circles_and_upward_includes_are_seen():
    """A circle of four, an include that goes up and one between neighbours."""
    graph = {
        "base/a": {"base/b"},
        "base/b": {"base/c"},
        "base/c": {"base/a", "table/d"},
        "table/d": {"base/a"},
        "bulk/e": {"paper/f", "table/d"},
        "paper/f": set(),
        "cellar/g": set(),
    }
    assert house_native.circles(graph) == [["base/a", "base/b", "base/c", "table/d"]]
    assert house_native.upward(graph) == [
        "cellar is on no floor",
        "base/c includes table/d",
        "bulk/e includes paper/f",
    ]
    assert house_native.circles({"base/a": {"base/b"}, "base/b": set()}) == []
