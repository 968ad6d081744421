"""Near-duplicates are dropped where the spider's own items have shown that such pages bring nothing new.

    verdict near_duplicate -> the classes of its pairs -> proven? dropped : parsed for evidence ("items")
    the callback ends -> digest of its items -> compared with those of the near-duplicates -> evidence
    other items than before -> a control visit: what differs between two visits of one URL is volatile

    items.py     what an item is, and whether two are equal
    evidence.py  what a class is, and when it is proven
    control.py   what differs between two visits of one URL
    summary.py, crawl_report.py: what the person reads of it

Invariants:
  - A page whose original has no digest, or whose own items cannot be read, is kept and is no evidence.
  - While a check is open, or its requests are, a class drops no more pages than it can send again.
  - The items and requests that are held back leave with the callback's end, unless the items are equal.
  - A page that brought nothing at all, like its original, is no evidence if what it is for may not be seen (_is_hidden).
  - A page that was accepted by another crawl, and whose main text has other numbers, is no original: a daily
    page's items may lack the number that changed.
"""

import pickle
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import msgspec
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.request import request_from_dict

from dedup.core.files import PRIVATE, replace_file
from dedup.core.fingerprint import PageReading, read_page, similarities
from dedup.core.numbers import HashSet
from dedup.model.page import (
    TEXT_HASH,
    Neighbour,
    PageFingerprint,
    ReserveOptions,
    Verdict,
    differing_parts,
)
from dedup.model.recipes import Recipe
from dedup.scrapy.control import Controls
from dedup.scrapy.counts import Counts, logger
from dedup.scrapy.credit import Credit
from dedup.scrapy.evidence import (
    EMPTY,
    EVERY,
    PARTS,
    REMEMBERED,
    Class,
    Evidence,
    Record,
    account_of,
    class_of,
    decode_evidence,
    encode_evidence,
)
from dedup.scrapy.in_flight import token_of
from dedup.scrapy.items import Comparison, Digest, Digester, Names, Page, compare, decode, is_item
from dedup.scrapy.known_urls import KnownUrls
from dedup.scrapy.memory import EVIDENCE
from dedup.scrapy.responses import again, send
from dedup.scrapy.settings import Config

if TYPE_CHECKING:
    from dedup.scrapy.in_flight import Flight, PagesInFlight
    from dedup.scrapy.memory import Namespace

NEIGHBOURS = 30  # near-duplicates that a page is compared with, at most
SAVE_SECONDS = 10.0
JOB_FOLDER = "dedup-again"  # of a JOBDIR: the dropped pages that may be sent again
LEADING = 1000  # parsed near-duplicates that made new requests, until these bring something new
DIFFERENCES = 2000  # classes and fields that are counted for the summary
FRAME = frozenset("f")  # what pages may differ in that bring nothing, if one is to be a copy
NOISY = 100  # fields that alone differed, in values of which no page has a word


class Judged(NamedTuple):
    """A page that is judged: links_at() returns the links it would have at another URL."""

    namespace: "Namespace"
    request: Request
    response: Response
    reading: PageReading
    options: ReserveOptions
    callback: str
    links_at: Callable[[str], bytes]


class Look(NamedTuple):
    """A page that is parsed although accepted ones have its text: what its items are compared with.

    pairs     its near-duplicates whose items are known
    checks    whether the page checks a proven class
    withheld  whether its items are held back until they are compared
    again     a request for the page, for a control visit, or None
    uses      of the classes of the pairs, when the page was judged (Evidence.used())
    hidden    whether what pages like it bring may not be seen: see _is_hidden()
    """

    key: str
    callback: str
    pairs: "tuple[Pair, ...]"
    checks: bool
    withheld: bool
    again: Request | None
    uses: dict[Class, int]
    hidden: bool


