"""Shards judge as one detector over everything does, page by page: documents and pages in flight.

Each page is asked whole before the next one: what happens when two are asked at once is for
simulation/. Exact but for what docs/explain/shards.md names: a refetch whose near-duplicates lie at other
shards is in flight at some of them only; here it ends at once.
"""

from __future__ import annotations

import random
from collections import Counter

import msgspec
from detecting import ONES, bits, flat, flat_neighbours, saying
from seeds import seed_of
from sketches import sketch

import dedup
from dedup.model.events import record_key
from dedup.model.page import Document, PageFingerprint, Verdict
from dedup.model.recipes import NEWEST
from dedup.wire.shards import merged, partition_of

KEYS = [f"http://example.{top}/{n}" for top in ("com", "org") for n in range(8)]
FIRST = seed_of("SHARDS")
CRAWLS, STEPS = 20, 200


class OneAndMany:
    """One detector, and three that hold parts of what it holds, asked and told the same."""

    def __init__(self, folder: str, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.now = 0.0
        self.held: list[tuple[Verdict, str, float]] = []  # of the one; the many's token; expiry
        self.accepted: list[Verdict] = []  # pinned, not applied yet
        self.counts: Counter[str] = Counter()
        self.scope = rng.choice(["global", "global", "site"])
        self.one, *self.many = (
            dedup.open(
                folder,
                namespace=name,
                distance=4,
                scope=self.scope,
                clock=lambda: self.now,
            )
            for name in ("one", "a", "b", "c")
        )

    def close(self) -> None:
        for each in (self.one, *self.many):
            each.close()

    def page(self) -> PageFingerprint:
        rng = self.rng
        page = PageFingerprint(
            rng.choice([0, ONES]) ^ bits(rng.randrange(6)),
            sketch(bits(rng.choice([0, 0, 1, 5, 20, 40, 60, 90]))),
            rng.choice([0, saying(1), saying(1, 1), saying(2, 1)]),
            rng.choice([100, 100, 100, 100, 10, 7]),
            NEWEST,
            rng.random() < 0.03,
        )
        return msgspec.structs.replace(page, features=0) if page.unread else page

    def home(self, key: str) -> int:
        return partition_of(record_key("default", key), 7) % 3

    def release(self, verdict: Verdict, token: str, but: int | None = None) -> None:
        for i, each in enumerate(self.many):
            if i != but:
                each.release(msgspec.structs.replace(verdict, token=token))

    def reserve(self) -> None:
        rng, page, key = self.rng, self.page(), self.rng.choice(KEYS)
        token, home = f"{rng.getrandbits(128):032x}", self.home(key)
        options = {"exempt": rng.choice([None] * 9 + ["in_flight"]), "guard": rng.random() < 0.7}
        verdict = self.one.reserve(page, key, **options)
        answers = {
            i: each.reserve(page, key, token=token, home=i == home, **options)
            for i, each in enumerate(self.many)
        }
        found = merged(answers, home)
        assert found is not None
        assert (found.token is None) == (verdict.token is None)
        assert flat(msgspec.structs.replace(found, token=verdict.token)) == flat(verdict)
        self.counts[verdict.status + verdict.reason] += 1
        if found.token is None:
            self.release(found, token)
        elif found.status == "refetch" and not all(each.token for each in answers.values()):
            self.one.release(verdict)
            self.release(found, token)
        else:
            self.held.append((verdict, token, self.now + 600))

    def taken(self) -> tuple[Verdict, str, float] | None:
        return self.held.pop(self.rng.randrange(len(self.held))) if self.held else None

    def insert(self) -> None:
        if taken := self.taken():
            verdict, token, _ = taken
            home = self.home(verdict.key)
            self.one.insert(verdict)
            self.many[home].insert(msgspec.structs.replace(verdict, token=token))
            self.release(verdict, token, home)

    def pin(self) -> None:
        """Kafka acknowledged the event, which is to be applied."""
        taken = self.taken()
        if taken and self.now < taken[2]:
            verdict, token, _ = taken
            home = self.home(verdict.key)
            pinned = self.one.pin(
                verdict.token or ""
            )  # not if an event of an equal page has ended it
            assert self.many[home].pin(token) == pinned
            if pinned:
                self.accepted.append(verdict)
            self.release(verdict, token, home)

    def apply(self) -> None:
        if self.accepted:
            verdict = self.accepted.pop(0)
            document = Document(verdict.key, verdict.page, verdict.domain, 0.0)
            for each in (self.one, self.many[self.home(verdict.key)]):
                each.apply([(verdict.key, document)], {})

    def give_back(self) -> None:
        if taken := self.taken():
            self.one.release(taken[0])
            self.release(*taken[:2])

    def forget(self) -> None:
        key = self.rng.choice(KEYS)
        assert self.one.forget(key) == self.many[self.home(key)].forget(key)

    def wait(self) -> None:
        self.now += self.rng.choice([1, 1, 1, 300, 600])

    def probe(self) -> None:
        """The neighbours of all, the most similar first, are those of the one."""
        page = self.page()
        found = [n for each in self.many for n in each.probe(page, domain="example.com")]
        found.sort(key=lambda n: (-n.similarity, n.distance, n.key))
        assert flat_neighbours(found) == flat_neighbours(self.one.probe(page, domain="example.com"))

    def step(self) -> None:
        steps = {
            self.reserve: 12,
            self.insert: 1,
            self.pin: 2,
            self.apply: 1,
            self.give_back: 3,
            self.forget: 2,
            self.wait: 1,
            self.probe: 1,
        }
        self.rng.choices(list(steps), list(steps.values()))[0]()


def test_shards_judge_as_one_detector_over_everything(tmp_path):
    """Status, reason, original, distance, similarity, identity, and whether the page is in flight; probes, too."""
    counts: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + CRAWLS):
        crawl = OneAndMany(str(tmp_path / str(seed)), seed)
        try:
            for _ in range(STEPS):
                crawl.step()
        except AssertionError as error:
            error.add_note(f"SHARDS_SEED={seed}, in the scope {crawl.scope}")
            raise
        finally:
            crawl.close()
        counts += crawl.counts
    assert min(counts["unique"], counts["near_duplicate"], counts["pending"]) > CRAWLS
