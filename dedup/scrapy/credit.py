"""How long near-duplicates are kept for their links (new_links) or their titles (other_title) alone.

Invariant: forgetting keeps pages; an original whose account is forgotten has full credit.

Such a page is kept on credit. Pages kept around one original share its account: kept pages are remembered too,
and the next page may be more like them than like the original. So do the pages of one class, and of each single
difference of it; a page is kept while all of these accounts have credit. A page that brought nothing costs one, and one for
each request that it yielded. When at least LEAST pages in a row have cost CREDIT, pages like these are dropped until
one brings something. So endless calendars, facets and mazes end, and an album goes on.

A page brings something if it, or a page that it leads to, brings a new item, or if it leads to a unique page with any
item. A unique page without items counts only if its callback never yielded one; otherwise, what it leads to may pay. That may come much later, so a page
that yields requests counts only when the first of these has come back; at most WAITING pages wait for that, with
CREDIT requests, others count at once. What was dropped for want of credit is remembered, and sent again when the
account has credit again. So the order of answers decides little.

All classes of a callback have an account, too: where the pages of many differences brought nothing (a shop's list by
sort order, direction, size, view), LEAST pages of each further one are enough. There, paths that differ by other words
are one difference: relative links without a base make paths that grow for ever.

A page whose callback makes its requests itself, without a link, costs OWN_COST: a spider that counts days or numbers
up has an end of its own, and what is behind a gap of a year is wanted.

Pages near to one that brought something do not pay for what was fetched far from any: a page has steps, the number of
pages in a row, from request to request, that brought nothing before it. Only pages of its own level of steps (STEPS)
and of nearer ones use the credit it needs. So the month after a gap is seen although the crawl went years ahead before.

Pages that are kept because none like them brought anything (barren) have a count of their own: they are kept while
they lead to something, as a captcha does.

Pages that a kept page leads to are kept on the same credit, even without new links of their own: the last photo of
an album has none.
"""

import re
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from scrapy import Request

from dedup.model.page import Verdict
from dedup.scrapy.counts import Counts
from dedup.scrapy.evidence import Class
from dedup.scrapy.responses import again, send

REASONS = frozenset(("new_links", "other_title", "barren", "items"))
CREDIT = 80  # pages kept, and requests of theirs, that brought nothing
OWN_COST = 0.22  # of a page whose callback makes its requests itself: a year of days without news
LEAST = 5  # pages kept
WAITING = 12  # pages of one account whose requests are waited for
STEPS = (
    1,
    2,
    3,
    5,
    8,
    13,
)  # up to which pages have the first and the second level; others have the third
DROPPED = 1000  # pages dropped for want of credit that one account remembers, the last ones
ALL_DROPPED = 5000
AGAIN = 10  # of them that are sent again when something was brought, the oldest ones
ALL_LEAST = 10  # the same of all classes of a callback; then LEAST of each are enough
ALL_CREDIT = 160
ACCOUNTS = 100_000  # pages and classes that have one, 300 bytes each; the oldest go

# In a shape: by which words a path is longer, shorter, or another.
_WORDS = re.compile(r"(?<!\S)(?![?/]|host:|https?:>)\S*>\S*|longer|shorter")

# In the meta of a request: the token of the page kept on credit that yielded it, or that led to it by way of
# unique pages without items.
_ON_CREDIT = "_dedup_on_credit"
_BELOW_CREDIT = "_dedup_below_credit"


def is_on_credit(noted: dict[str, Any]) -> bool:
    """Whether a page was kept on credit, by its meta["dedup"]."""
    return noted.get("reason") in REASONS and noted.get("of") is not None


