"""One ledger: by class, what look-alike pages brought, and how many requests led to nothing.

    a look-alike was compared -> same(), or new(): its class is spoiled, and what it dropped comes back
    the next one -> may_drop()? drop() : it is compared (a look)
    its new requests -> afford()? charge() : wait(); something new came -> news(): some of these go out

A class is the callback, the site, which parts of the two pages differ, and how their URLs differ. After n look-alikes
of a class that brought nothing new, and none that did, the next one is wanted with a chance of PRIOR / (n + PRIOR).
A class drops pages until the sum of these chances exceeds `risk`; then one is compared. So `risk` bounds the number of
wanted pages that are expected among those dropped since the last look. A class that brought something new once is
compared from then on. When nothing else is left to do, the last page of each class that dropped LONG and more without
a look is compared: sites change by section and by time, which no chance foresees.

Accounts hold the budget for requests: one for each difference of a request's URL from its page's, one for all of a
callback and site. Each new request that a look-alike makes costs one, until something new comes by way of such a request.

Invariants:
  - A class of which no look-alike brought known items drops nothing; nor does any class while REMEMBERED pages wait to
    be sent again. So every page that was dropped can come back.
  - Memory is bounded: CLASSES and ACCOUNTS, REMEMBERED dropped pages and WAITING requests.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

import msgspec

from dedup.scrapy.evidence.difference import LETTERS, in_words
from dedup.scrapy.evidence.enough import FEW

PRIOR = 0.1
CLASSES = 10_000
LONG = 10  # pages that a class dropped without a look, from which on one at the crawl's end is worth its fetch
REMEMBERED = 5000  # dropped pages, of all classes
EXAMPLES = 3

BUDGET = 80  # requests of one account in a row that lead to nothing new
COMMON_BUDGET = 160  # of all accounts of a callback and site
ACCOUNTS = 10_000
WAITING = 5000  # requests, of all accounts
AT_ONCE = 10  # waiting requests that go out when something new came

R = TypeVar("R")


class Class(NamedTuple):
    """A class of look-alikes; parts are letters (difference.LETTERS)."""

    callback: str
    site: str
    parts: str
    shape: str

    def __str__(self) -> str:
        """Return the class for people: "parse_item, parameter `sid` added (menu, header or footer differs)"."""
        parts = ", ".join(LETTERS[letter] for letter in self.parts if letter in LETTERS)
        return f"{self.callback}, {in_words(self.shape)}{f' ({parts})' if parts else ''}"


class Account(NamedTuple):
    """Who pays for requests: by how their URLs differ from their page's; without a shape: all of a callback and site."""

    callback: str
    site: str
    shape: str = ""


class Record(msgspec.Struct):
    """What the look-alikes of a class brought.

    same, new  how many brought nothing new, and something
    staked     the wanted pages to be expected among those dropped since the last look
    unseen     pages that were dropped since the last look
    fields     of items in which those that brought something new differed, by the hashes of their names; None: in
               something else, too
    dropped, again  pages of this crawl that were dropped, and of these sent again
    examples   of the last that brought something new: the page, its original, the fields
    """

    same: int = 0
    new: int = 0
    staked: float = 0.0
    fields: frozenset[int] | None = frozenset()
    dropped: int = 0
    again: int = 0
    examples: list[tuple[str, str, tuple[str, ...]]] = []
    unseen: int = 0

    @property
    def risk(self) -> float:
        """The chance that the next page of the class is wanted, if none was until now."""
        return PRIOR / (self.same + PRIOR)


