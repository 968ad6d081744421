"""What a crawl learns of its URLs, and which requests it saves (DEDUP_URLS).

    verdicts -> copies, doubts, accepted pages -> Learner -> rules that hold
    a request -> its document key by the rules -> an accepted page: skipped ("skip"), or counted ("learn")
    a page's new links -> their keys by the rules -> all accepted: the page leads nowhere new
    rules -> urls.json in the store's folder -> later crawls; a person's file of rules (DEDUP_URL_RULES) -> this one

Accepted pages are only put in a queue. The learner is made, and reads the queue, when the first
near-duplicate comes, or at the start if the store already has documents.

Invariant: a request that is not skipped is fetched and judged as usual. Only an ordinary request is
skipped, for a page of the same kind that brought an item; one in CHECKED is fetched to check the rule. Copies
go last: by then the rules have their evidence, and the copies' links are known from other pages.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin
from weakref import WeakValueDictionary

from scrapy import Request
from scrapy.http import Response

from dedup.core.fingerprint import each_link
from dedup.model.names import document_key, namespace_of
from dedup.model.page import Verdict
from dedup.scrapy.counts import Counts, logger
from dedup.scrapy.in_flight import Accepted
from dedup.scrapy.responses import (
    BEHIND,
    KIND_CHARACTERS,
    PUT_OFF,
    asked_for_at,
    callback_name,
    is_ordinary,
    key_of,
)
from dedup.scrapy.settings import Config

if TYPE_CHECKING:
    from dedup.detector.url_rules import Known, Learner
    from dedup.scrapy.memory import Namespace

LATER = 1_000_000  # by which the priority of a request that is put off falls
CHECKED = 20  # one in this number of requests that rules would skip is fetched
SAVE_SECONDS = 10.0  # least time between two writes of rules during the crawl
LEAST_ALIKE = 0.97  # similarity of two texts whose pages have no identity, to learn from their URLs
MOST_LINKS = 5000  # links of a page that are read

_HREF = re.compile(rb"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))""", re.IGNORECASE)

# Spiders of one process that share a store share the learner.
_learners: "WeakValueDictionary[Path, Learner]" = WeakValueDictionary()


class HeldRule(NamedTuple):
    """A rule about URLs that holds (dedup.detector.url_rules): its text, its evidence, an example."""

    rule: str
    pairs: int
    copy: str
    original: str


