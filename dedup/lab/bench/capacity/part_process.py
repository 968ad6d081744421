"""A part of the capacity benchmark in a process of its own.

    lines_of(part, arguments) -> python -m dedup.lab.bench.capacity.part_process PART JSON -> its figures

The rule kept here: stdout has one JSON object a line, and nothing else. A process whose figures are
read no further is killed as kill -9 does.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["Limit", "lines_of"]

KEPT = 2000  # bytes of what a process said that are passed on
MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")  # of a cgroup: version 2, version 1


class Limit(msgspec.Struct, frozen=True):
    """How much memory the processes may have: in a cgroup that the caller made, or by RLIMIT_DATA.

    The former counts files that are in memory, too; the latter only what no file stands for.
    """

    memory: int
    cgroup: Path | None = None

    def __str__(self) -> str:
        return "RLIMIT_DATA" if self.cgroup is None else "cgroup"

    def take(self, process: int) -> None:
        """Put a process under it. Raises OSError."""
        if self.cgroup is None:
            import resource

            resource.prlimit(process, resource.RLIMIT_DATA, (self.memory, self.memory))
            return
        limits = [self.cgroup / name for name in MEMORY_FILES if (self.cgroup / name).exists()]
        if not limits:
            raise OSError(f"{self.cgroup} is no cgroup with a limit of memory")
        limits[0].write_text(f"{self.memory}\n")
        (self.cgroup / "cgroup.procs").write_text(f"{process}\n")


def lines_of(
    part: str, arguments: dict[str, Any], limit: Limit | None = None
) -> Generator[dict[str, Any], None, None]:
    """Yield the figures of a part. Raises OSError with what it said when it fails."""
    command = [sys.executable, "-m", __name__, part, json.dumps(arguments)]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as process,  # noqa: S603
    ):
        try:
            if limit is not None:
                limit.take(process.pid)
            assert process.stdout is not None
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:
            process.kill()
            raise
        if process.wait():
            said.seek(0)
            words = said.read().decode(errors="replace").strip()[-KEPT:]
            raise OSError(f"measuring {part} failed ({process.returncode}): {words}")


def main(part: str, arguments: str) -> None:
    """Measure a part and print its figures."""
    from dedup.lab.bench.capacity.parts import fill, judge
    from dedup.lab.bench.capacity.service_commands import measure_commands, measure_log

    measures: dict[str, Any] = {
        "fill": fill,
        "judge": lambda **given: [judge(**given)],
        "commands": lambda **given: [measure_commands(**given)],
        "log": lambda **given: [measure_log(**given)],
    }
    given = json.loads(arguments)
    paths = {name: Path(text) for name, text in given.items() if name.endswith("folder")}
    for figures in measures[part](**given | paths):
        sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
