"""The table service as Redis clients meet it: real processes, real sockets, real clients."""

import pytest
import redis
from services import RECIPE, Serving


def page(value: int = 0x0123456789ABCDEF, check: int = 0xFF, features: int = 300) -> list[object]:
    """The arguments `page` of a command."""
    values = [f"{value:016x}", f"{check:016x}", "0" * 16]
    return [*values, features, 2, "example.com", "RECIPE", RECIPE]


def spread(i: int) -> int:
    """Values far from each other."""
    return i * 0x9E3779B97F4A7C15 % 2**64


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("store")) as service:
        yield service


@pytest.fixture(params=[2, 3], ids=["protocol 2", "protocol 3"])
def client(serving, request):
    with redis.Redis(port=serving.port, protocol=request.param, decode_responses=True) as made:
        yield made


@pytest.fixture
def ns(request):
    """A namespace for each test."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[-60:]


def probe(client, ns, value, check=0xFF, *options):
    return client.execute_command(
        "DEDUP.PROBE", ns, f"{value:016x}", f"{check:016x}", "RECIPE", RECIPE, *options
    )


def reserve(client, ns, key, *arguments, **fields):
    return client.execute_command("DEDUP.RESERVE", ns, key, *page(**fields), *arguments)


def insert(client, ns, key, **fields):
    token = reserve(client, ns, key, **fields)[1]
    assert client.execute_command("DEDUP.INSERT", ns, key, token)


def test_a_page_is_reserved_inserted_and_found(client, ns):
    """reserve answers unique with a token, insert OK, and a probe then finds the key."""
    status, token, of, distance, check_distance, reason = reserve(client, ns, "http://a/1")
    assert (status, of, distance, check_distance, reason) == ("unique", None, None, None, None)
    assert probe(client, ns, 0x0123456789ABCDEF) == []
    assert client.execute_command("DEDUP.INSERT", ns, "http://a/1", token) == "OK"
    assert probe(client, ns, 0x0123456789ABCDEE, 0xFC) == [["http://a/1", 1, 2]]


def test_a_near_duplicate_names_its_original(client, ns):
    """A page near an inserted one is a near-duplicate, of it, at its distances."""
    insert(client, ns, "http://a/1")
    answer = reserve(client, ns, "http://a/2", value=0x0123456789ABCDEE, check=0xFE)
    assert answer == ["near_duplicate", None, "http://a/1", 1, 1, None]
