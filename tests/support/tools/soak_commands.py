"""Ten million commands of all kinds against one service, which is killed again and again; in parts.

    folder: store/ (the service's), states (a byte a page), report.json (the parts so far)
    a part: commands for some minutes, a kill -9 within every hundred thousand -> stop -> every document

Settings: SOAK_OPERATIONS (10000000) in all, SOAK_MINUTES (15) of this part, SOAK_FOLDER (build/soak-commands).
Call it again to go on where the last part ended.

Invariants: what every page is to be follows from what was acknowledged. A command that a kill left without
an answer makes its page uncertain, and only those are not looked at any more.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

import hiredis
from services import RECIPE, Serving

from dedup.store.store import locked_documents

NAMESPACE = "soak"
BATCH = 64  # commands of one write
KILL_EVERY = 100_000  # commands, about
NEVER, STORED, GONE, UNCERTAIN = range(4)
GOLDEN = 0x9E3779B97F4A7C15

Command = tuple[str, int, tuple[str, ...]]


def key(n: int) -> str:
    return f"http://example.com/pages/{n}"


def shown(n: int) -> tuple[str, str]:
    """Value and sketch of a page."""
    return f"{n * GOLDEN % 2**64:016x}", blake2b(n.to_bytes(8, "big"), digest_size=37).hexdigest()


def reserve(n: int, of: str, flip: int = 0) -> tuple[str, ...]:
    value, sketch = shown(n)
    value = f"{int(value, 16) ^ flip:016x}"
    page = (value, sketch, "0" * 16, "300", "example.com", "RECIPE", RECIPE)
    return ("DEDUP.RESERVE", NAMESPACE, of, *page)


class Soak:
    """The commands, and what is known of every page."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.file = folder / "states"
        self.states = bytearray(self.file.read_bytes() if self.file.exists() else b"")
        self.chance = random.Random(seed)
        self.ends: list[tuple[str, int, tuple[str, ...]]] = []  # of reservations
        self.done = 0
        self.kinds: dict[str, int] = {}

    def _some(self, state: int, used: set[int]) -> int | None:
        for _ in range(20):
            n = self.chance.randrange(len(self.states)) if self.states else 0
            if n < len(self.states) and self.states[n] == state and n not in used:
                used.add(n)
                return n
        return None

    def batch(self) -> list[Command]:
        """Return the next commands; none depends on another of them."""
        made: list[Command] = self.ends
        self.ends, used = [], {n for _, n, _ in made}
        while len(made) < BATCH:
            kind = self.chance.choices(
                (
                    "new",
                    "probe",
                    "mprobe",
                    "again",
                    "copy",
                    "gone",
                    "forget",
                    "ping",
                    "multi",
                    "info",
                ),
                (28, 24, 4, 8, 8, 4, 4, 4, 1, 0.1),
            )[0]
            if kind == "new":
                n = len(self.states)
                self.states.append(NEVER)
                used.add(n)
                made.append((kind, n, reserve(n, key(n))))
            elif kind in {"ping", "info"}:
                made.append((kind, 0, ("PING",) if kind == "ping" else ("DEDUP.INFO",)))
            elif (n := self._some(GONE if kind == "gone" else STORED, used)) is not None:
                value, sketch = shown(n)
                probe = ("DEDUP.PROBE", NAMESPACE, value, sketch, "RECIPE", RECIPE)
                if kind in {"probe", "gone"}:
                    made.append((kind, n, probe))
                elif kind == "mprobe":
                    words = ("DEDUP.MPROBE", NAMESPACE, "RECIPE", RECIPE, "VALUES")
                    made.append((kind, n, (*words, value, sketch, *shown(2**40 + n))))
                elif kind == "again":
                    made.append((kind, n, reserve(n, key(n))))
                elif kind == "copy":
                    copy = reserve(n, f"{key(n)}?copy", 1 << self.chance.randrange(64))
                    made.append((kind, n, copy))
                elif kind == "forget":
                    made.append((kind, n, ("DEDUP.FORGET", NAMESPACE, key(n))))
                else:
                    made += [("queue", n, ("MULTI",)), ("queue", n, probe), ("multi", n, ("EXEC",))]
            elif not self.states or STORED not in self.states[:1000]:
                n = len(self.states)
                self.states.append(NEVER)
                used.add(n)
                made.append(("new", n, reserve(n, key(n))))
        return made

    def take(self, command: Command, answer: Any) -> None:
        """Compare an answer with what is known, and learn from it."""
        kind, n, words = command
        self.done += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if isinstance(answer, hiredis.ReplyError):
            raise AssertionError(f"{words} was answered {answer}")
        mine = key(n).encode()
        match kind:
            case "new" | "again":
                expected = b"unique" if kind == "new" else b"refetch"
                assert answer[0] == expected, (words, answer)
                token = answer[1].decode()
                what = "INSERT" if kind == "new" and self.chance.random() < 0.8 else "RELEASE"
                end = (f"DEDUP.{what}", NAMESPACE, key(n), token)
                self.ends.append((what.lower(), n, end))
            case "insert":
                assert answer == b"OK", (words, answer)
                self.states[n] = STORED
            case "release":
                assert answer == 1, (words, answer)
            case "probe":
                assert answer[0][0] == mine, (words, answer)
            case "multi":
                assert answer[0][0][0] == mine, (words, answer)
            case "mprobe":
                assert answer[0][0][0] == mine, (words, answer)
                assert answer[1] == [], (words, answer)
            case "gone":
                assert answer == [], (words, answer)
            case "copy":
                assert answer[0] == b"near_duplicate", (words, answer)
                assert answer[2] == mine, (words, answer)
            case "forget":
                assert answer == 1, (words, answer)
                self.states[n] = GONE
            case "ping":
                assert answer == b"PONG"

    def lose(self, commands: list[Command]) -> None:
        """Note commands that were sent and not answered."""
        for kind, n, _ in commands:
            if kind in {"insert", "forget"}:
                self.states[n] = UNCERTAIN
        self.ends = []  # reservations end with the process

    def wrongs(self, folder: Path) -> list[str]:
        """Compare every document of the store with what is known."""
        found = bytearray(len(self.states))
        with locked_documents(folder / NAMESPACE) as documents:
            for _, document in documents.scan():
                assert not isinstance(document, ValueError), document
                found[int(document.key.rpartition("/")[2])] = 1
        lost = [n for n, state in enumerate(self.states) if state == STORED and not found[n]]
        back = [n for n, state in enumerate(self.states) if state in {NEVER, GONE} and found[n]]
        return [f"lost: {lost[:10]}"] * bool(lost) + [f"there again: {back[:10]}"] * bool(back)


