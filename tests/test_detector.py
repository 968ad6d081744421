"""The embedded detector: what needs a clock of the test's, a fault, a kill, threads, or its insides.

What every detector keeps, embedded or behind a service, is in test_detectors.py.
"""

import os
import random
import subprocess
import sys
import tempfile
import textwrap
import threading
from itertools import count
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from w3lib.url import canonicalize_url

import dedup.detector
import dedup.open_stores
import dedup.reservations
from dedup.errors import RecipeMismatch, StoreLocked, UsageError
from dedup.names import document_key, namespace_of, registrable_domain
from dedup.recipes import recipe_of
from dedup.store import verify_store
from dedup.values import PageFingerprint, Verdict

RECIPE = "words-0-3"
A, B, C = (f"http://example.com/{name}" for name in "abc")
ONES = 2**64 - 1


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def page(value: int = 0, check: int = 0, **fields: object) -> PageFingerprint:
    defaults = {"links": 0, "features": 100, "link_count": 0, "recipe": RECIPE}
    return PageFingerprint(value, check, **(defaults | fields))


def bits(n: int) -> int:
    """A number with n bits set."""
    return 2**n - 1


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def detector(tmp_path, clock):
    with dedup.detector.open(tmp_path, clock=clock) as opened:
        yield opened


def accept(detector, fingerprint, key, **options):
    """Reserve and insert a page that is to be kept."""
    verdict = detector.reserve(fingerprint, key, **options)
    assert verdict.token
    detector.insert(verdict)
    return verdict


# ------------------------------------------------------------------------------- the promises


def test_promise_1_nothing_is_lost_when_the_store_errs(detector, monkeypatch):
    """An insert that fails leaves the reservation: others stay pending, and it can be repeated."""

    def refuse(_):
        raise OSError(28, "No space left on device", "documents.mdb")

    verdict = detector.reserve(page(), A)
    with monkeypatch.context() as patch:
        patch.setattr(detector._store, "insert", refuse)
        with pytest.raises(OSError, match="No space"):
            detector.insert(verdict)
    assert detector.reserve(page(), B).status == "pending"
    detector.insert(verdict)
    assert detector.reserve(page(), B).status == "near_duplicate"


