"""The probes of one iteration of the event loop, carried out together.

    bytes, nothing but probes of the template of the connection's last one -> their values
        -> one search for all connections -> one answer for each read

A client repeats a command with other values. The bytes of such a read are compared with those of the command before,
and only the values are read; the digits of a sketch are decoded where something is near.

Invariant: the answers of a batch are those that each command would have had by itself: what is not of the template, and
what fails, is carried out by its connection, command by command.
"""

import asyncio
from array import array
from binascii import unhexlify
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from time import monotonic
from typing import NamedTuple, Protocol, cast

from dedup.core.native import ffi, lib
from dedup.model.page import SKETCH_BYTES
from dedup.service.core.operations import PROBES
from dedup.service.resp.commands import of_batch
from dedup.service.resp.plans import Plans
from dedup.wire import resp

TEMPLATES = 4096  # that are kept: commands with other options, or namespaces, than the last ones
_VALUE, _SKETCH = 16, 2 * SKETCH_BYTES  # digits


class ProbeTemplate(NamedTuple):
    """A DEDUP.PROBE as clients send it, and where its value and its sketch are."""

    arguments: list[bytes]
    command: bytes
    value_at: int
    sketch_at: int


class ProbeSender(Protocol):
    """Who adds a read to the batch."""

    def probed(self, answer: bytes, now: float) -> None:
        """Write the answers of a read that was added to the batch."""

    def take_back(self, data: bytes) -> None:
        """Carry out a read that was added to the batch."""


class ProbeRead(NamedTuple):
    """Bytes of a client, and how many probes they are."""

    client: ProbeSender
    data: bytes
    probes: int


class ProbeBatch:
    """PROBEs of all connections in one iteration of the event loop, run as one native call."""

    def __init__(self, plans: Plans, done: Callable[[float, int], None]) -> None:
        """done(seconds, probes) is called after each native call."""
        self._plans = plans
        self._done = done
        self._templates: dict[tuple[bytes, ...], ProbeTemplate | None] = {}
        self._template: ProbeTemplate | None = None
        self._reads: list[ProbeRead] = []
        self._values = ffi.new("uint64_t[]", PROBES)
        self._count = 0
        self._began = 0.0

    def template_of(self, arguments: list[bytes]) -> ProbeTemplate | None:
        """Return the template of a DEDUP.PROBE that was carried out; None if its options ask for more than neighbours."""
        if len(arguments[2]) != _VALUE or len(arguments[3]) != _SKETCH:
            return None
        key = (arguments[1], *arguments[4:])
        if key in self._templates:
            return self._templates[key]
        plan = self._plans.of(arguments)
        template, given = None, plan.given
        if not (given.page or given.fields or given.domain is not None):
            words = [resp.bulk(argument) for argument in arguments]
            before = b"*%d\r\n" % len(words) + b"".join(words[:2])
            value_at = len(before) + len(b"$16\r\n")
            sketch_at = len(before) + len(words[2]) + len(b"$74\r\n")
            template = ProbeTemplate(arguments, before + b"".join(words[2:]), value_at, sketch_at)
        if len(self._templates) >= TEMPLATES:
            self._templates.clear()
        self._templates[key] = template
        return template

    def take(self, client: ProbeSender, template: ProbeTemplate, data: bytes, now: float) -> bool:
        """Add a read if it is nothing but probes of a template; the client is called back at the end of this iteration."""
        if (
            template is not self._template
            or self._count + len(data) // len(template.command) > PROBES
        ):
            self.run()
            self._template = template
        count = lib.ndd_repeated_read(
            data,
            len(data),
            template.command,
            len(template.command),
            template.value_at,
            template.sketch_at,
            _SKETCH,
            self._values + self._count,
            PROBES - self._count,
        )
        if count * len(template.command) != len(data):
            return False
        if not self._reads:
            self._began = now
            asyncio.get_running_loop().call_soon(self.run)
        self._reads.append(ProbeRead(client, data, count))
        self._count += count
        return True

    def run(self) -> None:
        """Carry out what was taken."""
        reads, count, template = self._reads, self._count, self._template
        if not reads:
            return
        assert template is not None
        values = array("Q", bytes(ffi.buffer(self._values, 8 * count)))
        self._reads, self._count = [], 0
        try:
            answers = self._answers(template, values, reads)
        except Exception:  # noqa: BLE001 - becomes the answer of the command at fault
            for client, data, _ in reads:
                client.take_back(data)
            return
        now = monotonic()
        for read, answer in zip(reads, answers, strict=True):
            read.client.probed(answer, now)
        self._done(now - self._began, count)

    def _answers(
        self, template: ProbeTemplate, values: "array[int]", reads: Sequence[ProbeRead]
    ) -> list[bytes]:
        plan = self._plans.of(template.arguments)
        starts = [0]
        for read in reads:
            starts.append(starts[-1] + read.probes)
        commands = self._plans.commands
        sketches = cast(Sequence[bytes], _Sketches(template, reads, starts))
        found = commands.probe_many(
            plan.detector, values, sketches, plan.recipe, None, plan.given.count
        )
        if not found:
            return [resp.EMPTY * read.probes for read in reads]
        each = of_batch(found, len(values))
        answers = [b"".join(each[a:b]) for a, b in pairwise(starts)]
        commands.check_answer(max(map(len, answers)))
        return answers


class _Sketches:
    """The sketches of the probes of some reads, decoded where they are asked for."""

    def __init__(
        self, template: ProbeTemplate, reads: Sequence[ProbeRead], starts: Sequence[int]
    ) -> None:
        self._template, self._reads, self._starts = template, reads, starts

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> bytes:
        which = bisect_right(self._starts, index) - 1
        template = self._template
        at = (index - self._starts[which]) * len(template.command) + template.sketch_at
        return unhexlify(self._reads[which].data[at : at + _SKETCH])
