"""Results of probes, whichever table was probed: native answers, and the values made of them.

Invariants: a native answer is used by one thread at a time, and its memory is kept for the next probe
unless it is large. A single probe makes no array; numpy is imported for a batch.
"""

from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dedup.core.native import check, ffi, lib
from dedup.core.numbers import Array, Flags, pointer, zeros

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    _Probed = tuple[Array, Array, npt.NDArray[np.uint8]]
else:
    _Probed = tuple

_MATCH = Struct("=QQI4x")  # a native match
KEPT = 100_000  # matches of an answer whose memory is kept for the next probe


class Match(msgspec.Struct, frozen=True):
    """A stored document whose value lies within k of a probed one; the distance is in bits."""

    document: int
    value: int
    distance: int


T = TypeVar("T")


class Nearest(list[tuple[T, int]]):
    """The neighbours of a value with distances, nearest first; cut is True when a limit left some out."""

    cut: bool = False


class Matches(list[Match]):
    """The matches of a probe; cut is True when a limit left others out."""

    cut: bool = False


class ProbedMany(_Probed):
    """The arrays (offsets, documents, distances) of a batch of probes (Table.probe_many).

    cut is a bool array with one entry for each probed value: True where a limit left matches out.
    """

    cut: Flags


class Answer:
    """A native answer, the addresses of its contents, and space for a single value to probe."""

    def __init__(self) -> None:
        handle = ffi.new("ndd_answer **")
        check(lib.ndd_answer_open(handle), "probing a table")
        self.handle = ffi.gc(handle[0], lib.ndd_answer_close)
        self.offsets, self.matches = ffi.new("uint64_t **"), ffi.new("ndd_match **")
        self.query = ffi.new("uint64_t[1]")

    def single(self, places: int = 1) -> Matches:
        """Return the matches of a single probe, in one place after the other; cut if a limit left others out of any."""
        lib.ndd_answer_get(self.handle, self.offsets, self.matches)
        count = self.offsets[0][places]
        if not count:
            return Matches()
        found = self.matches[0]
        matches = Matches(
            [Match(found[i].document, found[i].value, found[i].distance) for i in range(count)]
        )
        matches.cut = any(lib.ndd_answer_cut(self.handle)[0:places])
        return matches

    def each(self, count: int, places: int = 1) -> dict[int, Matches]:
        """Return the matches of each of `count` probes that has any, by its index, in one place after the other.

        The answer holds those of all probes in the first place, then in the next. cut is True of one that a
        limit left others out of, in any place.
        """
        lib.ndd_answer_get(self.handle, self.offsets, self.matches)
        held = self.offsets[0][count * places]
        found: dict[int, Matches] = {}
        if not held:
            return found
        queries = zeros(held)
        lib.ndd_answer_queries(self.handle, count * places, pointer(queries))
        matches = _MATCH.iter_unpack(ffi.buffer(self.matches[0], held * _MATCH.size))
        for query, (document, value, distance) in zip(queries, matches, strict=True):
            i = query % count
            if i not in found:
                found[i] = Matches()
            found[i].append(Match(document, value, distance))
        cut = bytes(ffi.buffer(lib.ndd_answer_cut(self.handle), count * places))
        query = cut.find(1)
        while query >= 0:
            found[query % count].cut = True
            query = cut.find(1, query + 1)
        return found


class Answers:
    """The answers of a table that no thread uses at the moment."""

    def __init__(self) -> None:
        self.free: list[Answer] = []

    def take(self) -> Answer:
        """Return one for a probe to fill; matches(), each() or arrays() takes it back."""
        try:
            return self.free.pop()
        except IndexError:
            return Answer()

    def matches(self, answer: Answer) -> Matches:
        """Return the matches of a single probe, which filled the answer."""
        matches = answer.single()
        self._give_back(answer, len(matches))
        return matches

    def each(self, answer: Answer, count: int) -> dict[int, Matches]:
        """Return the matches of each of `count` probes that has any, by its index."""
        found = answer.each(count)
        self._give_back(answer, sum(map(len, found.values())))
        return found

    def arrays(self, answer: Answer, count: int) -> ProbedMany:
        """Return the matches of a batch of `count` probes, which filled the answer."""
        lib.ndd_answer_get(answer.handle, answer.offsets, answer.matches)
        offsets = as_array(answer.offsets[0], count + 1, "u8").copy()
        matches = as_array(answer.matches[0], int(offsets[-1]), match_dtype())
        documents, distances = matches["document"].copy(), matches["distance"].astype("u1")
        probed = ProbedMany((offsets, documents, distances))
        probed.cut = as_array(lib.ndd_answer_cut(answer.handle), count, "?").copy()
        self._give_back(answer, len(matches))
        return probed

    def _give_back(self, answer: Answer, matches: int) -> None:
        if matches <= KEPT:
            self.free.append(answer)


@cache
def match_dtype() -> "np.dtype[Any]":
    """Return the numpy dtype of a native match."""
    import numpy as np

    return np.dtype([("document", "u8"), ("value", "u8"), ("distance", "u4"), ("reserved", "u4")])


def as_array(memory: Any, count: int, dtype: "npt.DTypeLike") -> "npt.NDArray[Any]":
    """Return native memory as an array, without a copy."""
    import numpy as np

    kind = np.dtype(dtype)
    if count == 0:
        return np.empty(0, kind)
    return np.frombuffer(ffi.buffer(memory, count * kind.itemsize), kind)
