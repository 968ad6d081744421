"""Files with a checksum: replaced atomically, refused when a byte is another."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.core.files import read_checked, write_checked
from dedup.model.errors import StoreDamaged


class Position(msgspec.Struct, frozen=True):
    offset: int
    names: list[str] = []
    version: int = 1

    def __post_init__(self):
        if self.version != 1:
            raise ValueError(f"expected version 1, got {self.version}")


@given(st.integers(0, 2**63 - 1), st.lists(st.text(max_size=20), max_size=5))
def test_what_was_written_is_read(tmp_path_factory, offset, names):
    path = tmp_path_factory.mktemp("checked") / "position.json"
    write_checked(path, Position(offset, names))
    assert read_checked(path, Position) == Position(offset, names)
    assert list(path.parent.iterdir()) == [path]


def test_no_file_is_none(tmp_path):
    assert read_checked(tmp_path / "position.json", Position) is None


def test_every_changed_or_missing_byte_is_refused(tmp_path):
    path = tmp_path / "position.json"
    write_checked(path, Position(7, ["a"]))
    sound = path.read_bytes()
    for i in range(len(sound)):
        for damaged in (sound[:i], sound[:i] + bytes([sound[i] ^ 1]) + sound[i + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(StoreDamaged, match=r"position\.json is damaged: .*; restore it"):
                read_checked(path, Position, "restore it from a copy")


def test_another_version_or_form_is_refused_by_name(tmp_path):
    path = tmp_path / "position.json"
    for content, reason in (
        ({"offset": 1, "version": 2}, "expected version 1, got 2"),
        ({"offset": "one"}, "Expected `int`"),
        ([], "Expected `object`"),
    ):
        write_checked(path, content)
        with pytest.raises(StoreDamaged, match=reason):
            read_checked(path, Position)
