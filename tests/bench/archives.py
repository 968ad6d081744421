"""Archives as they are: `dedup scan` beside FastWARC alone, and beside MinHash on the same texts.

    WARC files -> FastWARC alone: records, then bodies, then a fingerprint of each
               -> dedup scan, with one process and with two
    their main words, as plain texts -> dedup scan (WET), datatrove, text-dedup: what each drops
                                     -> every drop and every page that was kept, by exact Jaccard similarity
    short documents, ever more of them -> dedup scan: memory

Invariants: each is a command of its own, counted from its start to its end, CPU of all its processes.
The others run with their own defaults, in the environment of their own that --peers names, with two processes.
No page is a part of this repository: give archives of your own, or let pages be generated.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from runner import Bench, Progress, Round
from scan_rate import Run, run, scan, write_archives, write_warc, write_wet
from whole_sites import contents_of

from dedup.core.fingerprint import main_words
from dedup.model.errors import UsageError
from dedup.model.recipes import recipe_of
from dedup.scan.values import RawPage, ReadingOptions
from dedup.scan.warc import read_warc

SIMILAR, HALF, SAME = 0.8, 0.5, 0.9  # Jaccard similarity of word triples
CONTENDERS = Path(__file__).with_name("archive_contenders.py")
FILES = 4
PEERS = ("datatrove", "text-dedup")
WAYS = {
    "records": "FastWARC: records",
    "bodies": "FastWARC: HTTP headers and bodies, too",
    "fingerprints": "FastWARC, and a fingerprint of each body",
}


@contextmanager
def open_case(
    pages: int,
    archives: Path | None,
    peers: Path | None,
    documents: Sequence[int],
    progress: Progress | None = None,
) -> Iterator[Bench]:
    """Measure archives of one's own or generated ones, the peers in an environment, and memory."""
    del progress
    with TemporaryDirectory() as name:
        folder = Path(name)
        files = sorted(archives.rglob("*.warc.gz")) if archives else []
        if not files:
            if archives:
                _write_lines(archives, folder, pages)
            else:
                write_archives(folder, pages, FILES)
            files = sorted(folder.glob("*.warc.gz"))
        sizes, texts = _texts_of(files)
        _write_texts(folder, texts)
        facts = {
            "pages": len(sizes),
            "page_bytes": round(sum(sizes) / len(sizes)),
            "packed_bytes": round(sum(file.stat().st_size for file in files) / len(sizes)),
            "texts": len(texts),
        }
        if peers is None:
            facts["left out"] = f"{', '.join(PEERS)}: give --peers, a Python that has them"

        def measure() -> Round:
            rows = dict(_reading(files, folder, len(sizes)))
            rows |= _texts(folder, texts, peers)
            for count in documents:
                found = _documents(folder, count)
                row = _costs(found, count) | {"own MB": found.own_megabytes}
                rows[f"dedup scan, {count:,} short documents"] = row
            return rows

        yield Bench(facts, measure, packages=("fastwarc",), ratio="us of CPU a page")


