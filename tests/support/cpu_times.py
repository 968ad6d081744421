"""CPU time of each test, its child processes included: pytest --cpu-times[=LINES].

Wall time says little on a machine that does other things too; CPU time is what a test costs.
A child counts where it was waited for: that of a module's fixture in the module's last test, a
broker that lives as long as the run in the last test of all.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from forking import seconds_spent

PROPERTY = "cpu_seconds"


def spent() -> float:
    """Return the CPU seconds of this process and of its children that ended."""
    return sum(os.times()[:4]) + seconds_spent()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cpu-times", nargs="?", type=int, const=30, help="show what cost most CPU time"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.cpu_times:
        config.pluginmanager.register(CpuTimes(config.option.cpu_times))


class CpuTimes:
    """Measures in the process that runs a test; adds up in the one that prints."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.started = 0.0
        self.times: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self.started = spent()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[Any]) -> Iterator[None]:
        report = yield
        if call.when == "teardown":
            report.user_properties.append((PROPERTY, spent() - self.started))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self.times[report.nodeid] = dict(report.user_properties)[PROPERTY]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        files: defaultdict[str, float] = defaultdict(float)
        for test, seconds in self.times.items():
            files[test.partition("::")[0]] += seconds
        terminalreporter.section(f"CPU time: {sum(files.values()):.0f} s in all")
        for of in (files, self.times):
            for name, seconds in sorted(of.items(), key=lambda each: -each[1])[: self.lines]:
                terminalreporter.write_line(f"{seconds:8.2f} s  {name}")
