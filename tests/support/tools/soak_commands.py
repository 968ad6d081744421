"""make soak-commands: eight clients and one service, which is killed with -9 about every second.

A round (SOAK_ROUNDS, 300) is one life of the service, on the folder that the one before left. Each client has
pages and a namespace of its own, and sends commands of all kinds, 64 in one write: reserve, insert, release, forget,
probes, transactions, and a DROP with a reservation and an insert behind it. The index is written every 200
documents, so that kills come while it is. Settings and verdict: soaking.py.

Invariants: what every page is to be follows from what was acknowledged, and each answer is compared with it; after
a kill what was acknowledged last is probed first, and at the end every document is read. Of a command that a kill
left without an answer the page is uncertain, and is not looked at any more.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any

import hiredis
from commands import page, spread
from services import ANSWER_SECONDS, Serving
from soaking import Soak

from dedup.store.store import locked_documents
from dedup.store.verify import verify_store

NAMESPACE = "soak"
CLIENTS = 8
BATCH = 64  # commands of one write
LATEST = 200  # pages acknowledged before a kill that are probed first after it
INDEX_OFTEN = "from dedup.store import index\nindex.MEMORY_FIRST = index.MEMORY_FULL = 200\n"
NEVER, STORED, GONE, UNCERTAIN = range(4)
WEIGHTS = {
    "new": 28, "probe": 24, "mprobe": 4, "again": 8, "copy": 8, "gone": 4, "forget": 4, "ping": 4,
    "multi": 1, "info": 0.1, "drop": 0.3,
}  # fmt: skip

Command = tuple[str, int, tuple[str, ...]]


def key(n: int) -> str:
    return f"http://example.com/pages/{n}"


def shown(n: int, flip: int = 0) -> str:
    """A page, some bits of its value aside."""
    return page(spread(n) ^ flip, sketch=blake2b(n.to_bytes(8, "big"), digest_size=37).hexdigest())


def reserve(namespace: str, n: int, of: str, *options: str, flip: int = 0) -> tuple[str, ...]:
    return ("DEDUP.RESERVE", namespace, of, shown(n, flip), *options)


def probe(namespace: str, n: int) -> tuple[str, ...]:
    return ("DEDUP.PROBE", namespace, shown(n))


class Client:
    """A client: its commands, and what it knows of every page of its own."""

    def __init__(self, number: int, seed: int) -> None:
        self.number = number
        self.own = f"own-{number}"
        self.alone: int | None = None  # the only page of its own namespace, if that is certain
        self.states = bytearray()
        self.chance = random.Random(seed)
        self.ends: list[Command] = []  # of reservations
        self.latest: list[int] = []  # inserted and forgotten, in this order
        self.done: Counter[str] = Counter()

    def state(self, n: int) -> int:
        return self.states[n // CLIENTS]

    def note(self, n: int, state: int) -> None:
        self.states[n // CLIENTS] = state
        self.latest.append(n)

    def _new(self) -> int:
        self.states.append(NEVER)
        return (len(self.states) - 1) * CLIENTS + self.number

    def _some(self, state: int, used: set[int]) -> int | None:
        for _ in range(20):
            n = self.chance.randrange(len(self.states) or 1) * CLIENTS + self.number
            if self.states and self.state(n) == state and n not in used:
                used.add(n)
                return n
        return None

    def checks(self) -> list[Command]:
        """Return what asks for all that was acknowledged last."""
        made: list[Command] = []
        for n in dict.fromkeys(self.latest[-LATEST:]):
            if self.state(n) in {STORED, GONE}:
                kind = "probe" if self.state(n) == STORED else "gone"
                made.append((kind, n, probe(NAMESPACE, n)))
        if self.alone is not None:
            made.append(("probe", self.alone, probe(self.own, self.alone)))
        return made

    def batch(self) -> list[Command]:
        """Return the next commands; none depends on another of them, but for what follows a DROP."""
        made, self.ends = self.ends, []
        used = {n for _, n, _ in made}
        while len(made) < BATCH:
            (kind,) = self.chance.choices([*WEIGHTS], [*WEIGHTS.values()])
            if kind == "new" or not self.states:
                n = self._new()
                used.add(n)
                made.append(("new", n, reserve(NAMESPACE, n, key(n))))
            elif kind in {"ping", "info"}:
                made.append((kind, 0, ("PING",) if kind == "ping" else ("DEDUP.INFO",)))
            elif kind == "drop":
                if self.own not in {words[1] for _, _, words in made if len(words) > 1}:
                    made += self._drop()
            elif (n := self._some(GONE if kind == "gone" else STORED, used)) is not None:
                made += self._about(kind, n)
        return made

    def _about(self, kind: str, n: int) -> list[Command]:
        if kind == "mprobe":
            words = ("DEDUP.MPROBE", NAMESPACE, "PAGES")
            return [(kind, n, (*words, shown(n), shown(2**40 + n)))]
        if kind == "again":
            return [(kind, n, reserve(NAMESPACE, n, key(n)))]
        if kind == "copy":
            bit = 1 << self.chance.randrange(64)
            return [(kind, n, reserve(NAMESPACE, n, f"{key(n)}?copy", flip=bit))]
        if kind == "forget":
            return [(kind, n, ("DEDUP.FORGET", NAMESPACE, key(n)))]
        ask = probe(NAMESPACE, n)
        if kind == "multi":
            return [("queue", n, ("MULTI",)), ("queue", n, ask), (kind, n, ("EXEC",))]
        return [(kind, n, ask)]

    def _drop(self) -> list[Command]:
        """Return a DROP of its own namespace and what fills that again, in one write."""
        n, token = self._new(), f"{self.chance.getrandbits(128):032x}"
        made: list[Command] = [("drop", n, ("DEDUP.DROP", self.own))]
        if self.alone is not None:
            made.append(("gone", self.alone, probe(self.own, self.alone)))
        return [
            *made,
            ("behind", n, reserve(self.own, n, key(n), "TOKEN", token)),
            ("alone", n, ("DEDUP.INSERT", self.own, key(n), token)),
            ("probe", n, probe(self.own, n)),
        ]

    def take(self, command: Command, answer: Any) -> None:
        """Compare an answer with what is known, and learn from it."""
        kind, n, words = command
        mine = key(n).encode()
        assert not isinstance(answer, hiredis.ReplyError), (words, answer)
        match kind:
            case "new" | "again" | "behind":
                assert answer[0] == (b"refetch" if kind == "again" else b"unique"), (words, answer)
                if kind != "behind":
                    what = "INSERT" if kind == "new" and self.chance.random() < 0.8 else "RELEASE"
                    end = (f"DEDUP.{what}", NAMESPACE, key(n), answer[1].decode())
                    self.ends.append((what.lower(), n, end))
            case "insert":
                assert answer == b"OK", (words, answer)
                self.note(n, STORED)
            case "alone":
                assert answer == b"OK", (words, answer)
                self.alone = n
            case "drop":
                self.alone = None
            case "release":
                assert answer == 1, (words, answer)
            case "probe":
                assert answer[0][0] == mine, (words, answer)
            case "multi":
                assert answer[0][0][0] == mine, (words, answer)
            case "mprobe":
                assert (answer[0][0][0], answer[1]) == (mine, []), (words, answer)
            case "gone":
                assert answer == [], (words, answer)
            case "copy":
                assert (answer[0], answer[2]) == (b"near_duplicate", mine), (words, answer)
            case "forget":
                assert answer == 1, (words, answer)
                self.note(n, GONE)
            case "ping":
                assert answer == b"PONG", answer
        self.done[kind] += 1

    def lose(self, commands: list[Command]) -> None:
        """Note commands that were sent and not answered."""
        for kind, n, _ in commands:
            if kind in {"insert", "forget"}:
                self.states[n // CLIENTS] = UNCERTAIN
            elif kind in {"drop", "alone"}:
                self.alone = None
        self.ends = []  # reservations end with the process

    def ask(self, plain: Any, commands: list[Command]) -> bool:
        """Send commands in one write and take their answers; False if the connection broke."""
        reader, taken = hiredis.Reader(), 0
        with contextlib.suppress(OSError):
            plain.sendall(b"".join(hiredis.pack_command(words) for _, _, words in commands))
            while taken < len(commands):
                answer = reader.gets()
                if answer is not False:
                    self.take(commands[taken], answer)
                    taken += 1
                elif data := plain.recv(1 << 16):
                    reader.feed(data)
                else:
                    break
        if taken < len(commands):
            self.lose(commands[taken:])
        return taken == len(commands)

    def wrongs(self, path: Path) -> list[str]:
        """Compare every document of the store with what is known."""
        found = bytearray(len(self.states))
        for n in _numbers(path, NAMESPACE):
            if n % CLIENTS == self.number:
                found[n // CLIENTS] = 1
        pairs = list(zip(self.states, found, strict=True))
        lost = [n for n, (state, there) in enumerate(pairs) if state == STORED and not there]
        back = [n for n, (state, there) in enumerate(pairs) if state in {NEVER, GONE} and there]
        said = [f"client {self.number}: {len(lost)} lost: {lost[:10]}"] * bool(lost)
        said += [f"client {self.number}: {len(back)} are there again: {back[:10]}"] * bool(back)
        if self.alone is not None and (only := _numbers(path, self.own)) != [self.alone]:
            said.append(
                f"{self.own} holds {only}, and {self.alone} was acknowledged after its DROP"
            )
        return said


def _numbers(path: Path, namespace: str) -> list[int]:
    with locked_documents(path / namespace) as documents:
        found = [document for _, document in documents.scan()]
    assert not [each for each in found if isinstance(each, ValueError)], found
    return [int(document.key.rpartition("/")[2]) for document in found]


class Stage:
    """The service, and the clients that ask it, each in a thread."""

    def __init__(self, serving: Serving, clients: list[Client]) -> None:
        self.serving = serving
        self.wrong: list[str] = []
        self.up, self.over = threading.Event(), threading.Event()
        self.up.set()
        self.life = 0
        self._threads = [
            threading.Thread(target=self._work, args=[client], daemon=True) for client in clients
        ]
        for thread in self._threads:
            thread.start()

    def kill(self) -> None:
        """Kill the service and start it again."""
        self.up.clear()
        self.life += 1  # who sees this waits until the service is up again
        self.serving.kill()
        self.serving.start()
        self.up.set()

    def end(self) -> None:
        """Let the clients end what they have sent."""
        self.over.set()
        for thread in self._threads:
            thread.join(ANSWER_SECONDS)

    def _work(self, client: Client) -> None:
        """Ask until the stage is over; whatever is wrong ends it."""
        try:
            while not self.over.is_set():
                life = self.life
                self.up.wait()
                with contextlib.suppress(ConnectionError), self.serving.connect() as plain:
                    going = client.ask(plain, client.checks())
                    while going and not self.over.is_set():
                        going = client.ask(plain, client.batch())
                assert self.over.is_set() or life != self.life, "a connection broke without a kill"
        except Exception as error:
            self.wrong.append(f"client {client.number}: {type(error).__name__}: {error}")
            self.over.set()


def main() -> None:
    with Soak("soak-commands", 300) as soak, tempfile.TemporaryDirectory(prefix="soak-") as folder:
        path, chance = Path(folder) / "store", random.Random(soak.seed)
        clients = [Client(number, soak.seed + number) for number in range(CLIENTS)]
        with Serving(path, setup=INDEX_OFTEN) as serving:
            stage = Stage(serving, clients)
            for _ in soak.rounds():
                stage.over.wait(0.1 + chance.random())
                if stage.over.is_set():
                    break
                stage.kill()
                soak.killed["service"] += 1
                commands = sum((client.done for client in clients), Counter())
                stored = sum(client.states.count(STORED) for client in clients)
                soak.figures["commands"], soak.figures["drops"] = commands.total(), commands["drop"]
                soak.round(f"{commands.total():,} commands, {stored:,} documents")
            stage.end()
        soak.wrong += stage.wrong
        for client in clients:
            soak.wrong += client.wrongs(path)
        for namespace in sorted(each.parent.name for each in path.glob("*/documents.mdb")):
            soak.wrong += verify_store(path, namespace).problems


if __name__ == "__main__":
    main()
