"""What all tests share: figures that a test measured are printed at the end of the run.

No test fails for being slow, or by chance: Hypothesis has no deadlines and draws the same examples
each time; --hypothesis-profile=explore draws others. What a run started ends with it (leftovers.py).
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leftovers
import pytest
from hypothesis import HealthCheck, settings
from sizes import examples

if TYPE_CHECKING:
    from broker import Cluster

for name, same in (("steady", True), ("explore", False)):
    settings.register_profile(
        name,
        deadline=None,
        max_examples=examples(100),
        derandomize=same,
        database=None,  # nothing is left for the next run
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("steady")

FIGURES = pytest.StashKey[list[str]]()


# What a person may have set, and what would change what the programs under test do or show.
SET_HERE = (
    "COLUMNS",
    "LINES",
    "FORCE_COLOR",
    "NO_COLOR",
    "CLICOLOR_FORCE",
    "SCRAPY_SETTINGS_MODULE",
)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []
    gc.disable()  # until all is imported and collected, which stays
    for name in SET_HERE:
        os.environ.pop(name, None)
    leftovers.watch()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # a run in the background, whose children would ignore the Ctrl-C that tests send them
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Files that take longest: begun first, so that none is left for one process while the others have ended.
LONGEST = (
    "test_store_millions test_docs_build test_packaging test_pages test_bench test_scrapy_plugins "
    "test_replica test_scrapy_items test_scrapy_faults_addon test_scrapy_items_hidden "
    "test_scrapy_new_or_known test_service_limits test_fingerprint test_batch test_scan test_procedures "
    "test_scan_resume test_table test_front_door test_worker test_simulation test_hostile "
    "test_scrapy_odd_sites test_examples test_demo test_docs test_scrapy_unchanged test_store_index test_cli_ends "
    "test_scrapy_faults_everywhere test_scrapy_resume test_scrapy_kafka test_kafka test_segments_kept"
).split()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of `-m "not long"` files that are long as a whole are not imported: each process of a run would."""
    if config.option.markexpr == "not long" and collection_path.match("test_*.py"):
        text = collection_path.read_text("utf-8")
        if re.search(r"^pytestmark = \[?pytest\.mark\.long\b", text, re.MULTILINE):
            return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that kill brokers, which take long to come back, are long."""
    for item in items:
        if {"one_broker", "three_brokers"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.long)
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine is run to its end in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Return a function that keeps a line for the end of the run."""
    return pytestconfig.stash[FIGURES].append


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Kafka, one for all processes of a run; each test has its own topics."""
    from broker import shared_broker

    folder = tmp_path_factory.getbasetemp()
    with shared_broker(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as address:
        yield address


@pytest.fixture(scope="session")
def _one_broker() -> Iterator[Cluster]:
    from broker import own_brokers

    with own_brokers(1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _three_brokers() -> Iterator[Cluster]:
    from broker import own_brokers

    with own_brokers(3) as cluster:
        yield cluster


@pytest.fixture
def one_broker(_one_broker: Cluster) -> Iterator[Cluster]:
    """A Kafka of one node that a test may kill, pause and start."""
    yield _one_broker
    _one_broker.mend()
    _collect_connections()


@pytest.fixture
def three_brokers(_three_brokers: Cluster) -> Iterator[Cluster]:
    """A Kafka of three nodes that a test may kill, pause and start."""
    yield _three_brokers
    _three_brokers.mend()
    _collect_connections()


def _collect_connections() -> None:
    """aiokafka leaves connections that it could not make to the collector, which warns of them.

    Tests that kill brokers are marked to ignore that, and it is done before others run.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


# Where tests are divided among processes (pytest-xdist), figures travel from these to the one that prints.


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["figures"] = session.config.stash[FIGURES]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[FIGURES] += getattr(node, "workeroutput", {}).get("figures", [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if lines := config.stash[FIGURES]:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
