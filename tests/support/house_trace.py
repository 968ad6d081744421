"""How much of the package one page of an embedded crawl goes through.

    closure()     (modules, lines) of dedup that are loaded once a default crawl judged a page
    page_trace()  (calls, files, returns) of dedup's Python code, request -> verdict -> insert

    --service     the same of a RESERVE and an INSERT of the table service, bytes -> reply, and of an insert event

Each runs in a process of its own, so that nothing else is loaded. A page passes the add-on's real
middlewares, session and store, without a network: `python tests/support/house_trace.py` prints both,
`--calls` also the calls in their order; `--service-calls` those of the service.
"""

import asyncio
import importlib.util
import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

__all__ = ["Closure", "PageTrace", "closure", "page_trace"]


class Closure(NamedTuple):
    """What a default crawl loads of dedup."""

    modules: int
    lines: int


class PageTrace(NamedTuple):
    """What one page runs of dedup: calls of Python functions, the files they stand in, and how
    often the way comes back to a file that it had left.
    """

    calls: int
    files: int
    returns: int


def closure() -> Closure:
    """Return what is loaded of dedup once a page of a default crawl was inserted."""
    return Closure(*_in_process("--closure"))


def page_trace() -> PageTrace:
    """Return what one page of a default crawl runs of dedup, after the first one opened the store."""
    return PageTrace(*_in_process("--trace"))


def _in_process(what: str) -> Any:
    command = [sys.executable, __file__, what]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


# ------------------------------------------------------------------------ in the traced process


