"""The procedures of the two pages for operators: their commands, taken from the page, and run as an operator does.

commands(OPERATIONS)                 every command of the page, in a block or in a sentence
the(OPERATIONS, "store backup ")     the one that has these words
do(command, folder, {word: own})     runs it in a shell, with words of the page replaced
served(command, folder, ...)         a `dedup serve` of the page, as Serving
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from markdown_it import MarkdownIt
from needing import program
from services import Serving

DOCS = Path(__file__).parents[2] / "docs"
OPERATIONS = DOCS / "use" / "service.md"
KAFKA = DOCS / "use" / "kafka.md"

STORE = "/var/lib/dedup"  # the pages' folder
WITHIN_SECONDS = 300

_PROMPT = re.compile(r"^(?:host-\d)?\$ ")
_COMMAND = re.compile(
    r"(?:[A-Z_]+=\S+ )?(?:dedup|redis-cli|kill|chown|docker|python|kafka-\w+\.sh) "
)


def commands(page: Path) -> list[str]:
    """Return the commands of a page, each once; a name of one (`dedup serve`) is none."""
    blocks: list[str] = []
    sentences: list[str] = []
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in {"fence", "code_block"}:
            lines = re.sub(r"\\\n\s*", "", token.content).splitlines()
            blocks += [_PROMPT.sub("", re.split(r"\s{3,}", line)[0]) for line in lines]
        sentences += [each.content for each in token.children or () if each.type == "code_inline"]
    whole = [*blocks, *sentences]
    names = {each for each in sentences if any(other.startswith(f"{each} ") for other in whole)}
    return [each for each in dict.fromkeys(whole) if _COMMAND.match(each) and each not in names]


def the(page: Path, words: str) -> str:
    """Return the one command of a page that has these words, with a line's end behind it."""
    (command,) = (each for each in commands(page) if words in f"{each}\n")
    return command


def events(page: Path, heading: str) -> list[str]:
    """Return what the tables of a part of a page name in their first column, and its paragraphs in bold."""
    text = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \|.*\n(?!\|-)", text, re.MULTILINE)
    return rows + re.findall(r"^\*\*([^*]+?)\.?\*\*", text, re.MULTILINE)


def replaced(command: str, stands: Mapping[str, object]) -> str:
    for word, own in stands.items():
        assert word in command, (word, command)
        command = command.replace(word, str(own))
    return command


def do(command: str, folder: Path, stands: Mapping[str, object] | None = None, **env: str) -> str:
    """Run a command in a folder; return what it wrote. AssertionError if it fails."""
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    command = replaced(command, stands or {})
    program(shlex.split(command)[0]) if command.startswith("redis-cli") else None
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path, **env},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WITHIN_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    return done.stdout


def served(
    command: str, folder: Path, *more: object, stands: Mapping[str, object] | None = None, **how
) -> Serving:
    """Return the service that a command of the page starts, with its stores in a folder of ours."""
    words = shlex.split(replaced(command, stands or {}))
    assert words[:2] == ["dedup", "serve"]
    if "--path" in words:
        at = words.index("--path")
        assert words[at + 1] == STORE
        del words[at : at + 2]
    return Serving(folder, *words[2:], *more, **how)
