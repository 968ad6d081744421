"""Clients as they come: what Redis' own tools and libraries send without any settings for us."""

import contextlib
import shutil
import socket
import subprocess

import pytest
import redis
from commands import ONCE, command, insert, page, probe, spread


def said(serving, *parts: bytes) -> bytes:
    """Return all that is answered to some bytes, sent in these parts."""
    with serving.connect() as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # the service has closed it
            for part in parts:
                plain.sendall(part)
            plain.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while some := plain.recv(65536):
                answer += some
        return answer


NOT_RESP = b"-ERR Protocol error: a command is an array of bulk strings\r\n"
PROBED = command("DEDUP.PROBE", "none", page())


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"ECHO a\r\n" + command("PING"), NOT_RESP),
        (command("PING") + b"PINGS\r\n" + command("PING"), b"+PONG\r\n" + NOT_RESP),
        (b"PING\r\n" + command("PING") + b"ping\nPinG\r\n" + PROBED + b"PING\n", b"+PONG\r\n" * 4 + b"*0\r\n+PONG\r\n"),
        (command("PING") + b"QUIT\r\n" + command("PING"), b"+PONG\r\n+OK\r\n"),
        (b"*-1\r\n*0\r\n*-7\r\n" + command("PING"), b"+PONG\r\n"),
        (PROBED * 3 + b"INFO\r\n" + PROBED * 2, b"*0\r\n" * 3 + NOT_RESP),
        (PROBED * 3 + b"*0\r\n" + PROBED * 2, b"*0\r\n" * 5),
        (PROBED * 3 + b"\r\n\r\n" + PROBED * 2, b"*0\r\n" * 5),
        (b"\r\n" + command("PING") + b"\rPING\r\n", b"+PONG\r\n" + NOT_RESP),
        (command("ECHO", "a\r\n*1\r\n$4\r\nPING\r\n") + command("PING"),
         b"$17\r\na\r\n*1\r\n$4\r\nPING\r\n\r\n+PONG\r\n"),
    ],
)  # fmt: skip
def test_a_line_of_text_is_no_command_and_what_is_empty_is_skipped(serving, sent, answer):
    """But a load balancer's PING and QUIT. In one piece, and cut anywhere, the answers are the same."""
    assert said(serving, sent) == answer
    assert said(serving, *[sent[i : i + 1] for i in range(len(sent))]) == answer
    for at in range(1, len(sent), 7):
        assert said(serving, sent[:at], sent[at:]) == answer


def test_a_transaction_runs_in_order_at_its_end(client):
    """redis-py's pipeline, which is one: nothing runs before EXEC, then all of it, in order."""
    pipeline = client.pipeline()
    pipeline.execute_command("DEDUP.RESERVE", "multi", "a", page(), "EXEMPT", "start")
    pipeline.execute_command("DEDUP.RESERVE", "multi", "b", page())
    pipeline.ping()
    verdict, second, pong = pipeline.execute()
    assert (verdict[0], second[0], pong) == ("exempt", "pending", True)
    pipeline.execute_command("DEDUP.INSERT", "multi", "a", verdict[1])
    pipeline.execute_command("DEDUP.PROBE", "multi", page())
    assert pipeline.execute() == ["OK", [["a", 0, "1.0000"]]]


def test_nothing_of_a_refused_transaction_runs(client):
    """A command that is refused when it is queued discards all; one that fails later only itself."""
    for bad in (["DEDUP.NOTHING"], ["DEDUP.RESERVE", "x"]):
        pipeline = client.pipeline()
        pipeline.execute_command("DEDUP.RESERVE", "refused", "a", page())
        pipeline.execute_command(*bad)
        if bad == ["DEDUP.NOTHING"]:
            with pytest.raises(redis.ResponseError):
                pipeline.execute()
            assert client.execute_command("DEDUP.INFO", "refused").startswith("documents:0")
        else:
            with pytest.raises(redis.ResponseError, match="wrong number"):
                pipeline.execute()
    pipeline = client.pipeline()
    pipeline.execute_command("DEDUP.RESERVE", "later", "a", page())
    pipeline.execute_command("DEDUP.INSERT", "later", "a", "unknown")
    pipeline.ping()
    verdict, error, pong = pipeline.execute(raise_on_error=False)
    assert (verdict[0], str(error)[:8], pong) == ("unique", "NOTOKEN ", True)


