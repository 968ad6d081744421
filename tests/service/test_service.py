"""The table service as Redis clients meet it: real processes, real sockets, real clients."""

import pytest
import redis
from commands import ONCE, TOKEN, insert, probe, reserve, spread
from services import RECIPE, Serving
from sketches import sketch

VALUE, SKETCH = "0123456789abcdef", sketch().hex()


@pytest.fixture
def client(serving):
    """A client of RESP 3; test_protocol.py has every answer in both versions."""
    with serving.client(protocol=3, decode_responses=True) as made:
        yield made


@pytest.fixture
def ns(request):
    """A namespace for each test."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[-60:]


# ----------------------------------------------------------------------------------- two phases


def test_a_token_belongs_to_its_key(client, ns):
    """INSERT and RELEASE with another key than the reservation's are errors."""
    token = reserve(client, ns, "http://a/1")[1]
    for command in ("DEDUP.INSERT", "DEDUP.RELEASE"):
        with pytest.raises(redis.ResponseError, match="another key"):
            client.execute_command(command, ns, "http://a/2", token)


def test_a_token_of_ones_own_can_be_released_and_asked_again(client, ns):
    """Though the answer was lost: the same answer again, nothing more taken; then it is given back.

    A RESERVE that its RELEASE has overtaken takes nothing.
    """
    token = "5c1f0f3a-9be34a4c8d6c2ab4f1f7e6d0"
    words = ["0" * 16, "00" * 37, "0" * 16, 300, "", "RECIPE", RECIPE, "TOKEN"]
    asked = ["DEDUP.RESERVE", ns, "http://a/1", *words]
    for _ in range(2):
        assert client.execute_command(*asked, token)[:2] == ["unique", token]
    assert "in_flight:1\r\n" in client.execute_command("DEDUP.INFO", ns)
    assert client.execute_command("DEDUP.RELEASE", ns, "http://a/1", token) == 1
    with pytest.raises(redis.ResponseError, match="used before"):
        client.execute_command(*asked, token)
    assert client.execute_command("DEDUP.RELEASE", ns, "http://a/1", "overtaken-" + token) == 0
    with pytest.raises(redis.ResponseError, match="used before"):
        client.execute_command(*asked, "overtaken-" + token)
    assert "in_flight:0\r\n" in client.execute_command("DEDUP.INFO", ns)
    for bad in ("short", "with a space in it", "x" * 65, "_" + "0" * 32):
        with pytest.raises(redis.ResponseError, match="TOKEN .* not allowed"):
            client.execute_command(*asked, bad)


# ------------------------------------------------------------------------------------- options


# -------------------------------------------------------------------------------------- probes


def test_mprobe_answers_as_probes_do(client, ns):
    """MPROBE gives the answer of PROBE for each pair, in their order, beyond a slice's length too."""
    for i in range(50):
        insert(client, ns, f"http://a/{i}", value=spread(i), bits=i)
    pairs = [(spread(i % 60) ^ (i % 3), i % 50) for i in range(1500)]
    arguments = [text for value, bits in pairs for text in (f"{value:016x}", sketch(bits).hex())]
    for options in ([], ["COUNT", 1], ["DISTANCE", 1, "SIMILARITY", 0.998]):
        together = client.execute_command(
            "DEDUP.MPROBE", ns, "RECIPE", RECIPE, *options, "VALUES", *arguments
        )
        assert together == [probe(client, ns, *pair, *options) for pair in pairs]


