"""The embedded detector against a brute-force model of its rules, over many steps of a crawl."""

import tempfile
from unittest import mock

from detecting import ONES, Clock, bits, page, saying
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from sizes import examples

import dedup
import dedup.detector.reservations
from dedup.core.fingerprint import similarity
from dedup.model.page import PageFingerprint, Verdict


def site(key: str) -> str:
    return "org" if "org" in key else "com"


def says_another(a: PageFingerprint, b: PageFingerprint) -> bool:
    """Whether two pages of one site have two titles, or two canonical URLs."""
    halves = ((page.identity >> 32, page.identity % 2**32) for page in (a, b))
    return any(x != y for x, y in zip(*halves, strict=True) if x and y)


def leads_there_too(a: PageFingerprint, b: PageFingerprint) -> bool:
    """Whether two pages of little text lead to the same places."""
    return a.links == b.links != 0 and all(8 <= page.features < 60 for page in (a, b))


class Crawl(RuleBasedStateMachine):
    """Many steps of a crawl, each checked against a brute-force model of the rules."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.inserted: dict[str, tuple[PageFingerprint, str, bool]] = {}  # page, kind, paid
        self.in_flight: dict[str, tuple[str, PageFingerprint, str, float]] = {}
        self.verdicts: list[Verdict] = []
        self.accepted: set[str] = set()

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.open()

    def open(self) -> None:
        self.detector = dedup.open(self.folder.name, distance=4, clock=self.clock)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.detector.close()
            self.folder.cleanup()

    def near(
        self, fingerprint: PageFingerprint, key: str, kind: str, others: list, most: int = 4
    ) -> list:
        found = []
        for other_key, other, other_kind, paid in others:
            if kind and other_kind and kind != other_kind:
                continue
            distance = (fingerprint.value ^ other.value).bit_count()
            alike = similarity(fingerprint, other)
            fewer = min(fingerprint.features, other.features)
            one_site = site(key) == site(other_key)
            if fingerprint.features < 8:
                least = 0 if replace(fingerprint, links=0) == replace(other, links=0) else 2.0
            elif fewer >= 20:
                titled = fewer >= 60 and fingerprint.title == other.title != 0
                least = (0.85 if titled else 0.875) if one_site else 0.75
            else:
                least = 0.875 if one_site and fewer >= 8 else 2.0
            if other_key == key:
                continue
            if distance <= 4 and alike >= least:
                told = one_site and says_another(fingerprint, other)
                copied = distance == 0 and alike == 1 and fewer >= 8
                found.append((-alike, distance, other_key, told and not copied, paid))
            elif (
                distance <= most
                and one_site
                and alike >= 0.75
                and leads_there_too(fingerprint, other)
            ):
                found.append((-alike, distance, other_key, True, paid))
        return sorted(found)

    def stored_near(self, fingerprint: PageFingerprint, key: str, kind: str, most: int = 4) -> list:
        others = [(k, *document) for k, document in self.inserted.items()]
        return self.near(fingerprint, key, kind, others, most)

    pages = st.builds(
        lambda **fields: page(**fields | {"features": 0} if fields["unread"] else fields),
        value=st.sampled_from([0, ONES]).flatmap(
            lambda base: st.integers(0, 7).map(lambda n: base ^ bits(n))
        ),
        differing=st.sampled_from([0, 0, 1, 5, 20, 40, 60, 90]).map(bits),
        identity=st.sampled_from([0, saying(1), saying(1, 1), saying(2, 1), saying(0, 2)]),
        features=st.sampled_from([100, 100, 100, 20, 19, 8, 7]),
        unread=st.sampled_from([False] * 9 + [True]),
        links=st.sampled_from([0, 0, 1, 2]),
    )
    keys = st.integers(0, 12).map(lambda n: f"http://{'www.example.com' if n < 9 else 'a.org'}/{n}")

    @rule(
        fingerprint=pages,
        key=keys,
        exempt=st.sampled_from([None, None, None, "start"]),
        guard=st.booleans(),
        kind=st.sampled_from(["", "", "a", "a", "b"]),
    )
    def reserve(
        self,
        fingerprint: PageFingerprint,
        key: str,
        exempt: str | None,
        guard: bool,
        kind: str,
    ) -> None:
        verdict = self.detector.reserve(fingerprint, key, exempt=exempt, guard=guard, kind=kind)
        alive = [(*each, True) for *each, end in self.in_flight.values() if end > self.clock.now]
        stored = self.stored_near(fingerprint, key, kind)
        flying = self.near(fingerprint, key, kind, alive)
        if not stored and not flying:  # no search finds what leads to the same places
            stored = self.stored_near(fingerprint, key, kind, most=64)
        alike, like = bool(stored or flying), stored[0][2] if stored else None
        if guard:
            stored, flying = ([n for n in found if not n[3]] for found in (stored, flying))
        paid = [n for n in stored if n[4]]
        if exempt:
            expected = ("exempt", exempt, None)
        elif key in self.inserted or key in {k for k, *_ in alive}:
            same = self.inserted.get(key) == (fingerprint, kind, True)
            expected = ("refetch", "unchanged" if same and fingerprint.links else "", None)
        elif not alike and fingerprint.features < 8:
            expected = ("exempt", "unread" if fingerprint.unread else "short", None)
        elif not alike:
            expected = ("unique", "", None)
        elif not stored and not flying:
            expected = ("exempt", "other_title", like)
        elif paid:
            expected = ("near_duplicate", "", paid[0][2])
        elif flying:
            expected = ("pending", "", flying[0][2])
        else:
            expected = ("near_duplicate", "", stored[0][2])
        assert (verdict.status, verdict.reason, verdict.of) == expected
        kept = verdict.status in ("unique", "refetch", "exempt")
        assert (verdict.token is not None) == kept
        if verdict.status == "near_duplicate":
            assert key not in self.accepted, "an accepted key was dropped"
            assert verdict.of in self.inserted, "a drop without an accepted original"
        if verdict.token:
            self.in_flight[verdict.token] = (key, fingerprint, kind, self.clock.now + 600)
            self.verdicts.append(verdict)

    @precondition(lambda self: self.verdicts)
    @rule(choices=st.lists(st.integers(0, 999), min_size=1, max_size=6), paid=st.booleans())
    def insert(self, choices: list[int], paid: bool) -> None:
        """Insert some pages together: they come out as they would one after the other."""
        verdicts, late = [], []
        for choice in choices[: len(self.verdicts)]:
            verdict = self.verdicts.pop(choice % len(self.verdicts)).brought(paid=paid)
            stored = self.stored_near(verdict.page, verdict.key, verdict.document.kind)
            counts = [not told and other_paid for *_, told, other_paid in stored]
            late.append(verdict.status == "unique" and any(counts))
            verdicts.append(verdict)
            self.inserted[verdict.key] = verdict.page, verdict.document.kind, paid
            self.accepted.add(verdict.key)
            self.in_flight.pop(verdict.token, None)
        if len(verdicts) == 1:
            assert [self.detector.insert(verdicts[0])] == late
        else:
            assert self.detector.insert_many(verdicts) == late

    @precondition(lambda self: self.verdicts)
    @rule(choice=st.integers(0, 999))
    def release(self, choice: int) -> None:
        verdict = self.verdicts.pop(choice % len(self.verdicts))
        held = self.in_flight.pop(verdict.token, None)
        alive = held is not None and held[-1] > self.clock.now
        assert self.detector.release(verdict) == alive

    @rule(seconds=st.sampled_from([1, 300, 600]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(key=keys)
    def forget(self, key: str) -> None:
        assert self.detector.forget(key) == (self.inserted.pop(key, None) is not None)
        self.accepted.discard(key)

    @rule(keep=st.booleans())
    def crash(self, keep: bool) -> None:
        """Pages in flight are forgotten; what was inserted is not."""
        self.detector.close()
        self.in_flight.clear()
        if not keep:
            self.verdicts.clear()
        self.open()

    @invariant()
    def nothing_accepted_is_missing(self) -> None:
        if hasattr(self, "detector"):
            assert len(self.detector) == len(self.inserted)


TestCrawl = Crawl.TestCase
TestCrawl.settings = settings(max_examples=examples(50), stateful_step_count=40, deadline=None)


class CrawlOfFewValues(Crawl):
    """The same where the values of the last inserts, and those in flight, are soon too many."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch.object(dedup.detector.reservations, "RECENT", 2),
            mock.patch.object(dedup.detector.reservations, "COMPARED", 2),
        ]
        for patch in self.patches:
            patch.start()

    def teardown(self) -> None:
        super().teardown()
        for patch in self.patches:
            patch.stop()


TestCrawlOfFewValues = CrawlOfFewValues.TestCase
TestCrawlOfFewValues.settings = TestCrawl.settings