class Proof:
    """The evidence of one crawl."""

    def __init__(
        self,
        config: Config,
        counts: Counts,
        job_folder: str | None,
        in_flight: "PagesInFlight",
        credit: Credit,
        urls: KnownUrls,
    ) -> None:
        """Begin without evidence."""
        self._config = config
        self._counts = counts
        self._job = None if job_folder is None else Path(job_folder) / JOB_FOLDER
        self._names = Names()
        self._ignored = frozenset(config.item_ignore)
        self.controls = Controls(counts, self._names, config.control, config.wait_seconds)
        self.met = Met(config)
        self._in_flight = in_flight
        self._credit, self._urls = credit, urls
        credit.led_on = self._led_on
        self._evidence: dict[Namespace, Evidence[Request]] = {}
        self._paths: dict[Namespace, Path] = {}
        self._looks: WeakKeyDictionary[Request, tuple[Namespace, Look]] = WeakKeyDictionary()
        # by token: what the open checks check, and how many pages their class had dropped by then
        self._checks: dict[str, tuple[Namespace, Class, int]] = {}
        self.proven: WeakSet[Request] = WeakSet()  # of dropped pages, by their class
        self._before: WeakKeyDictionary[Request, Digest] = WeakKeyDictionary()
        self._saved = time.monotonic()
        self._said_doubt = False
        self._leading: OrderedDict[str, tuple[Namespace, Look]] = OrderedDict()  # by token
        self.noise: dict[str, set[int]] = {}  # fields that alone differed, with values of no page
        self.differing: Counter[tuple[Class, tuple[str, ...]]] = Counter()
        self._classes: dict[str, type] = {}  # by callback, of its first item

    def open(self, namespace: "Namespace", name: str) -> None:
        """Load the evidence of earlier crawls, if the namespace has a folder."""
        evidence = self._evidence[namespace] = Evidence()
        if namespace.folder is None:
            return
        path = self._paths[namespace] = namespace.folder / EVIDENCE
        try:
            if path.exists():
                records, volatile = decode_evidence(path.read_bytes())
                evidence.take(records, self._load_dropped(name))
                self.controls.take(volatile)
        except (OSError, ValueError) as error:
            logger.warning(
                "dedup: %s cannot be used (%s): its evidence on which pages are copies is collected again",
                path,
                error,
            )
        evidence.changed = False

    # ------------------------------------------------------------------- a page is judged

    async def decide(self, judged: Judged, verdict: Verdict) -> Verdict:
        """Return the verdict on a page that is like accepted ones; called with the meter running.

        A near-duplicate of a proven class stays one; another is parsed for evidence (exempt, "items").
        """
        text_says = verdict.status == "near_duplicate"
        if not text_says and verdict.reason not in ("other_title", "new_links", "barren"):
            return verdict
        callback = judged.callback
        await self._await_in_flight(judged, verdict)
        found = await self._pairs(judged, verdict)
        hidden = _is_hidden(judged.request, found)
        if text_says and not self._may_ask(found, verdict, callback, hidden=hidden):
            self._counts.add("items/by_text")
            self._urls.learn_text(judged.namespace, verdict)
            return verdict
        found = await self._await_looks(judged, verdict, found)
        evidence = self._evidence[judged.namespace]
        drops = self._config.mode != "tag" and (text_says or verdict.reason == "other_title")
        proven = (pair for pair in found if drops and evidence.is_proven(pair.name))
        checks = next(proven, None)
        if checks is not None:
            must = evidence.is_less_alike(checks.name, checks.of.similarity)
            must = must or self._must_check(judged.namespace, checks.name)
            if not evidence.decide(checks.name, checks.back, must=must):
                return self._dropped(judged, verdict, checks)
            self._counts.add("items/checked")
        pairs = tuple(pair for pair in found if pair.digest is not None)
        look = Look(
            verdict.key,
            callback,
            pairs,
            checks is not None,
            text_says and self._config.mode == "drop" and self._config.proof_items == "withhold",
            self.controls.request_for(judged.request, callback) if text_says else None,
            {name: evidence.used(name) for name in _decided_by(pairs)},
            hidden,
        )
        if text_says and self._config.mode != "tag":
            kept = await self._parsed_on_credit(judged, verdict, checks)
            if kept.token is None:  # no credit, too short, or no service answered
                return kept
            verdict = msgspec.structs.replace(kept, match=verdict.match)
        if pairs:
            self._looks[judged.request] = judged.namespace, look
        return verdict

    async def _parsed_on_credit(
        self, judged: Judged, verdict: Verdict, checks: "Pair | None"
    ) -> Verdict:
        """Return the verdict on a near-duplicate that is parsed for evidence, if its credit, or a check, allows it."""
        of = verdict.of or ""
        account = account_of(judged.callback, verdict.domain, of, verdict.key)
        if checks is None and self._credit.closed(judged.request, of, account):
            return verdict
        self._counts.add("items/parsed")
        options = msgspec.structs.replace(judged.options, exempt="items")
        kept = await judged.namespace.detector.judge(verdict.page, verdict.key, options)
        if kept.token is not None:
            self._credit.kept(judged.request, kept, of, account)
            if checks is not None:
                self._note_check(judged.namespace, checks.name, kept.token)
        return kept

    def _note_check(self, namespace: "Namespace", name: Class, token: str) -> None:
        record = self._evidence[namespace].record(name)
        assert record is not None
        self._checks = {each: found for each, found in self._checks.items() if self._is_open(each)}
        self._checks[token] = namespace, name, record.dropped

    def _is_open(self, token: str) -> bool:
        """Whether it is not known yet what a page, or the first of its requests, brings."""
        return token in self._in_flight.flights or self._credit.waits_for(token)

    def _must_check(self, namespace: "Namespace", name: Class) -> bool:
        """Whether a class dropped as many pages since the check before an open one as it can send again."""
        record = self._evidence[namespace].record(name)
        forgotten = 0 if record is None else record.dropped - REMEMBERED + EVERY
        return any(
            at <= forgotten and (namespace, name) == (where, which) and self._is_open(token)
            for token, (where, which, at) in self._checks.items()
        )

    def _may_ask(
        self, found: "list[Pair]", verdict: Verdict, callback: str, *, hidden: bool
    ) -> bool:
        """Whether the items of a near-duplicate's original say something, or its requests; else the text decides."""
        for _, neighbour, digest, *_ in found:
            if neighbour.key == verdict.of:
                return (
                    digest is None
                    or (digest.number > 0 and not digest.silent)
                    or (hidden and digest.is_nothing)
                    or self.met.goes_beyond(callback)
                )
        return True

    async def _pairs(self, judged: Judged, verdict: Verdict) -> "list[Pair]":
        """Return the near-duplicates of a page, with their items and classes, the fewest differences first."""
        kind, key = judged.options.kind, verdict.key
        near = await judged.namespace.detector.probe(verdict.page, domain=verdict.domain)
        near = [n for n in near if n.key != key and n.kind in (kind, "")][:NEIGHBOURS]
        site = verdict.domain
        found: list[Pair] = []
        for n in near:
            letters = _letters(n.document.page, verdict.page) + "t" * (n.identity == "other")
            digest = decode(n.document.items)
            says = digest is not None and digest.number > 0 and not digest.silent
            if "n" in letters and says and not self.met.is_own(n.key):
                continue
            empty = digest is not None and not digest.number
            led = self.met.has_led(n.key)
            name = class_of(judged.callback, site, letters, n.key, key, empty=empty, led=led)
            back = class_of(judged.callback, n.domain, letters, key, n.key)
            found.append(Pair(key, n, digest, name, back))
        found.sort(key=lambda pair: len(pair.name.parts))
        return found

    def _dropped(self, judged: Judged, verdict: Verdict, pair: "Pair") -> Verdict:
        self._evidence[judged.namespace].drop(pair.name, judged.request)
        self.proven.add(judged.request)
        self._counts.add("items/dropped")
        if verdict.token is not None:
            judged.namespace.release(verdict)
        self._urls.learn(judged.namespace, verdict.key, pair.of.key, equal=True)
        return msgspec.structs.replace(
            verdict, status="near_duplicate", reason="", token=None, match=pair.of
        )

    async def _await_in_flight(self, judged: Judged, verdict: Verdict) -> None:
        """Wait for pages in flight that this one is a copy of by a proven class."""
        evidence = self._evidence[judged.namespace]
        policy = judged.namespace.detector.policy
        page, kind = verdict.page, judged.options.kind

        def is_near(other: Verdict) -> bool:
            if other.key == verdict.key or other.kind != kind:
                return False
            return (other.page.value ^ page.value).bit_count() <= policy.distance

        def is_copy(other: Verdict) -> bool:
            if not is_near(other):
                return False
            if similarities(page.sketch, [other.page.sketch])[0] < policy.similarity:
                return False
            name = class_of(
                judged.callback,
                verdict.domain,
                _letters(other.page, page),
                other.key,
                verdict.key,
            )
            return evidence.is_proven(name)

        waited = await self._counts.meter.wait_while(
            lambda: any(map(is_copy, self._in_flight.flying(judged.namespace))),
            self._config.wait_seconds,
        )
        if waited or any(map(is_near, self._in_flight.parsed(judged.namespace))):
            self._in_flight.commit()  # so that the store finds them

    async def _await_looks(
        self, judged: Judged, verdict: Verdict, found: "list[Pair]"
    ) -> "list[Pair]":
        """Wait while what may prove the class is under way; return the pairs then.

        As many pages of it are parsed as it needs, or a page of the callback is visited once more.
        """
        evidence = self._evidence[judged.namespace]
        names = {pair.name for pair in found if pair.digest is not None}

        def may_be_proven() -> bool:
            if any(map(evidence.is_proven, names)):
                return False
            looks = Counter(
                name for _, look in self._looks.values() for name in _decided_by(look.pairs)
            )
            if any(evidence.may_prove(name, looks[name]) for name in names):
                return True
            return bool(names) and self.controls.is_visiting(judged.callback)

        waited = await self._counts.meter.wait_while(may_be_proven, self._config.wait_seconds)
        return await self._pairs(judged, verdict) if waited else found

    async def recall(self, namespace: "Namespace", request: Request, verdict: Verdict) -> None:
        """Find the items that an unchanged page brought when it was fetched before."""
        try:
            near = await namespace.detector.probe(verdict.page, domain=verdict.domain)
            stored = next((n for n in near if n.key == verdict.key), None)
            digest = None if stored is None else decode(stored.document.items)
        except Exception as error:
            self._counts.fault(error, f"the items of {verdict.key} pass, unchanged or not")
            return
        if digest is not None:
            self._before[request] = digest

    def before(self, request: Request | None) -> Digest | None:
        """Return the items that a page brought before, of which none passes again."""
        return None if request is None else self._before.get(request)

    def not_compared(self, request: Request | None) -> None:
        """Note that a page's callback ended without a comparison: it raised, or asked for something."""
        if request is not None:
            self._looks.pop(request, None)

    # ------------------------------------------------------------------- a page was parsed

    def look(self, request: Request | None) -> Look | None:
        """Return what the items of a page are compared with, if they are."""
        held = None if request is None else self._looks.get(request)
        return None if held is None else held[1]

    def digester(
        self,
        response: Response,
        callback: str,
        recipe: Recipe,
        reading: Callable[[], PageReading],
    ) -> Digester:
        """Return what makes the digest of a page's items; see Page for reading."""
        request = response.request
        assert request is not None
        meta = request.meta
        # those before a redirect are data: an item has them to say what leads where
        urls = response.url, request.url
        page = Page(
            urls,
            lambda: getattr(response, "text", ""),
            len(response.body),
            reading,
            lambda: (
                f"{request.cb_kwargs!r} {[v for k, v in meta.items() if k != 'dedup']!r} "
                f"{response.headers!r}"
            ),
            meta.get("dedup"),
            recipe,
        )
        volatile = self.controls.of(callback).fields
        return Digester(page, self._names, self._ignored, volatile, callback, self._classes)

    def _led_on(self, token: str) -> None:
        """Note that requests of a parsed near-duplicate brought something new: its class is none of copies."""
        namespace, look = self._leading.pop(token, (None, None))
        if namespace is None or look is None:
            return
        try:
            for pair in {pair.name: pair for pair in look.pairs}.values():
                self._differ(namespace, pair.name, (look.key, pair.of.key, ()))
        except Exception as error:
            self._counts.fault(error, "a page that led to something new is no evidence")

    def _leads_on(
        self, request: Request, namespace: "Namespace", look: Look, *, beyond: bool
    ) -> bool:
        """Note a near-duplicate that made new requests: what these bring is its evidence."""
        if beyond:
            self.met.note_led(look.key)
        self._counts.add("items/leads_on")
        token = token_of(request.meta.get("dedup"))
        if token is not None:
            self._leading[token] = namespace, look
            if self._credit.has_paid(token):  # before its callback ended
                self._led_on(token)
        while len(self._leading) > LEADING:
            self._leading.popitem(last=False)
        return False

    def ended(
        self,
        request: Request,
        digest: Digest | None,
        *,
        leads_on: bool,
        beyond: bool = False,
        digester: Digester | None = None,
    ) -> bool:
        """Compare the items of a page that was parsed; return whether they are those of a near-duplicate.

        leads_on  whether its callback asked for pages that no page asked for before
        beyond    the same, and the page has no link to them
        digester  made the digest of its items
        """
        namespace, look = self._looks.pop(request)
        if digest is None:
            self._counts.add("items/unreadable")
            return False
        if not digest.number and leads_on:
            return self._leads_on(request, namespace, look, beyond=beyond)
        volatile = self.controls.of(look.callback)
        ignored = volatile.fields, volatile.places
        compared = [(pair, compare(digest, pair.brought, *ignored)) for pair in look.pairs]
        found = Findings()
        for pair, result in compared:
            found.add(
                pair, result, digest, equal_back=compare(pair.brought, digest, *ignored).equal
            )
        if found.original and beyond:
            return self._leads_on(request, namespace, look, beyond=True)
        evidence = self._evidence[namespace]
        for name, (weight, similarity) in found.agreed():
            evidence.agree(name, weight, look.uses[name], similarity)
        for name, (page, of, fields) in found.differed():
            if name in found.ahead or evidence.record(name) is not None:
                self._differ(namespace, name, (page, of, self._names.of(fields)))
        if found.original:
            self._counts.add("items/equal")
            self._urls.learn(namespace, look.key, found.original, equal=True)
        else:
            self._counts.add("items/other")
            self._note_difference(compared, digester)
            # where pages bring nothing at all, others may bring what was kept: once
            if look.again is not None and not look.hidden:
                self.controls.visit(look.again, look.key, look.callback, digest)
        self._save_soon()
        return bool(found.original)

    def _differ(
        self, namespace: "Namespace", name: Class, example: tuple[str, str, tuple[str, ...]]
    ) -> None:
        """Note a pair with other items, and send the pages again that its class dropped."""
        self._urls.learn(namespace, example[0], example[1], equal=False)
        evidence = self._evidence[namespace]
        record = evidence.record(name)
        dropped = 0 if record is None else record.dropped
        for request in evidence.differ(name, example):
            self._counts.add("items/again")
            send(self._counts.crawler, again(request))
        if dropped and not self._said_doubt:
            self._said_doubt = True
            logger.warning(
                "dedup: %s: %d pages were dropped as copies, but %s brought other items than %s (in %s); the "
                "last %d are fetched again, and pages like them are kept. Further cases are in the summary",
                name,
                dropped,
                example[0],
                example[1],
                ", ".join(example[2]) or "other items",
                min(dropped, REMEMBERED),
            )

    def _note_difference(
        self,
        compared: "list[tuple[Pair, Comparison]]",
        digester: Digester | None,
    ) -> None:
        """Count what differed in the pair that differs least."""
        pair, found = min(compared, key=lambda each: len(each[1].fields))
        name, fields = pair.name, self._names.of(found.fields)
        if (name, fields) in self.differing or len(self.differing) < DIFFERENCES:
            self.differing[name, fields] += 1
        if len(fields) != 1 or digester is None:
            return
        value = digester.unfounded(fields[0])
        if value is not None and (fields[0] in self.noise or len(self.noise) < NOISY):
            values = self.noise.setdefault(fields[0], set())
            if len(values) < DIFFERENCES:
                values.add(value)

    def control_ended(self, key: str, digest: Digest | None) -> None:
        """Compare a page's items with those of its earlier visit."""
        callback = self.controls.ended(key, digest)
        if callback is not None:
            for evidence in self._evidence.values():
                evidence.forgive(callback)

    def counters(self) -> frozenset[str]:
        """Return the callbacks of which two visits of one page had other numbers."""
        found = self.controls.found().items()
        return frozenset(callback for callback, (_, places) in found if places)

    # ------------------------------------------------------------------- from crawl to crawl

    def _save_soon(self) -> None:
        if time.monotonic() >= self._saved + SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write what was found since the last time."""
        self._saved = time.monotonic()
        for namespace, path in self._paths.items():
            evidence = self._evidence[namespace]
            if not evidence.changed:
                continue
            try:
                replace_file(
                    path, encode_evidence(evidence.records(), self.controls.found()), PRIVATE
                )
                self._save_dropped(path.parent.name, evidence)
                evidence.changed = False
            except OSError as error:
                self._counts.fault(error, "what the items have shown is forgotten after this crawl")

    def _save_dropped(self, name: str, evidence: "Evidence[Request]") -> None:
        """Write the dropped pages that may be sent again, beside Scrapy's own state of the crawl."""
        if self._job is None:
            return
        held, spider = [], self._counts.crawler.spider
        for of, request in evidence.remembered():
            try:
                held.append(pickle.dumps((tuple(of), request.to_dict(spider=spider))))
            except Exception:  # as Scrapy's own queue leaves such requests out
                self._counts.add("items/not_saved")
        self._job.mkdir(parents=True, exist_ok=True)
        replace_file(self._job / name, pickle.dumps(held), PRIVATE)

    def _load_dropped(self, name: str) -> Iterator[tuple[Class, Request]]:
        path = None if self._job is None else self._job / name
        if path is None or not path.exists():
            return
        try:
            held = pickle.loads(path.read_bytes())  # noqa: S301  a file of this JOBDIR, as Scrapy's queue
            spider = self._counts.crawler.spider
            for each in held:
                of, request = pickle.loads(each)  # noqa: S301
                yield Class(*of), request_from_dict(request, spider=spider)
        except Exception as error:
            self._counts.fault(error, "pages dropped in the last run cannot be sent again")

    def classes(self) -> list[tuple[Class, Record]]:
        """Return what the items have shown, for the summary and the report: first the classes with most drops."""
        found = [pair for each in self._evidence.values() for pair in each.records().items()]
        return sorted(found, key=lambda each: (-each[1].dropped, -each[1].others, str(each[0])))


