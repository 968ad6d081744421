"""What a crawl's report and DEDUP_DROPPED show besides the stats: drops, examples, hosts, savings.

    judged pages -> groups of near-duplicates with examples, hosts, originals -> report
                 -> DropsFile.add -> one write to a file opened for appending

Invariants:
  - Memory is bounded. The numbers of groups and hosts are limited; bodies of the last accepted pages are kept up to a
    number of bytes, so that a copy that comes soon can be shown with its original.
  - A line of DEDUP_DROPPED is written by one call, so a kill loses at most the line being written. A new crawl begins
    an empty file; one that resumes from its JOBDIR appends. A fault is counted, and costs no page.
"""

import os
import re
from collections import Counter, OrderedDict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from dedup.core.fingerprint import main_words
from dedup.model.names import running
from dedup.model.recipes import recipe_of
from dedup.report.drops import Action, Drop, compare_words, encode
from dedup.report.texts import Hunk, differences
from dedup.scrapy.counts import Counts, Meter
from dedup.scrapy.evidence import Class, Record

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterable,
        AsyncIterator,
        Iterable,
        Iterator,
    )

    from scrapy.http import Response

    from dedup.model.page import Verdict
    from dedup.model.recipes import Recipe
    from dedup.report.drops import Action
    from dedup.scrapy.known_urls import HeldRule

GROUPS = 10_000  # originals whose near-duplicates are counted
HOSTS = 10_000  # hosts that are counted
EXAMPLES = 3  # near-duplicates of a group that are named
TEXTS = 60  # examples whose differing text is kept
DIFFERENCES = 10  # of an example, in the JSON form
WORDS = 4000  # words of each text that are compared
ORIGINALS = 64  # whose words are kept for the next near-duplicate
PLACES = 1000  # callbacks and kinds of path that are counted
FOLDERS = 2  # of a path that tell its kind
SAMPLE_BYTES = 32 << 20  # bodies of accepted pages
KEPT = 20_000  # originals, the first ones: what a page at another distance would have resembled

T = TypeVar("T")


class Example(msgspec.Struct):
    """A near-duplicate: its URL, distances in bits, and both texts if they were available."""

    url: str
    distance: int
    similarity: float
    texts: tuple[list[str], list[str], list[Hunk]] | None = None

    def plain(self) -> dict[str, Any]:
        """Return the example for JSON, with its differences if both texts were available."""
        fields: dict[str, Any] = {
            "url": self.url,
            "distance": self.distance,
            "similarity": self.similarity,
        }
        if self.texts is not None:
            a, b, hunks = self.texts
            fields["differences"] = [
                {
                    "of": running(a[hunk.a_begin : hunk.a_end]),
                    "page": running(b[hunk.b_begin : hunk.b_end]),
                }
                for hunk in hunks[:DIFFERENCES]
            ]
        return fields


class Group(msgspec.Struct):
    """The near-duplicates of one page; least is the least similarity of them."""

    count: int = 0
    least: float = 1.0
    examples: list[Example] = []


class Host(msgspec.Struct):
    """The pages of one host: how many were judged, how many were near-duplicates."""

    judged: int = 0
    near_duplicates: int = 0


