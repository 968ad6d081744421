"""Faults put into every call that a crawl makes into dedup, one call at a time.

    POINTS            functions and public methods of detector and store, by name
    ADDON             every function and method of the add-on that a crawl with a store and reports loads, but for the functions
                      of the guard, and what Scrapy calls
    armed(...)        the __init__ of a spider, which arms a fault; stormy(...) arms all of them
    prepare()         in the crawl's process: wraps every point

A point that is armed raises at every call, or only at the n-th one, counted from the spider's start.
Spiders of a process must run in turn. What happens is noted in the spider's record:

    raised     a fault was raised; operation is the number of the call by Scrapy it was raised in, or
               "opening" or "saving" while the store is opened or writes its snapshot, or None in
               another thread
    calls      at the end: how often each point was called
"""

import errno
import functools
import itertools
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import isclass, iscoroutinefunction, isfunction
from typing import Any

import lmdb

from dedup.model.errors import StoreDamaged, StoreLocked

KINDS: dict[str, Callable[[str], Exception]] = {
    "disk": lambda text: OSError(errno.ENOSPC, text),
    "map": lmdb.MapFullError,
    "lmdb": lmdb.DiskError,
    "locked": StoreLocked,
    "damaged": StoreDamaged,
    "timeout": TimeoutError,
    "memory": MemoryError,
    "bug": AttributeError,
    "recursion": RecursionError,
}

# Where each function is looked up when it is called: module, and the names in it.
FUNCTIONS = {
    "dedup.detector.detector": "site_of agreed_recipe",
    "dedup.scrapy.memory.embedded": "open_embedded",
    "dedup.scrapy.page.request": "document_key",
    "dedup.scrapy.page.session": "read_page namespace_of",
    "dedup.store.documents": (
        "encode_records decode_record decode_removal pack_number unpack_number "
        "encode_state decode_state read_structure"
    ),
    "dedup.store.index": "key_digest",
    "dedup.store.store": "agreed_recipe same_recipe check_namespace key_digest",
}
CLASSES = {
    "dedup.detector.detector": "EmbeddedDetector",
    "dedup.detector.reservations": "Reservations",
    "dedup.store.documents": "Documents",
    "dedup.core.files": "FolderLock",
    "dedup.store.store": "Store",
    "dedup.store.index": "Index",
    "dedup.store.segmented_table": "SegmentedTable",
    "dedup.core.table": "Table",
}
SPECIAL = {"__init__", "__len__", "__contains__"}


def _methods(owner: type) -> list[str]:
    return [
        name
        for name, value in vars(owner).items()
        if (not name.startswith("_") or name in SPECIAL)
        and (isfunction(value) or isinstance(value, classmethod | property))
    ]


def _find() -> dict[str, tuple[Any, str]]:
    """Return owner and name of each point, by module or class and name."""
    found = {}
    for module, names in FUNCTIONS.items():
        for name in names.split():
            found[f"{module.removeprefix('dedup.')}.{name}"] = (import_module(module), name)
    for module, name in CLASSES.items():
        owner = getattr(import_module(module), name)
        found |= {f"{name}.{method}": (owner, method) for method in _methods(owner)}
    return found


_FOUND = _find()
POINTS = sorted(_FOUND)

# What stands between Scrapy and the rest: the methods that Scrapy calls, and the functions of the guard.
GUARD = (
    "scrapy.addon.", "scrapy.middlewares.", "scrapy.guard.guarded", "scrapy.guard.run_guarded", "scrapy.guard.count_fault", "scrapy.guard.kind_of",
)  # fmt: skip
REPORT = (
    "report.drops",
    "report.journal",
    "report.notes",
    "report.summary",
)  # what it calls while a crawl runs
BY_HAND = {"scrapy.middlewares.DownloaderMiddleware._drop", "scrapy.middlewares._token"}


def _addon() -> dict[str, tuple[Any, str]]:
    """Return owner and name of each function and method that is written in the add-on."""
    for name in ("scrapy.memory.embedded", *REPORT):
        import_module(f"dedup.{name}")  # as a crawl does that needs it
    found: dict[str, tuple[Any, str]] = {}
    for full, module in [*sys.modules.items()]:
        short = full.removeprefix("dedup.")
        if not full.startswith("dedup.scrapy") and short not in REPORT:
            continue
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) != full:
                continue
            if isfunction(value):
                found[f"{short}.{name}"] = (module, name)
            elif isclass(value) and not getattr(value, "_is_protocol", False):
                for method, inner in vars(value).items():
                    kinds = classmethod | staticmethod | property | functools.cached_property
                    real = getattr(inner, "fget", None) or getattr(inner, "func", inner)
                    real = getattr(real, "__func__", real)
                    written = getattr(getattr(real, "__code__", None), "co_filename", "")
                    is_ours = written == module.__file__
                    if is_ours and (isinstance(inner, kinds) or isfunction(inner)):
                        found[f"{short}.{name}.{method}"] = (value, method)
    return {p: f for p, f in found.items() if p in BY_HAND or not p.startswith(GUARD)}


_ADDON = _addon()
ADDON = sorted(_ADDON)


def armed(point: str, kind: str, call: int | None) -> str:
    """Return the __init__ of a spider that fails at a point, at one call or (None) at all."""
    return f"""
def __init__(self, **arguments):
    super().__init__(**arguments)
    import faulting
    faulting.arm(self, {point!r}, {kind!r}, {call!r})
"""


def stormy(seed: int, every: int) -> str:
    """Return the __init__ of a spider that fails at one call of every so many, by any kind of fault.

    Which of them is chance. The store is always opened: else nothing more could fail.
    """
    return armed("*", str(seed), every)


