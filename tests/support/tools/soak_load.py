"""make soak-load: 64 clients write without a pause while disk, Kafka and backups are in their way.

    load -> the disk is full, and has room again -> the broker killed, and started again -> stopped for a
    while -> a backup -> the log drained -> a last backup, which must have every key that was acknowledged

A round (SOAK_ROUNDS, 1) takes SOAK_SECONDS (180) with a service and a broker of its own. A client sends SOAK_DEPTH
(1) commands in a write, and the next ones once they are answered: PING waits for all of them. Other processes
send PING all the while, to it and to a service that has nothing to do, which shows what the machine makes of
that. Settings and verdict: soaking.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hiredis
from broker import Cluster
from commands import page
from mounting import can_mount
from procedures import do
from services import Serving
from soaking import Soak, say

NAMESPACE = "load"
CLIENTS = 64
DISK = "600m"
DRAIN_SECONDS = 300.0
PAUSE_SECONDS = 10.0  # that a broker is dead, or stopped
AGAIN_SECONDS = 0.2  # after an insert that was refused

Ping = tuple[float, float]  # when it was due (time.monotonic()), and how late its answer was

PINGS = """
import json, signal, socket, sys, time
ended, late, pause = [], [], 0.02
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=120) as plain:
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    due = time.monotonic()
    while not ended:
        time.sleep(max(0, due - time.monotonic()))
        plain.sendall(b"*1\\r\\n$4\\r\\nPING\\r\\n")
        assert plain.recv(100) == b"+PONG\\r\\n"
        late.append((due, time.monotonic() - due))
        due = max(due + pause, time.monotonic())  # late ones are not made up for: they would wait for each other