def _write_lines(source: Path, folder: Path, pages: int) -> None:
    """Write so many pages of a folder's *.jsonl as WARCs, as many of each file, each file's first ones."""
    found: list[tuple[str, bytes]] = []
    files = sorted(file for file in source.glob("*.jsonl") if file.name.count(".") == 1)
    if not files:
        raise UsageError(f"{source} holds neither *.warc.gz nor *.jsonl")
    for file in files:
        with file.open() as lines:
            for line in islice(lines, pages // len(files)):
                page = json.loads(line)
                found.append((page["url"], page["html"].encode("utf-8", "surrogatepass")))
    for number in range(FILES):
        write_warc(folder / f"{number:03}.warc.gz", found[number::FILES])


def _costs(found: Run, pages: int) -> dict[str, float]:
    return {
        "pages/s": pages / found.seconds,
        "us of CPU a page": 1e6 * found.cpu_seconds / pages,
        "MB": found.megabytes,
    }


# ------------------------------------------------------------------------------------------ reading


def _reading(
    files: Sequence[Path], folder: Path, pages: int
) -> Iterator[tuple[str, dict[str, float]]]:
    for way, name in WAYS.items():
        for processes in (1, 2) if way == "records" else (1,):
            found = run(sys.executable, CONTENDERS, way, processes, *files)
            yield name + ", 2 processes" * (processes > 1), _costs(found, pages)
    for processes in (1, 2):
        found = scan(files[0], folder / "verdicts.jsonl", processes, *files[1:])
        yield f"dedup scan, {processes} process{'es' * (processes > 1)}", _costs(found, pages)


# -------------------------------------------------------------------------------------------- texts


def _texts_of(files: Sequence[Path]) -> tuple[list[int], list[tuple[str, str]]]:
    """Return the sizes of the pages, and URL and main words of each that has some."""
    reading = ReadingOptions("url", "html", 1 << 24, recipe_of(None, None))
    sizes, texts = [], []
    for file in files:
        for page in read_warc(str(file), reading):
            if not isinstance(page, RawPage):
                continue
            sizes.append(len(page.html))
            text = "\n".join(" ".join(block.tokens) for block in main_words(page.html))
            if text:
                host = urlsplit(page.url).hostname or "texts.example"
                texts.append((f"http://{host}/{len(texts)}", text))
    return sizes, texts


def _write_texts(folder: Path, texts: Sequence[tuple[str, str]]) -> None:
    """Write the texts as JSON lines, in two files, and as WET."""
    (folder / "texts").mkdir()
    half = (len(texts) + 1) // 2
    for part in (0, 1):
        lines = [
            json.dumps({"id": str(number), "text": texts[number][1]})
            for number in range(part * half, min(len(texts), (part + 1) * half))
        ]
        (folder / "texts" / f"{part}.jsonl").write_text("\n".join(lines) + "\n")
    for part in (0, 1):
        write_wet(folder / f"{part}.wet.gz", texts[part * half : (part + 1) * half])


def _texts(folder: Path, texts: Sequence[tuple[str, str]], peers: Path | None) -> Round:
    """Return what each costs on the texts, and what it finds."""
    judged = Truth([text for _, text in texts])
    output = folder / "texts.jsonl"
    found = scan(folder / "*.wet.gz", output, 2)
    numbers = {url: number for number, (url, _) in enumerate(texts)}
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    kept = {numbers[row["key"]] for row in rows if row["status"] != "near_duplicate"}
    held = {"texts: dedup scan": _costs(found, len(texts)) | judged.of(kept)}
    for name in PEERS if peers else ():
        work = folder / name
        work.mkdir(exist_ok=True)
        found = run(peers, CONTENDERS, name, folder / "texts", work)
        kept = set(json.loads(run(peers, CONTENDERS, "kept", name, work).said))
        held[f"texts: {name}"] = _costs(found, len(texts)) | judged.of(kept)
    return held


class Truth:
    """The exact similarities of texts: Jaccard, of their sets of three words in a row."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._contents = contents_of(texts)

    def of(self, kept: set[int]) -> dict[str, float]:
        """Return what is to be said of the texts that were kept, and of those that were dropped.

        dropped  how many
        right %  share of them that have a similarity of SIMILAR with one that was kept
        wrong    how many have not even HALF
        missed   texts that were kept, although an earlier one was with a similarity of SAME
        """
        holders: dict[int, list[int]] = {}
        for number in sorted(kept):
            for shingle in self._contents[number].tolist():
                holders.setdefault(shingle, []).append(number)
        dropped = [n for n in range(len(self._contents)) if n not in kept]
        best = [self._nearest(holders, n, len(self._contents)) for n in dropped]
        return {
            "dropped": len(dropped),
            "right %": 100 * sum(each >= SIMILAR for each in best) / max(len(dropped), 1),
            "wrong": sum(each < HALF for each in best),
            "missed": sum(self._nearest(holders, n, n) >= SAME for n in kept),
        }

    def _nearest(self, holders: dict[int, list[int]], number: int, before: int) -> float:
        """Return the greatest similarity with a kept text whose number is less."""
        mine = self._contents[number]
        common = Counter(
            other
            for shingle in mine.tolist()
            for other in holders.get(shingle, ())
            if other < before and other != number
        )
        sizes = {other: len(mine) + len(self._contents[other]) for other in common}
        return max((both / (sizes[other] - both) for other, both in common.items()), default=0.0)


# ------------------------------------------------------------------------------------------- memory


def _documents(folder: Path, count: int) -> Run:
    """Scan so many short documents, each with words of its own."""
    chance = random.Random(1)
    words = [f"w{chance.getrandbits(24):x}" for _ in range(4096)]
    file = folder / "documents.jsonl"
    with file.open("w") as lines:
        for number in range(count):
            text = " ".join(chance.choices(words, k=24))
            url = f"http://site{number % 997}.example/{number}"
            lines.write(f'{{"url": "{url}", "html": "<p>{text}"}}\n')
    found = scan(file, folder / "verdicts.jsonl", 2)
    file.unlink()
    return found
