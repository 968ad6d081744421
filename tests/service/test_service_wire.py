"""The options of RESERVE as they are read: once for those said alike, and as if each time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.model.errors import UsageError
from dedup.model.recipes import NEWEST
from dedup.service.core.namespaces import Namespaces, PolicyOverrides
from dedup.service.core.operations import Operations
from dedup.service.resp import plans as resp_plans
from dedup.service.resp.plans import Plans

WORDS = (
    b"TOKEN", b"token", b"off", b"on", b"GUARD", b"fields", b"EXEMPT", b"start", b"DISTANCE",
    b"3", b"SCOPE", b"site", b"SECONDS", b"1.5", b"a-token-of-sixteen-and-more", b"another-token-of-sixteen", b"",
)  # fmt: skip

Read = tuple[resp_plans.CommandOptions, str | None] | str


def plainly(words: list[bytes]) -> Read:
    """Read the options one by one."""
    shared, tokens = [], []
    for at in range(0, len(words), 2):
        pair = words[at : at + 2]
        (tokens if pair[0].upper() == b"TOKEN" else shared).append(pair)
    try:
        given = resp_plans.options(b"DEDUP.RESERVE", [word for pair in shared for word in pair])
        if len(tokens) > 1:
            return "more than one token"
        return given, resp_plans.split_token(tokens[0])[1] if tokens else None
    except UsageError as error:
        return type(error).__name__


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Plans of a service that has the namespace already: those of a missing one are not kept."""
    namespaces = Namespaces(tmp_path_factory.mktemp("plans"))
    commands = Operations(namespaces)
    commands.not_ready = None
    commands.detector("ns", NEWEST, PolicyOverrides(), make=True)
    yield Plans(commands)
    namespaces.close()


def quickly(plans: Plans, words: list[bytes]) -> Read:
    try:
        shared, token = resp_plans.split_token(words)
        return plans.of(b"DEDUP.RESERVE", b"ns", NEWEST, shared).given, token
    except UsageError as error:
        return type(error).__name__


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=7), max_size=30))
def test_options_read_once_are_those_read_each_time(plans, commands):
    """Whatever was read before: in any order, with and without tokens, wrong ones, too."""
    for arguments in commands:
        found, expected = quickly(plans, arguments), plainly(arguments)
        assert found == expected or (isinstance(found, str) and isinstance(expected, str))


def test_known_options_are_bounded(plans, monkeypatch):
    """A client that says something new each time fills no memory."""
    monkeypatch.setattr(resp_plans, "PLANS", 8)
    for seconds in range(1, 50):
        quickly(plans, [b"SECONDS", b"%d" % seconds])
    assert 0 < len(plans._plans) <= 8
