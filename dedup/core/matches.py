"""What probes give back, whichever table was probed: native answers, and what is made of them.

The rule kept here: a native answer is for one thread at a time, and its memory is kept for the next
probe, unless it is much.
"""

from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.core.native import check, ffi, lib
from dedup.core.numbers import Array

__all__ = ["Answer", "Answers", "Found", "Match", "Matches", "Nearest", "ProbedMany", "as_array"]

KEPT = 100_000  # matches of an answer whose memory is kept for the next probe
MATCH = np.dtype([("document", "u8"), ("value", "u8"), ("distance", "u4"), ("reserved", "u4")])


class Match(msgspec.Struct, frozen=True):
    """A stored document whose value lies within k of a probed one; the distance is in bits."""

    document: int
    value: int
    distance: int


T = TypeVar("T")


class Nearest(list[tuple[T, int]]):
    """What is near a value, with distances, nearest first; cut is True when a limit left some out."""

    cut: bool = False


class Matches(list[Match]):
    """The matches of a probe; cut is True when a limit left others out."""

    cut: bool = False


class ProbedMany(tuple[Array, Array, npt.NDArray[np.uint8]]):  # noqa: SLOT001 - it has an attribute
    """The arrays (offsets, documents, distances) of a batch of probes (Table.probe_many).

    cut is a bool array with one entry for each probed value: True where a limit left matches out.
    """

    cut: npt.NDArray[np.bool_]


class Found:
    """The matches of a batch of n probes: those of probe i stand from offsets[i] to offsets[i + 1].

    offsets  uint64 of shape (n + 1,)
    matches  structured array with the fields document, value (uint64) and distance (uint32)
    cut      bool of shape (n,): where a limit left matches out
    """

    __slots__ = ("cut", "matches", "offsets")

    def __init__(
        self, offsets: Array, matches: npt.NDArray[Any], cut: npt.NDArray[np.bool_]
    ) -> None:
        self.offsets, self.matches, self.cut = offsets, matches, cut

    def probed(self) -> ProbedMany:
        """Return this as probe_many() does."""
        matches = self.matches
        documents, distances = matches["document"].copy(), matches["distance"].astype(np.uint8)
        probed = ProbedMany((self.offsets, documents, distances))
        probed.cut = self.cut
        return probed


class Answer:
    """A native answer, where it tells what it holds, and room for a single value to probe."""

    def __init__(self) -> None:
        handle = ffi.new("ndd_answer **")
        check(lib.ndd_answer_open(handle), "probing a table")
        self.handle = ffi.gc(handle[0], lib.ndd_answer_close)
        self.offsets, self.matches = ffi.new("uint64_t **"), ffi.new("ndd_match **")
        self.query = ffi.new("uint64_t[1]")


class Answers:
    """The answers of a table that no thread uses at the moment."""

    def __init__(self) -> None:
        self._free: list[Answer] = []

    def take(self) -> Answer:
        """Return one for a probe to fill; matches() or found() takes it back."""
        try:
            return self._free.pop()
        except IndexError:
            return Answer()

    def matches(self, answer: Answer, probes: int = 1) -> Matches:
        """Return the matches of a single probe, or of several as one, which filled the answer."""
        lib.ndd_answer_get(answer.handle, answer.offsets, answer.matches)
        count = answer.offsets[0][probes]
        if not count:
            self._free.append(answer)
            return Matches()
        found = answer.matches[0]
        matches = Matches(
            [Match(found[i].document, found[i].value, found[i].distance) for i in range(count)]
        )
        matches.cut = any(lib.ndd_answer_cut(answer.handle)[0:probes])
        self._give_back(answer, count)
        return matches

    def found(self, answer: Answer, count: int) -> Found:
        """Return what a batch of `count` probes found, which filled the answer."""
        lib.ndd_answer_get(answer.handle, answer.offsets, answer.matches)
        offsets = as_array(answer.offsets[0], count + 1, np.dtype(np.uint64)).copy()
        matches = as_array(answer.matches[0], int(offsets[-1]), MATCH).copy()
        cut = as_array(lib.ndd_answer_cut(answer.handle), count, np.dtype(np.bool_)).copy()
        self._give_back(answer, len(matches))
        return Found(offsets, matches, cut)

    def _give_back(self, answer: Answer, matches: int) -> None:
        if matches <= KEPT:
            self._free.append(answer)


def as_array(memory: Any, count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return native memory as an array, without a copy."""
    if count == 0:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(ffi.buffer(memory, count * dtype.itemsize), dtype=dtype)