PARSE = """
def parse(self, response):
    self.note("parsed", response)
    if response.url.endswith("/raises"):
        raise ValueError("the callback is broken")
    yield {"url": response.url}
    yield from self.links(response)
"""


# ------------------------------------------------------------------------ in the crawl's process


class _Armed:
    spider: Any = None
    point = ""
    kind = ""
    call: int | None = None
    calls: Counter[str] = Counter()
    stormed = itertools.count()
    operations = 0
    operation: int | str | None = None


_main = threading.current_thread()


def arm(spider: Any, point: str, kind: str, call: int | None) -> None:
    """Let a point fail from now on.

    "*" stands for all: one call of every `call` fails then, and kind is a seed.
    """
    _Armed.spider, _Armed.point, _Armed.kind, _Armed.call = spider, point, kind, call
    _Armed.calls, _Armed.stormed = Counter(), itertools.count()


def disarm() -> None:
    """Let nothing fail any more, and note what was called."""
    _Armed.spider.note("calls", calls=_Armed.calls)
    _Armed.spider = None


def _passes(point: str) -> None:
    """Count a call, and raise if it is its turn."""
    if _Armed.spider is None:
        return
    ours = threading.current_thread() is _main
    _Armed.calls[point] += 1
    where = _Armed.operation if ours else None
    kind = _Armed.kind
    if _Armed.point == "*" and _Armed.call is not None:
        run, place = divmod(-1 if where == "opening" else next(_Armed.stormed), _Armed.call)
        chance = random.Random(f"{_Armed.kind} {run}")
        turn = run >= 0 and place == chance.randrange(_Armed.call)
        kind = chance.choice([*KINDS])
    else:
        turn = point == _Armed.point and _Armed.call in {None, _Armed.calls[point]}
    if turn:
        _Armed.spider.note("raised", point=point, operation=where)
        raise KINDS[kind](f"broken {point} in {_Armed.spider.name}.")


def _wrapped(point: str, real: Any) -> Any:
    if isinstance(real, property):
        return property(_wrapped(point, real.fget))
    if isinstance(real, classmethod | staticmethod):
        return type(real)(_wrapped(point, real.__func__))
    if isinstance(real, functools.cached_property):
        return functools.cached_property(_wrapped(point, real.func))

    @functools.wraps(real)
    def broken(*args: Any, **kwargs: Any) -> Any:
        _passes(point)
        return real(*args, **kwargs)

    return broken


def _marked(owner: type, name: str, mark: str) -> None:
    """Note what is raised inside a method under another name than the operation's number."""
    real = getattr(owner, name)

    @functools.wraps(real)
    def method(*args: Any, **kwargs: Any) -> Any:
        with _operation(mark):
            return real(*args, **kwargs)

    setattr(owner, name, method)


@contextmanager
def _operation(number: int | str) -> Iterator[None]:
    before, _Armed.operation = _Armed.operation, number
    try:
        yield
    finally:
        _Armed.operation = before


def _number() -> int:
    _Armed.operations += 1
    return _Armed.operations


class _Steps:
    """A coroutine, each step of which belongs to one operation."""

    def __init__(self, coroutine: Any, number: int) -> None:
        self._steps = coroutine.__await__()
        self._number = number

    def __await__(self) -> Iterator[Any]:
        while True:
            with _operation(self._number):
                try:
                    awaited = next(self._steps)
                except StopIteration as end:
                    return end.value
            yield awaited


def _counted(owner: type, name: str) -> None:
    """Make each call of a method an operation."""
    real = getattr(owner, name)

    @functools.wraps(real)
    def method(*args: Any, **kwargs: Any) -> Any:
        with _operation(_number()):
            return real(*args, **kwargs)

    @functools.wraps(real)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await _Steps(real(*args, **kwargs), _number())

    setattr(owner, name, coroutine if iscoroutinefunction(real) else method)


def prepare_addon() -> None:
    """Wrap every point of the add-on, wherever a module has its name."""
    modules = [m for name, m in [*sys.modules.items()] if name.startswith("dedup.")]
    for point, (owner, name) in _ADDON.items():
        real = vars(owner)[name]
        wrapped = _wrapped(point, real)
        if isinstance(wrapped, functools.cached_property):
            wrapped.__set_name__(owner, name)
        setattr(owner, name, wrapped)
        for module in modules:
            for other, value in [*vars(module).items()]:
                if value is real:
                    setattr(module, other, wrapped)
    _disarm_at_close()


def _disarm_at_close() -> None:
    from dedup.scrapy.page.session import Session

    real_close = Session.close

    async def close(self: Any, reason: str) -> None:
        try:
            await real_close(self, reason)
        finally:
            disarm()

    Session.close = close


def prepare() -> None:
    """Wrap every point, and every call by Scrapy."""
    from dedup.scrapy.middlewares import DownloaderMiddleware
    from dedup.scrapy.page.in_flight import PagesInFlight
    from dedup.scrapy.page.output import PassingPage
    from dedup.scrapy.page.session import Session
    from dedup.store.index import Index

    _marked(Session, "_open", "opening")
    _marked(Index, "_work", "saving")
    for point, (owner, name) in _FOUND.items():
        setattr(owner, name, _wrapped(point, vars(owner)[name]))
    _disarm_at_close()
    for owner, names in {
        DownloaderMiddleware: "process_request process_response",
        Session: "forget close",
        PagesInFlight: "end",
        PassingPage: "__init__",
    }.items():
        for name in names.split():
            _counted(owner, name)


class BrokenPipeline:
    """Fails for one page's item."""

    def process_item(self, item: Any, spider: Any = None) -> Any:
        if item["url"].endswith("/pipeline"):
            raise ValueError("the pipeline is broken")
        return item
