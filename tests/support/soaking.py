"""The rounds of a soak, and what it says at its end, however that comes.

    with Soak("soak", 100) as soak:
        for number in soak.rounds():
            soak.killed["crawl"] += 1
            soak.round("12 parsed", wrong)       a line of progress, with all kills up to now

Settings of every soak: SOAK_ROUNDS, SOAK_MINUTES (no bound: after them no round begins), SOAK_SEED (by chance).

Progress goes to stderr, and so does the verdict: the kills, and what they cost. It comes after the last round,
at Ctrl-C, and at the SIGTERM of `timeout`; what goes on then is killed. The last line, on stdout, is a JSON object
of the figures. The exit code is 1 if anything was wrong, 130 or 143 if a signal came and nothing was.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from leftovers import watch

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ended(BaseException):
    """A signal that ends the soak."""


def _end(number: int, _frame: object) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # one is enough
    raise Ended(number)


class Soak:
    """A soak that is on.

    killed    kills so far, by what was killed
    figures   what else there is to count
    wrong     sentences
    """

    def __init__(self, name: str, rounds: int) -> None:
        self.name = name
        self.asked = int(os.environ.get("SOAK_ROUNDS", rounds))
        self.seed = int(os.environ.get("SOAK_SEED", random.randrange(10**9)))
        self.killed: Counter[str] = Counter()
        self.figures: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.done = 0
        self._began = time.monotonic()
        self._seconds = 60 * float(os.environ.get("SOAK_MINUTES", "inf"))

    def __enter__(self) -> Self:
        watch()
        for each in SIGNALS:
            signal.signal(each, _end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        ended = error.args[0] if isinstance(error, Ended) else 0
        if error is not None and not ended:
            said = "".join(traceback.format_exception(kind, error, trace))
            self.wrong.append(f"round {self.done + 1}: {said}")
        for text in self.wrong:
            say(f"WRONG {text}")
        seconds = round(time.monotonic() - self._began)
        say(
            f"{self.name}: {self.done} of {self.asked} rounds in {seconds} s"
            + (f", ended by {signal.Signals(ended).name}" if ended else "")
            + f": {self.kills}, {self.cost}"
        )
        figures = {"seed": self.seed, "rounds": self.done, "seconds": seconds, **self.figures}
        print(json.dumps(figures | {"killed": self.killed, "wrong": self.wrong}), flush=True)
        sys.exit(1 if self.wrong else 128 + ended if ended else 0)

    @property
    def kills(self) -> str:
        """The kills so far, in words."""
        each = ", ".join(f"{number} of a {what}" for what, number in sorted(self.killed.items()))
        return f"{self.killed.total()} kills" + (f" ({each})" if each else "")

    @property
    def cost(self) -> str:
        """What was wrong so far, in words."""
        return f"{len(self.wrong)} WRONG" if self.wrong else "nothing lost"

    def rounds(self) -> Iterator[int]:
        """Yield the numbers of the rounds, as long as there is time."""
        for number in range(self.asked):
            if time.monotonic() - self._began > self._seconds:
                return
            yield number

    def round(self, text: str, wrong: Sequence[str] = ()) -> None:
        """Say what a round came to."""
        self.done += 1
        self.wrong += wrong
        say(f"round {self.done} of {self.asked}, {self.killed.total()} kills, {self.cost}: {text}"
            + "".join(f"\n    WRONG {each}" for each in wrong))  # fmt: skip


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
