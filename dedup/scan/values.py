"""The values that pass through a scan, all frozen.

ScanJob -> Unit -> Raw (a record as read) -> Result (what the judge needs of it) -> Row (a verdict)
"""

from typing import Literal, NamedTuple

import msgspec

from dedup.model.page import Identity, PageFingerprint, Status
from dedup.model.policy import Options, Similarity
from dedup.model.recipes import Recipe

Kind = Literal["warc", "wet", "wacz", "parquet", "jsonl", "html"]

STDIN = "-"  # as an input
BROKEN_KEPT = 100  # broken records that a summary names; the others are counted


class ScanJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to scan, and how. What is None is the recipe's (dedup.model.policy).

    inputs      files, folders and globs, in the order that decides who is first; "-" is stdin
    format      how every input is to be read; None: by its name
    text_field  the field with plain text, in place of HTML in html_field; fields may be paths (`a.b`)
    output      the file of verdicts (.jsonl or .parquet), "-" for stdout, None for none
    identity    keep pages that are other pages of their site by title or canonical URL
    report      a file for the report (.html or .json), or None
    kept        where the input is written once more without its near-duplicates: a file for one
                file, a folder for more; None for nowhere
    store       the folder of a store that the pages are compared with, or one with the folder of a store "default"; or None
    update      insert the accepted pages there once the scan is complete
    resume      resume the work of an earlier, interrupted scan, in the folder next to the output
    processes   how many read and fingerprint
    """

    inputs: tuple[str, ...]
    format: Kind | None = None
    url_field: str = "url"
    html_field: str = "html"
    text_field: str | None = None
    max_bytes: int = 1 << 24
    distance: int | None = None
    similarity: Similarity | None = None
    min_features: int | None = None
    scope: Literal["global", "site"] = "global"
    identity: bool = False
    secret: str | None = None
    store: str | None = None
    update: bool = False
    output: str | None = None
    report: str | None = None
    kept: str | None = None
    resume: bool = False
    processes: int = 1

    @property
    def options(self) -> Options:
        """What pages are judged by."""
        return Options(
            distance=self.distance,
            similarity=self.similarity,
            min_features=self.min_features,
            scope=self.scope,
        )


class Unit(msgspec.Struct, frozen=True):
    """A file, or some files of one folder, that one process reads in one go.

    paths are as the system has them; bytes is their size on disk, 0 where that is not known.
    """

    kind: Kind
    paths: tuple[bytes, ...]
    bytes: int


def shown(path: bytes) -> str:
    """Return a path as text that can be written anywhere; odd bytes and control characters become escapes."""
    text = path.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class ReadingOptions(msgspec.Struct, frozen=True):
    """How records are read and fingerprinted."""

    url_field: str
    html_field: str
    max_bytes: int
    recipe: Recipe
    text_field: str | None = None  # with plain text, in place of HTML
    id_field: str | None = None  # with the document key, in place of the URL
    needs_url: bool = True

    @property
    def fields(self) -> dict[str, str]:
        """The field of each part of a page."""
        found = {"url": self.url_field, "page": self.text_field or self.html_field}
        return found if self.id_field is None else found | {"key": self.id_field}


def reading_of(job: ScanJob, recipe: Recipe) -> ReadingOptions:
    """Return how a job's records are read."""
    fields = job.url_field, job.html_field
    return ReadingOptions(
        *fields,
        job.max_bytes,
        recipe,
        text_field=job.text_field,
    )


class Task(msgspec.Struct, frozen=True):
    """A unit to be read, without its first `skip` results."""

    number: int
    unit: Unit
    skip: int = 0


class RawPage(NamedTuple):
    """A page as a reader found it.

    key     its document key, where it has no URL
    offset  bytes of the unit read so far
    place   where it is in its file, for a person
    record  its number in the unit, from 1, by which it is found there again: of a WARC record,
            a line, a row or a file
    is_text it is plain text in UTF-8, not HTML
    """

    url: str
    key: str | None
    html: bytes | str
    encoding: str | None
    offset: int
    place: str
    record: int = 0
    is_text: bool = False


class PageToJudge(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A page to be judged."""

    offset: int
    key: str
    domain: str
    page: PageFingerprint
    record: int = 0
    blocks: bytes = b""  # PageReading.blocks


class Large(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A page of more than max_bytes: kept unread."""

    offset: int
    key: str


class Skipped(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A record that is not judged: reason is revisit, non_html or status."""

    offset: int
    reason: str


class Broken(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A record that could not be read; with rest, nothing of the file after it was read."""

    offset: int
    path: str
    place: str
    reason: str
    rest: bool = False


Result = PageToJudge | Large | Skipped | Broken


class ResultBatch(msgspec.Struct, frozen=True, array_like=True):
    """Some results of a unit, in their order; with end, its last."""

    results: list[Result]
    end: bool


class Row(msgspec.Struct, frozen=True):
    """The verdict on a page, a line of the output. value is 16 hex digits, sketch 74.

    cluster is the key of the page that represents it: its own, or `of` for a near-duplicate.
    """

    key: str
    value: str | None
    sketch: str | None
    features: int | None
    status: Status
    reason: str
    of: str | None
    distance: int | None
    similarity: float | None
    identity: Identity | None
    cluster: str


class BrokenRecord(msgspec.Struct, frozen=True):
    """A broken record: its file, where in it (a byte offset, line or row), and what is wrong."""

    path: str
    place: str
    reason: str


class ScanProgress(msgspec.Struct, frozen=True):
    """How far a scan is: bytes of the input behind it, pages judged.

    copying says that all are judged, and what is kept is written.
    """

    bytes: int
    total_bytes: int
    pages: int
    copying: bool = False


class Summary(msgspec.Struct):
    """Totals of a scan.

    pages            pages judged: unique + near_duplicate + refetch + exempt
    exempt           by reason: short, unread, too_large, other_title
    skipped          records that are not judged, by reason: revisit, non_html, status
    broken           broken records; faults names the first of them
    unread_files     files of which a part could not be read at all
    files_not_read   files of folders whose names say no format; not_read_example is one of them
    distances        near-duplicates by their distance, in bits
    similarities     and by their similarity, in whole per cent
    inserted         documents inserted into the store, if that was asked for
    uncopied_files   files of which a part could not be written once more, if that was asked for
    """

    files: int = 0
    bytes: int = 0
    pages: int = 0
    unique: int = 0
    near_duplicate: int = 0
    refetch: int = 0
    exempt: dict[str, int] = {}
    skipped: dict[str, int] = {}
    broken: int = 0
    unread_files: int = 0
    files_not_read: int = 0
    not_read_example: str = ""
    distances: dict[int, int] = {}
    similarities: dict[int, int] = {}
    faults: list[BrokenRecord] = []
    inserted: int | None = None
    uncopied_files: int | None = None
