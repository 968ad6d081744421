"""For how long pages are kept that only their links or their own word speak for.

The rule kept here: what is forgotten keeps pages; an original whose account is lost has its full credit.

A page is kept on credit when only its links (new_links) or its own word (other_title) speak for it, or
when no page like it has brought anything yet (barren).
Pages kept around one original share its credit: kept pages are remembered too, and the next one may be
more like them. CREDIT of them in a row that brought nothing close it: pages like these are dropped until
one brings something. So calendars without end, facets and mazes end, while an album goes on. What a page
brings is an item, of its own or of a page that it leads to, or a unique page that it leads to. What it
leads to may come much later, so a page that yields requests counts only when the first of these has come
back; at most WAITING pages are waited for, and others count at once.

Where a kept page leads is looked at on the same credit, whether or not it leads on itself: the last photo
of an album links to nothing new.
"""

from collections import OrderedDict
from typing import Any

from scrapy import Request

from dedup.model.values import Verdict

__all__ = ["Credit", "is_on_credit"]

REASONS = frozenset(("new_links", "other_title", "barren"))
CREDIT = 10
WAITING = 100
ACCOUNTS = 100_000  # pages that have one, 300 bytes each; the oldest go

# In the meta of a request that a page kept on credit yielded: the original, and which page it was.
_ON_CREDIT = "_dedup_on_credit"


def is_on_credit(noted: dict[str, Any]) -> bool:
    """Whether a page was kept on credit, by what meta["dedup"] says of it."""
    return noted.get("reason") in REASONS and noted.get("of") is not None


class _Account:
    """What the pages kept around one original came to; they and it share it."""

    __slots__ = ("barren", "waiting")

    def __init__(self) -> None:
        self.barren = 0  # in a row
        self.waiting: set[str] = set()  # tokens of pages whose requests have not come back


class Credit:
    """How long pages are kept on credit, by the key of the page they are most like."""

    def __init__(self) -> None:
        """Give every page full credit."""
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def closed(self, original: str) -> bool:
        """Whether pages like this one have brought nothing for too long."""
        account = self._accounts.get(original)
        return account is not None and account.barren >= CREDIT

    def open(self, original: str, credit: int) -> bool:
        """Whether pages kept around this one brought something within their last `credit`."""
        account = self._accounts.get(original)
        return account is not None and account.barren < credit

    def kept(self, key: str, original: str) -> None:
        """Note that a page was kept around an original, or around one that was kept itself."""
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
        if paid:
            account.barren = 0
        elif followed and len(account.waiting) < WAITING:
            account.waiting.add(noted["token"])
        else:
            account.barren += 1

    # -------------------------------------------------- requests that such pages yielded

    @staticmethod
    def mark(request: Request, noted: dict[str, Any] | None) -> None:
        """Note in a request which page yielded it, if that was kept on credit; else nothing of it."""
        if noted is not None:
            request.meta[_ON_CREDIT] = (noted["of"], noted["token"])
        elif _ON_CREDIT in request.meta:  # copied from another page's
            del request.meta[_ON_CREDIT]

    def leads_to(self, request: Request, original: str) -> bool:
        """Whether a page kept around an original led to this one, which is like that, too."""
        account, _ = self._of(request)
        return account is not None and account is self._accounts.get(original)

    def came_back(self, request: Request, verdict: Verdict | None = None) -> None:
        """Note what became of a request: judged, kept without a verdict, or never sent."""
        account, token = self._of(request)
        if account is None:
            return
        if verdict is not None and verdict.status == "unique":
            account.barren = 0
        elif token in account.waiting:
            account.barren += 1
        account.waiting.discard(token)

    def paid_for(self, request: Request) -> None:
        """Note that the page of a request brought an item."""
        account, _ = self._of(request)
        if account is not None:
            account.barren = 0

    def _of(self, request: Request) -> tuple[_Account | None, str]:
        original, token = request.meta.get(_ON_CREDIT) or ("", "")
        return self._accounts.get(original), token