def test_promise_2_a_page_is_never_a_duplicate_of_itself_after_a_crash(tmp_path):
    """A page that was in flight or inserted when the process was killed is kept when resumed."""
    code = """
        import os, sys
        import dedup.detector
        from dedup.values import PageFingerprint
        detector = dedup.detector.open(sys.argv[1])
        def reserve(key, value):
            page = PageFingerprint(value, 0, 0, 100, 0, "words-0-3")
            return detector.reserve(page, key)
        detector.insert(reserve("http://example.com/a", 0))
        reserve("http://example.com/b", 2**64 - 1)
        os.kill(os.getpid(), 9)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    assert subprocess.run(command, check=False, timeout=600).returncode == -9
    with dedup.detector.open(tmp_path) as resumed:
        assert resumed.reserve(page(0), A).status == "refetch"
        assert resumed.reserve(page(ONES), B).status == "unique"
        assert resumed.reserve(page(0), C).status == "near_duplicate"


def test_promise_2_a_page_is_never_a_duplicate_of_itself_when_crawled_again(detector):
    """A recrawl of near-duplicates that were all accepted keeps every one of them."""
    detector.insert(detector.reserve(page(), A))
    detector.insert(detector.reserve(page(), B, exempt="start"))
    for key in (A, B):
        verdict = detector.reserve(page(bits(1)), key)
        assert verdict.status == "refetch"
        detector.insert(verdict)
    assert len(detector) == 2


def test_promise_3_two_phases_exactly_one_of_two_threads_wins(tmp_path):
    """100 times two threads reserve near-duplicates at once: one is unique, one is pending."""
    with dedup.detector.open(tmp_path) as detector:
        for number in range(100):
            value = number * 0x9E3779B97F4A7C15 % 2**64
            verdicts, barrier = [], threading.Barrier(2)

            def reserve(key, value=value, verdicts=verdicts, barrier=barrier):
                barrier.wait()
                verdicts.append(detector.reserve(page(value), key))

            keys = [f"http://example.com/{number}/{side}" for side in "ab"]
            threads = [threading.Thread(target=reserve, args=(key,)) for key in keys]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            verdicts.sort(key=lambda v: v.status)
            assert [v.status for v in verdicts] == ["pending", "unique"]
            assert verdicts[0].of == verdicts[1].key
            detector.insert(verdicts[1])
            assert detector.reserve(page(value), verdicts[0].key).status == "near_duplicate"
        assert len(detector) == 100


def test_promise_3_two_phases_what_nobody_ends_expires(detector, clock):
    """At its expiry a reservation no longer holds anyone up."""
    verdict = detector.reserve(page(), A)
    clock.now += 599
    assert detector.reserve(page(), B).status == "pending"
    clock.now += 1
    assert detector.reserve(page(), B).status == "unique"
    assert not detector.release(verdict)


# --------------------------------------------------------------------------- the decision


def test_a_short_original_matches_nothing(detector):
    """A short page that was inserted as a start request never drops another."""
    accept(detector, page(features=5), A, exempt="start")
    assert detector.reserve(page(), B).status == "unique"


def test_who_waited_long_enough_is_kept(detector):
    """A pending page that comes back with exempt="in_flight" is kept and inserted like others."""
    first = detector.reserve(page(), A)
    assert detector.reserve(page(), B).status == "pending"
    second = detector.reserve(page(), B, exempt="in_flight")
    detector.insert(second)
    detector.release(first)
    assert detector.reserve(page(), C).of == B


def test_an_inserted_match_comes_before_a_nearer_one_in_flight(detector):
    """With one match inserted and one in flight the page is a near-duplicate of the first."""
    accept(detector, page(bits(4)), A)
    detector.reserve(page(), B, exempt="start")
    verdict = detector.reserve(page(), C)
    assert (verdict.status, verdict.of) == ("near_duplicate", A)


def test_the_listing_guard_looks_at_every_match(detector):
    """A page counts as a near-duplicate of those matches that have its links: not of the nearest,
    and of one in flight only once that is inserted."""
    accept(detector, page(links=0, link_count=30), A)
    listing = page(bits(3), links=ONES, link_count=30)
    second = detector.reserve(listing, B)
    assert second.reason == "new_links"
    copy = page(links=ONES, link_count=30)
    verdict = detector.reserve(copy, C)
    assert (verdict.status, verdict.of) == ("pending", B)
    detector.insert(second)
    verdict = detector.reserve(copy, C)
    assert (verdict.status, verdict.of) == ("near_duplicate", B)


def test_pages_without_a_domain_do_not_match_each_other_in_site_scope(tmp_path):
    """No domain is not a common domain."""
    with dedup.detector.open(tmp_path, scope="site") as detector:
        accept(detector, page(), "one")
        assert detector.reserve(page(), "two").status == "unique"


# ------------------------------------------------------------------------- ending a reservation


def test_an_insert_that_is_repeated_writes_nothing(detector):
    """The second insert of a verdict changes nothing and is False."""
    verdict = accept(detector, page(), A)
    next_id = detector._store._documents.next_id
    assert detector.insert(verdict) is False
    assert detector._store._documents.next_id == next_id


def test_an_expired_reservation_is_inserted_all_the_same(detector, clock):
    """After expiry insert() stores, and tells that a near-duplicate was inserted meanwhile."""
    verdict = detector.reserve(page(), A)
    clock.now += 600
    other = detector.reserve(page(), B)
    assert other.status == "unique"
    assert detector.insert(other) is False
    assert detector.insert(verdict) is True
    assert len(detector) == 2
    assert detector.reserve(page(), A).status == "refetch"


def test_a_late_insert_alone_is_not_a_late_duplicate(detector, clock):
    """Expired, but nothing alike came meanwhile: False."""
    verdict = detector.reserve(page(), A)
    clock.now += 600
    assert detector.insert(verdict) is False


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.integers(0, 9).map(lambda n: bits(5 * n)), min_size=1, max_size=12),
    sizes=st.lists(st.integers(1, 5), min_size=12, max_size=12),
    recent=st.sampled_from([1, 64]),
)
def test_late_duplicates_are_told_however_pages_are_inserted(values, sizes, recent):
    """Of pages that were all unique when they were reserved, those are late that a scan finds late.

    So it is one by one or together, and however many were inserted in between.
    """
    clock = Clock()
    with (
        mock.patch.object(dedup.open_stores, "RECENT", recent),
        tempfile.TemporaryDirectory() as folder,
        dedup.detector.open(folder, clock=clock) as detector,
    ):
        verdicts = []
        for number, value in enumerate(values):
            clock.now += 600  # the ones before have expired
            verdicts.append(detector.reserve(page(value), f"http://example.com/{number}"))
        assert {verdict.status for verdict in verdicts} == {"unique"}
        late = []
        while verdicts:
            size = sizes.pop()
            late += detector.insert_many(verdicts[:size])
            verdicts = verdicts[size:]
        expected = [
            any((value ^ other).bit_count() <= 6 for other in values[:number])
            for number, value in enumerate(values)
        ]
        assert late == expected
        assert len(detector) == len(values)


def test_a_verdict_of_a_process_that_ended_is_inserted(tmp_path):
    """A token of an earlier opening stores its page; releasing it is False."""
    with dedup.detector.open(tmp_path) as detector:
        old, other = detector.reserve(page(), A), detector.reserve(page(ONES), B)
    with dedup.detector.open(tmp_path) as detector:
        detector.insert(old)
        assert not detector.release(other)
        assert detector.reserve(page(), C).of == A


# ------------------------------------------------------------------------------------- opening


def test_two_detectors_of_a_process_share_a_store(tmp_path, clock):
    """They see each other's documents and pages in flight; the last one closes the store."""
    first = dedup.detector.open(tmp_path, clock=clock)
    second = dedup.detector.open(tmp_path / ".." / tmp_path.name, clock=clock)
    verdict = first.reserve(page(), A)
    assert second.reserve(page(), B).status == "pending"
    first.insert(verdict)
    first.close()
    first.close()
    assert second.reserve(page(), B).status == "near_duplicate"
    second.close()
    with dedup.detector.open(tmp_path) as third:
        assert len(third) == 1


