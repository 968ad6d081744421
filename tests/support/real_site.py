"""A documentation site nobody here wrote, and a copy of part of it in other clothes.

The pages are those of Debian's debian-handbook package, one folder a language. /mirror/ shows the
first half of the languages again: other banner, date, advertisement, footer, page counter, under the
same titles. They are
fetched once into the user's cache folder, never into the repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from fetch import fetched
from needing import lacking

LANGUAGES = ["en-US", "fr-FR", "es-ES", "ja-JP", "zh-CN", "de-DE", "it-IT", "ru-RU", "pt-BR"]
MIRRORED = LANGUAGES[:5]
PACKAGE = "debian-handbook"
FOLDER = Path("usr/share/doc/debian-handbook/html")


def handbook() -> Path:
    """Return the folder of the handbook's languages, fetched with apt if it is not here yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crawl-dedup"
    for root in (Path("/"), cache / PACKAGE):
        if all((root / FOLDER / language).is_dir() for language in LANGUAGES):
            return root / FOLDER
    if not shutil.which("apt-get"):
        lacking(f"apt-get, which fetches Debian's {PACKAGE} package")
    cache.mkdir(parents=True, exist_ok=True)
    making = cache / f"{PACKAGE}.{os.getpid()}"
    making.mkdir()
    try:
        if os.geteuid() == 0:  # fresh lists, so that the version they name is still there
            fetched(["apt-get", "update", "-qq"])
        fetched(["apt-get", "download", "-qq", PACKAGE], cwd=making).check_returncode()
        (package,) = making.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", package, making], check=True, capture_output=True)
        package.unlink()
        shutil.rmtree(cache / PACKAGE, ignore_errors=True)
        making.rename(cache / PACKAGE)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        shutil.rmtree(making, ignore_errors=True)
        raise RuntimeError(
            f"this test crawls the pages of Debian's {PACKAGE} package, which could not be fetched "
            f"({error}); on Debian: sudo apt-get install {PACKAGE}"
        ) from error
    return cache / PACKAGE / FOLDER


def pages(root: Path) -> list[str]:
    """Return the paths of the original pages, then those of their copies."""
    originals = [
        f"/{language}/{path.name}"
        for language in LANGUAGES
        for path in sorted((root / language).glob("*.html"))
    ]
    return originals + [f"/mirror{path}" for path in originals if path.split("/")[1] in MIRRORED]


def render(root: Path, path: str, number: int) -> bytes | None:
    """Return a page; number makes the volatile parts of a copy differ."""
    mirrored = path.startswith("/mirror/")
    file = root / path.removeprefix("/mirror").lstrip("/")
    if not file.is_file():
        return None
    html = file.read_bytes()
    if not mirrored:
        return html
    day, hits = f"{1 + number % 28} March 20{10 + number % 15}", 1000 + 37 * number
    banner = (
        f"<div class='top'><a href='/mirror/manuals'>Other manuals</a>"
        f"<p>Mirrored on {day} at {number % 24}:{number % 60:02}. Offer {number}: "
        f"hosting from {1 + number % 9} euros a month, this week only.</p></div>"
    ).encode()
    footer = (
        f"<div class='foot'><p>This page was seen {hits} times since {day}.</p>"
        f"<p><a href='/mirror/imprint'>Imprint</a></p></div>"
    ).encode()
    html = re.sub(rb"(?i)<body[^>]*>", lambda match: match[0] + banner, html, count=1)
    return re.sub(rb"(?i)</body>", lambda match: footer + match[0], html, count=1)


@contextmanager
def serve(root: Path) -> Iterator[str]:
    """Serve the site on a loopback port of its own; "/" names every page."""
    paths = pages(root)
    index = "\n".join(paths).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            number = sum(self.path.encode())
            body = index if self.path == "/" else render(root, self.path, number)
            self.send_response(404 if body is None else 200)
            kind = "text/plain" if self.path == "/" else "text/html"
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