class Pair(NamedTuple):
    """A page (by its document key) and a stored near-duplicate of it.

    digest  the items of the near-duplicate, if they are known
    name    the class of the two
    back    the class of the two if the page had come first
    """

    key: str
    of: Neighbour
    digest: Digest | None
    name: Class
    back: Class

    @property
    def brought(self) -> Digest:
        """The items, of a pair whose items are known."""
        assert self.digest is not None
        return self.digest


class Findings:
    """What a page's pairs have shown, by class.

    A class is proven if any pair of it is equal. The class of a pair the other way round is proven if its
    items are equal both ways, and no other pair of the page speaks against it.
    """

    def __init__(self) -> None:
        self.original = ""  # the first near-duplicate with equal items
        self.ahead: set[Class] = set()
        self._weights: dict[Class, tuple[float, float]] = {}
        self._back: dict[Class, float] = {}
        self._others: dict[Class, tuple[str, str, frozenset[int]]] = {}

    def add(self, pair: Pair, result: Comparison, mine: Digest, *, equal_back: bool) -> None:
        """Add a pair; equal_back says whether the original's items are among the page's."""
        self.ahead.add(pair.name)
        page, of = pair.key, pair.of.key
        if result.equal:
            empty = pair.brought.number > 0 and not mine.number
            alike = pair.of.similarity
            if not empty or _is_frame(pair.name):
                self._weights.setdefault(pair.name, (EMPTY if empty else 1.0, alike))
            self.original = self.original or of
            if equal_back and mine.number:
                self._back.setdefault(pair.back, alike)
        elif mine.number:
            self._others.setdefault(pair.name, (page, of, result.fields))
            if not equal_back:
                self._others.setdefault(pair.back, (of, page, result.fields))

    def agreed(self) -> Iterator[tuple[Class, tuple[float, float]]]:
        """Yield the classes with equal pairs, each with the weight and the similarity of one."""
        yield from self._weights.items()
        for name, alike in self._back.items():
            if name not in self._others and name not in self._weights:
                yield name, (1.0, alike)

    def differed(self) -> Iterator[tuple[Class, tuple[str, str, frozenset[int]]]]:
        """Yield the other classes, each with a page, its original and the fields that differ."""
        for name, example in self._others.items():
            if name not in self._weights:
                yield name, example