class _Calls:
    """The calls of dedup's functions, in their order, as sys.setprofile tells of them."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("dedup")
        assert spec is not None
        assert spec.origin is not None
        self._root = str(Path(spec.origin).parent)
        self.names: list[tuple[str, str]] = []
        self._begun: set[int] = set()  # coroutines and generators go on in the frame they began in
        self._frames: list[FrameType] = []  # kept, so that no identity is used twice

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(self._root) or id(frame) in self._begun:
            return
        if frame.f_code.co_name in {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}:
            return  # no calls in later Pythons
        self._begun.add(id(frame))
        self._frames.append(frame)
        self.names.append((file.removeprefix(self._root).lstrip("/"), frame.f_code.co_qualname))

    def summed(self) -> PageTrace:
        files = [file for file, _ in self.names]
        left, returns = {files[0]} if files else set(), 0
        for before, file in pairwise(files):
            returns += file != before and file in left
            left.add(file)
        return PageTrace(len(files), len(left), returns)


def _html(number: int) -> bytes:
    words = " ".join(f"word{number}x{n}" for n in range(200))
    links = "".join(f'<a href="/{number}/{n}">link {n}</a>' for n in range(10))
    return f"<html><body><main><h1>Page {number}x</h1><p>{words}</p>{links}</main></body></html>".encode()


async def _crawl(folder: str) -> dict[str, _Calls]:
    """Take pages from their requests to their inserts; the second one of each kind is traced."""
    from scrapy import Request, Spider
    from scrapy.http import HtmlResponse
    from scrapy.utils.asyncgen import as_async_generator
    from scrapy.utils.test import get_crawler

    from dedup.scrapy import (
        CallbackMiddleware,
        DownloaderMiddleware,
        NearDuplicate,
        SpiderMiddleware,
    )

    class Traced(Spider):
        name = "traced"

        def parse(self, response: HtmlResponse) -> Any:
            yield {"url": response.url, "name": response.url.split("/")[3].partition("?")[0]}

    crawler = get_crawler(Traced, {"DEDUP_PATH": folder})
    spider = crawler.spider = Traced.from_crawler(crawler)
    if crawler.stats is None:
        crawler._apply_settings()
    before = DownloaderMiddleware.from_crawler(crawler)
    after = SpiderMiddleware.from_crawler(crawler)
    CallbackMiddleware.from_crawler(crawler)
    assert not after.session.in_flight._has_pipelines  # so Scrapy sends the add-on no item_scraped

    requests = []  # somebody holds them, as Scrapy does

    async def take(path: str) -> str:
        url = f"http://example.com/{path}"
        request = Request(url, callback=spider.parse)
        requests.append(request)
        before.process_request(request)
        response = HtmlResponse(
            url, body=_html(int(path.split("?", maxsplit=1)[0])), encoding="utf-8", request=request
        )
        try:
            await before.process_response(request, response)
        except NearDuplicate:
            return "dropped"
        made = as_async_generator(spider.parse(response))
        _ = [each async for each in after.process_spider_output(response, made)]
        after.session.in_flight.commit()
        noted: dict[str, str] = request.meta["dedup"]
        return noted["reason"] or noted["status"]

    found: dict[str, _Calls] = {}

    async def trace(path: str, expected: str) -> None:
        traced = found[expected] = _Calls()
        sys.setprofile(traced)
        try:
            became = await take(path)
        finally:
            sys.setprofile(None)
        assert became == expected, (path, became)

    assert await take("1") == "unique"
    assert await take("3") == "unique"  # from now on headings are known to tell pages apart
    await trace("2", "unique")
    assert await take("1?a=1") == "checked"
    await trace("2?b=1", "checked")
    assert await take("1?a=2") == "dropped"
    await trace("2?a=3", "dropped")
    await after.spider_closed("finished")
    assert crawler.stats is not None
    assert crawler.stats.get_value("dedup/inserted") == 3, crawler.stats.get_stats()
    return found


async def _serve(folder: str) -> dict[str, _Calls]:
    """Have a service carry out some of each command; the last ones are traced."""
    from types import SimpleNamespace

    from fuzzing_resp import Wire, command
    from sketches import sketch

    from dedup.model.events import encode
    from dedup.model.forms import encode_page
    from dedup.model.page import Document, PageFingerprint
    from dedup.model.recipes import NEWEST
    from dedup.service.applying import Applying
    from dedup.service.core.access import Tokens
    from dedup.service.core.config import Limits
    from dedup.service.core.namespaces import Namespaces
    from dedup.service.core.operations import Operations
    from dedup.service.resp.port import Connection, Port
    from dedup.wire.kafka import kafka_config

    namespaces = Namespaces(Path(folder))
    commands = Operations(namespaces)
    commands.not_ready = None
    connection, wire = Connection(Port(commands, Limits(), Tokens(None, None))), Wire()
    connection.connection_made(wire)
    found: dict[str, _Calls] = {}

    def ask(*words: object) -> bytes:
        wire.written.clear()
        data = command(*words)
        traced = found[str(words[0])] = _Calls()
        sys.setprofile(traced)
        try:
            connection.data_received(data)
        finally:
            sys.setprofile(None)
        return bytes(wire.written)

    for number in (1, 2, 3):
        url, value = f"http://example.com/{number}", f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}"
        page_ = PageFingerprint(int(value, 16), sketch(number), 0, 300, NEWEST)
        said = encode_page(Document("", page_, "example.com"))
        answer = ask("DEDUP.RESERVE", "traced", url, said, "TOKEN", f"a-token-of-sixteen-{number}")
        assert answer.split()[2] == b"unique", answer
        answer = ask("DEDUP.INSERT", "traced", url, f"a-token-of-sixteen-{number}")
        assert answer == b"+OK\r\n", answer

    async def at_once(function: Any, *arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    asyncio.to_thread = at_once
    applying = Applying(kafka_config("localhost"), namespaces)
    for number in (4, 5):
        page_ = PageFingerprint(number * 0x9E3779B97F4A7C15 % 2**64, sketch(number), 0, 300, NEWEST)
        key, value_ = encode("traced", Document(f"http://a/{number}", page_, "a", 1.7e9))
        record = SimpleNamespace(key=key, value=value_, offset=number, headers=(), timestamp=0)
        traced = found["an insert event"] = _Calls()
        sys.setprofile(traced)
        try:
            await applying.batch({0: [record]}, judge=True)
        finally:
            sys.setprofile(None)
    assert applying.counts["inserted"] == 2
    namespaces.close()
    return found


def _main_service(what: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_serve(folder))
    for command, traced in found.items():
        if what == "--service-calls":
            for file, name in traced.names:
                print(f"{file:40} {name}")
        print("{}: {} calls in {} files, {} returns".format(command, *traced.summed()))


def _main(what: str) -> None:
    if what.startswith("--service"):
        _main_service(what)
        return
    from scrapy.utils.reactor import install_reactor

    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    import dedup.scrapy  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_crawl(folder))
    traced = found["unique"]
    loaded = {
        name: file
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "dedup"
        and (file := getattr(module, "__file__", None))
        and file.endswith(".py")
    }
    lines = {name: len(Path(file).read_text().splitlines()) for name, file in loaded.items()}
    closed = Closure(len(lines), sum(lines.values()))
    if what == "--closure":
        print(json.dumps(closed))
    elif what == "--trace":
        print(json.dumps(traced.summed()))
    else:
        if what == "--calls":
            for file, name in traced.names:
                print(f"{file:40} {name}")
        print(f"{closed.modules} modules, {closed.lines} lines")
        for name, each in found.items():
            print("a page, {}: {} calls in {} files, {} returns".format(name, *each.summed()))


if __name__ == "__main__":
    _main(sys.argv[1] if len(sys.argv) > 1 else "")
