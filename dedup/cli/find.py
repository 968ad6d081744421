"""`dedup find-all` and `dedup find-clusters`: a list of fingerprints in, JSON lines out.

    lines -> chunks of a megabyte -> numbers -> the native search -> JSON, an array a line

The rule kept here: every line is a fingerprint, or blank, or named in an error. numpy reads a chunk
only where its bytes are plain; elsewhere Python reads it line by line and finds the wrong one.
"""

import os
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

import click
import numpy as np
import numpy.typing as npt

from dedup import pairs as native_pairs
from dedup.cli import terminal
from dedup.errors import DedupError

__all__ = ["find_all", "find_clusters"]

PAPER_DISTANCE = 3
MAX_DISTANCE = 15
CHUNK_BYTES = 1 << 20
LINE_BYTES = 1 << 16  # more than any fingerprint needs
ROWS = 1 << 16  # pairs written at once
LARGEST = 2**64 - 1
HEX_DIGITS = b"0123456789abcdefABCDEF"

Numbers = npt.NDArray[np.uint64]
F = TypeVar("F", bound=Callable[..., Any])


def _options(command: F) -> F:
    """Give a command the options that both have."""
    for option in (
        click.option("--output", metavar="FILE", default="-", help="Default: stdout."),
        click.option("--input", "source", metavar="FILE", default="-", help="Default: stdin."),
        click.option("--hex", "as_hex", is_flag=True, help="Hex digits in, hex strings out."),
        click.option(
            "--blocks",
            type=int,
            help="Taken for compatibility with simhash-cpp: more than the distance, up to 64. The "
            "tables are chosen by other means and the result is the same.",
        ),
        click.option(
            "--distance",
            type=click.IntRange(0, MAX_DISTANCE),
            default=PAPER_DISTANCE,
            show_default=True,
            help="Greatest Hamming distance in bits. 3 is the paper's.",
        ),
    ):
        command = option(command)
    return command


@click.command("find-all", epilog="Example: dedup find-all --distance 3 < fingerprints.txt")
@_options
def find_all(distance: int, blocks: int | None, as_hex: bool, source: str, output: str) -> None:
    """List all pairs of fingerprints within a Hamming distance, as JSON: an array [a, b] a line.

    The input is one decimal fingerprint a line; blank lines are skipped. Each pair is listed once,
    a < b, in order; a fingerprint that occurs more than once gives one pair [a, a].
    """
    _check_blocks(blocks, distance)
    pairs = native_pairs.find_all(_read(source, as_hex), distance)
    form = _form(2, as_hex)
    show = terminal.progress("pairs written")
    with click.open_file(output, "wb") as file:
        for begin in range(0, len(pairs), ROWS):
            part = pairs[begin : begin + ROWS]
            file.write((form * len(part) % tuple(part.ravel().tolist())).encode())
            if show:
                show(begin + len(part), len(pairs))
        file.flush()


@click.command("find-clusters", epilog="Example: dedup find-clusters --hex --input values.txt")
@_options
def find_clusters(
    distance: int, blocks: int | None, as_hex: bool, source: str, output: str
) -> None:
    """List the clusters that pairs within a Hamming distance connect, as JSON: an array a line.

    The input is one decimal fingerprint a line; blank lines are skipped. A cluster has at least two
    members, every occurrence of a fingerprint counts, and all is sorted.
    """
    _check_blocks(blocks, distance)
    values = _read(source, as_hex)
    members, sizes = _clusters(values, native_pairs.find_clusters(values, distance))
    show = terminal.progress("clusters written")
    forms: dict[int, str] = {}
    with click.open_file(output, "wb") as file:
        begin = 0
        for first in range(0, len(sizes), ROWS):
            part = sizes[first : first + ROWS].tolist()
            for size in set(part):
                forms.setdefault(size, _form(size, as_hex))
            end = begin + sum(part)
            text = "".join(map(forms.__getitem__, part)) % tuple(members[begin:end].tolist())
            file.write(text.encode())
            begin = end
            if show:
                show(first + len(part), len(sizes))
        file.flush()


def _form(members: int, as_hex: bool) -> str:
    """Return how a line of so many members is written."""
    member = '"%016x"' if as_hex else "%d"
    return f"[{', '.join([member] * members)}]\n"


def _check_blocks(blocks: int | None, distance: int) -> None:
    if blocks is not None and not distance < blocks <= 64:
        raise click.BadParameter(
            f"{blocks} is not in the range {distance + 1}<=x<=64 (more than --distance).",
            param_hint="'--blocks'",
        )


