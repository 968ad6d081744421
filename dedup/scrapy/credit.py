"""How long near-duplicates are kept for their links (new_links) or their titles (other_title) alone.

The rule kept here: forgetting keeps pages; an original whose account is forgotten has full credit.

Such a page is kept on credit. Pages kept around one original share its account: kept pages are remembered too,
and the next page may be more like them than like the original. So do the pages of one class, and of each single
difference of it; a page is kept while all of these accounts have credit. A page that brought nothing costs one, and one for
each request that it yielded. When at least LEAST pages in a row have cost CREDIT, pages like these are dropped until
one brings something. So endless calendars, facets and mazes end, and an album goes on. A page brings something if it,
or a page that it leads to, brings an item, or if it leads to a unique page. That may come much later, so a page that
yields requests counts only when the first of these has come back; at most WAITING pages wait for that, others count
at once.

Pages that are kept because none like them brought anything (barren) have a count of their own: they are kept while
they lead to something, as a captcha does.

Pages that a kept page leads to are kept on the same credit, even without new links of their own: the last photo of
an album has none.
"""

from collections import OrderedDict
from typing import Any

from scrapy import Request

from dedup.model.page import Verdict
from dedup.scrapy.evidence import Class

__all__ = ["Credit", "is_on_credit"]

REASONS = frozenset(("new_links", "other_title", "barren", "items"))
CREDIT = 80  # pages kept, and requests of theirs, that brought nothing
LEAST = 5  # pages kept
WAITING = 12  # pages of one account whose requests are waited for
ACCOUNTS = 100_000  # pages and classes that have one, 300 bytes each; the oldest go

# In the meta of a request that a page kept on credit yielded: the token of that page.
_ON_CREDIT = "_dedup_on_credit"


def is_on_credit(noted: dict[str, Any]) -> bool:
    """Whether a page was kept on credit, by its meta["dedup"]."""
    return noted.get("reason") in REASONS and noted.get("of") is not None


class _Account:
    """The count of the pages kept on one account."""

    __slots__ = ("cost", "led", "of_class", "pages", "tried", "waiting")

    def __init__(self, *, of_class: bool) -> None:
        # by token, of pages whose requests have not come back: why kept, and how many requests
        self.waiting: dict[str, str] = {}
        self.led: dict[str, int] = {}
        self.of_class = of_class
        self.begin_again()

    @property
    def closed(self) -> bool:
        """Whether the credit is used up."""
        return self.pages >= LEAST and self.cost >= CREDIT

    def begin_again(self) -> None:
        """Reset the counts: something was brought."""
        self.pages = self.cost = 0  # that brought nothing, in a row
        self.tried = 0  # the same, of barren pages

    def brought_nothing(self, token: str, reason: str) -> None:
        """Count a page."""
        led = self.led.pop(token, 0)
        if reason == "barren" and not self.of_class:
            self.tried += 1
        else:
            self.pages += 1
            self.cost += 1 + led

    def ended(self, token: str, reason: str, *, paid: bool, followed: bool) -> None:
        """Note how the callback of a page ended."""
        if paid:
            self.led.pop(token, None)
            self.begin_again()
        elif followed and len(self.waiting) < WAITING:
            self.waiting[token] = reason
        else:
            self.brought_nothing(token, reason)

    def came_back(self, token: str, *, unique: bool, sent: bool) -> None:
        """Note what became of a request that a page yielded."""
        if not sent and token in self.led:
            self.led[token] -= 1
            if self.led[token] > 0:
                return  # others of its requests may come back
        reason = self.waiting.pop(token, None)
        if unique:
            self.led.pop(token, None)
            self.begin_again()
        elif reason is not None:
            self.brought_nothing(token, reason)


class Credit:
    """The accounts: by the key of the page that pages are most like, and by the class of the pair."""

    def __init__(self) -> None:
        """Give every page full credit."""
        self._accounts: OrderedDict[str | Class, _Account] = OrderedDict()
        self._of_page: OrderedDict[str, tuple[_Account, ...]] = OrderedDict()  # by token

    def closed(self, original: str, name: Class) -> bool:
        """Whether the credit of pages like this one, or of their class, is used up."""
        names: tuple[str | Class, ...] = (original, name, *name.single())
        return any(
            account is not None and account.closed for account in map(self._accounts.get, names)
        )

    def has_tries(self, original: str, tries: int) -> bool:
        """Whether fewer than `tries` barren pages around this original led to nothing."""
        account = self._accounts.get(original)
        return account is not None and account.tried < tries

    def kept(self, verdict: Verdict, original: str, name: Class) -> None:
        """Note that a page was kept around an original, or around another kept page."""
        account = self._accounts[verdict.key] = self._account(original)
        classes = (self._account(each) for each in (name, *name.single()))
        self._of_page[verdict.token or ""] = (account, *classes)
        while len(self._accounts) > ACCOUNTS:
            self._accounts.popitem(last=False)
        while len(self._of_page) > ACCOUNTS:
            self._of_page.popitem(last=False)

    def _account(self, name: str | Class) -> _Account:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = _Account(of_class=isinstance(name, Class))
        return account

    def ended(self, noted: dict[str, Any], *, paid: bool, followed: bool) -> None:
        """Note how the callback of a page kept on credit ended: with a new item, with requests."""
        for account in self._of_page.get(noted["token"], ()):
            account.ended(noted["token"], noted["reason"], paid=paid, followed=followed)

    # -------------------------------------------------- requests that such pages yielded

    def mark(self, request: Request, noted: dict[str, Any] | None) -> None:
        """Note in a request the page on credit that yielded it; else remove such a note."""
        if noted is not None:
            token = request.meta[_ON_CREDIT] = noted["token"]
            for account in self._of_page.get(token, ()):
                account.led[token] = account.led.get(token, 0) + 1
        elif _ON_CREDIT in request.meta:  # copied from another page's
            del request.meta[_ON_CREDIT]

    def leads_to(self, request: Request, original: str) -> bool:
        """Whether a page kept around the same original led to this one."""
        accounts, _ = self._of(request)
        return bool(accounts) and accounts[0] is self._accounts.get(original)

    def came_back(
        self, request: Request, verdict: Verdict | None = None, *, sent: bool = True
    ) -> None:
        """Note what became of a request: judged, kept without a verdict, or never sent."""
        accounts, token = self._of(request)
        unique = verdict is not None and verdict.status == "unique"
        for account in accounts:
            account.came_back(token, unique=unique, sent=sent)

    def paid_for(self, request: Request) -> None:
        """Note that the page of a request brought a new item."""
        for account in self._of(request)[0]:
            account.begin_again()

    def _of(self, request: Request) -> tuple[tuple[_Account, ...], str]:
        token = request.meta.get(_ON_CREDIT, "")
        return self._of_page.get(token, ()), token