class Ledger(Generic[R]):
    """The ledger of one namespace; R is a request."""

    def __init__(self, risk: float) -> None:
        """Begin with nothing. risk: wanted pages that a class may be expected to drop between two looks."""
        self._risk = risk
        self.classes: dict[Class, Record] = {}
        self._dropped: dict[Class, list[R]] = {}
        self._count = 0
        self._spent: OrderedDict[Account, int] = OrderedDict()
        self._waiting: dict[Account, deque[R]] = {}
        self._waits = 0
        # how often the newest waiting requests of a callback and site were sent since the last news
        self._last: Counter[Account] = Counter()
        self.changed = False  # since that was last set to False

    # --------------------------------------------------------------------------------- pages

    def may_drop(self, name: Class, volatile: frozenset[int] = frozenset()) -> bool:
        """Whether a page of a class may be dropped unparsed; else it is a look.

        No page of it brought something new, but for fields that are known to be volatile by now.
        """
        record = self.classes.get(name)
        if record is None or self._count >= REMEMBERED:
            return False
        is_spoiled = record.new and (record.fields is None or record.fields - volatile)
        return not is_spoiled and record.staked + record.risk <= self._risk

    def drop(self, name: Class, page: R | None) -> None:
        """Stake a page that is dropped, and remember it, if it is."""
        record = self._of(name)
        record.staked += record.risk
        record.dropped += 1
        record.unseen += 1
        if page is not None:
            self._dropped.setdefault(name, []).append(page)
            self._count += 1
        self.changed = True

    def look(self, name: Class | None) -> None:
        """Note that a page of a class is compared."""
        if name in self.classes:
            self.classes[name].staked, self.classes[name].unseen = 0.0, 0

    def last_looks(self) -> list[R]:
        """Return the last page of each class that dropped many since its last look, to be sent and compared."""
        found = []
        for name, record in self.classes.items():
            if record.unseen >= LONG and self._dropped.get(name):
                record.staked, record.unseen = self._risk, 0
                found.append(self._dropped[name].pop())
                self._count -= 1
                self.changed = True
        return found

    def same(self, name: Class) -> None:
        """Note a page that brought known items, and nothing else."""
        self._of(name).same += 1
        self.changed = True

    def new(
        self, name: Class, example: tuple[str, str, tuple[str, ...]], fields: frozenset[int] | None
    ) -> list[R]:
        """Note a page that brought something new; return the pages that its class dropped, to be sent again.

        fields  in which its items differ from its original's; None: there is more to it
        """
        record = self._of(name)
        record.new += 1
        record.staked, record.unseen = 0.0, 0
        if fields is None or record.fields is None:
            record.fields = None
        else:
            record.fields |= fields
        record.examples = [*record.examples, example][-EXAMPLES:]
        pages = self._dropped.pop(name, [])
        record.again += len(pages)
        self._count -= len(pages)
        self.changed = True
        return pages

    def _of(self, name: Class) -> Record:
        record = self.classes.get(name)
        if record is None:
            record = Record()
            if len(self.classes) < CLASSES:  # further ones are compared, and not counted
                self.classes[name] = record
        return record

    # ------------------------------------------------------------------------------ requests

    def afford(self, account: Account) -> int:
        """Return how many requests more an account may pay."""
        common = COMMON_BUDGET - self._spent.get(account._replace(shape=""), 0)
        return max(0, min(BUDGET - self._spent.get(account, 0), common))

    def charge(self, account: Account, requests: int) -> None:
        """Pay requests that are sent."""
        for each in (account, account._replace(shape="")):
            self._spent[each] = self._spent.pop(each, 0) + requests
        while len(self._spent) > ACCOUNTS:
            self._spent.popitem(last=False)

    def wait(self, account: Account, request: R) -> bool:
        """Remember a request that its account cannot pay; False if too many wait."""
        if self._waits >= WAITING:
            return False
        self._waiting.setdefault(account, deque()).append(request)
        self._waits += 1
        self.changed = True
        return True

    def news(self, account: Account) -> list[R]:
        """Note that a request of an account led to something new; return waiting ones, to be sent."""
        for each in (account, account._replace(shape="")):
            self._spent.pop(each, None)
            self._last.pop(each, None)
        return self._send(account, AT_ONCE)

    def rest(self) -> list[R]:
        """Return waiting requests, to be sent when nothing else is left to do.

        Those that their accounts can pay; where there are none, FEW times the newest FEW of a callback and site: in a
        crawl that goes breadth first, what is new may lie below.
        """
        found = [
            request
            for account in [*self._waiting]
            for request in self._send(account, self.afford(account))
        ]
        if found:
            return found
        held: dict[Account, list[Account]] = {}
        for account in self._waiting:
            held.setdefault(account._replace(shape=""), []).append(account)
        for whole, accounts in held.items():
            if self._last[whole] < FEW and len(self._last) <= ACCOUNTS:
                self._last[whole] += 1
                for account in accounts:
                    found += self._send(account, -(-FEW // len(accounts)), newest=True)
        return found

    def _send(self, account: Account, most: int, *, newest: bool = False) -> list[R]:
        """Charge waiting requests of an account, at most so many, and return them."""
        waiting = self._waiting.get(account)
        if not waiting or not most:
            return []
        take = waiting.pop if newest else waiting.popleft
        found = [take() for _ in range(min(most, len(waiting)))]
        if not waiting:
            del self._waiting[account]
        self._waits -= len(found)
        self.charge(account, len(found))
        self.changed = True
        return found

    @property
    def closed(self) -> Counter[Account]:
        """The waiting requests by account."""
        return Counter({account: len(held) for account, held in self._waiting.items()})

    # -------------------------------------------------------------------- from run to run

    def remembered(self) -> Iterator[tuple[Class, R]]:
        """Yield the dropped pages that may come back."""
        for name, pages in self._dropped.items():
            for page in pages:
                yield name, page

    def waiting(self) -> Iterator[tuple[Account, R]]:
        """Yield the requests that wait."""
        for account, held in self._waiting.items():
            for request in held:
                yield account, request

    def take(
        self,
        classes: Mapping[Class, Record],
        dropped: Iterable[tuple[Class, R]] = (),
        waiting: Iterable[tuple[Account, R]] = (),
    ) -> None:
        """Go on with what an earlier crawl, or an earlier run of this one, found."""
        for name, record in classes.items():
            if len(self.classes) < CLASSES:
                record.dropped, record.again = 0, 0  # of this run
                self.classes[name] = record
        for name, page in dropped:
            self._dropped.setdefault(name, []).append(page)
            self._count += 1
        for account, request in waiting:
            self.charge(account, BUDGET)
            self.wait(account, request)
        self.changed = False