class _Account:
    """The count of the pages kept on one account."""

    __slots__ = ("cost", "dropped", "led", "of_class", "own", "pages", "tried", "waiting")

    def __init__(self, *, of_class: bool) -> None:
        # by token, of pages whose requests have not come back: why kept, and how many requests
        self.waiting: dict[str, str] = {}
        self.led: dict[str, int] = {}
        self.own: set[str] = (
            set()
        )  # of the pages that wait, those without a link to what they asked for
        self.of_class = of_class
        self.dropped: deque[Request] = deque()
        self.begin_again()

    def closed(self, level: int, least: int = LEAST, credit: int = CREDIT) -> bool:
        """Whether the credit of pages of a level of steps is used up."""
        return sum(self.pages[: level + 1]) >= least and sum(self.cost[: level + 1]) >= credit

    def tried_at(self, level: int) -> int:
        """The number of pages of a level that brought nothing, or whose requests have not come back."""
        return sum(self.pages[: level + 1]) + len(self.waiting)

    def begin_again(self) -> None:
        """Reset the counts: something was brought."""
        self.pages = [0] * (len(STEPS) + 1)  # by level, that brought nothing, in a row
        self.cost = [0.0] * (len(STEPS) + 1)
        self.tried = 0  # the same, of barren pages

    def brought_nothing(self, token: str, reason: str, level: int) -> None:
        """Count a page."""
        cost: float = 1 + self.led.pop(token, 0)
        if token in self.own:
            self.own.discard(token)
            cost = OWN_COST
        if reason == "barren" and not self.of_class:
            self.tried += 1
        else:
            self.pages[level] += 1
            self.cost[level] += cost

    def ended(self, token: str, reason: str, level: int, *, followed: bool) -> None:
        """Note how the callback of a page ended that brought no item."""
        if followed and self._has_time():
            self.waiting[token] = reason
        else:
            self.brought_nothing(token, reason, level)

    def _has_time(self) -> bool:
        """Whether the requests of one more page are waited for."""
        led = self.led
        return len(self.waiting) < WAITING and sum(led.get(t, 0) for t in self.waiting) < CREDIT

    def came_back(self, token: str, level: int, *, sent: bool) -> None:
        """Note that a request that a page yielded brought nothing."""
        if not sent and token in self.led:
            self.led[token] -= 1
            if self.led[token] > 0:
                return  # others of its requests may come back
        reason = self.waiting.pop(token, None)
        if reason is not None:
            self.brought_nothing(token, reason, level)


class _Kept:
    """A page kept on credit."""

    __slots__ = ("accounts", "paid", "steps")

    def __init__(self, accounts: tuple[_Account, ...], steps: int) -> None:
        self.accounts = accounts
        self.steps = steps  # from the last page before it that brought something
        self.paid = False

    @property
    def level(self) -> int:
        return bisect_left(STEPS, self.steps)


