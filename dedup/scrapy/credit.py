"""How long near-duplicates are kept for their links (new_links) or their titles (other_title) alone.

The rule kept here: forgetting keeps pages; an original whose account is forgotten has full credit.

Such a page is kept on credit. Pages kept around one original share its account: kept pages are remembered too,
and the next page may be more like them than like the original. A page that brought nothing costs one, and one for
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

from dedup.model.values import Verdict

__all__ = ["Credit", "is_on_credit"]

REASONS = frozenset(("new_links", "other_title", "barren"))
CREDIT = 80  # pages kept, and requests of theirs, that brought nothing
LEAST = 5  # pages kept
WAITING = 12  # pages whose requests are waited for
ACCOUNTS = 100_000  # pages that have one, 300 bytes each; the oldest go

# In the meta of a request that a page kept on credit yielded: the original, and which page it was.
_ON_CREDIT = "_dedup_on_credit"


def is_on_credit(noted: dict[str, Any]) -> bool:
    """Whether a page was kept on credit, by its meta["dedup"]."""
    return noted.get("reason") in REASONS and noted.get("of") is not None


class _Account:
    """The account of the pages kept around one original, which they share with it."""

    __slots__ = ("cost", "led", "pages", "tried", "waiting")

    def __init__(self) -> None:
        # by token, of pages whose requests have not come back: why kept, and how many requests
        self.waiting: dict[str, str] = {}
        self.led: dict[str, int] = {}
        self.begin_again()

    def begin_again(self) -> None:
        """Reset the counts: something was brought."""
        self.pages = self.cost = 0  # that brought nothing, in a row
        self.tried = 0  # the same, of barren pages

    def brought_nothing(self, token: str, reason: str) -> None:
        """Count a page."""
        led = self.led.pop(token, 0)
        if reason == "barren":
            self.tried += 1
        else:
            self.pages += 1
            self.cost += 1 + led


class Credit:
    """The accounts, by the key of the page that pages are most like."""

    def __init__(self) -> None:
        """Give every page full credit."""
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def closed(self, original: str) -> bool:
        """Whether the credit of pages like this one is used up."""
        account = self._accounts.get(original)
        return account is not None and account.pages >= LEAST and account.cost >= CREDIT

    def has_tries(self, original: str, tries: int) -> bool:
        """Whether fewer than `tries` barren pages around this original led to nothing."""
        account = self._accounts.get(original)
        return account is not None and account.tried < tries

    def kept(self, key: str, original: str) -> None:
        """Note that a page was kept around an original, or around another kept page."""
        account = self._accounts.get(original)
        if account is None:
            account = self._accounts[original] = _Account()
        self._accounts[key] = account
        while len(self._accounts) > ACCOUNTS:
            self._accounts.popitem(last=False)

    def ended(self, noted: dict[str, Any], *, paid: bool, followed: bool) -> None:
        """Note how the callback of a page kept on credit ended: with an item, with requests."""
        account = self._accounts.get(noted["of"])
        if account is None:
            return
        token, reason = noted["token"], noted["reason"]
        if paid:
            account.led.pop(token, None)
            account.begin_again()
        elif followed and len(account.waiting) < WAITING:
            account.waiting[token] = reason
        else:
            account.brought_nothing(token, reason)

    # -------------------------------------------------- requests that such pages yielded

    def mark(self, request: Request, noted: dict[str, Any] | None) -> None:
        """Note in a request the page on credit that yielded it; else remove such a note."""
        if noted is not None:
            request.meta[_ON_CREDIT] = (noted["of"], noted["token"])
            account = self._accounts.get(noted["of"])
            if account is not None:
                account.led[noted["token"]] = account.led.get(noted["token"], 0) + 1
        elif _ON_CREDIT in request.meta:  # copied from another page's
            del request.meta[_ON_CREDIT]

    def leads_to(self, request: Request, original: str) -> bool:
        """Whether a page kept around the same original led to this one."""
        account, _ = self._of(request)
        return account is not None and account is self._accounts.get(original)

    def came_back(
        self, request: Request, verdict: Verdict | None = None, *, sent: bool = True
    ) -> None:
        """Note what became of a request: judged, kept without a verdict, or never sent."""
        account, token = self._of(request)
        if account is None:
            return
        if not sent and token in account.led:
            account.led[token] -= 1
            if account.led[token] > 0:
                return  # others of its requests may come back
        reason = account.waiting.pop(token, None)
        if verdict is not None and verdict.status == "unique":
            account.led.pop(token, None)
            account.begin_again()
        elif reason is not None:
            account.brought_nothing(token, reason)

    def paid_for(self, request: Request) -> None:
        """Note that the page of a request brought an item."""
        account, _ = self._of(request)
        if account is not None:
            account.begin_again()

    def _of(self, request: Request) -> tuple[_Account | None, str]:
        original, token = request.meta.get(_ON_CREDIT) or ("", "")
        return self._accounts.get(original), token
