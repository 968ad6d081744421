"""The options of RESERVE as they are read: once for those said alike, and as if each time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dedup.model.errors import UsageError
from dedup.model.recipes import NEWEST
from dedup.service.core.namespaces import Namespaces, PolicyOverrides
from dedup.service.core.operations import Operations
from dedup.service.resp import plans as resp_plans
from dedup.service.resp.plans import Plans

WORDS = (
    b"TOKEN", b"token", b"HOME", b"home", b"off", b"on", b"GUARD", b"LINKS", b"links", b"00000000000000ab", b"EXEMPT", b"start", b"DISTANCE",
    b"3", b"SCOPE", b"site", b"SECONDS", b"1.5", b"a-token-of-sixteen-and-more", b"another-token-of-sixteen", b"",
)  # fmt: skip


def plainly(
    arguments: list[bytes],
) -> tuple[resp_plans.CommandOptions, dict[str, Any], str | None] | str:
    try:
        given = resp_plans.options(b"DEDUP.RESERVE", arguments)
    except UsageError as error:
        return str(error)
    shared = replace(given, page={}, reserve=replace(given.reserve, token=None))
    return shared, given.page, given.reserve.token


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Plans of a service that has the namespace already: those of a missing one are not kept."""
    namespaces = Namespaces(tmp_path_factory.mktemp("plans"))
    commands = Operations(namespaces)
    commands.not_ready = None
    commands.detector("ns", NEWEST, PolicyOverrides(), make=True)
    yield Plans(commands)
    namespaces.close()


def quickly(
    plans: Plans, options: list[bytes]
) -> tuple[resp_plans.CommandOptions, dict[str, Any], str | None] | str:
    command = [b"DEDUP.RESERVE", b"ns", b"key", *[b""] * 5, b"RECIPE", NEWEST.encode(), *options]
    try:
        plan, page, token = plans.of_page(command)
    except UsageError as error:
        return str(error)
    return plan.given, page, token


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=7), max_size=30))
def test_options_read_once_are_those_read_each_time(plans, commands):
    """Whatever was read before: in any order, with and without tokens, wrong ones, too."""
    for arguments in commands:
        assert quickly(plans, arguments) == plainly(arguments)


def test_known_options_are_bounded(plans, monkeypatch):
    """A client that says something new each time fills no memory."""
    monkeypatch.setattr(resp_plans, "PLANS", 8)
    for seconds in range(1, 50):
        quickly(plans, [b"SECONDS", b"%d" % seconds])
    assert 0 < len(plans._page_plans) <= 8
