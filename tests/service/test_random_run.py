"""Whatever comes in whatever order: commands, kills, restarts and bad clients, against a model.

DEDUP_RANDOM_SECONDS says how long (three minutes in `make test-long`), DEDUP_RANDOM_SEED what is drawn.

The model is a dictionary: what was acknowledged as inserted and not forgotten. What was asked when the
service was killed may have happened or not: it is looked up afterwards. Values lie far from each other,
so that a probe finds one document or none.
"""

import contextlib
import os
import random
import resource
import socket
import time
from pathlib import Path

import pytest
import redis
from commands import ONCE, page, probe, reserve, spread
from needing import linux_only
from services import RECIPE, Serving
from sketches import sketch

SECONDS = float(os.environ.get("DEDUP_RANDOM_SECONDS", "180"))
SEED = int(os.environ.get("DEDUP_RANDOM_SEED", "18"))
NAMESPACES = ("a", "b", "c")
KEYS = 3000
MEMORY_BYTES = 600 << 20  # of the process: its own, --memory, and the documents


class Run:
    """The service, the model, and what is drawn."""

    def __init__(self, service: Serving, rng: random.Random) -> None:
        self.service, self.rng = service, rng
        self.model: set[tuple[str, int]] = set()  # (namespace, number)
        self.doubtful: set[tuple[str, int]] = set()
        self.held: list[tuple[str, int, str]] = []  # reserved, with the token
        self.client = self.connected()
        self.bad_clients: list[socket.socket] = []
        self.done = dict.fromkeys(
            (
                "page",
                "end",
                "probe",
                "batch",
                "forget",
                "transaction",
                "drop",
                "bad",
                "kill",
                "stop",
            ),
            0,
        )

    def connected(self) -> redis.Redis:
        return self.service.client(decode_responses=True, socket_timeout=60, **ONCE)

    def step(self) -> None:
        (kind,) = self.rng.choices(
            list(self.done), [400, 300, 300, 30, 60, 30, 3, 60, 1, 1]
        )  # fmt: skip
        self.done[kind] += 1
        getattr(self, kind)()

    def drawn(self) -> tuple[str, int]:
        return self.rng.choice(NAMESPACES), self.rng.randrange(KEYS)

    def stands(self, place: tuple[str, int]) -> None:
        """A probe of a document says what the model says."""
        if place in self.doubtful:
            return
        ns, number = place
        found = [row[0] for row in probe(self.client, ns, spread(number))]
        assert found == ([f"k{number}"] if place in self.model else []), place

    def page(self) -> None:
        """Reserve a page: what it is told follows from the model."""
        ns, number = self.drawn()
        flying = any(each[:2] == (ns, number) for each in self.held)
        status, token, *_ = reserve(self.client, ns, f"k{number}", value=spread(number))
        if (ns, number) not in self.doubtful:
            known = (ns, number) in self.model or flying
            assert status == ("refetch" if known else "unique"), (ns, number, status)
        assert token.startswith("_")
        self.held.append((ns, number, token))

    def end(self) -> None:
        """Insert or release a page, or leave it to its expiry."""
        if not self.held:
            return
        ns, number, token = self.held.pop(self.rng.randrange(len(self.held)))
        if self.rng.random() < 0.2:
            assert self.client.execute_command("DEDUP.RELEASE", ns, f"k{number}", token) == 1
            return
        self.doubtful.add((ns, number))
        assert self.client.execute_command("DEDUP.INSERT", ns, f"k{number}", token) == "OK"
        self.doubtful.discard((ns, number))
        self.model.add((ns, number))

    def probe(self) -> None:
        self.stands(self.drawn())

    def batch(self) -> None:
        """A pipeline of probes is answered as they are."""
        places = [self.drawn() for _ in range(self.rng.choice([2, 64, 700]))]
        pipeline = self.client.pipeline(transaction=self.rng.random() < 0.3)
        for ns, number in places:
            probe(pipeline, ns, spread(number))
        for place, rows in zip(places, pipeline.execute(), strict=True):
            if place not in self.doubtful:
                assert [row[0] for row in rows] == ([f"k{place[1]}"] if place in self.model else [])

    def forget(self) -> None:
        ns, number = place = self.drawn()
        was = place in self.model
        sure = place not in self.doubtful
        self.doubtful.add(place)
        there = self.client.execute_command("DEDUP.FORGET", ns, f"k{number}")
        if sure:
            assert there == int(was), place
        self.doubtful.discard(place)
        self.model.discard(place)

    def transaction(self) -> None:
        """Pages of one namespace, reserved by one transaction and inserted by another."""
        ns = self.rng.choice(NAMESPACES)
        numbers = self.rng.sample(range(KEYS), 20)
        pipeline = self.client.pipeline()
        for number in numbers:
            words = ["DEDUP.RESERVE", ns, f"k{number}", *page(spread(number)), "EXEMPT", "start"]
            pipeline.execute_command(*words)
        tokens = [answer[1] for answer in pipeline.execute()]
        self.doubtful.update((ns, number) for number in numbers)
        for number, token in zip(numbers, tokens, strict=True):
            pipeline.execute_command("DEDUP.INSERT", ns, f"k{number}", token)
        assert pipeline.execute() == ["OK"] * 20
        self.doubtful.difference_update((ns, number) for number in numbers)
        self.model.update((ns, number) for number in numbers)

    def drop(self) -> None:
        """A namespace is dropped, and filled again by what stands behind that in one write."""
        ns, number = self.drawn()
        token = f"{self.rng.getrandbits(128):032x}"
        before = {place for place in (*self.model, *self.doubtful) if place[0] == ns}
        self.held = [each for each in self.held if each[0] != ns]
        pipeline = self.client.pipeline(transaction=self.rng.random() < 0.5)
        pipeline.execute_command("DEDUP.DROP", ns)
        reserve(pipeline, ns, f"k{number}", "TOKEN", token, value=spread(number))
        pipeline.execute_command("DEDUP.INSERT", ns, f"k{number}", token)
        probe(pipeline, ns, spread(number))
        _, verdict, inserted, found = pipeline.execute()
        assert (verdict[0], inserted, [row[0] for row in found]) == ("unique", "OK", [f"k{number}"])
        self.model -= before
        self.doubtful -= before
        self.model.add((ns, number))

    def bad(self) -> None:
        """A client that does what none should; some of them stay."""
        hostile(self)

    def kill(self) -> None:
        self.service.kill()
        self.again()

    def stop(self) -> None:
        assert self.service.stop() == 0
        self.again()

    def again(self) -> None:
        """Start it again: reservations are gone, and nothing that was acknowledged."""
        self.held.clear()
        self.client.close()
        self.service.start()
        self.client = self.connected()
        for place in self.rng.sample(sorted(self.model), min(100, len(self.model))):
            self.stands(place)


