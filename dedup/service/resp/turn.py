"""Probes of one turn of the event loop, of any connections, in one native call.

    reads that are nothing but probes of one form -> their values -> one search -> one answer for each read

A client repeats a command with other values. The bytes of such a read are compared with those of the command before,
and only the values are read; the digits of a sketch are decoded where something is near.

The rule kept here: the answers are those that each command would have had by itself. What is not of the form, and what
fails, is carried out by its connection, command by command.
"""

import asyncio
from array import array
from binascii import unhexlify
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from time import monotonic
from typing import Any, NamedTuple, Protocol, overload

from dedup.core.native import ffi, lib
from dedup.model.page import SKETCH_BYTES
from dedup.service.resp import protocol
from dedup.service.resp.client_session import Plans

__all__ = ["Form", "Turn"]

PROBES = 512  # of one native call
FORMS = 4096  # that are kept
_VALUE, _SKETCH = 16, 2 * SKETCH_BYTES  # digits


class Form(NamedTuple):
    """A DEDUP.PROBE as clients send it, and where its value and its sketch are."""

    arguments: list[bytes]
    command: bytes
    value_at: int
    sketch_at: int


class Client(Protocol):
    """A connection, as a turn sees it."""

    def probed(self, answer: bytes, now: float) -> None:
        """Write the answers of a read that was given to the turn."""

    def take_back(self, data: bytes) -> None:
        """Carry out a read that was given to the turn."""


class Read(NamedTuple):
    """Bytes of a connection, and how many probes they are."""

    client: Client
    data: bytes
    probes: int


class Turn:
    """The probes that are carried out together at the end of this turn."""

    def __init__(self, plans: Plans, done: Callable[[float, int], None]) -> None:
        """Done is called after each native call with its seconds and how many probes it was."""
        self._plans = plans
        self._done = done
        self._forms: dict[tuple[bytes, ...], Form | None] = {}
        self._form: Form | None = None
        self._reads: list[Read] = []
        self._values = ffi.new("uint64_t[]", PROBES)
        self._count = 0
        self._began = 0.0

    def form_of(self, arguments: list[bytes]) -> Form | None:
        """Return the form of a DEDUP.PROBE that was carried out; None if its options ask for more than neighbours."""
        if len(arguments[2]) != _VALUE or len(arguments[3]) != _SKETCH:
            return None
        key = (arguments[1], *arguments[4:])
        if key in self._forms:
            return self._forms[key]
        plan = self._plans.of(arguments)
        form = None
        if plan is None or not (plan.page or plan.fields or plan.domain is not None):
            words = [protocol.bulk(argument) for argument in arguments]
            before = b"*%d\r\n" % len(words) + b"".join(words[:2])
            value_at = len(before) + len(b"$16\r\n")
            sketch_at = len(before) + len(words[2]) + len(b"$74\r\n")
            form = Form(arguments, before + b"".join(words[2:]), value_at, sketch_at)
        if len(self._forms) >= FORMS:
            self._forms.clear()
        self._forms[key] = form
        return form

    def take(self, client: Client, form: Form, data: bytes, now: float) -> bool:
        """Take a read if it is nothing but probes of a form; the client is called back once this turn ends."""
        if form is not self._form or self._count + len(data) // len(form.command) > PROBES:
            self.run()
            self._form = form
        count = lib.ndd_repeated_read(
            data,
            len(data),
            form.command,
            len(form.command),
            form.value_at,
            form.sketch_at,
            _SKETCH,
            self._values + self._count,
            PROBES - self._count,
        )
        if count * len(form.command) != len(data):
            return False
        if not self._reads:
            self._began = now
            asyncio.get_running_loop().call_soon(self.run)
        self._reads.append(Read(client, data, count))
        self._count += count
        return True

    def run(self) -> None:
        """Carry out what was taken."""
        reads, count, form = self._reads, self._count, self._form
        if not reads:
            return
        assert form is not None
        values = array("Q", bytes(ffi.buffer(self._values, 8 * count)))
        self._reads, self._count = [], 0
        try:
            answers = self._answers(form, values, reads)
        except Exception:  # any: each is carried out by itself, and has its own error
            for client, data, _ in reads:
                client.take_back(data)
            return
        now = monotonic()
        for read, answer in zip(reads, answers, strict=True):
            read.client.probed(answer, now)
        self._done(now - self._began, count)

    def _answers(self, form: Form, values: "array[int]", reads: Sequence[Read]) -> list[bytes]:
        plan = self._plans.of(form.arguments)
        nothing = [protocol.EMPTY * read.probes for read in reads]
        if plan is None:
            return nothing
        starts = [0]
        for read in reads:
            starts.append(starts[-1] + read.probes)
        commands = self._plans.commands
        sketches = _Sketches(form, reads, starts)
        found = commands.probe_many(plan.detector, values, sketches, plan.recipe, None, plan.most)
        if not found:
            return nothing
        each = [protocol.EMPTY] * len(values)
        for i, near in found.items():
            each[i] = protocol.neighbours(near)
        answers = [b"".join(each[a:b]) for a, b in pairwise(starts)]
        commands.check_answer(max(map(len, answers)))
        return answers


class _Sketches(Sequence[bytes]):
    """The sketches of the probes of some reads, decoded where they are asked for."""

    def __init__(self, form: Form, reads: Sequence[Read], starts: Sequence[int]) -> None:
        self._form, self._reads, self._starts = form, reads, starts

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...

    def __getitem__(self, index: Any) -> Any:
        which = bisect_right(self._starts, index) - 1
        form = self._form
        at = (index - self._starts[which]) * len(form.command) + form.sketch_at
        return unhexlify(self._reads[which].data[at : at + _SKETCH])
