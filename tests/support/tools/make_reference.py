"""The pages that list every command and every Python name; docs/conf.py writes them at each build, git has them not.

    help of every command -> docs/reference/commands.md;    docstrings of dedup -> docs/reference/python.md

In a docstring names may stand in a column of their own, two spaces or more before what they mean. Such a paragraph
becomes a list.
"""

import inspect
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import click

import dedup
from dedup.cli import main as commands
from dedup.model.page import ReserveOptions  # its fields are options of reserve()

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"

PYTHON = {  # parts of the page, and the names of each
    "pages": "fingerprint fingerprint_text fingerprint_batch main_text main_words Block near_duplicate distance "
    "simhash token_hashes document_key",
    "detector": "open Detector",
    "asynchronous": "open_async AsyncDetector",
    "values": "PageFingerprint ReserveOptions Verdict Document Neighbour Recipe recipe_of",
    "tables": "Table Match find_all find_clusters plan Design",
    "errors": "DedupError UsageError RecipeMismatch StoreLocked StoreDamaged ServiceUnavailable EventInvalid",
}

# ------------------------------------------------------------------------------------- commands


def all_commands() -> str:
    """Return every command with its options."""
    context = click.Context(commands, info_name="dedup")
    return "\n".join(
        line for name in commands.list_commands(context) for line in _of(context, name)
    )


def _of(parent: click.Context, name: str) -> Iterator[str]:
    assert isinstance(parent.command, click.Group)
    command = parent.command.get_command(parent, name)
    assert command is not None
    context = click.Context(command, parent=parent, info_name=name, **command.context_settings)
    yield f"## {context.command_path}\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"    {usage}\n"
    for paragraph in (command.help or "").replace("\b\n", "").split("\n\n"):
        yield f"{_escaped(_line(paragraph))}\n"
    yield from _options(command, context)
    if command.epilog:
        yield f"{_as_code(_line(command.epilog))}\n"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from _of(context, inner)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [
        found
        for option in command.get_params(context)
        if "--help" not in option.opts and (found := option.get_help_record(context)) and found[1]
    ]
    if records:
        yield "| option | meaning |\n| --- | --- |"
        for names, meaning in records:
            yield f"| {_code(names)} | {_cell(_escaped(_line(meaning)))} |"
        yield ""


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _as_code(epilog: str) -> str:
    """Return an epilog, "Examples: dedup a; dedup b", with its commands as code."""
    title, _, examples = epilog.partition(": ")
    return f"{title}: " + "; ".join(f"`{each}`" for each in examples.split("; "))


# --------------------------------------------------------------------------------------- Python


def names_of(part: str) -> str:
    """Return the names of a part of the page: how each is called, and its docstring."""
    return "\n".join(line for name in PYTHON[part].split() for line in _object(name))


def _object(name: str) -> Iterator[str]:
    value = ReserveOptions if name == "ReserveOptions" else getattr(dedup, name)
    yield f"### {name}\n"
    if not (inspect.isclass(value) and issubclass(value, Exception)) and _is_made(value):
        yield f"    {name}{_signature(value)}\n"
    yield from _docstring(value)
    if inspect.isclass(value) and name in {"Detector", "AsyncDetector", "Table"}:
        for member, method in _members(value):
            about = inspect.getdoc(getattr(dedup.Detector, member, None))
            same = value is dedup.AsyncDetector and inspect.getdoc(method) == about
            yield f"**{member}**\n"
            yield f"    {member}{_signature(method) if callable(method) else ''}\n"
            yield from ["As of a Detector.\n"] if same else _docstring(method)


def _is_made(value: Any) -> bool:
    """Whether a user calls it: detectors come from open()."""
    return value not in {dedup.Detector, dedup.AsyncDetector}


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties, in the order of the source, those of the class itself first."""
    seen: set[str] = set()
    for each in kind.__mro__:
        for member, value in vars(each).items():
            if not member.startswith("_") and member not in seen and inspect.getdoc(value):
                seen.add(member)
                yield member, value if isinstance(value, property) else getattr(kind, member)


def _signature(value: Any) -> str:
    found = inspect.signature(value)
    kept = [
        p.replace(annotation=p.empty, default=_default(p.default))
        for p in found.parameters.values()
        if p.name != "self"
    ]
    return str(found.replace(parameters=kept, return_annotation=inspect.Signature.empty))


class _Whole(str):
    """Text that is its own repr."""

    __slots__ = ()
    __repr__ = str.__str__


def _default(value: Any) -> Any:
    """Return a default; a value of ours, all of whose fields have their own defaults, in short."""
    kind = type(value)
    return _Whole(f"{kind.__name__}()") if kind.__module__.startswith("dedup.") else value


def _docstring(value: Any) -> Iterator[str]:
    text = inspect.getdoc(value) or ""
    for paragraph in (list(lines) for filled, lines in groupby(text.splitlines(), bool) if filled):
        yield from _rows(paragraph)


_ROW = re.compile(r"(\S+(?:, \S+)*) {2,}(\S.*)")


def _rows(lines: list[str]) -> Iterator[str]:
    """Yield a paragraph of rows as a list, code as code, any other as it is."""
    if all(line.startswith("    ") for line in lines):
        yield "\n".join(lines) + "\n"
    elif _ROW.fullmatch(lines[0]):
        items: list[str] = []
        for line in lines:
            row = _ROW.fullmatch(line)
            items += [f"- `{row[1]}`: {row[2]}"] if row else []
            if not row:
                items[-1] += f" {line.strip()}"
        yield "\n".join(map(_escaped, items)) + "\n"
    else:
        yield _escaped(_line(" ".join(lines))) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def _escaped(text: str) -> str:
    """Return text in which Markdown reads nothing but what stands in `such quotes` as code."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*<]|__)", r"\\\1", part) for part in parts
    )


# ------------------------------------------------------------------------------------- the pages

COMMANDS_PAGE = """\
# Commands

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | wrong usage |
| 130 | ended by Ctrl-C; the message names `--resume` if the command has it |

Errors go to standard error and say what failed, where, and what to do next; `dedup --debug COMMAND` adds a traceback.
`--json` prints the answer for programs, where a command has it. In a terminal long commands show their progress, and
output is coloured unless `NO_COLOR` is set.

Completion of commands and options by the tab key: put `eval "$(_DEDUP_COMPLETE=bash_source dedup)"` into `~/.bashrc`;
for zsh or fish replace `bash` in it.

"""
PYTHON_PAGE = """\
# Python

`import dedup` gives all names of this page, and `help()` shows them with types. A fingerprint's value is a Python integer
of 64 bits, its sketch 37 bytes ([specification](fingerprint-spec.md)). Batches are numpy arrays, and their functions
release the GIL.

"""
TITLES = {
    "pages": "Pages and fingerprints",
    "detector": "The detector",
    "tables": "Tables and batches",
}


def made() -> dict[Path, str]:
    """Return the text of each page."""
    parts = (f"## {TITLES.get(part, part.capitalize())}\n\n{names_of(part)}" for part in PYTHON)
    return {
        REFERENCE / "commands.md": COMMANDS_PAGE + all_commands() + "\n",
        REFERENCE / "python.md": PYTHON_PAGE + "\n".join(parts) + "\n",
    }


def main() -> None:
    """Write both."""
    for page, text in made().items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
