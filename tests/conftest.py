"""What all tests share: figures that a test measured are printed at the end of the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FIGURES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


@pytest.fixture(scope="session")
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Return a function that keeps a line for the end of the run."""
    return pytestconfig.stash[FIGURES].append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if lines := config.stash[FIGURES]:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
