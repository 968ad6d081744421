"""How many pages a worker settles in a second: python tests/support worker_rate [PAGES [THREADS ...]].

PAGES (10,000) of about 53 KB of HTML, half of them copies, in a topic of four partitions on a real
broker on this machine, are read by one `dedup worker --until-end` with a store of its own, for each
number of threads (1 and 2). Printed are pages a second, from the assignment of the partitions to the
stop, and the CPU time a page of the worker's process, its start left out.
"""

import json
import os
import random
import sys
import tempfile
from datetime import datetime
from typing import Any

import pagestream
from broker import any_broker
from workers import Message, Topic, WorkerProcess, finish

SECTIONS = 180
PARAGRAPHS = 82


def page(content: int, copy: int) -> str:
    """A page of 53 KB: a style sheet, a menu, an article of 3280 words, a footer that differs."""
    chance = random.Random(content)
    menu = "".join(
        f'<li><a href="/section/{i}" class="navigation-item level-{i % 4}" '
        f'data-track="menu-{i}">Section {i}</a></li>'
        for i in range(SECTIONS)
    )
    article = "".join(
        "<p class='body-text'>"
        + " ".join("".join(chance.choices(pagestream.WORDS, k=2)) for _ in range(40))
        + "</p>\n"
        for _ in range(PARAGRAPHS)
    )
    return (
        f"<html><head><title>{content}</title><style>{'.a { color: red }' * 250}</style></head>"
        f"<body><nav><ul>{menu}</ul></nav><article><h1>{content}</h1>{article}</article>"
        f"<footer>Seen {copy} times</footer></body></html>"
    )


def main(pages: int = 10_000, runs: int = 1) -> None:
    stream = pagestream.stream(pages // 2, 2, seed=1)
    values = [json.dumps({"url": pagestream.url(*p), "html": page(*p)}).encode() for p in stream]
    size = sum(map(len, values)) / len(values)
    with any_broker() as bootstrap, tempfile.TemporaryDirectory() as folder:
        topic = Topic.made(bootstrap, partitions=4)
        topic.fill(Message(b"%d" % n, value) for n, value in enumerate(values))
        empty = Topic.made(bootstrap)
        for run in range(runs):
            start = _cpu(lambda: finish(empty, "--path", f"{folder}/empty"))[1]
            options = ("--path", f"{folder}/{run}", "--group", f"rate-{topic.name}-{run}")
            worker, cpu = _cpu(lambda o=options: finish(topic, *o))
            seconds = _working_seconds(worker)
            result = {
                "pages": pages,
                "bytes_a_page": round(size),
                "pages_per_second": round(pages / seconds),
                "cpu_us_per_page": round((cpu - start) / pages * 1e6),
            }
            print(json.dumps(result | worker.lines[-1]["pages"]), flush=True)


def _cpu(act: Any) -> tuple[Any, float]:
    """Return what act() returns, and the CPU time of the processes that it waited for."""
    before = os.times()
    result = act()
    after = os.times()
    fields = ("children_user", "children_system")
    return result, sum(getattr(after, f) - getattr(before, f) for f in fields)


def _working_seconds(worker: WorkerProcess) -> float:
    joined = next(line for line in worker.lines if "partitions of" in line["message"])
    times = [datetime.fromisoformat(line["time"]) for line in (joined, worker.lines[-1])]
    return (times[1] - times[0]).total_seconds()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
