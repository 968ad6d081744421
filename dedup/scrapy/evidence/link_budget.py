"""The link budget: how many new requests near-duplicates may send in a row that lead to nothing new.

    the new requests of a near-duplicate that brought no new item -> pay()? they pass : they wait
    something new came by way of a request that a budget paid for -> news(): some of those that wait go out
    nothing is left to do -> rest(): what the budgets can pay, and of a spent one the newest few

So endless calendars, facets and mazes end. There is one budget for each callback and site.

Invariant: memory is bounded: BUDGETS, and WAITING requests; further ones are lost, and counted. What waits at the end is
listed, and what is lost at once (DEDUP_DROPPED).
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Literal, NamedTuple, TypeVar

from dedup.scrapy.evidence.enough import FEW, MANY

LINKS = 80  # requests of one budget in a row that lead to nothing new
BUDGETS = 10_000
WAITING = 5000  # requests, of all budgets

R = TypeVar("R")


class Budget(NamedTuple):
    """Who pays for requests: a callback on a site."""

    callback: str
    site: str

    def __str__(self) -> str:
        return f"link budget of {self.callback} on {self.site}"


class LinkBudget(Generic[R]):
    """The link budgets of one namespace; R is a request."""

    def __init__(self) -> None:
        """Begin with nothing spent."""
        self._spent: dict[Budget, int] = {}
        # how often the newest went out, unpaid, since the last news
        self._last = Counter[Budget]()
        self._waiting: dict[Budget, deque[R]] = {}
        self._waits = 0
        self.lost = Counter[Budget]()  # requests beyond those that can wait

    def pay(self, budget: Budget, request: R) -> Literal["paid", "waits", "lost"]:
        """Pay a request, which is sent; else it waits, or is lost where too many do."""
        if self._spent.get(budget, 0) < LINKS and len(self._spent) < BUDGETS:
            self._spent[budget] = self._spent.get(budget, 0) + 1
            return "paid"
        if self._waits >= WAITING:
            self.lost[budget] += 1
            return "lost"
        self._waiting.setdefault(budget, deque()).append(request)
        self._waits += 1
        return "waits"

    def news(self, budget: Budget) -> list[R]:
        """Note that a request of a budget led to something new; return waiting ones, to be sent."""
        self._spent.pop(budget, None)
        self._last.pop(budget, None)
        return self._send(budget, MANY)

    def rest(self) -> list[R]:
        """Return waiting requests, to be sent when nothing else is left to do.

        Those that their budgets can pay; FEW times the newest FEW of one that cannot: in a crawl that goes breadth
        first, what is new may lie below.
        """
        found: list[R] = []
        for budget in [*self._waiting]:
            left = LINKS - self._spent.get(budget, 0)
            found += self._send(budget, left)
            if left <= 0 and self._last[budget] < FEW:
                self._last[budget] += 1
                found += self._send(budget, FEW, newest=True)
        return found

    def _send(self, budget: Budget, most: int, *, newest: bool = False) -> list[R]:
        """Charge waiting requests of a budget, at most so many, and return them."""
        held = self._waiting.get(budget, deque())
        found = [held.pop() if newest else held.popleft() for _ in range(min(most, len(held)))]
        if not held:
            self._waiting.pop(budget, None)
        self._waits -= len(found)
        if found:
            self._spent[budget] = self._spent.get(budget, 0) + len(found)
        return found

    @property
    def waiting(self) -> Counter[Budget]:
        """How many requests wait, by budget; and those beyond the number that can."""
        waits = Counter({budget: len(held) for budget, held in self._waiting.items()})
        return waits + self.lost

    def held(self) -> Iterator[tuple[Budget, R]]:
        """Yield the requests that wait."""
        for budget, requests in self._waiting.items():
            for each in [*requests]:
                yield budget, each

    def forget(self, is_made: Callable[[R], bool]) -> None:
        """Forget the waiting requests that were made by another way."""
        for budget, requests in self._waiting.items():
            left = deque(each for each in requests if not is_made(each))
            self._waits -= len(requests) - len(left)
            self._waiting[budget] = left

    def resume(self, waiting: Iterable[tuple[Budget, R]]) -> None:
        """Go on with the requests that waited when an earlier run of this crawl ended."""
        for budget, request in waiting:
            self._spent[budget] = LINKS
            self.pay(budget, request)
