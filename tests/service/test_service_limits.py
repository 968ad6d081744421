"""The bounds on what comes from outside, on the RESP port: real sockets against a real process.

Where the bounds on time are tested the service has them lowered, so that no test waits for long.
"""

import contextlib
import os
import random
import re
import resource
import socket
import threading
import time

import pytest
import redis
from commands import command, insert, page, probe, reserve, spread
from crawling import wait_for
from forking import completed
from needing import linux_only
from services import RECIPE, Serving, few_files
from sketches import sketch

from dedup.detector import TooManyReserved
from dedup.model.page import PageFingerprint, ReserveOptions
from dedup.service.core.config import Limits
from dedup.service.core.namespaces import Namespaces, PolicyOverrides
from dedup.service.core.operations import Operations

SHORT = {
    "greeting_seconds": 1.0,
    "command_seconds": 1.0,
    "unread_seconds": 1.0,
    "idle_seconds": 2.0,
    "request_seconds": 1.0,
}


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("store"), limits={"connections": 50}) as service:
        yield service


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A service that soon ends a connection; others than these tests' could be too slow for it."""
    with Serving(tmp_path_factory.mktemp("hasty"), limits=SHORT) as service:
        yield service


@pytest.fixture
def client(serving):
    with serving.client(decode_responses=True) as made:
        yield made


def rest(plain: socket.socket) -> bytes:
    """Return what comes until the other side closes."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := plain.recv(65536):
            parts.append(part)
    return b"".join(parts)


PING = command(b"PING")


def probing(ns: str, value: int) -> bytes:
    return command("DEDUP.PROBE", ns, page(value))


def accepted(client, ns: str, pages: list[str]) -> None:
    """Insert pages, whatever they are near to, in two writes."""
    pipeline = client.pipeline(transaction=False)
    for i, each in enumerate(pages):
        pipeline.execute_command("DEDUP.RESERVE", ns, f"k{i}", each, "EXEMPT", "start")
    for i, answer in enumerate(pipeline.execute()):
        pipeline.execute_command("DEDUP.INSERT", ns, f"k{i}", answer[1])
    pipeline.execute()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"*2\r\n$4\r\nECHO\r\n$999999999999\r\n",
        b"*2\r\n$4\r\nECHO\r\n$2000000\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"*1\r\n*1\r\n$4\r\nPING\r\n",
        b"*1\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
        b"*2\r\n$4\r\nPING\r\n$-1\r\n",
        b"$4\r\nPING\r\n",
        b"+PING\r\n",
        b"%1\r\n$4\r\nPING\r\n$1\r\na\r\n",
        b"*1\r\n$-5\r\n",
        b"*1\r\n$999999999999999999999\r\n",
        b"*1000000000\r\n",
        b">1000000000\r\n",
        b"*1\r\n*1000000000\r\n",
        b"(" + b"9" * 5000 + b"\r\n",
        bytes(range(256)),
    ],
    ids=lambda garbage: repr(garbage[:24]),
)
def test_garbage_ends_its_connection_with_an_error(serving, client, garbage):
    """What is not a command is answered with one error line, the connection is closed."""
    for split in (False, True):
        with serving.connect() as plain:
            plain.sendall(PING)
            assert plain.recv(7) == b"+PONG\r\n"
            for part in [garbage[i : i + 1] for i in range(len(garbage))] if split else [garbage]:
                with contextlib.suppress(ConnectionError):
                    plain.sendall(part)
            answer = rest(plain)
        assert answer.startswith(b"-ERR ") or (split and not answer), answer
        assert answer.count(b"\r\n") <= 1
    assert client.ping()


def test_before_the_token_little_is_taken(tmp_path):
    """A connection that has not shown the token gets no room for long arrays and arguments, and a greeting's time."""
    with Serving(tmp_path, token="a token of sixteen bytes", limits=SHORT) as service:
        for greeting, answer in (
            (b"*1000\r\n", b"-ERR Protocol error"),
            (b"*2\r\n$4\r\nAUTH\r\n$9000\r\n" + b"x" * 9000, b"-ERR Protocol error"),
            (b"", b""),
        ):
            with service.connect() as plain:
                plain.sendall(greeting)
                assert rest(plain).partition(b":")[0] == answer