class KnownUrls:
    """The learners of one crawl, by namespace."""

    def __init__(self, config: Config, counts: Counts, accepted: Accepted) -> None:
        """Know nothing yet; accepted pages come through a queue."""
        self._config = config
        self._counts = counts
        self._accepted = accepted
        self._skips = config.urls == "skip" and config.mode == "drop"
        self._opened: dict[str, Namespace] = {}
        # by namespace; none before the first near-duplicate of a new store
        self.learners: dict[Namespace, Learner] = {}
        # the first request under way, for each page that several may lead to
        self._under_way: WeakValueDictionary[tuple[object, ...], Request] = WeakValueDictionary()
        self._unsaved: set[Namespace] = set()
        self._left_alone: set[Path] = set()  # folders whose file of rules must not be written
        self.doubting = False  # whether the links of accepted pages are needed
        self._saved = time.monotonic()
        self._saving: asyncio.Future[None] | None = None

    def open(self, namespace: "Namespace", name: str) -> None:
        """Load a store's rules and documents; for a new store, or a service, wait for the first copy."""
        self._opened[name] = namespace
        if self._config.urls == "off":
            return
        folder = namespace.folder
        try:
            begun = folder is not None and (
                (folder / "urls.json").exists() or namespace.documents()
            )
            if begun or self._config.url_rules:
                self._learner(namespace)
        except Exception as error:
            self._counts.fault(error, f"what {folder} knows of URLs is not used")

    # ----------------------------------------------------------------------- what is learned

    def learn_text(self, namespace: "Namespace", verdict: Verdict) -> None:
        """Learn from a near-duplicate that the text decides about."""
        alike = verdict.identity == "same" or (verdict.similarity or 0) >= LEAST_ALIKE
        if alike and verdict.of is not None:
            self.learn(namespace, verdict.key, verdict.of, equal=True)

    def learn(self, namespace: "Namespace", key: str, original: str, *, equal: bool) -> None:
        """Learn from two URLs with the same text: whether their pages bring the same.

        If not, the rules fall that map one to the other.
        """
        if self._config.urls == "off":
            return
        try:
            learner = self._learner(namespace) if equal else self.learners.get(namespace)
            if learner is None:
                return
            if equal:
                self._take_accepted()
                learner.copy(key, original)
            else:
                learner.refute(key, original)
            if learner.changed:
                self._unsaved.add(namespace)
            self._save_soon()
        except Exception as error:
            self._counts.fault(error, f"nothing is learned from the URL {key}")

    def doubt(
        self, namespace: "Namespace", request: Request, verdict: Verdict, new: Iterable[bytes]
    ) -> None:
        """Learn from a near-duplicate that is kept for its new links."""
        if self._config.urls == "off" or verdict.of is None:
            return
        try:
            self.doubting = True
            learner = self._learner(namespace)
            self._take_accepted()
            atoms = learner.doubt(verdict.key, verdict.of, new, time.time())
            if atoms:
                request.meta[BEHIND] = sorted(atoms.union(request.meta.get(BEHIND, ())))
        except Exception as error:
            self._counts.fault(error, f"nothing is learned from the URL {verdict.key}")

    def met(self, namespace: "Namespace", request: Request, key: str, links: bytes) -> None:
        """Note the links of a page that is kept."""
        learner = self.learners.get(namespace)
        if learner is not None:
            learner.met(key, each_link(links), asked_for_at(request), request.meta.get(BEHIND, ()))

    def forget(self, namespace: "Namespace", key: str) -> None:
        """Forget a page."""
        if namespace in self.learners:
            self._take_accepted()
            self.learners[namespace].forget(key)

    # -------------------------------------------------------------------------- what is used

    def known(self, request: Request) -> "Known | Request | None":
        """Return the accepted page that a request leads to; None: it is fetched.

        A request that may lead to a page that is accepted or under way is put off: the request that is
        returned goes to the end of the queue, once.
        """
        if not is_ordinary(request):
            return None
        name, spider = request.meta.get("dedup_namespace"), self._counts.crawler.spider
        name = name or self._config.namespace or namespace_of("" if spider is None else spider.name)
        namespace = self._opened.get(name)
        learner = None if namespace is None else self.learners.get(namespace)
        if learner is None:
            return None
        key, kind = key_of(request), self._kind(request)
        self._take_accepted()
        known = learner.known(key, kind)
        if not self._skips:
            if known is not None:
                self._counts.add("url_would_skip")
            return None
        if known is not None:
            checked = _is_checked(key)
            if checked:
                self._counts.add("url_checked")
            else:
                self._counts.add("url_skipped")
            return None if checked else known
        form = learner.likely_form(key)
        if form is None:
            return None
        first = self._under_way.setdefault((namespace, kind, form), request)
        if request.meta.get(PUT_OFF) or (first is request and not learner.likely(key)):
            return None
        self._counts.add("url_put_off")
        meta = request.meta | {PUT_OFF: True}
        return request.replace(priority=request.priority - LATER, dont_filter=True, meta=meta)

    def _kind(self, request: Request) -> str:
        kind = request.meta.get("dedup_kind")
        if kind is None:
            spider = self._counts.crawler.spider
            kind = callback_name(request, spider) if self._config.kinds else ""
        return str(kind)[:KIND_CHARACTERS]

    def holds(self, namespace: "Namespace", url: str) -> bool:
        """Whether there are rules for the site of a URL."""
        learner = self.learners.get(namespace)
        return learner is not None and learner.holds(url)

    def lead_nowhere(
        self,
        namespace: "Namespace",
        kind: str,
        new: Iterable[bytes],
        response: Response,
        hash_of: Callable[[str], bytes],
    ) -> bool:
        """Whether rules map all of a page's new links to accepted pages.

        hash_of  returns the hash of a link to a URL
        """
        self._take_accepted()
        learner = self.learners[namespace]
        missing = set(new)
        for url in _links(response.body, response.url):
            if learner.known(document_key(url), kind) is not None:
                missing.discard(hash_of(url))
                if not missing:
                    return True
        return False

    def rules(self) -> list[HeldRule]:
        """Return the rules that hold, the strongest first."""
        self._take_accepted()
        found = [
            HeldRule(
                str(rule), record.pairs, *(record.examples[0] if record.examples else ("", ""))
            )
            for learner in self.learners.values()
            for _, rule, record in learner.held()
        ]
        return sorted(found, key=lambda rule: (-rule.pairs, rule.rule))

    def close(self) -> None:
        """Write what was learned."""
        try:
            self._take_accepted()
            for namespace, learner in self.learners.items():
                folder = namespace.folder
                if folder is not None and folder not in self._left_alone and learner.records():
                    from dedup.detector.url_rules.rule_records import encode_rules, save_rules

                    save_rules(folder, encode_rules(learner.records()))
        except Exception as error:
            self._counts.fault(error, "what was learned of URLs may be forgotten")

    # ---------------------------------------------------------------------------------------

    def _learner(self, namespace: "Namespace") -> "Learner":
        learner = self.learners.get(namespace)
        if learner is not None:
            return learner
        from dedup.detector.url_rules import Learner

        folder = namespace.folder
        learner = None if folder is None else _learners.get(folder)
        if learner is None:
            learner = Learner(namespace.detector.recipe, self._config.url_rules)
            if folder is not None:
                self._begin(learner, namespace, folder)
                _learners[folder] = learner
        self.learners[namespace] = learner
        return learner

    def _begin(self, learner: "Learner", namespace: "Namespace", folder: Path) -> None:
        """Give a learner the documents of a store."""
        from dedup.detector.url_rules import Page
        from dedup.detector.url_rules.rule_records import load_rules

        try:
            for document in namespace.documents():
                learner.accept(Page(document.key, document.page, document.kind, document.paid))
            learner.take(load_rules(folder))
        except Exception as error:
            self._left_alone.add(folder)
            self._counts.fault(error, f"what {folder} knows of URLs is not used")

    def _take_accepted(self) -> None:
        """Give the learners the pages that were accepted meanwhile; these wait for the first learner."""
        if not self.learners:
            return
        from dedup.detector.url_rules import Page

        accepted = self._accepted
        while accepted:
            namespace, verdict = accepted.popleft()
            if isinstance(verdict, str):
                for learner in self.learners.values():
                    learner.accept(Page(verdict, None))
            elif namespace is not None:
                page = Page(verdict.key, verdict.page, verdict.kind, verdict.paid)
                self._learner(namespace).accept(page)

    def _save_soon(self) -> None:
        """Write the rules in a thread if a rule began to hold or fell."""
        if time.monotonic() < self._saved + SAVE_SECONDS or (
            self._saving is not None and not self._saving.done()
        ):
            return
        while self._unsaved:
            namespace = self._unsaved.pop()
            folder = namespace.folder
            if folder is None or folder in self._left_alone:
                continue
            self._saved = time.monotonic()
            from dedup.detector.url_rules.rule_records import encode_rules, save_rules

            content = encode_rules(self.learners[namespace].records())
            loop = asyncio.get_running_loop()
            self._saving = loop.run_in_executor(None, save_rules, folder, content)
            self._saving.add_done_callback(_tell)
            return


def _tell(saving: "asyncio.Future[None]") -> None:
    if not saving.cancelled() and (error := saving.exception()) is not None:
        logger.warning("dedup: the learned URL rules could not be written: %s", error)


def _is_checked(key: str) -> bool:
    """Whether a request is fetched to check the rules: by its key, the same in every crawl."""
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, person=b"dedup urls")
    return int.from_bytes(digest.digest(), "big") % CHECKED == 0


def _links(body: bytes, base: str) -> Iterator[str]:
    """Yield the URLs that a page links to, as a regular expression finds them."""
    for count, found in enumerate(_HREF.finditer(body)):
        if count >= MOST_LINKS:
            return
        text = (found[1] or found[2] or found[3] or b"").decode("utf-8", "replace")
        try:
            yield urljoin(base, text.replace("&amp;", "&").strip())
        except ValueError:
            continue
