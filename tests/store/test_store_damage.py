"""A store damaged in any byte: refused by name, or right in every answer; it never takes us along."""

import random
from collections.abc import Callable

import pytest
from damage import DATABASE, Harm, counted, heads, outcomes, sampled, small_store, wrong
from seeds import seed_of
from sizes import sized

pytestmark = pytest.mark.sized

SAMPLES = sized(quick=40, full=150)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_store(tmp_path_factory.mktemp("harmed"))


def test_any_byte_that_steers_is_refused_or_harmless(folder, tell: Callable[[str], None]):
    """Each byte of both meta pages and of the heads of the index, a third of all pages' heads: a bit.

    In `make test` a part of these; make soak flips every bit of all of them.
    """
    seed = seed_of("DAMAGE")
    chance = random.Random(seed)
    harms = heads(folder, [1 << chance.randrange(8)])
    meta, database, index = (
        sized(quick=0.4, full=1),
        sized(quick=1 / 80, full=1 / 3),
        sized(quick=0.05, full=1),
    )
    shares = [
        (meta if harm.place < 2 * 4096 else database) if harm.file == DATABASE else index
        for harm in harms
    ]
    harms = [harm for harm, share in zip(harms, shares, strict=True) if chance.random() < share]
    found = outcomes(folder, harms)
    tell(f"damaged heads, DAMAGE_SEED={seed}: {counted(found)}")
    assert wrong(harms, found) == [], seed
    assert counted(found)["refused"] > sized(quick=20, full=100)


def test_any_byte_is_refused_or_harmless(folder, tell: Callable[[str], None]):
    """Bytes by chance, of all files: named and refused, or the store answers and takes writes."""
    seed = seed_of("DAMAGE")
    harms = sampled(folder, seed, SAMPLES)
    found = outcomes(folder, harms)
    tell(f"damaged bytes, DAMAGE_SEED={seed}: {counted(found)}")
    assert {harm.file for harm in harms} > {DATABASE, "lock"}
    assert wrong(harms, found) == [], seed


@pytest.mark.long
def test_damage_that_changed_an_answer_once_is_refused(folder):
    """The bytes that once brought an older state back, ended the process, or filled the disk.

    In turn: the version, last page and transaction of a meta page, the upper flags of pages, and
    the transactions in the list of free pages.
    """
    data = (folder / DATABASE).read_bytes()
    roots = {int.from_bytes(data[page * 4096 + 80 :][:8], "little") for page in (0, 1)}
    free = [Harm(DATABASE, root * 4096 + at, 128) for root in roots for at in range(4000, 4096)]
    places = [
        *(at + page * 4096 for page in (0, 1) for at in (*range(20, 24), *range(136, 152))),
        *(page * 4096 + 11 for page in range(2, len(data) // 4096)),
    ]
    harms = [h for bit in (1, 128) for h in heads(folder, [bit]) if h.place in places] + free
    found = outcomes(folder, harms)
    assert wrong(harms, found) == []