def test_a_batch_has_the_bytes_of_a_command(client):
    """MPROBE of thousands of pages is answered; beyond a command's bytes the connection ends with the reason."""
    assert client.execute_command("DEDUP.MPROBE", "d", "PAGES", *[page(0)] * 3500) == [[]] * 3500
    with pytest.raises(redis.RedisError, match="a command of this many bytes|Connection"):
        client.execute_command("DEDUP.MPROBE", "d", "PAGES", *[page(0)] * 10_001)


def test_an_answer_of_too_many_neighbours_is_refused(serving, client):
    """Ten thousand neighbours go into one answer; a batch with more is -LIMIT, single probes not."""
    accepted(client, "many", [page()] * 1100)
    with pytest.raises(redis.ResponseError, match="^LIMIT "):
        client.execute_command("DEDUP.MPROBE", "many", "PAGES", *[page()] * 11)
    found = client.execute_command("DEDUP.MPROBE", "many", "PAGES", *[page()] * 10)
    assert [len(near) for near in found] == [1000] * 10
    pipeline = client.pipeline(transaction=False)
    for _ in range(30):
        probe(pipeline, "many", 0x0123456789ABCDEF)
    assert [len(near) for near in pipeline.execute()] == [1000] * 30


def test_policies_are_bounded_and_come_back(client):
    """More kinds of policy than are kept open at once are still answered right."""
    insert(client, "policies", "k")
    for _ in range(2):
        for hundredths in range(1, 101):
            asked = ["SIMILARITY", hundredths / 100]
            found = probe(client, "policies", 0x0123456789ABCDEF, 0b111, *asked)
            assert found == ([["k", 0, "0.9960"]] if hundredths <= 99 else [])


def test_a_slow_command_ends_its_connection(hasty):
    """Slow loris: a command that is not whole within its time ends the connection."""
    with hasty.connect() as plain, pytest.raises(ConnectionError):
        for byte in command(b"ECHO", b"x" * 1000):  # a whole one would take a minute
            plain.sendall(bytes([byte]))
            time.sleep(0.05)
    with hasty.client() as other:
        assert other.ping()


def test_an_idle_connection_is_closed(hasty):
    """After its idle time, and not before a token's, a connection ends without a word."""
    with hasty.connect() as plain:
        plain.sendall(PING)
        assert rest(plain) == b"+PONG\r\n"


@linux_only
def test_a_slow_reader_costs_bounded_memory_and_ends(hasty):
    """Who asks and does not read is not answered without end, and is cut off; others are served."""
    client = hasty.client(decode_responses=True)
    insert(client, "unread", "k" * 8000)
    asked = probing("unread", 0x0123456789ABCDEF)
    before = hasty.resident_bytes
    with client, hasty.connect() as plain:
        plain.setblocking(False)
        sent, began = 0, time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 120:
                try:
                    sent += plain.send(asked * 500)
                except BlockingIOError:
                    time.sleep(0.05)
            raise AssertionError("it was never cut off")
        assert sent / len(asked) * 8000 > 2 << 20
        assert client.ping()
    assert hasty.resident_bytes - before < 64 << 20