def test_a_second_process_is_refused(tmp_path):
    """Another process gets StoreLocked; the shared registry does not reach that far."""
    with dedup.detector.open(tmp_path):
        code = "import sys, dedup.detector; dedup.detector.open(sys.argv[1])"
        command = [sys.executable, "-c", code, str(tmp_path)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
        assert StoreLocked.__name__ in done.stderr
        assert "dedup serve" in done.stderr


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("distance", 16),
        ("distance", -1),
        ("distance", 3.0),
        ("distance", True),
        ("distance", "3"),
        ("total_distance", 129),
        ("min_features", -1),
        ("scope", "page"),
        ("reservation_seconds", 0),
        ("reservation_seconds", float("nan")),
        ("reservation_seconds", float("inf")),
        ("reservation_seconds", "600"),
        ("namespace", "../x"),
        ("secret", ""),
    ],
)
def test_a_wrong_argument_leaves_nothing_open(tmp_path, argument, value):
    """UsageError says which argument, its value, and what is allowed; nothing is left open."""
    with pytest.raises(UsageError, match=argument) as caught:
        dedup.detector.open(tmp_path, **{argument: value})
    assert argument == "secret" or repr(value) in str(caught.value)
    dedup.detector.open(tmp_path).close()


FORKED = """
    import os, sys, dedup
    from dedup.values import PageFingerprint

    def page(n):
        return PageFingerprint(n * 0x9E3779B97F4A7C15 % 2**64, 0, 0, 100, 0, "words-0-3")

    detector = dedup.open(sys.argv[1])
    held = detector.reserve(page(1), "http://example.com/1")
    child = os.fork()
    if child == 0:
        for action in (
            lambda: detector.insert(held),
            lambda: detector.release(held),
            lambda: detector.reserve(page(2), "http://example.com/2"),
            lambda: len(detector),
            lambda: dedup.open(sys.argv[1]),
        ):
            try:
                print("child", action())
            except dedup.DedupError as error:
                print(type(error).__name__, "forked" in str(error))
        detector.close()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    for n in range(2, 5):
        detector.insert(detector.reserve(page(n), f"http://example.com/{n}"))
    detector.insert(held)
    print(len(detector))
    detector.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_store_stays_with_the_process_that_opened_it(tmp_path):
    """One forked later is refused by name, and leaves nothing of its own in the store."""
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKED), tmp_path],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert ran.stdout.splitlines() == ["UsageError True"] * 4 + ["StoreLocked False", "4"]
    assert verify_store(tmp_path, "default").problems == []


def test_a_closed_detector_is_closed_while_others_share_its_store(tmp_path):
    """What asks the store of them is refused too."""
    with dedup.detector.open(tmp_path):
        detector = dedup.detector.open(tmp_path)
        detector.close()
        for action in (
            detector.__len__,
            detector.__enter__,
            detector.sync,
            lambda: detector.snapshot(1),
            lambda: detector.give_up((), len),
        ):
            with pytest.raises(UsageError, match="closed"):
                action()


def test_an_empty_target_is_no_folder():
    """It would be the current one, by way of a variable that is not set."""
    with pytest.raises(UsageError, match="names no folder"):
        dedup.detector.open("")


def test_a_folder_may_be_named_by_bytes(tmp_path):
    """As anything that names a path in Python."""
    with dedup.detector.open(os.fsencode(tmp_path)) as detector:
        assert len(detector) == 0


@pytest.mark.parametrize("wrong", [page(5, -1), page(5, links=2**64), page(5, check=2**64)])
def test_a_fingerprint_out_of_range_is_not_inserted(detector, wrong):
    """What is no 64-bit number never reaches the store."""
    with pytest.raises(UsageError, match="64"):
        accept(detector, wrong, A)
    assert len(detector) == 0


def test_a_url_is_no_folder():
    """Here a redis:// target is refused in so many words; dedup.open() takes it."""
    with pytest.raises(UsageError, match="URL"):
        dedup.detector.open("redis://localhost:7700")