def _is_hidden(request: Request, found: Iterable[Pair]) -> bool:
    """Whether a page may bring something although near-duplicates of it brought nothing at all.

    Their callback may keep what it finds: in the spider, in a file of its own, in an item that is yielded with another
    page; or it yields what only few pages have, as a free night. So such a page is no copy if its request brought an item
    or arguments along, or if it differs in more than its frame.
    """
    nothing = [pair for pair in found if pair.digest is not None and pair.digest.is_nothing]
    if not nothing:
        return False
    if request.cb_kwargs or any(is_item(v) for k, v in request.meta.items() if k != "dedup"):
        return True
    return not any(_is_frame(pair.name) for pair in nothing)


def _is_frame(name: Class) -> bool:
    """Whether the pages of a class differ in nothing but their frames."""
    return FRAME.issuperset(name.parts.strip("0r"))


def _decided_by(pairs: Iterable[Pair]) -> set[Class]:
    """Return the classes that equal items prove, each once."""
    return {name for pair in pairs for name in (pair.name, pair.back)}


_LETTERS = {name: letter for letter, name in PARTS.items()}


def _letters(their: PageFingerprint, my: PageFingerprint) -> str:
    """Return the letters of what differs in two pages (evidence.PARTS); "?" if the parts of one are not known."""
    found = differing_parts(their, my)
    if found is None:
        return "?"
    letters = "".join(map(_LETTERS.__getitem__, found))
    return letters + "w" * (their.sketch[TEXT_HASH:] != my.sketch[TEXT_HASH:])