def test_a_reader_that_comes_late_gets_every_answer(serving, client):
    """Answers that wait for a slow reader are whole and in order once it reads."""
    insert(client, "late", "k" * 8000)
    with serving.connect() as plain:
        asked = []
        for i in range(2000):
            value = 0x0123456789ABCDEF if i % 2 else spread(i + 1)
            asked += [probing("late", value), command("ECHO", i)]
        sender = threading.Thread(target=plain.sendall, args=(b"".join(asked),))
        sender.start()
        time.sleep(0.3)
        stream = plain.makefile("rb")
        for i in range(2000):
            head = stream.readline()
            assert head == (b"*1\r\n" if i % 2 else b"*0\r\n")
            if i % 2:
                row = b"*3\r\n$8000\r\n" + b"k" * 8000 + b"\r\n:0\r\n$6\r\n1.0000\r\n"
                assert stream.read(len(row)) == row
            assert stream.readline() == b"$%d\r\n" % len(str(i))
            assert stream.readline() == b"%d\r\n" % i
        sender.join()


def many_words(name: str, count: int, word: bytes = b"") -> bytes:
    one = b"$%d\r\n%s\r\n" % (len(word), word)
    return b"*%d\r\n$%d\r\n%s\r\n" % (count + 1, len(name), name.encode()) + one * count


@linux_only
def test_what_multi_queues_is_counted(tmp_path):
    """Elements without bytes: bounded for a connection, where they are queued; and in sum, by --memory."""
    queued = b"*1\r\n$5\r\nMULTI\r\n" + many_words("ECHO", 1) * 9_900
    with Serving(tmp_path, "--memory", "32M") as serving, contextlib.ExitStack() as open_now:
        with socket.create_connection(("127.0.0.1", serving.port)) as plain:
            plain.settimeout(60)
            plain.sendall(b"*1\r\n$5\r\nMULTI\r\n" + many_words("ECHO", 3))
            assert b"wrong number of arguments" in read_lines(plain, 2)[1]
            plain.sendall(b"*1\r\n$4\r\nEXEC\r\n")
            assert read_lines(plain, 1)[0].startswith(b"-EXECABORT")
            plain.sendall(b"*1\r\n$5\r\nMULTI\r\n")
            assert read_lines(plain, 1) == [b"+OK"]
            before = serving.resident_bytes
            for n in range(20):
                plain.sendall(many_words("DEDUP.MPROBE", 99_000))
                answer = read_lines(plain, 1)[0]
                assert answer == b"+QUEUED" if n == 0 else answer.startswith(b"-LIMIT"), (n, answer)
            assert serving.resident_bytes - before < 16 << 20
        before = serving.resident_bytes
        for _ in range(40):
            plain = open_now.enter_context(socket.create_connection(("127.0.0.1", serving.port)))
            with contextlib.suppress(OSError):
                plain.sendall(queued)
        with serving.client() as client:
            assert client.ping()

        def has_ended_one() -> bool:
            return bool(re.search(rb'reason="memory"[^\n]* [1-9]', serving.get("/metrics")[1]))

        wait_for(has_ended_one)  # the client above did not wait for their turns
        assert serving.resident_bytes - before < 48 << 20


def read_lines(plain: socket.socket, count: int) -> list[bytes]:
    """Return some lines of answers, no more of which are under way."""
    got = b""
    while got.count(b"\r\n") < count:
        part = plain.recv(65536)
        assert part, got
        got += part
    return got.split(b"\r\n")[:count]


@linux_only
def test_more_namespaces_than_files_are_refused_at_the_start(tmp_path):
    """Where they were asked for: the message says how many can be served, if any can."""
    for files, options, said in (
        (1024, ["--max-namespaces", 100000], ["needs 400128 open files", "--max-namespaces 224"]),
        (130, [], ["needs 1152 open files"]),
    ):
        service = Serving(tmp_path, *options, setup=few_files(files))
        with pytest.raises(AssertionError, match="did not start") as raised:
            service.start()
        assert all(words in str(raised.value) for words in said)
        assert service.process is not None
        assert service.process.returncode == 2