def hostile(run: Run) -> None:
    """Send something that no good client would."""
    rng, service = run.rng, run.service
    port = rng.choice([service.port, service.port, service.http_port])
    with contextlib.suppress(OSError):
        plain = socket.create_connection(("127.0.0.1", port), timeout=5)
        plain.settimeout(0.2)
        run.bad_clients.append(plain)
        words = [
            b"*3\r\n$13\r\nDEDUP.RELEASE\r\n$1\r\na\r\n",
            b"*2\r\n$4\r\nECHO\r\n$1000000\r\n" + b"x" * rng.randrange(500_000),
            b"POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n{",
            b"GET / HTTP/1.1\r\n\r\n" * 50,
            rng.randbytes(rng.randrange(1, 3000)),
            b"*1\r\n$99999999\r\n",
            b"",
            _mprobe() * 30,
        ]
        plain.sendall(rng.choice(words))
    while len(run.bad_clients) > 60:
        run.bad_clients.pop(rng.randrange(60)).close()


def _mprobe() -> bytes:
    words = ["DEDUP.MPROBE", "a", "RECIPE", RECIPE, "VALUES"]
    for number in range(500):
        words += [f"{spread(number):016x}", sketch().hex()]
    return b"*%d\r\n" % len(words) + b"".join(
        b"$%d\r\n%b\r\n" % (len(w), w.encode()) for w in words
    )


@linux_only
@pytest.mark.parametrize(
    "seconds",
    [pytest.param(3.0, id="short"), pytest.param(SECONDS, id="long", marks=pytest.mark.long)],
)
def test_a_random_run_holds_what_the_model_says(tmp_path, seconds):
    """After every step what is asked about is as the model says; at the end all of it is."""
    with Serving(tmp_path, "--memory", "64M", "--reservation-seconds", "86400") as service:
        run = Run(service, random.Random(SEED))
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            run.step()
            if len(run.held) > 500:
                run.end()
        for plain in run.bad_clients:
            plain.close()
        run.kill()
        for ns in NAMESPACES:
            for number in range(KEYS):
                run.stands((ns, number))
        pages = Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]
        assert int(pages) * resource.getpagesize() < MEMORY_BYTES
        run.client.close()
    assert "Traceback" not in "".join(service.log)
    print(run.done)