def test_secrets_belong_to_a_store(tmp_path):
    """A keyed store judges without its secret, makes fingerprints only with it, refuses others."""
    with dedup.detector.open(tmp_path, secret="one") as keyed:
        made = keyed.fingerprint(b"<p>some words in a page</p>")
        assert made.recipe == keyed.recipe.id == recipe_of(secret="one").id
    with dedup.detector.open(tmp_path) as without:
        assert without.reserve(made, A, exempt="start").token
        with pytest.raises(RecipeMismatch, match="secret"):
            without.fingerprint(b"<p>some words in a page</p>")
        with pytest.raises(RecipeMismatch):
            dedup.detector.open(tmp_path, secret="two")
        with pytest.raises(RecipeMismatch):
            dedup.detector.open(tmp_path, recipe=RECIPE)
        with pytest.raises(RecipeMismatch):
            dedup.detector.open(tmp_path, recipe=recipe_of(RECIPE))


def test_fingerprint_follows_the_store(detector):
    """fingerprint() makes pages that reserve() takes."""
    made = detector.fingerprint("<p>" + " ".join(f"word{i}" for i in range(50)) + "</p>", url=A)
    assert detector.reserve(made, A).status == "unique"


def test_info_says_everything_at_once(detector):
    """info() tells the store, the policy, and the pages in flight."""
    detector.reserve(page(), A)
    info = detector.info()
    assert (info["documents"], info["in_flight"], info["distance"]) == (0, 1, 7)
    assert (info["recipe"], info["scope"]) == (RECIPE, "global")


# --------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("http://www.example.co.uk:8080/a?b", "example.co.uk"),
        ("https://EXAMPLE.com./", "example.com"),
        ("http://user:pass@a.b.example.org/", "example.org"),
        ("http://www.example.com:80@a.b.example.org/", "example.org"),
        ("http://www.example.com\\@example.org/", "example.org"),
        ("http://www.example.com?q=@example.org", "example.com"),
        ("http://www.example.com\n", "example.com"),
        ("http://127.0.0.1:8000/", "127.0.0.1"),
        ("http://[::1]:8000/", "::1"),
        ("http://localhost:8000/", "localhost"),
        ("http://wiki.intranet/", "wiki.intranet"),
        ("http://co.uk/", "co.uk"),
        ("http://bücher.de/", "xn--bcher-kva.de"),
        ("http://xn--bcher-kva.de/", "xn--bcher-kva.de"),
        ("a key of one's own", ""),
        ("http://[", ""),
        ("", ""),
    ],
)
def test_registrable_domains(url, domain):
    """The registrable domain of a URL, or its host, or nothing."""
    assert registrable_domain(url) == domain


def test_document_keys_are_canonical():
    """Fragments and the order of the query do not make another document."""
    assert document_key("http://Example.com/?b=2&a=1#top") == "http://example.com/?a=1&b=2"


