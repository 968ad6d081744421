"""The code of the documentation, run as a reader would run it.

    python block     run, in one namespace a page; one whose first line is `# name.py` is that file
    console block    each line after `$ ` is run by a shell, in the page's folder
    text, others     not code

Invariant: every block runs in the order of the page, in a folder of its own. The ports 8000,
7700 and 7780 stand for ones that are free. A command that ends in `&` is up once its ports answer, and is
ended with the page.
"""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from socket import create_connection
from types import TracebackType
from typing import Any, NamedTuple, Self

from markdown_it import MarkdownIt
from ports import free_ports

PORTS = ("8000", "7700", "7780")
WITHIN_SECONDS = 600


class Block(NamedTuple):
    """A fenced block of a page: its language, its text, and the line it begins at."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a Markdown page."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    return [Block(t.info.strip(), t.content, t.map[0] + 1) for t in tokens if t.type == "fence"]


class Reader:
    """Somebody who does what a page says, in an empty folder. A context manager."""

    def __init__(self, folder: Path) -> None:
        """Begin without names that a Python block has made."""
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "page"}
        self.ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        self.background: list[subprocess.Popen[bytes]] = []
        self.said = ""
        scripts = sysconfig.get_path("scripts")
        self.environment = {
            **os.environ,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "PYTHONWARNINGS": "ignore",  # of what the commands import; ours are tested elsewhere
        }

    def __enter__(self) -> Self:
        self.back = Path.cwd()
        os.chdir(self.folder)
        sys.path.insert(0, str(self.folder))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        os.chdir(self.back)
        sys.path.remove(str(self.folder))
        for process in self.background:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def read(self, page: Path) -> None:
        """Do what the page says."""
        for block in blocks(page):
            text = re.sub(rf"\b({'|'.join(PORTS)})\b", lambda port: self.ports[port[0]], block.text)
            if block.language == "console":
                for line in text.splitlines():
                    if line.startswith("$ "):
                        self.run(line[2:])
            elif block.language == "python":
                first = text.splitlines()[0]
                if first.startswith("# ") and first.endswith(".py"):
                    (self.folder / first[2:]).write_text(text, encoding="utf-8")
                else:
                    code = compile("\n" * block.line + text, str(page), "exec")
                    exec(code, self.names)

    def run(self, command: str) -> None:
        """Run a command of a console block; AssertionError with what it said if it fails."""
        if command.endswith("&"):
            self.background.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {command[:-1]}"],
                    env=self.environment,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
            for port in self.ports.values():
                if port in command:
                    self.wait(port)
            return
        done = subprocess.run(
            ["bash", "-c", command],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_SECONDS,
            check=False,
        )
        self.said += done.stdout + done.stderr
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"

    def wait(self, port: str) -> None:
        """Wait until a port answers."""
        end = time.monotonic() + WITHIN_SECONDS
        while True:
            try:
                create_connection(("127.0.0.1", int(port)), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < end, "nothing listens"
                assert self.background[-1].poll() is None, "it has ended"
                time.sleep(0.05)