def _clusters(values: Numbers, labels: Numbers) -> tuple[Numbers, npt.NDArray[np.intp]]:
    """Return the members of all clusters of two or more, one after the other, and their sizes.

    Members are sorted, clusters by their least member.
    """
    places = labels.astype(np.intp)
    many = np.bincount(places, minlength=len(places))[places] > 1
    values, places = values[many], places[many]
    order = np.lexsort((values, places))
    values, places = values[order], places[order]
    begins = np.flatnonzero(np.diff(places, prepend=-1))
    sizes = np.diff(begins, append=len(places))
    first = np.argsort(values[begins])
    begins, sizes = begins[first], sizes[first]
    moved = begins - (np.cumsum(sizes) - sizes)  # from where it stands to where it goes
    return values[np.arange(len(values)) + np.repeat(moved, sizes)], sizes


# --------------------------------------------------------------------------------------- the input


def _read(source: str, as_hex: bool) -> Numbers:
    """Return the fingerprints of a file ("-": stdin). Raises OSError, and DedupError naming a line."""
    parts = [np.empty(0, np.uint64)]
    name = "stdin" if source == "-" else source
    show = terminal.progress("bytes read")
    with click.open_file(source, "rb") as file:
        size, done = os.fstat(file.fileno()).st_size if show else 0, 0
        for first, chunk in _chunks(file, name):
            done += len(chunk)
            if show and size:
                show(min(done, size), size)
            numbers = _plain_hex(chunk) if as_hex else _plain_decimal(chunk)
            parts.append(_by_line(chunk, as_hex, name, first) if numbers is None else numbers)
    if show and size:
        show(size, size)
    return np.concatenate(parts)


def _chunks(file: IO[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """Yield a file in pieces of whole lines, with the number of the first line of each."""
    first, rest = 1, b""
    while data := file.read(CHUNK_BYTES):
        rest += data
        end = rest.rfind(b"\n") + 1
        if end:
            chunk, rest = rest[:end], rest[end:]
            yield first, chunk.replace(b"\r\n", b"\n")
            first += chunk.count(b"\n")
        if len(rest) > LINE_BYTES:
            raise DedupError(f"{name}: line {first} has no end; give one fingerprint a line")
    if rest:
        yield first, rest


def _plain_decimal(chunk: bytes) -> Numbers | None:
    """Return the numbers of a chunk of digits and newlines, or None if it is not so plain."""
    if chunk.translate(None, b"0123456789\n"):
        return None
    if not chunk.strip():
        return np.empty(0, np.uint64)
    numbers = np.fromstring(chunk.decode("ascii"), dtype=np.uint64, sep="\n")
    # A number that is too large comes out as the largest.
    return None if np.any(numbers == LARGEST) else numbers


def _plain_hex(chunk: bytes) -> Numbers | None:
    """Return the numbers of a chunk in which every line has 16 hex digits, or None."""
    lines, left = divmod(len(chunk), 17)
    if left or chunk[16::17] != b"\n" * lines or chunk.count(b"\n") != lines:
        return None
    if chunk.translate(None, HEX_DIGITS + b"\n"):
        return None
    return np.frombuffer(bytes.fromhex(chunk.decode("ascii")), dtype=">u8").astype(np.uint64)


def _by_line(chunk: bytes, as_hex: bool, name: str, first: int) -> Numbers:
    """Return the numbers of a chunk, or raise DedupError for the first line that holds none."""
    digits = HEX_DIGITS if as_hex else b"0123456789"
    numbers = []
    for row, line in enumerate(chunk.split(b"\n"), first):
        text = line.strip()
        if not text:
            continue
        number = LARGEST + 1
        if not text.translate(None, digits):
            if as_hex:
                number = int(text, 16) if len(text) <= 16 else number
            elif len(text.lstrip(b"0")) <= 20:
                number = int(text.lstrip(b"0") or b"0")
        if number > LARGEST:
            shown = line.strip()[:40].decode("utf-8", "replace")
            wanted = "1 to 16 hex digits" if as_hex else "a decimal number 0 to 2**64-1"
            looks_hex = not as_hex and not text.isdigit() and not text.translate(None, HEX_DIGITS)
            advice = "give --hex for hex digits" if looks_hex else "correct or remove it"
            raise DedupError(f"{name}: line {row}: {shown!r} is not {wanted}; {advice}")
        numbers.append(number)
    return np.array(numbers, dtype=np.uint64)