SOME = "abzAZ09-_.~/%&=?#+:;@ é"
hosts = st.one_of(
    st.sampled_from(["example.com", "a.b.example.co.uk", "127.0.0.1", "localhost", "[::1]"]),
    st.text("abx-.09N", max_size=12),
)
paths = st.lists(st.one_of(st.text("aZ9-_.~", max_size=4), st.text(SOME, max_size=3)), max_size=4)
arguments = st.tuples(st.text("aB1-_.~", max_size=2), st.sampled_from(["=", "=", ""]))
queries = st.lists(st.tuples(arguments, st.one_of(st.text("aB1.~", max_size=2), st.text(SOME))))


@settings(max_examples=1000, deadline=None)
@given(
    scheme=st.sampled_from(["http", "https", "HTTP", "ftp"]),
    host=hosts,
    port=st.sampled_from(["", "", ":80", ":8080", ":080", ":65535", ":59999", ":"]),
    path=paths,
    query=queries.map(lambda parts: "&".join(name + eq + value for (name, eq), value in parts)),
    mark=st.sampled_from(["", "?"]),
)
def test_document_keys_are_what_w3lib_makes_of_a_url(scheme, host, port, path, query, mark):
    """A URL that is taken for canonical at first sight is one."""
    url = f"{scheme}://{host}{port}/{'/'.join(path)}{mark}{query if mark else ''}"
    try:
        expected = canonicalize_url(url)
    except ValueError as error:
        with pytest.raises(type(error)):
            document_key(url)
    else:
        assert document_key(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https://www.example.com:8080/2025/11/a_page-1.html",
        "http://example.com/~someone/a/?id=2&page=1",
    ],
)
def test_plain_urls_need_no_w3lib(monkeypatch, url):
    """What most crawled URLs look like is seen to be canonical without taking it apart."""
    monkeypatch.setattr("w3lib.url.canonicalize_url", None)
    assert document_key(url) == url


@pytest.mark.parametrize(
    ("name", "namespace"),
    [("news", "news"), ("my spider/é", "my-spider--"), (".x", "-x"), ("a" * 70, "a" * 64)],
)
def test_a_spiders_name_becomes_a_namespace(name, namespace):
    """Characters that a namespace does not take become "-"."""
    assert namespace_of(name) == namespace


# ---------------------------------------------------------------------- everything against a model


