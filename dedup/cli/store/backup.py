"""`dedup store backup`: the documents of a running service, as JSON lines.

    service -> /v1/export, some hundred documents an answer -> lines -> a file that is whole or not there

Invariants: every document that is stored when the backup begins, and is not forgotten meanwhile,
is in it. One that is replaced meanwhile may be in it twice, and the later line is the one that counts.
"""

import json
import os
from collections.abc import Iterator
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

import click

from dedup.cli import terminal
from dedup.cli.store.export_import import whole
from dedup.model.errors import ServiceUnavailable, UsageError

TIMEOUT_SECONDS = 60.0


@click.command(epilog="Example: dedup store backup http://127.0.0.1:7780 --output documents.jsonl")
@click.argument("url")
@click.option("--namespace", metavar="NAME", help="Write this namespace only. [default: all]")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="-",
    help="Write the lines to a file. [default: stdout]",
)
def backup(url: str, namespace: str | None, output: str) -> None:
    """Write the documents of a running table service as JSON lines.

    URL is its HTTP port. The service continues to serve. Its token, if it has one, is read from
    DEDUP_TOKEN. FILE appears when it is complete and on disk. `dedup store import` restores it. For a
    store that no process uses, there is `dedup store export`.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        raise UsageError(
            f"{url!r} is not the HTTP port of a service, such as http://127.0.0.1:7780; a store that "
            "no process holds is written by `dedup store export`"
        )
    counts = _documents(url)
    if namespace is not None and namespace not in counts:
        raise UsageError(
            f"{url} has no namespace {namespace!r}; it has {', '.join(counts) or 'none'}"
        )
    chosen = counts if namespace is None else {namespace: counts[namespace]}
    progress, done = terminal.progress("documents"), 0
    with whole(output) as file:
        for name in chosen:
            for lines in _lines(url, name):
                file.write(lines)
                done += lines.count(b"\n")
                if progress:
                    progress(done, max(done, sum(chosen.values())))
    if output != "-":
        terminal.out(f"{output}: {terminal.count(done, 'document')} of {len(chosen)} namespaces")


def _documents(url: str) -> dict[str, int]:
    """Return how many documents each namespace of a service has."""
    overview = json.loads(get(url, "/v1/overview")[0])
    return {each["name"]: each["documents"] for each in overview["namespaces"]}


def _lines(url: str, namespace: str) -> Iterator[bytes]:
    first: str | None = "0"
    while first is not None:
        query = urlencode({"ns": namespace, "from": first})
        lines, first = get(url, f"/v1/export?{query}")
        yield lines


def get(url: str, path: str) -> tuple[bytes, str | None]:
    """Return the body of an answer, and where the next documents begin. Raises ServiceUnavailable."""
    asked = Request(url.rstrip("/") + path)  # noqa: S310  (http or https: checked)
    if token := os.environ.get("DEDUP_TOKEN"):
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(asked, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            return answer.read(), answer.headers.get("x-dedup-next")
    except HTTPError as error:
        said = error.read(400).decode(errors="replace")
        hint = "; put its token into DEDUP_TOKEN" if error.code == 401 else ""
        raise ServiceUnavailable(f"{url} answers {error.code}: {said}{hint}") from error
    except (URLError, OSError, HTTPException) as error:  # the latter: it ended within an answer
        said = str(error) or type(error).__name__
        raise ServiceUnavailable(f"{url} does not answer: {said}") from error
