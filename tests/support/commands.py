"""What a Redis client says to a table service, as the tests of it do."""

import json

from redis.backoff import NoBackoff
from redis.retry import Retry
from services import RECIPE
from sketches import sketch

ONCE = {"retry": Retry(NoBackoff(), 0)}
TOKEN = "a token of sixteen bytes and more"


def page(
    value: int = 0x0123456789ABCDEF,
    bits: int = 0,
    features: int = 300,
    identity: int = 0,
    **more: object,
) -> str:
    """The argument `page` of a command; bits are those of the sketch."""
    fields = {
        "value": f"{value:016x}",
        "sketch": sketch(bits).hex(),
        "identity": f"{identity:016x}",
        "features": features,
        "recipe": RECIPE,
        "domain": "example.com",
    }
    return json.dumps(fields | more)


def command(*words: object) -> bytes:
    """The bytes of a command; a word that is no bytes is written as text."""
    encoded = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in encoded)


def spread(i: int) -> int:
    """Values far from each other."""
    return i * 0x9E3779B97F4A7C15 % 2**64


def probe(client, ns, value, bits=0, *options):
    return client.execute_command("DEDUP.PROBE", ns, page(value, bits), *options)


def reserve(client, ns, key, *arguments, **fields):
    return client.execute_command("DEDUP.RESERVE", ns, key, page(**fields), *arguments)


def insert(client, ns, key, **fields):
    token = reserve(client, ns, key, "EXEMPT", "start", **fields)[1]
    assert client.execute_command("DEDUP.INSERT", ns, key, token)