def ask(soak: Soak, plain: Any, commands: list[Command], kill: Any = None) -> bool:
    """Send commands in one write and take their answers; False if the connection broke."""
    reader, taken = hiredis.Reader(), 0
    try:
        plain.sendall(b"".join(hiredis.pack_command(words) for _, _, words in commands))
        if kill is not None:
            kill()
        while taken < len(commands):
            answer = reader.gets()
            if answer is False:
                if not (data := plain.recv(1 << 16)):
                    break
                reader.feed(data)
                continue
            soak.take(commands[taken], answer)
            taken += 1
    except OSError:
        pass
    if taken < len(commands):
        soak.lose(commands[taken:])
        return False
    return True


def resident(serving: Serving) -> int:
    """Return the private memory of the service in bytes; files that are mapped are left out."""
    assert serving.process is not None
    status = Path(f"/proc/{serving.process.pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


def part(folder: Path, operations: int, seconds: float, seed: int) -> dict[str, Any]:
    """Run one part; return its report."""
    soak, until, lives = Soak(folder, seed), time.monotonic() + seconds, []
    began, kills = time.monotonic(), 0
    with Serving(folder / "store") as serving:
        while soak.done < operations and time.monotonic() < until:
            goal = soak.done + soak.chance.randrange(KILL_EVERY // 2, KILL_EVERY * 3 // 2)
            life = {"bytes_at_start": resident(serving), "documents": soak.states.count(STORED)}
            with serving.connect() as plain:
                while soak.done < min(goal, operations) and time.monotonic() < until:
                    assert ask(soak, plain, soak.batch()), "the connection broke without a kill"
                    if not soak.chance.randrange(200) and soak.states[:1] == b"\1":
                        assert serving.get(f"/v1/documents?ns={NAMESPACE}&key={key(0)}")[0] == 200
                life |= {
                    "bytes_at_end": resident(serving),
                    "documents_at_end": soak.states.count(1),
                }
                lives.append(life)
                ask(soak, plain, soak.batch(), serving.kill)
            soak.lose([])  # all may have been answered before the kill
            kills += 1
            serving.start()
            soak.file.write_bytes(soak.states)
    soak.file.write_bytes(soak.states)
    return {
        "operations": soak.done,
        "seconds": round(time.monotonic() - began),
        "kills": kills,
        "kinds": soak.kinds,
        "documents": soak.states.count(STORED),
        "uncertain": soak.states.count(UNCERTAIN),
        "lives": lives,
        "wrong": soak.wrongs(folder / "store"),
    }


def main() -> None:
    folder = Path(os.environ.get("SOAK_FOLDER", "build/soak-commands"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "report.json"
    parts = json.loads(file.read_text()) if file.exists() else []
    before = sum(each["operations"] for each in parts)
    left = int(os.environ.get("SOAK_OPERATIONS", "10000000")) - before
    if left > 0:
        seconds = 60 * float(os.environ.get("SOAK_MINUTES", "15"))
        parts.append(part(folder, left, seconds, len(parts) + 1))
        file.write_text(json.dumps(parts, indent=1))
    operations, kills = (sum(each[name] for each in parts) for name in ("operations", "kills"))
    print(f"{operations:,} operations in {len(parts)} parts, {kills} kills -9")
    for life in parts[-1]["lives"][:: max(1, len(parts[-1]["lives"]) // 10)]:
        print("{documents:>10,} documents {bytes_at_start:>13,} bytes -> "
              "{documents_at_end:>10,} documents {bytes_at_end:>13,} bytes".format(**life))  # fmt: skip
    wrong = [text for each in parts for text in each["wrong"]]
    print("\n".join(wrong) or "every acknowledged insert and removal is there")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