def test_the_words_of_a_transaction(client):
    """MULTI in MULTI, EXEC and DISCARD without one, WATCH: as Redis says, or plainly refused."""
    with client.client() as one:
        for word in ("EXEC", "DISCARD"):
            with pytest.raises(redis.ResponseError, match="without MULTI"):
                one.execute_command(word)
        assert one.execute_command("MULTI")
        with pytest.raises(redis.ResponseError, match="nested"):
            one.execute_command("MULTI")
        one.execute_command("DEDUP.RESERVE", "d", "k", page())
        assert one.execute_command("DISCARD")
        assert one.execute_command("MULTI")
        assert one.execute_command("EXEC") == []
        with pytest.raises(redis.ResponseError, match="no WATCH"):
            one.execute_command("WATCH", "k")


def test_a_large_transaction_lets_others_through(serving, client):
    """Thousands of commands in one transaction are answered, and bounded."""
    pipeline = client.pipeline()
    for i in range(3000):
        pipeline.execute_command("DEDUP.RESERVE", "large", f"k{i}", page(spread(i)))
    verdicts = pipeline.execute()
    assert [verdict[0] for verdict in verdicts] == ["unique"] * 3000
    pipeline = client.pipeline()
    for _ in range(10_001):
        pipeline.ping()
    with pytest.raises(redis.ResponseError, match="LIMIT"):
        pipeline.execute()
    assert client.ping()


@pytest.mark.parametrize(
    "words",
    [
        ["CLIENT", "TRACKING", "ON", "OPTIN"],
        ["CLIENT", "TRACKING", "OFF"],
        ["CLIENT", "CACHING", "YES"],
        ["client", "setinfo", "LIB-NAME", "x"],
        ["CLIENT", "NO-TOUCH", "ON"],
        ["hello", "3", "setname", "x"],
        ["DEDUP.PROBE", "n", page(), "scope", "SITE"],
        ["dedup.mprobe", "n", "Count", 1, "pages", page()],
    ],
    ids=lambda words: f"{words[0]} {words[1]}",
)
def test_what_clients_send_is_answered(serving, words):
    """Fixed words are read in any case, and what clients insist on is no error."""
    with serving.client(**ONCE) as client:
        client.execute_command(*words)


# -------------------------------------------------------------------------------------------- tools

cli = pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed")


def redis_cli(serving, *words: str, typed: bytes = b"") -> bytes:
    """Return what redis-cli says of its arguments, or of what is typed."""
    command = ["redis-cli", "-p", str(serving.port), *words]
    return subprocess.run(command, input=typed, capture_output=True, check=True).stdout


@cli
def test_redis_cli_loads_commands_from_a_pipe(serving, client):
    """redis-cli --pipe takes a file of commands of many reads."""
    many = b"".join(command("ECHO", f"{i} \r\n*1\r\n".ljust(200 + i % 50)) for i in range(5000))
    assert b"errors: 0, replies: 5000" in redis_cli(serving, "--pipe", typed=many)


@cli
def test_redis_cli_asks(serving, client):
    """Single commands, in both versions of the protocol, and from its prompt."""
    insert(client, "asks", "k", value=spread(77))
    words = ["DEDUP.PROBE", "asks", page(spread(77)).replace(" ", "")]
    for version in ([], ["-3"]):
        said = redis_cli(serving, *version, *words)
        assert said.split()[0] == b"k" or b'"k"' in said
    typed = f"MULTI\nPING\nEXEC\n{words[0]} {words[1]} '{words[2]}'\n"
    assert b"QUEUED" in redis_cli(serving, typed=typed.encode())
    assert probe(client, "asks", spread(77))
