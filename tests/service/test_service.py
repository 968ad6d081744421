"""The table service as Redis clients meet it: real processes, real sockets, real clients."""

import pytest
import redis
from commands import ONCE, TOKEN, insert, page, probe, reserve, spread
from services import Serving

PAGE = page().replace(" ", "")


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
    asked = ["DEDUP.RESERVE", ns, "http://a/1", page(), "TOKEN"]
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
    pages = [page(*each) for each in pairs]
    for options in ([], ["COUNT", 1], ["DISTANCE", 1, "SIMILARITY", 0.998]):
        together = client.execute_command("DEDUP.MPROBE", ns, *options, "PAGES", *pages)
        assert together == [probe(client, ns, *pair, *options) for pair in pairs]


# -------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (f"DEDUP.PROBE ns {PAGE.replace('0123', '', 1)}", r"length >= 16 - at `\$.value`"),
        (
            f"DEDUP.PROBE ns {PAGE.replace('cdef', 'cdeF', 1)}",
            r"lower-case hex digits - at `\$.value`",
        ),
        (f"DEDUP.PROBE ns {PAGE.replace('00', '', 1)}", r"length >= .. - at `\$."),
        (f"DEDUP.PROBE ns {PAGE.replace('recipe', 'recip')}", "unknown field `recip`"),
        ('DEDUP.PROBE ns {"value":"0123456789abcdef"}', "missing required field"),
        ("DEDUP.PROBE ns 0123456789abcdef", "the page is not allowed"),
        ("DEDUP.PROBE ns " + "[" * 100_000, "the page is not allowed"),
        (f"DEDUP.PROBE ns {PAGE} SIMILARITY 1.1", "SIMILARITY"),
        (f"DEDUP.PROBE ns {PAGE} FOO 1", "option"),
        (f"DEDUP.PROBE ns {PAGE} COUNT", "too few"),
        (f"DEDUP.PROBE ns {PAGE} COUNT x", "COUNT"),
        (f"DEDUP.PROBE ../x {PAGE}", "namespace"),
        (f"DEDUP.MPROBE ns {PAGE} {PAGE}", "usage: DEDUP.MPROBE"),
        (f"DEDUP.MPROBE ns PAGES {PAGE} {PAGE.replace('words-0', 'words-9')}", "one recipe"),
        (f"DEDUP.RESERVE ns key {PAGE} TOKEN", "too few"),
        (f"DEDUP.RESERVE ns key {PAGE} DISTANCE 1 DISTANCE 1", "repeated"),
        ("DEDUP.RESERVE ns key", "wrong number of arguments"),
        ("DEDUP.PROBE ns", r"usage: DEDUP.PROBE ns page \[COUNT"),
        ("DEDUP.INSERT ns key token 1", r"'1' '' is not allowed; usage: DEDUP.INSERT ns"),
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


def test_info_has_a_role(client):
    """Clients that look for the primary ask for it (valkey-glide, Lettuce)."""
    assert client.info("replication")["role"] == client.info()["role"] == "master"


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
