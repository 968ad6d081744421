"""Scrapy's queue on disk after a kill: what was cut is mended before Scrapy opens it, and told in one line.

    <JOBDIR>/requests.queue/[SITE/]PRIORITY   a count, then each request and its length (queuelib.LifoDiskQueue, the default)

Scrapy writes the count when it closes the queue, and what it adds through a buffer. A killed process leaves files that
are empty, end within a request, or hold fewer than they count: Scrapy fails at each request of that priority in every
later run, or never ends.
"""

from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import Struct

from queuelib import LifoDiskQueue
from scrapy.crawler import Crawler
from scrapy.utils.job import job_dir
from scrapy.utils.misc import load_object

from dedup.scrapy.guard import logger
from dedup.scrapy.memory.state import is_crawl

_NUMBER = Struct(LifoDiskQueue.SIZE_FORMAT)
_LONGEST = 1 << 20  # bytes of a request of which a part was written


def mend_queue(crawler: Crawler) -> None:
    """Mend the queue that a crawl is about to resume. Raises OSError."""
    settings = crawler.settings
    folder = Path(job_dir(settings) or "", "requests.queue")
    is_lifo = issubclass(load_object(settings["SCHEDULER_DISK_QUEUE"]), LifoDiskQueue)
    if not (settings["JOBDIR"] and folder.exists() and is_lifo and is_crawl(crawler)):
        return
    state = folder / "active.json"  # written when all files are closed
    closed = state.stat().st_mtime_ns if state.exists() else 0
    files = [
        each
        for each in folder.rglob("*")
        if each.name.removeprefix("-").isdigit()
        and each.is_file()
        and each.stat().st_mtime_ns > closed
    ]
    if mended := [file for file in files if _mend(file)]:
        logger.warning(
            "[dedup] %d files of Scrapy's queue, which a kill had cut, are mended and the crawl goes on (%s). Lost are at most "
            "requests that were in flight or not written yet",
            len(mended),
            folder,
        )


def _mend(file: Path) -> bool:
    """Make a file one that Scrapy can read; return whether it was none."""
    size = file.stat().st_size
    if size < _NUMBER.size:
        file.unlink()
        return True
    with file.open("r+b") as content:
        (count,) = _NUMBER.unpack(content.read(_NUMBER.size))
        if not count:  # Scrapy begins again behind what is there
            return False
        with mmap(content.fileno(), 0, access=ACCESS_READ) as mapped:
            end, held = _last_complete(mapped)
        if end == size and held >= count:
            return False
        if held or end == size:
            content.truncate(end)
            content.seek(0)
            content.write(_NUMBER.pack(min(count, held)))
            return True
    file.rename(file.with_name(f"{file.name}.cut"))
    return True


def _last_complete(content: mmap) -> tuple[int, int]:
    """Return where the last complete request ends, and how many there are."""
    for last in range(len(content), max(_NUMBER.size, len(content) - _LONGEST), -1):
        end, held = last, 0
        while end > _NUMBER.size:
            (length,) = _NUMBER.unpack_from(content, end - _NUMBER.size)
            end, held = end - _NUMBER.size - length, held + 1
            if not length:  # of no request
                break
        else:
            if end == _NUMBER.size:
                return last, held
    return _NUMBER.size, 0
