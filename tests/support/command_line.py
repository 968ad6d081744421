"""The command line as tests call it, and pages and stores for it."""

import inspect
import subprocess
import sys

from click.testing import CliRunner, Result
from sketches import sketch

from dedup.cli import main
from dedup.model.page import Document, PageFingerprint
from dedup.store import Store

WORDS = [f"word{i}" for i in range(200)]
LARGEST = 2**64 - 1


def html(words: list[str], links: int = 0) -> str:
    anchors = "".join(
        f"<p>more words about it <a href=/{words[0]}/{i}>x{i}</a>" for i in range(links)
    )
    return f"<html><body><p>{' '.join(words)}</p>{anchors}</body></html>"


# click 8.1 keeps stdout and stderr apart only when told, later ones always
_MIXES = "mix_stderr" in inspect.signature(CliRunner).parameters
RUNNER = CliRunner(**{"mix_stderr": False} if _MIXES else {})


def call(
    *args: object, data: str | bytes | None = None, env: dict[str, str] | None = None
) -> Result:
    """Run a command in this process."""
    return RUNNER.invoke(main, [str(a) for a in args], input=data, env=env, prog_name="dedup")


def run(*args: object, **options: object) -> subprocess.CompletedProcess:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "dedup", *map(str, args)]
    return subprocess.run(command, check=False, capture_output=True, timeout=600, **options)


def fill(path, namespace: str = "default", count: int = 3) -> None:
    with Store.open(path, namespace) as store:
        for i in range(count):
            page = PageFingerprint(i * 0x9E3779B97F4A7C15 % 2**64, sketch(), 9, 300, store.recipe)
            store.insert(Document(f"http://example.com/{i}", page, "example.com", 1700000000.5))
