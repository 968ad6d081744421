"""Serves the demo site on loopback: in a thread, in the foreground, or in a process of its own.

with serve(Site()) as url: ...            in a thread of this process
serve_forever(Site(), port=8000)          until Ctrl-C
with serve_in_child(pages=500) as url: ...
python -m dedup.lab.demo.site.server 500 1 [LOG]   what the line above starts
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from itertools import count
from pathlib import Path

from dedup.lab.demo.site.site import Site
from dedup.lab.loopback import Answer, Pages, Server, child, serve_as_child, serving

_ROBOTS = b"User-agent: *\nAllow: /\n"


def _pages(site: Site) -> Pages:
    """Return a site's pages; each request for one is another tick of its clock."""
    ticks = count(1)

    def answer(path: str) -> Answer:
        if path == "/robots.txt":
            return 200, "text/plain; charset=utf-8", _ROBOTS
        return site.render(path, next(ticks))

    return answer


def serve(site: Site, log: str | Path | None = None) -> AbstractContextManager[str]:
    """Serve the site from a thread; give its base URL, without a slash at the end. See loopback.Server."""
    return serving(_pages(site), log=log)


def serve_forever(site: Site, port: int = 0, ready: Callable[[str], object] = print) -> None:
    """Serve the site until Ctrl-C; `ready` is called with its base URL."""
    with Server(_pages(site), port) as server, suppress(KeyboardInterrupt):
        ready(server.url)
        server.serve_forever()


def serve_in_child(
    pages: int = 500, seed: int = 1, log: str | Path | None = None
) -> AbstractContextManager[str]:
    """Serve a site from a process of its own; give its base URL. Raises DedupError if it does not start."""
    return child(__name__, str(pages), str(seed), *([] if log is None else [str(log)]))


if __name__ == "__main__":
    serve_as_child(_pages(Site(int(sys.argv[1]), int(sys.argv[2]))), log="".join(sys.argv[3:]))
