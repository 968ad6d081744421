"""What a scan compares a page with, where thousands of pages are near its value and say something else, too."""

import random

import pytest
from detecting import page

from dedup.core.table import Nearest
from dedup.model.page import Document
from dedup.scan.accepted import AcceptedLayers
from dedup.store import Store

UNLIKE = 2**256 - 1  # bits of a sketch that has nothing in common with page()'s


def documents(first: int, count: int) -> list[Document]:
    """Pages of one value whose texts are unlike that of page()."""
    return [
        Document(f"http://example.com/{i}", page(0, UNLIKE), "example.com", float(i))
        for i in range(first, first + count)
    ]


def test_every_layer_gives_each_document_once_whatever_the_limits(tmp_path):
    """Asked in steps, the layers together give what they give at once, and say whether there is more."""
    with Store.open(tmp_path / "base") as base, Store.open(tmp_path / "work") as work:
        memory = AcceptedLayers(base, work)
        for number, store in enumerate((base, work, memory)):
            for each in documents(number * 30, 10 * (number + 1)):
                store.insert(each)
        for each in (*documents(0, 5), *documents(30, 5)):  # which hide those of the stores
            memory.insert(each)
        all_at_once = memory.near(0, 3, 1000)
        assert not all_at_once.cut
        steps: Nearest[Document] = Nearest()
        for without, limit in ((0, 7), (7, 13), (13, 21), (21, 100)):
            some = memory.near(0, 3, limit, without)
            assert some.cut is (limit < 40)
            steps += some
        keys = [document.key for document, _ in steps]
        assert len(keys) == len(set(keys)) == 60
        assert sorted(keys) == sorted(document.key for document, _ in all_at_once)


@pytest.mark.long
def test_pages_that_are_looked_up_together_find_what_they_find_alone(tmp_path):
    """Whatever was accepted, or replaced, since they were looked up; two pages of one value or key, too."""
    chance = random.Random(9)
    with Store.open(tmp_path / "base") as base, Store.open(tmp_path / "work") as work:
        memory, alone = AcceptedLayers(base, work), AcceptedLayers(base, work)

        def some(count: int) -> list[Document]:
            return [
                Document(
                    f"http://example.com/{chance.randrange(400)}",
                    page(1 << chance.randrange(6) | chance.randrange(4) << 20),
                    "example.com",
                    chance.random(),
                )
                for _ in range(count)
            ]

        base.insert_many(some(60))
        for turn in range(12):
            batch = some(90)
            memory.look_up([(each.key, each.page.value) for each in batch], 3, 40)
            for each in batch:
                value = each.page.value
                for k, limit, skip in ((3, 40, 0), (3, 160, 40), (2, 40, 0)):
                    found, expected = (m.near(value, k, limit, skip) for m in (memory, alone))
                    assert found == expected
                    assert found.cut == expected.cut
                assert (each.key in memory) == (each.key in alone)
                memory.insert(each)
                alone.insert(each)
            if turn % 3 == 2:
                memory.commit()
                alone = AcceptedLayers(base, work)
                alone.resumed()