# ------------------------------------- what is not new brings nothing: a request, an item

MOST_ITEMS = 2_000_000  # of the crawl, 10 bytes each
MOST_REQUESTS = 5_000_000
REQUESTS_LAST = 1000  # of these, noted together
MOST_OWN = 2_000_000  # pages that this crawl accepted, by which they are told from other crawls'
# The requests of a callback that are compared with the links of their pages: of each page the first one, and up to
BEYOND_PAGE, BEYOND = 10, 100  # of one page, and of all pages
_LEADS_BEYOND = -1  # some lead to pages without a link to them


class Met:
    """What one crawl has met: items, requests, its own pages, and the callbacks that ask for pages without links to them.

    Memory is bounded. What is forgotten counts as new, and keeps pages.
    """

    def __init__(self, config: Config) -> None:
        """Begin with nothing."""
        self._items = HashSet(MOST_ITEMS)
        self._requests = HashSet(MOST_REQUESTS)
        self._requests_last: list[int] = []  # hashes that are not in it yet
        # pages that were accepted; None if the memory holds none of other crawls
        self.own = HashSet(MOST_OWN) if config.memory != "crawl" or config.service else None
        self._reads_links = "new_links" in config.exempt or config.unchanged == "drop"
        self._led = HashSet(MOST_OWN)  # near-duplicates that led beyond
        self._beyond: dict[str, int] = {}  # by callback: requests that were looked at

    def is_new_item(self, kind: str, item: int | None) -> bool:
        """Whether no page of a kind brought an equal item before; remember it."""
        if item is None:
            return True
        digest = (hash(kind) & 0xFFFFFFFF).to_bytes(4, "little") + item.to_bytes(4, "little")
        return self._items.take(digest) > 0

    def accept(self, key: str) -> None:
        """Note a page of this crawl, where those of other crawls are remembered, too."""
        assert self.own is not None
        self.own.add(_text_hash(key))

    def is_own(self, key: str) -> bool:
        """Whether this crawl accepted a page."""
        return self.own is None or not self.own.missing(_text_hash(key))

    def note_led(self, key: str) -> None:
        """Note a near-duplicate that made new requests for pages to which it has no link."""
        self._led.add(_text_hash(key))

    def has_led(self, key: str) -> bool:
        """Whether a near-duplicate did that."""
        return not self._led.missing(_text_hash(key))

    def schedule(self, request: Request) -> None:
        """Note a request that the crawl makes."""
        self._requests_last.append(hash(request.url))
        if len(self._requests_last) >= REQUESTS_LAST:
            self._note_requests()

    def _note_requests(self) -> None:
        last, self._requests_last = self._requests_last, []
        self._requests.add(pack(f"<{len(last)}q", *last))

    def is_scheduled(self, request: Request) -> bool:
        """Whether the crawl made a request for this URL before."""
        self._note_requests()
        return not self._requests.missing(_text_hash(request.url))

    def leads_beyond(
        self, flight: "Flight", request: Request, is_linked: Callable[[str], bool]
    ) -> bool:
        """Whether a callback makes a new request to which its page has no link: to an interface, a frame.

        is_linked() says whether a link of the page leads to a URL.
        """
        return not self.is_scheduled(request) and not self._has_link(flight, request, is_linked)

    def asks(
        self, flight: "Flight", request: Request, is_linked: Callable[[str], bool], number: int
    ) -> bool:
        """Whether a callback asks for more than its page's links to known pages (number: of the request, from 1 on)."""
        if not self.is_scheduled(request):
            return True
        return number <= BEYOND_PAGE and not self._has_link(flight, request, is_linked)

    @staticmethod
    def _has_link(flight: "Flight", request: Request, is_linked: Callable[[str], bool]) -> bool:
        links, recipe = flight.reading.links, flight.namespace.detector.recipe
        address = read_page(b"", url=request.url, recipe=recipe, links=True).address
        if any(links[at : at + 8] == address for at in range(0, len(links), 8)):
            return True
        return is_linked(request.url)

    def follow(
        self,
        flight: "Flight",
        request: Request,
        is_linked: Callable[[str], bool],
        number: int,
    ) -> None:
        """Note a request of an accepted page's callback, with its number in the page from 0 on."""
        seen = self._beyond.get(flight.callback, 0)
        if seen == _LEADS_BEYOND or not self._reads_links:
            return
        if number and (number >= BEYOND_PAGE or seen >= BEYOND):
            return
        beyond = self.leads_beyond(flight, request, is_linked)
        self._beyond[flight.callback] = _LEADS_BEYOND if beyond else seen + 1

    def goes_beyond(self, callback: str) -> bool:
        """Whether a callback asks for pages to which its pages have no link."""
        return self._beyond.get(callback) == _LEADS_BEYOND


def _text_hash(text: str) -> bytes:
    """Return the hash of a URL that a HashSet of this process takes."""
    return (hash(text) & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
