"""One client must not disturb another: fields, memory, connections, files, and the log."""

import contextlib
import json
import resource
import socket
import time

import pytest
import redis
from commands import ONCE, command, insert, page, probe, reserve, spread
from needing import linux_only
from services import Serving, few_files


def lines(serving, since):
    """The lines of the log, those of --debug left out."""
    return [line for line in serving.log[since:] if '"level":"debug"' not in line.lower()]


# -------------------------------------------------------------------------------------------- bytes


@pytest.mark.parametrize(
    ("field", "most"), [("key", 8192), ("domain", 256), ("recipe", 64), ("kind", 128)]
)
def test_every_field_is_bounded_in_bytes_over_both_ports(serving, client, field, most, ask):
    """One byte more than allowed is an error over RESP and in HTTP's judge; letters of two bytes count as two."""
    for ns, text in (("long", "a" * (most + 1)), ("wide", "é" * (most // 2) + "a")):
        words = [text, page()] if field == "key" else ["k", page(**{field: text})]
        with pytest.raises(redis.ResponseError, match="^LIMIT ") as error:
            client.execute_command("DEDUP.RESERVE", ns, *words)
        assert len(str(error.value)) < 500
        if field in {"key", "kind"}:
            body = {"ns": ns, "url": "http://a/", "html": "<p>a", field: text}
            assert ask(serving, "POST", "/v1/judge", body)[0] in {400, 413}


def test_a_key_gives_no_endless_domain(serving, client):
    """The name of a host has at most 255 bytes; of a longer one no domain is kept."""
    key = f"http://{'a' * 4000}.{'b' * 4000}/"
    token = client.execute_command("DEDUP.RESERVE", "hosts", key, page(domain=""))[1]
    client.execute_command("DEDUP.INSERT", "hosts", key, token)
    found = probe(client, "hosts", 0x0123456789ABCDEF, 0, "FIELDS", "on")
    assert [json.loads(row[4])["domain"] for row in found] == [""]


def crowd(client, ns, count, length):
    """Insert documents of one value with keys of this many bytes."""
    pipeline = client.pipeline(transaction=False)
    for i in range(count):
        reserve(pipeline, ns, f"{i:05}".ljust(length, "k"), "EXEMPT", "start")
    for i, (_, token, *_) in enumerate(pipeline.execute()):
        pipeline.execute_command("DEDUP.INSERT", ns, f"{i:05}".ljust(length, "k"), token)
    pipeline.execute()


def mprobe(ns, count, *options):
    return ["DEDUP.MPROBE", ns, *options, "PAGES", *[page()] * count]


def test_an_answer_is_bounded_in_bytes(client):
    """A small command cannot ask for 80 MB; what is asked for less with COUNT is answered."""
    crowd(client, "heavy", 800, 8000)
    with pytest.raises(redis.ResponseError, match="^LIMIT .*COUNT"):
        client.execute_command(*mprobe("heavy", 10))
    with pytest.raises(redis.ResponseError, match="^LIMIT .*COUNT"):
        probe(client, "heavy", 0x0123456789ABCDEF)
    assert len(probe(client, "heavy", 0x0123456789ABCDEF, 0, "COUNT", 100)) == 100
    assert len(client.execute_command(*mprobe("heavy", 10, "COUNT", 20))) == 10


@linux_only
def test_answers_that_are_not_read_have_a_budget(tmp_path):
    """Clients that ask and do not read are ended before they take the memory of the others."""
    with (
        Serving(tmp_path, "--memory", "64M") as service,
        service.client(decode_responses=True) as client,
        contextlib.ExitStack() as stack,
    ):
        crowd(client, "heavy", 400, 8000)
        asked = command(*mprobe("heavy", 1))
        before = service.resident_bytes
        plains = [stack.enter_context(service.connect()) for _ in range(30)]
        for plain in plains:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with contextlib.suppress(ConnectionError):
                plain.sendall(asked * 20)
        for i in range(200):
            assert probe(client, "heavy", spread(i + 1)) == []
        text = service.get("/metrics")[1].decode()
        assert service.resident_bytes - before < 120 << 20
        assert 'dedup_connections_ended_total{reason="memory"}' in text
        unread = float(text.partition("\ndedup_unread_bytes ")[2].split()[0])
        assert unread <= 16 << 20


@linux_only
def test_commands_that_are_not_whole_have_a_budget(tmp_path):
    """Megabytes of commands without an end are dropped, over both ports; a whole one is answered."""
    with (
        Serving(tmp_path, "--memory", "64M") as service,
        service.client(decode_responses=True) as client,
        contextlib.ExitStack() as stack,
    ):
        assert client.ping()
        before = service.resident_bytes
        head = b"*2\r\n$4\r\nECHO\r\n$1000000\r\n"
        for i in range(200):
            if i % 2:
                plain = stack.enter_context(service.connect())
                part = head + b"x" * 900_000
            else:
                plain = stack.enter_context(
                    socket.create_connection(("127.0.0.1", service.http_port))
                )
                part = (
                    b"POST /v1/forget HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                    b"\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 900_000
                )
            plain.settimeout(10)
            with contextlib.suppress(ConnectionError, TimeoutError):
                plain.sendall(part)
        assert client.echo("y" * 300_000) == "y" * 300_000
        assert service.resident_bytes - before < 120 << 20
        assert 'reason="memory"' in service.get("/metrics")[1].decode()


def test_pages_in_flight_have_a_budget(tmp_path):
    """Too many are an error to who asks for them; another namespace is served, and so are ends."""
    with (
        Serving(tmp_path, "--memory", "16M") as service,
        service.client(decode_responses=True) as client,
    ):
        tokens = []
        with pytest.raises(redis.ResponseError, match="^LIMIT .*--memory"):
            for i in range(5000):
                key = f"{i:05}".ljust(8000, "k")
                tokens.append((key, reserve(client, "greedy", key, value=spread(i))[1]))
        assert 300 < len(tokens) < 600
        for i in range(20):
            insert(client, "modest", f"k{i}", value=spread(i))
        key, token = tokens[0]
        assert client.execute_command("DEDUP.RELEASE", "greedy", key, token) == 1
        assert reserve(client, "greedy", "k" * 4000, value=spread(9999))[1]


def test_numbers_of_a_megabyte_are_not_remembered(serving, client):
    """A spelling is kept to be recognised: so it is bounded."""
    for option in ("SIMILARITY", "SECONDS"):
        with pytest.raises(redis.ResponseError, match=option):
            reserve(client, "spelt", "k", option, "0." + "1" * 100_000)


# -------------------------------------------------------------------------------------- connections


def silent(port, count, source="127.0.0.1"):
    made = contextlib.ExitStack()
    for _ in range(count):
        plain = made.enter_context(socket.socket())
        plain.bind((source, 0))
        plain.connect(("127.0.0.1", port))
    return made


def allow_files(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


@linux_only
def test_silent_connections_take_nothing_away(tmp_path):
    """With 256 silent connections on HTTP and 4096 on RESP, health and clients are answered."""
    allow_files(6000)
    with (
        Serving(tmp_path) as service,
        silent(service.http_port, 300),
        silent(service.port, 2100),
        silent(service.port, 2100, "127.0.0.2"),
    ):
        for _ in range(3):
            began = time.monotonic()
            assert service.get("/livez")[0] == 200
            assert service.get("/readyz")[0] == 200
            with service.client(socket_timeout=60, **ONCE) as client:
                assert client.ping()
                assert reserve(client, "d", str(began))
            assert time.monotonic() - began < 60
        text = service.get("/metrics")[1].decode()
        assert 'dedup_http_connections_ended_total{reason="silent"}' in text
        assert 'dedup_connections_ended_total{reason="silent"}' in text


def test_connections_of_one_address_are_bounded(tmp_path):
    """An address has its share: the others' clients get in, and those it has go on."""
    limits = {"connections": 40, "connections_of_address": 20}
    with Serving(tmp_path, limits=limits) as service, contextlib.ExitStack() as stack:
        talking, refused = [], 0
        for _ in range(30):
            plain = stack.enter_context(socket.socket())
            plain.bind(("127.0.0.2", 0))
            plain.settimeout(60)
            plain.connect(("127.0.0.1", service.port))
            with contextlib.suppress(ConnectionError):
                plain.sendall(b"*1\r\n$4\r\nPING\r\n")
            answer = plain.recv(100)
            talking += [plain] if answer == b"+PONG\r\n" else []
            refused += b"max number of clients" in answer
        assert (len(talking), refused) == (20, 10)
        with service.client() as client:
            assert client.ping()
        assert b'ended_total{reason="address"} 10.0' in service.get("/metrics")[1]


@linux_only
def test_health_is_answered_at_the_file_limit(tmp_path):
    """Where no more files can be opened, connections on RESP end before health and stores do."""
    few = Serving(tmp_path, "--max-namespaces", 16, setup=few_files(200))
    with few as service, contextlib.ExitStack() as stack:
        for _ in range(300):
            plain = stack.enter_context(service.connect())
            with contextlib.suppress(ConnectionError):
                plain.sendall(b"*1\r\n$4\r\nPING\r\n")
                plain.recv(100)
        for _ in range(5):
            assert service.get("/livez")[0] == 200
        stack.enter_context(silent(service.http_port, 200))
        time.sleep(2)  # room is made by the clock where all came at once
        assert service.get("/livez")[0] == 200
        assert service.get("/metrics")[0] == 200


# ---------------------------------------------------------------------------------------- the log


JUNK = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"NONSENSE\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /v1/forget HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/forget HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
]


def test_junk_writes_hardly_a_line(serving, ask):
    """A hundred bad requests of every kind write a line or two, none of which advises anything."""
    before = len(serving.log)
    for junk in JUNK * 20:
        for port in (serving.port, serving.http_port):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
                plain.settimeout(0.02)
                with contextlib.suppress(OSError):
                    plain.sendall(junk)
                    plain.recv(1000)
    for body in (b'{"ns": "\xff\xfe"}', b'"\xed\xa0\x80"', b"[" * 100_000):
        for path in ("judge", "insert", "release", "forget"):
            status, _, answer = ask(serving, "POST", f"/v1/{path}", body)
            assert (status, answer["error"]["code"]) == (400, "ERR")
    assert serving.get("/v1/documents?ns=%ff&key=%ff%fe")[0] in {400, 404, 413}
    assert len(lines(serving, before)) <= 2
    assert "pip install" not in "".join(serving.log)
    assert "Traceback" not in "".join(serving.log)


def test_every_command_with_any_arguments_is_answered_in_one_line(serving):
    """Too few, too many, empty, long and strange arguments are one error each, none an internal one."""
    before = len(serving.log)
    client = serving.client(**ONCE)
    names = "PROBE MPROBE RESERVE INSERT RELEASE FORGET INFO NOTHING".split()
    greetings = ["PING", "ECHO", "HELLO", "CLIENT", "CONFIG", "INFO", "SELECT", "COMMAND"]
    strange = [
        b"",
        b"x",
        b"\xff\xfe",
        b"a" * 70_000,
        b"-1",
        b"PAGES",
        b"{}",
        page().encode(),
    ]
    for name in [*(f"DEDUP.{each}" for each in names), *greetings, "MULTI", "EXEC", "DISCARD"]:
        for count in (0, 1, 2, 3, 4, 6, 9, 12):
            for word in strange:
                try:
                    client.execute_command(name, *[word] * count)
                except redis.ResponseError as error:
                    assert "internal error" not in str(error), (name, count, word[:10])
                    assert len(str(error)) < 1100
    client.close()
    assert lines(serving, before) == []
