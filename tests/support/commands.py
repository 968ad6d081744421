"""What a Redis client says to a table service, as the tests of it do."""

from redis.backoff import NoBackoff
from redis.retry import Retry
from services import RECIPE

ONCE = {"retry": Retry(NoBackoff(), 0)}
TOKEN = "a token of sixteen bytes and more"


def page(value: int = 0x0123456789ABCDEF, check: int = 0xFF, features: int = 300) -> list[object]:
    """The arguments `page` of a command."""
    values = [f"{value:016x}", f"{check:016x}", "0" * 16]
    return [*values, features, 2, "example.com", "RECIPE", RECIPE]


def spread(i: int) -> int:
    """Values far from each other."""
    return i * 0x9E3779B97F4A7C15 % 2**64


def probe(client, ns, value, check=0xFF, *options):
    return client.execute_command(
        "DEDUP.PROBE", ns, f"{value:016x}", f"{check:016x}", "RECIPE", RECIPE, *options
    )


def reserve(client, ns, key, *arguments, **fields):
    return client.execute_command("DEDUP.RESERVE", ns, key, *page(**fields), *arguments)


def insert(client, ns, key, **fields):
    token = reserve(client, ns, key, "EXEMPT", "start", **fields)[1]
    assert client.execute_command("DEDUP.INSERT", ns, key, token)