class Credit:
    """The accounts: by the key of the page that pages are most like, and by the class of the pair."""

    def __init__(self, counts: Counts) -> None:
        """Give every page full credit."""
        self._accounts: OrderedDict[str | Class, _Account] = OrderedDict()
        self._of_page: OrderedDict[str, _Kept] = OrderedDict()  # by token
        self._counts = counts
        self.was_given = False  # as in few crawls
        self._dropped = 0
        # told the token of a kept page that brought something
        self.led_on: Callable[[str], None] = lambda token: None  # noqa: ARG005

    def closed(self, request: Request, original: str, name: Class) -> bool:
        """Whether the credit of pages like this one, or of their class, is used up."""
        return self._closed(request, original, name) is not None

    def _closed(self, request: Request, original: str, name: Class) -> _Account | None:
        level = bisect_left(STEPS, self._steps(request))
        names: tuple[str | Class, ...] = (original, name, *name.single())
        for account in map(self._accounts.get, names):
            if account is not None and account.closed(level):
                return account
        common = self._accounts.get(_all_classes(name))
        if common is None or not common.closed(level, ALL_LEAST, ALL_CREDIT):
            return None
        for account in map(self._accounts.get, (*names[1:], _all_paths(name))):
            if account is not None and account.tried_at(level) >= LEAST:
                return account
        return None

    def has_tries(self, original: str, tries: int) -> bool:
        """Whether fewer than `tries` barren pages around this original led to nothing."""
        account = self._accounts.get(original)
        return account is not None and account.tried < tries

    def kept(self, request: Request, verdict: Verdict, original: str, name: Class) -> None:
        """Note that a page was kept around an original, or around another kept page."""
        self.was_given = True
        account = self._accounts[verdict.key] = self._account(original)
        names = dict.fromkeys((name, *name.single(), _all_paths(name), _all_classes(name)))
        accounts = (account, *map(self._account, names))
        self._of_page[verdict.token or ""] = _Kept(accounts, self._steps(request))
        while len(self._accounts) > ACCOUNTS:
            self._accounts.popitem(last=False)
        while len(self._of_page) > ACCOUNTS:
            self._of_page.popitem(last=False)

    def dropped(self, request: Request, original: str, name: Class) -> None:
        """Remember a dropped page, if its credit is used up."""
        account = self._closed(request, original, name)
        if account is None:
            return
        if len(account.dropped) >= DROPPED or self._dropped >= ALL_DROPPED:
            if not account.dropped:
                return
            account.dropped.popleft()
            self._dropped -= 1
        account.dropped.append(request)
        self._dropped += 1

    def _account(self, name: str | Class) -> _Account:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = _Account(of_class=isinstance(name, Class))
        return account

    def _steps(self, request: Request) -> int:
        """Return how many pages in a row brought nothing, up to the page of a request."""
        page = self._of_page.get(_led_by(request))
        return 1 if page is None or page.paid else page.steps + 1

    def ended(
        self, noted: dict[str, Any], *, paid: bool, followed: bool, own: bool = False
    ) -> None:
        """Note how the callback of a page kept on credit ended: with a new item, with requests.

        own  whether the page has no link to any new page that it asked for
        """
        token = noted["token"]
        page = self._of_page.get(token)
        if page is None:
            return
        if paid:
            self._pay(token, page)
            return
        for account in page.accounts:
            if own:
                account.own.add(token)
            account.ended(token, noted["reason"], page.level, followed=followed)

    def has_paid(self, token: str) -> bool:
        """Whether a page kept on credit, or a request of it, has brought something."""
        page = self._of_page.get(token)
        return page is not None and page.paid

    def waits_for(self, token: str) -> bool:
        """Whether the requests of a page kept on credit are waited for, to know whether it brought something."""
        page = self._of_page.get(token)
        return page is not None and any(token in account.waiting for account in page.accounts)

    def _pay(self, token: str, page: _Kept) -> None:
        """Reset the accounts of a page that brought something."""
        page.paid = True
        self.led_on(token)
        for account in page.accounts:
            account.led.pop(token, None)
            account.waiting.pop(token, None)
            account.own.discard(token)
            account.begin_again()
        for account in page.accounts:
            for _ in range(min(AGAIN, len(account.dropped))):
                self._dropped -= 1
                self._counts.add("credit/again")
                send(self._counts.crawler, again(account.dropped.popleft()))

    # -------------------------------------------------- requests that such pages yielded

    def mark(
        self, request: Request, noted: dict[str, Any] | None, came_from: Request | None
    ) -> None:
        """Note in a request the page on credit that yielded it, or led to its page; else remove such a note."""
        meta = request.meta
        meta.pop(_ON_CREDIT, None)  # copied from another page's
        meta.pop(_BELOW_CREDIT, None)
        if noted is None and not self._of_page:  # as in most crawls
            return
        if noted is not None:
            token = meta[_ON_CREDIT] = noted["token"]
            page = self._of_page.get(token)
            for account in () if page is None else page.accounts:
                account.led[token] = account.led.get(token, 0) + 1
        elif came_from is not None and (below := _led_by(came_from)) in self._of_page:
            meta[_BELOW_CREDIT] = below

    def leads_to(self, request: Request, original: str) -> bool:
        """Whether a page kept around the same original led to this one."""
        page = self._of_page.get(request.meta.get(_ON_CREDIT, ""))
        return page is not None and page.accounts[0] is self._accounts.get(original)

    def came_back(self, request: Request, *, sent: bool = True) -> None:
        """Note that a request brought nothing new: its page was judged, kept without a verdict, or it was never sent.

        A unique page is noted when its callback has ended: by this, or by paid_for().
        """
        token = request.meta.get(_ON_CREDIT, "")
        page = self._of_page.get(token)
        if page is not None:
            for account in page.accounts:
                account.came_back(token, page.level, sent=sent)

    def paid_for(self, request: Request) -> None:
        """Note that the page of a request is, or brought, something new."""
        token = _led_by(request)
        page = self._of_page.get(token)
        if page is not None:
            self._pay(token, page)


def _all_classes(name: Class) -> Class:
    """Return the name of the account that all classes of a callback and site share."""
    return name._replace(parts="", shape="")


def _all_paths(name: Class) -> Class:
    """Return the class of all pages whose paths have other parts, or more of them, by whichever words."""
    return name._replace(shape=_WORDS.sub(">", name.shape))


def _led_by(request: Request) -> str:
    """Return the token of the page on credit that led to a request's page, or ""."""
    return str(request.meta.get(_ON_CREDIT) or request.meta.get(_BELOW_CREDIT, ""))