print(json.dumps(late))
"""


class Load:
    """The clients, in a thread of their own, and what was acknowledged to them."""

    def __init__(self, port: int, seed: int, depth: int) -> None:
        self.acknowledged: set[str] = set()
        self.refused = self.probed = 0
        self.wrong: list[str] = []
        self._port, self._seed, self._depth = port, seed, depth
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    async def _all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._client(number))

    async def _client(self, number: int) -> None:
        chance, depth = random.Random(f"{self._seed} {number}"), self._depth
        reading, writing = await asyncio.open_connection("127.0.0.1", self._port)
        reader, pages = hiredis.Reader(replyError=lambda text: hiredis.ReplyError(text)), 0

        async def ask(commands: list[tuple[str, ...]]) -> list[object]:
            writing.write(b"".join(map(hiredis.pack_command, commands)))
            answers: list[object] = []
            while len(answers) < len(commands):
                if (answer := reader.gets()) is not False:
                    answers.append(answer)
                elif data := await reading.read(1 << 16):
                    reader.feed(data)
                else:
                    raise OSError(f"the service ended client {number}")
            return answers

        while not self._over.is_set():
            keys = [f"http://example.com/{number}/{pages + n}" for n in range(depth)]
            shown = [page(chance.getrandbits(64)) for _ in keys]
            pages += depth
            reserve, words = ("DEDUP.RESERVE", NAMESPACE), ("EXEMPT", "start")
            given = await ask(
                [(*reserve, key, each, *words) for key, each in zip(keys, shown, strict=True)]
            )
            if faults := [each for each in given if isinstance(each, hiredis.ReplyError)]:
                self.wrong.append(f"RESERVE was answered {faults[0]}")
                return
            tokens = [each[1].decode() for each in given]
            insert = ("DEDUP.INSERT", NAMESPACE)
            done = await ask([(*insert, *each) for each in zip(keys, tokens, strict=True)])
            self.acknowledged.update(
                key for key, each in zip(keys, done, strict=True) if each == b"OK"
            )
            if refused := sum(each != b"OK" for each in done):
                self.refused += refused
                await asyncio.sleep(AGAIN_SECONDS)
            probe = ("DEDUP.PROBE", NAMESPACE)
            await ask([(*probe, each) for each in shown])
            self.probed += depth


@contextmanager
def pinged(port: int, into: list[Ping]) -> Iterator[None]:
    """Send PING while the block runs; then a list has when each was due, and how late its answer was."""
    with subprocess.Popen(
        [sys.executable, "-c", PINGS, str(port)], stdout=subprocess.PIPE
    ) as pings:
        try:
            yield
        finally:
            pings.send_signal(signal.SIGTERM)
            into += json.loads(pings.communicate()[0] or "[]")


def trouble(
    serving: Serving, cluster: Cluster, disk: Path, folder: Path, seconds: float,
    phases: list[tuple[str, float]],
) -> None:  # fmt: skip
    """Let a service have all of it, one after the other."""
    assert serving.process is not None
    step = seconds / 6

    def phase(what: str) -> None:
        say(what)
        phases.append((what, time.monotonic()))

    phase("nothing else happens")
    time.sleep(step)
    filler = Path(f"/proc/{serving.process.pid}/root{disk}/filler")  # the process's own disk
    with filler.open("wb", 0) as file:
        phase("the disk is full")
        until = time.monotonic() + step
        while time.monotonic() < until:
            try:
                file.write(bytes(1 << 20))
            except OSError:
                time.sleep(0.1)
    say(f"ready says {serving.get('/readyz')[1].decode()}")
    phase("there is room again")
    filler.unlink()
    time.sleep(step / 2)
    phase("the broker is killed")
    cluster.kill()
    time.sleep(PAUSE_SECONDS)
    cluster.start()
    phase("the broker is there again")
    time.sleep(step / 2)
    phase("the broker is stopped")
    cluster.pause()
    time.sleep(PAUSE_SECONDS)
    cluster.resume()
    phase("the broker goes on")
    time.sleep(step / 2)
    phase("a backup is written")
    backup(serving, folder / "while-serving.jsonl")
    phase("the backup is done")
    time.sleep(step / 2)


def backup(serving: Serving, file: Path) -> set[str]:
    """Write a backup, and return its keys."""
    do(f"dedup store backup http://127.0.0.1:{serving.http_port} --output {file}", file.parent)
    with file.open(encoding="utf-8") as lines:
        return {json.loads(line)["key"] for line in lines}


def played(soak: Soak, folder: Path, seconds: float, depth: int) -> None:
    """Play a round."""
    disk = folder / "disk"
    disk.mkdir(parents=True)
    setup = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        f"import mounting; mounting.small_disk({str(disk)!r}, {DISK!r})"
    )
    late: list[Ping] = []
    idle_late: list[Ping] = []
    phases: list[tuple[str, float]] = []
    with Cluster() as cluster, Serving(folder / "idle") as idle:
        options = ("--kafka", cluster.bootstrap, "--topic", f"load-{soak.done}")
        with Serving(disk, *options, setup=setup) as serving:
            with pinged(serving.port, late), pinged(idle.port, idle_late):
                load = Load(serving.port, soak.seed + soak.done, depth)
                trouble(serving, cluster, disk, folder, seconds, phases)
                load.end()
            soak.killed["broker"] += 1
            until = time.monotonic() + DRAIN_SECONDS
            with serving.client(decode_responses=True) as client:
                while "log_status:current" not in client.execute_command("DEDUP.INFO"):
                    assert time.monotonic() < until, client.execute_command("DEDUP.INFO")
                    time.sleep(0.5)
            lost = load.acknowledged - backup(serving, folder / "last.jsonl")
    if lost:
        load.wrong.append(f"{len(lost)} of {len(load.acknowledged)} lost: {sorted(lost)[:5]}")
    ends = [*[at for _, at in phases[1:]], float("inf")]
    for (what, begin), end in zip(phases, ends, strict=True):
        within = [ping for ping in late if begin <= ping[0] < end]
        beside = [ping for ping in idle_late if begin <= ping[0] < end]
        say(f"PING while {what}: {in_words(within)}; of the other service {in_words(beside)}")
    soak.figures.update(acknowledged=len(load.acknowledged), refused=load.refused)
    soak.round(
        f"{CLIENTS} clients, {depth} commands a write: {len(load.acknowledged):,} inserts acknowledged, {load.refused:,} refused, "
        f"{load.probed:,} probes; PING {in_words(late)}; of a service without clients {in_words(idle_late)}",
        load.wrong,
    )


def in_words(late: list[Ping]) -> str:
    """Return how late answers were."""
    cuts = statistics.quantiles([seconds * 1000 for _, seconds in late], n=100)
    return f"p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms"


def main() -> None:
    seconds = float(os.environ.get("SOAK_SECONDS", "180"))
    depth = int(os.environ.get("SOAK_DEPTH", "1"))
    with Soak("soak-load", 1) as soak, tempfile.TemporaryDirectory(prefix="soak-") as folder:
        assert can_mount(), "a disk of its own for the service needs root"
        for number in soak.rounds():
            played(soak, Path(folder) / str(number), seconds, depth)


if __name__ == "__main__":
    main()