# -------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (f"DEDUP.PROBE ns 12 {SKETCH} RECIPE {RECIPE}", "16 hex digits"),
        (f"DEDUP.PROBE ns {VALUE} {VALUE} RECIPE {RECIPE}", "74 hex digits"),
        (f"DEDUP.PROBE ns {VALUE} {SKETCH} RECIPE {RECIPE} SIMILARITY 1.1", "SIMILARITY"),
        (f"DEDUP.PROBE ns {VALUE} {SKETCH} RECIPE {RECIPE} IDENTITY 12", "IDENTITY"),
        (f"DEDUP.PROBE ns {VALUE} {SKETCH}", "wrong number of arguments"),
        (f"DEDUP.PROBE ns {VALUE} {SKETCH} NO {RECIPE}", "RECIPE is missing"),
        (f"DEDUP.PROBE ns {VALUE} {SKETCH} RECIPE {RECIPE} FOO 1", "option"),
        (f"DEDUP.PROBE ns {VALUE} {SKETCH} RECIPE {RECIPE} COUNT", "too few"),
        (f"DEDUP.PROBE ns {VALUE} {SKETCH} RECIPE {RECIPE} COUNT x", "COUNT"),
        (f"DEDUP.PROBE ../x {VALUE} {SKETCH} RECIPE {RECIPE}", "namespace"),
        (f"DEDUP.MPROBE ns RECIPE {RECIPE} VALUES {VALUE}", "pairs"),
        (f"DEDUP.MPROBE ns RECIPE {RECIPE} {VALUE} {SKETCH}", "VALUES"),
        ("DEDUP.RESERVE ns key 0123456789abcdef", "wrong number of arguments"),
        ("DEDUP.PROBE ns", r"usage: DEDUP.PROBE ns value sketch RECIPE r \[SCOPE"),
        ("DEDUP.INSERT ns key token 1", r"unknown option '1'; usage: DEDUP.INSERT ns"),
        ("dedup.release ns key", "for 'dedup.release'; usage: DEDUP.RELEASE ns key token"),
        ("CLIENT SETNAME", "usage: CLIENT SETNAME name"),
        ("DEDUP.NOTHING", "unknown command"),
        ("SELECT 1", "one database"),
        ("CONFIG SET save x", "CONFIG"),
        ("AUTH default nothing-here", "no token"),
    ],
)
def test_a_wrong_command_names_what_is_wrong(client, words, error):
    """The error says which argument, and the connection goes on."""
    with pytest.raises(redis.RedisError, match=error):
        client.execute_command(*words.split())
    assert client.ping()


# ---------------------------------------------------------------------- what clients do at connection


def test_connection_commands_of_redis_py(client):
    """client_id, client_setname, info, config_get, echo, command_count, select answer as expected."""
    assert isinstance(client.client_id(), int)
    assert client.client_setname("spider")
    assert client.client_getname() == "spider"
    assert "dedup_version" in client.info()
    assert client.config_get("save") == {"save": ""}
    assert client.echo("hello") == "hello"
    assert client.command_count() > 15
    assert client.select(0)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service with a token."""
    with Serving(tmp_path_factory.mktemp("guarded"), token=TOKEN) as service:
        yield service


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_token_is_asked_for(guarded, protocol):
    """With DEDUP_TOKEN, nothing but AUTH, HELLO and QUIT is answered until the token is shown."""
    for right in ({"password": TOKEN}, {"username": "default", "password": TOKEN}):
        with guarded.client(protocol=protocol, **right) as client:
            assert client.ping()
    for wrong in ({}, {"password": "wrong"}, {"username": "other", "password": TOKEN}):
        with (
            guarded.client(protocol=protocol, **ONCE, **wrong) as client,
            pytest.raises(redis.RedisError, match="NOAUTH|token|uthentication"),
        ):
            client.execute_command("DEDUP.INFO")
    assert TOKEN not in "".join(guarded.log)
    assert "wrong" not in "".join(guarded.log)


def test_the_third_wrong_token_ends_the_connection(guarded):
    """A connection does not get to try many tokens."""
    with guarded.connect() as plain:
        plain.sendall(b"*2\r\n$4\r\nAUTH\r\n$5\r\nwrong\r\n" * 5)
        answer = b"".join(iter(lambda: plain.recv(4096), b""))
        assert answer == b"-NOAUTH wrong token\r\n" * 3