class Journal:
    """Takes notes of a crawl while it runs."""

    def __init__(self, drops: "DropsFile | None" = None) -> None:
        """Begin with nothing; drops is the file that lists every drop."""
        self._drops = drops
        self._words: OrderedDict[str, list[str]] = OrderedDict()  # of originals, by document key
        self.places: Counter[tuple[str, str]] = Counter()  # drops by callback and kind of path
        self.groups: dict[str, Group] = {}
        self.hosts: dict[str, Host] = {}
        self.url_rules: list[HeldRule] = []  # at the crawl's end
        self.proved: list[
            tuple[Class, Record]
        ] = []  # at the crawl's end, the classes with most pages first
        self.kept: list[Verdict] = []  # the first pages that became originals, in their order
        self.kept_all = True  # whether it has all of them
        self.dropped_bytes = 0  # of near-duplicates' bodies
        self.parsed = 0  # pages whose callbacks were timed
        self._meter = Meter()  # of those callbacks
        self.recipe = recipe_of()  # of the pages judged
        self._bodies: OrderedDict[str, bytes] = OrderedDict()  # by document key
        self._bodies_bytes = 0
        self._texts = 0

    def judged(
        self,
        verdict: "Verdict",
        response: "Response",
        recipe: "Recipe",
        callback: str = "",
        action: "Action" = "dropped",
    ) -> None:
        """Note a page and its verdict; of a near-duplicate also what is done with it."""
        self.recipe = recipe
        if self._drops is not None:
            self._drops.open()
        host = self._host(response.url)
        host.judged += 1
        if verdict.status == "near_duplicate":
            host.near_duplicates += 1
            self._near_duplicate(verdict, response, callback, action)
        elif verdict.token is not None:
            self._keep(verdict.key, response.body)
            self.kept_all = len(self.kept) < KEPT
            if self.kept_all:
                self.kept.append(verdict)

    def _near_duplicate(
        self, verdict: "Verdict", response: "Response", callback: str, action: "Action"
    ) -> None:
        self.dropped_bytes += len(response.body)
        place = (callback, kind_of_path(response.url))
        if place in self.places or len(self.places) < PLACES:
            self.places[place] += 1
        if self._drops is not None:
            texts = self._texts_of(verdict, response)
            differs = None if texts is None else compare_words(*texts)
            self._drops.add(verdict, response.url, callback, action, differs)
        group = self.groups.get(verdict.of or "")
        if group is None:
            if len(self.groups) >= GROUPS:
                return
            group = self.groups[verdict.of or ""] = Group()
        group.count += 1
        group.least = min(group.least, verdict.similarity or 0.0)
        if len(group.examples) < EXAMPLES:
            example = Example(response.url, verdict.distance or 0, verdict.similarity or 0.0)
            group.examples.append(example)
            if self._texts < TEXTS and (texts := self._texts_of(verdict, response)):
                self._texts += 1
                example.texts = (*texts, differences(*texts))

    def close(self) -> None:
        """Close the file of drops."""
        if self._drops is not None:
            self._drops.close()

    @property
    def parsing_seconds(self) -> float:
        """The CPU time of the callbacks."""
        return self._meter.seconds

    def timed(self, results: "Iterable[T]") -> "Iterator[T]":
        """Pass on a callback's output, and add up its CPU time in seconds."""
        self.parsed += 1
        source = iter(results)
        while True:
            try:
                with self._meter:
                    result = next(source)
            except StopIteration:
                return
            yield result

    async def timed_async(self, results: "AsyncIterable[T]") -> "AsyncIterator[T]":
        """Do the same for an asynchronous callback, without what runs while it waits."""
        self.parsed += 1
        source = aiter(results)
        while True:
            try:
                with self._meter:
                    result = await self._meter.pausing(anext(source))
            except StopAsyncIteration:
                return
            yield result

    def _host(self, url: str) -> Host:
        try:
            name = urlsplit(url).hostname or ""
        except ValueError:
            name = ""
        if name not in self.hosts and len(self.hosts) >= HOSTS:
            name = "(others)"
        return self.hosts.setdefault(name, Host())

    def _keep(self, key: str, body: bytes) -> None:
        self._bodies_bytes += len(body) - len(self._bodies.pop(key, b""))
        self._bodies[key] = body
        while self._bodies_bytes > SAMPLE_BYTES:
            self._bodies_bytes -= len(self._bodies.popitem(last=False)[1])

    def _texts_of(
        self, verdict: "Verdict", response: "Response"
    ) -> tuple[list[str], list[str]] | None:
        """Return the words of a near-duplicate's original and its own; None if the original is gone."""
        key = verdict.of or ""
        encoding: Any = getattr(response, "encoding", None)
        if (original := self._words.get(key)) is None:
            if (body := self._bodies.get(key)) is None:
                return None
            original = self._words[key] = _words(body, encoding, self.recipe)
            if len(self._words) > ORIGINALS:
                self._words.popitem(last=False)
        return original, _words(response.body, encoding, self.recipe)


def kind_of_path(url: str) -> str:
    """Return the folder of a URL's path without numbers: "/item/#/" of /item/12/red.html?a=1."""
    try:
        folder = urlsplit(url).path.rpartition("/")[0]
    except ValueError:
        return ""
    return re.sub("[0-9]+", "#", "/".join(folder.split("/")[: FOLDERS + 1])) + "/"


def _words(body: bytes, encoding: str | None, recipe: "Recipe") -> list[str]:
    blocks = main_words(body, encoding=encoding, recipe=recipe)
    return [token for block in blocks for token in block.tokens][:WORDS]


# ----------------------------------------------------------------------------------- DEDUP_DROPPED


MARK = "dedup-dropped"  # in a JOBDIR whose crawl has begun a file


class DropsFile:
    """The file of one crawl, opened at its first judged page."""

    def __init__(self, path: Path, job_folder: str | None, counts: Counts) -> None:
        self._path, self._counts = path, counts
        self._mark = None if job_folder is None else Path(job_folder) / MARK
        self._fd: int | None = None
        self._failed = False

    def open(self) -> None:
        """Open the file, empty unless the crawl resumes."""
        if self._fd is not None or self._failed:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            resumes = self._mark is not None and self._mark.exists()
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (0 if resumes else os.O_TRUNC)
            self._fd = os.open(self._path, flags, 0o666)
            if os.lseek(self._fd, 0, os.SEEK_END):
                os.lseek(self._fd, -1, os.SEEK_END)
                if os.read(self._fd, 1) != b"\n":
                    os.write(self._fd, b"\n")  # ends a line that a kill has cut off
            if self._mark is not None:
                self._mark.parent.mkdir(parents=True, exist_ok=True)
                self._mark.touch()
        except OSError as error:
            self._fail(error)

    def add(
        self,
        verdict: "Verdict",
        url: str,
        callback: str,
        action: Action,
        differs: tuple[list[tuple[str, str]], bool] | None,
    ) -> None:
        """Write a line; differs as compare_words() returns it, None if the original's text is gone."""
        if self._fd is None:
            return
        drop = Drop(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            action=action,
            url=url,
            key=verdict.key,
            of=verdict.of or "",
            similarity=round(verdict.similarity or 0.0, 4),
            distance=verdict.distance or 0,
            identity=verdict.identity or "unknown",
            reason=verdict.reason,
            callback=callback,
            differs=None if differs is None else differs[0],
            numbers_only=differs is not None and differs[1],
        )
        try:
            os.write(self._fd, encode(drop))
        except (OSError, ValueError) as error:
            self._fail(error)

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _fail(self, error: Exception) -> None:
        self.close()
        self._failed = True
        self._counts.fault(error, f"{self._path} does not list the pages dropped from now on")