class Crawl(RuleBasedStateMachine):
    """Many steps of a crawl, each checked against a brute-force model of the rules."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.inserted: dict[str, PageFingerprint] = {}
        self.in_flight: dict[str, tuple[str, PageFingerprint, float]] = {}
        self.verdicts: list[Verdict] = []
        self.accepted: set[str] = set()

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.open()

    def open(self) -> None:
        self.detector = dedup.detector.open(
            self.folder.name, distance=4, total_distance=9, clock=self.clock
        )

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.detector.close()
            self.folder.cleanup()

    def near(self, fingerprint: PageFingerprint, key: str, others: list) -> list:
        found = []
        for other_key, other in others:
            distance = (fingerprint.value ^ other.value).bit_count()
            total = distance + (fingerprint.check ^ other.check).bit_count()
            if other_key != key and distance <= 4 and total <= 9 and other.features >= 20:
                found.append((distance, total - distance, other_key, other.links))
        return sorted(found)

    pages = st.builds(
        page,
        value=st.sampled_from([0, ONES]).flatmap(
            lambda base: st.integers(0, 7).map(lambda n: base ^ bits(n))
        ),
        check=st.integers(0, 8).map(bits),
        links=st.sampled_from([0, bits(20), ONES]),
        link_count=st.sampled_from([0, 20]),
        features=st.sampled_from([100, 100, 100, 10]),
    )
    keys = st.integers(0, 12).map(lambda n: f"http://example.com/{n}")

    @rule(fingerprint=pages, key=keys, exempt=st.sampled_from([None, None, None, "start"]))
    def reserve(self, fingerprint: PageFingerprint, key: str, exempt: str | None) -> None:
        verdict = self.detector.reserve(fingerprint, key, exempt=exempt)
        alive = [(k, p) for k, p, expires in self.in_flight.values() if expires > self.clock.now]
        stored = self.near(fingerprint, key, list(self.inserted.items()))
        flying = self.near(fingerprint, key, alive)
        alike = bool(stored or flying)
        if fingerprint.features / 24 <= fingerprint.link_count >= 8:
            stored, flying = (
                [each for each in found if (fingerprint.links ^ each[3]).bit_count() <= 16]
                for found in (stored, flying)
            )
        if exempt:
            expected = ("exempt", exempt, None)
        elif fingerprint.features < 20:
            expected = ("exempt", "short", None)
        elif key in self.inserted or key in {k for k, _ in alive}:
            expected = ("refetch", "", None)
        elif not alike:
            expected = ("unique", "", None)
        elif not stored and not flying:
            expected = ("exempt", "new_links", None)
        elif stored:
            expected = ("near_duplicate", "", stored[0][2])
        else:
            expected = ("pending", "", flying[0][2])
        assert (verdict.status, verdict.reason, verdict.of) == expected
        holds = verdict.status in ("unique", "refetch", "exempt") and verdict.reason != "short"
        assert (verdict.token is not None) == holds
        if verdict.status == "near_duplicate":
            assert key not in self.accepted, "an accepted key was dropped"
            assert verdict.of in self.inserted, "a drop without an accepted original"
        if verdict.token:
            self.in_flight[verdict.token] = (key, fingerprint, self.clock.now + 600)
            self.verdicts.append(verdict)

    @precondition(lambda self: self.verdicts)
    @rule(choices=st.lists(st.integers(0, 999), min_size=1, max_size=6))
    def insert(self, choices: list[int]) -> None:
        """Insert some pages together: they come out as they would one after the other."""
        verdicts, late = [], []
        for choice in choices[: len(self.verdicts)]:
            verdict = self.verdicts.pop(choice % len(self.verdicts))
            stored = self.near(verdict.page, verdict.key, list(self.inserted.items()))
            guarded = verdict.page.features / 24 <= verdict.page.link_count >= 8 and all(
                (verdict.page.links ^ links).bit_count() > 16 for *_, links in stored
            )
            late.append(verdict.status == "unique" and bool(stored) and not guarded)
            verdicts.append(verdict)
            self.inserted[verdict.key] = verdict.page
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
        alive = held is not None and held[2] > self.clock.now
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
TestCrawl.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


class CrawlOfFewValues(Crawl):
    """The same where the values of the last inserts, and those in flight, are soon too many."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch.object(dedup.open_stores, "RECENT", 2),
            mock.patch.object(dedup.reservations, "COMPARED", 2),
        ]
        for patch in self.patches:
            patch.start()

    def teardown(self) -> None:
        super().teardown()
        for patch in self.patches:
            patch.stop()


TestCrawlOfFewValues = CrawlOfFewValues.TestCase
TestCrawlOfFewValues.settings = TestCrawl.settings


def test_of_each_group_one_page_is_kept(tmp_path, clock):
    """However inserts, releases and expiries fall, every group of copies keeps a page."""
    generator, number = random.Random(3), count()
    with dedup.detector.open(tmp_path, clock=clock) as detector:
        groups = [generator.getrandbits(64) for _ in range(30)]
        kept: dict[int, int] = dict.fromkeys(range(30), 0)
        waiting = [
            (g, f"http://example.com/{next(number)}", 0) for g in range(30) for _ in range(8)
        ]
        flying: list[tuple[int, str, Verdict]] = []
        while waiting or flying:
            clock.now += generator.choice([0, 0, 0, 100, 700])
            if waiting and generator.random() < 0.6:
                group, key, tries = waiting.pop(generator.randrange(len(waiting)))
                exempt = "in_flight" if tries > 3 else None
                value = groups[group] ^ (1 << generator.randrange(64))
                verdict = detector.reserve(page(value), key, exempt=exempt)
                if verdict.status == "pending":
                    waiting.append((group, key, tries + 1))
                elif verdict.status == "near_duplicate":
                    assert kept[group], "dropped before a copy was accepted"
                else:
                    flying.append((group, key, verdict))
            elif flying:
                group, key, verdict = flying.pop(generator.randrange(len(flying)))
                if generator.random() < 0.3:
                    detector.release(verdict)
                    waiting.append((group, key, 0))
                else:
                    detector.insert(verdict)
                    kept[group] += 1
        assert all(kept.values())
        assert len(detector) == sum(kept.values())