@linux_only
def test_the_defaults_fit_into_the_files_that_may_be_open(tmp_path):
    """With 256 files 32 namespaces are served, which the log says; the 33rd is refused and leaves no folder."""
    with Serving(tmp_path, setup=few_files(256)) as serving:
        assert any("up to 32 namespaces (in place of 256)" in line for line in serving.log)
        with serving.client() as client:
            for i in range(32):
                insert(client, f"n{i}", "k")
            with pytest.raises(redis.ResponseError, match="no more are allowed"):
                reserve(client, "n32", "k")
            with contextlib.ExitStack() as stack:
                for _ in range(120):  # of which fewer can be served
                    stack.enter_context(serving.connect())
                assert serving.get("/livez")[0] == 200
        assert not (tmp_path / "n32").exists()
        serving.kill()
        serving.start()
        with serving.client() as client:
            assert all(probe(client, f"n{i}", 0x0123456789ABCDEF) for i in range(32))


@linux_only
def test_a_refused_command_leaves_no_folder(tmp_path):
    """Neither where pages in flight have no memory left, nor where no more files can be opened."""
    asked, options = PolicyOverrides(), ReserveOptions()
    given = PageFingerprint(1, sketch(), 0, 300, RECIPE)
    namespaces = Namespaces(tmp_path, limits=Limits(memory_bytes=0))
    commands = Operations(namespaces)
    commands.not_ready = None
    with pytest.raises(TooManyReserved):
        commands.reserve("full", "k", given, asked, options)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for more in range(12):
        last = os.open(os.devnull, os.O_RDONLY)
        os.close(last)
        resource.setrlimit(resource.RLIMIT_NOFILE, (last + more, hard))
        try:
            with pytest.raises((OSError, TooManyReserved)):
                commands.reserve(f"files-{more}", "k", given, asked, options)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
    assert len(namespaces) == 0


@linux_only
def test_names_that_differ_in_case_alone_are_never_one_store(tmp_path):
    """On a file system without case `N` is the folder of `n`, as here by a link: it is refused."""
    with Serving(tmp_path) as serving, serving.client() as client:
        insert(client, "n", "k")
        (tmp_path / "N").symlink_to(tmp_path / "n")
        with pytest.raises(redis.ResponseError, match="is the folder of the namespace 'n'"):
            reserve(client, "N", "k")
        assert probe(client, "n", 0x0123456789ABCDEF)
        (tmp_path / "N").unlink()


def test_a_page_near_thousands_is_one_turn(serving, client):
    """Of a write of RESERVEs near a crowd some are answered, then it is another client's turn."""
    texts = [random.Random(i).randbytes(37).hex() for i in range(6000)]
    accepted(client, "crowd", [page(sketch=text) for text in texts])
    near = [command("DEDUP.RESERVE", "crowd", f"near {i}", page()) for i in range(30)]
    with serving.connect() as crowd, serving.connect() as other:
        crowd.sendall(b"".join(near))
        answered = crowd.recv(1 << 20)
        other.sendall(PING)
        assert other.recv(100) == b"+PONG\r\n"
        crowd.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            answered += crowd.recv(1 << 20)
        assert answered.count(b"*7\r\n") < 30
        crowd.setblocking(True)
        while answered.count(b"*7\r\n") < 30:
            answered += crowd.recv(1 << 20)


def test_empty_lines_keep_no_connection_open(hasty):
    """They are no command: the connection is idle."""
    ended = False
    with hasty.connect() as plain:
        plain.settimeout(0.2)
        for _ in range(150):
            try:
                plain.sendall(b"\r\n")
                ended = plain.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                ended = True
            if ended:
                break
    assert ended


def test_a_folder_belongs_to_one_service(tmp_path):
    """A second one ends with an error that names the first; after kill -9 the folder is free."""
    with Serving(tmp_path) as serving:
        given = ["serve", "--path", tmp_path, "--listen", "127.0.0.1:0", "--http", "none"]
        done = completed("from dedup.cli import main; main()", given)
        assert done.returncode == 1, done.stderr
        assert f"{tmp_path} is held by process {serving.process.pid}" in done.stderr
        assert "one service at a time" in done.stderr
        assert "Traceback" not in done.stderr
        serving.kill()
        serving.start()
        assert serving.get("/readyz")[0] == 200
