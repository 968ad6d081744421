"""Detectors of every kind: over a folder or a table service, blocking or in a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from detecting import Clock, InLoop
from services import Serving

import dedup

_names = (f"ns{number}" for number in count())

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("service"), "--distance", "10") as serving:
        yield serving


DETECTORS = ["folder", "folder in a loop", "service", "service in a loop"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each kind of detector, or those that its module names."""
    if "opens" in metafunc.fixturenames:
        kinds = getattr(metafunc.module, "DETECTORS", DETECTORS)
        metafunc.parametrize("opens", kinds, indirect=True)


@pytest.fixture
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Open detectors of one namespace, of this test alone; they are closed when it ends."""
    namespace, opened = next(_names), []
    target: Any = tmp_path
    make: Open = dedup.open
    if request.param == "folder in a loop":
        make = InLoop
    elif request.param != "folder":
        target = f"redis://127.0.0.1:{request.getfixturevalue('service').port}"
        make = dedup.open if request.param == "service" else InLoop

    def opening(**options: Any) -> Any:
        options = {"namespace": namespace} | options
        if make is not dedup.open or isinstance(target, str):
            options = {"timeout_seconds": 30} | options  # this machine may be busy
        detector = make(target, **options)
        opened.append(detector)
        return detector

    yield opening
    for detector in opened:
        detector.__exit__(None, None, None)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def detector(opens: Open) -> Any:
    return opens()
