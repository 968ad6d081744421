"""`dedup find-all` and `dedup find-clusters`: a list of fingerprints in, JSON lines out.

    lines -> chunks of a megabyte -> numbers -> the native search -> JSON, an array a line
    lines -> numbers -> Queries <- a stream that is stored -> JSON, an array a line  (--stored)

Invariants: what does not fit in memory is refused before the search, a file before it is read. Every line of
the input is a fingerprint, or blank, or named in an error: numpy reads a chunk only if all its bytes are
plain; otherwise Python reads it line by line and finds the wrong one. A negative number is that of a signed
64-bit integer with the same bits; 0x says that a number is hexadecimal.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import click
import numpy as np
import numpy.typing as npt

from dedup.cli import terminal
from dedup.cli.common_options import distance_option, output_option
from dedup.cli.terminal import size_text
from dedup.core import pairs
from dedup.core.bulk.batch import Queries, Source, StreamMatches
from dedup.core.memory import free_memory
from dedup.core.pairs import memory_needed
from dedup.model.errors import DedupError
from dedup.model.policy import PAPER_DISTANCE

ROWS = 1 << 16  # pairs written at once
WORTH_SAYING = 64 << 20  # bytes of memory

CHUNK_BYTES = 1 << 20
LINE_BYTES = 1 << 16  # more than any fingerprint needs
LARGEST = 2**64 - 1
HEX_DIGITS = b"0123456789abcdefABCDEF"

Numbers = npt.NDArray[np.uint64]
F = TypeVar("F", bound=Callable[..., Any])


def _options(command: F) -> F:
    """Give a command the options that both share."""
    for option in (
        output_option("the result"),
        click.option(
            "--input",
            "source",
            metavar="FILE",
            default="-",
            help="Read fingerprints from a file, one a line. [default: stdin]",
        ),
        click.option(
            "--hex",
            "as_hex",
            is_flag=True,
            help="Read and write hexadecimal, not decimal, numbers.",
        ),
        click.option(
            "--blocks",
            type=int,
            hidden=True,
            help="Accepted for compatibility with simhash-cpp (more than the distance, up to 64); "
            "does not change the result.",
        ),
        distance_option("Greatest Hamming distance in bits. 3 is the paper's.", PAPER_DISTANCE),
    ):
        command = option(command)
    return command


@click.command("find-all", epilog="Example: dedup find-all --distance 3 < fingerprints.txt")
@_options
@click.option(
    "--stored",
    metavar="FILE",
    help="Compare the input with the fingerprints in this file, of any size: lines like the input's, "
    "or, if its name ends in .u64, little-endian numbers of 8 bytes.",
)
def find_all(
    distance: int,
    blocks: int | None,
    as_hex: bool,
    source: str,
    output: str,
    stored: str | None,
) -> None:
    """List all pairs of fingerprints within a Hamming distance, as JSON: an array [a, b] a line.

    The input is one decimal fingerprint a line; blank lines are skipped. Signed 64-bit numbers are read, too (-1 is
    2**64-1), and 0x before hex digits; the output has no signs. Each pair is listed once,
    a < b, in order; a fingerprint that occurs more than once gives one pair [a, a].

    With --stored each pair [a, b] is a fingerprint a of the input and b of the file, in the order of
    the file; for each b the nearest comes first. Repeated fingerprints are listed each time.
    """
    _check_blocks(blocks, distance)
    if stored is None:
        values = _read_within(source, as_hex, memory_needed)
        _write(output, (_text(part, as_hex) for part in _find_pairs(values, distance)))
        return
    values = read(source, as_hex)
    queries = Queries(values, distance)
    stream: Source = stored if stored.endswith(".u64") else read_some(stored, as_hex)

    def form(matches: StreamMatches) -> bytes:
        near = values[matches.hits["query"].astype(np.intp)]
        return _text(np.column_stack((near, matches.stored)), as_hex)

    show = terminal.progress("stored fingerprints compared")
    _write(output, map(form, queries.probe_stream(stream, progress=show)))


def _find_pairs(values: Numbers, distance: int) -> Iterator[Numbers]:
    """Yield all pairs in order, some at a time."""
    found = pairs.find_all(values, distance)
    show = terminal.progress("pairs written")
    for begin in range(0, len(found), ROWS):
        yield found[begin : begin + ROWS]
        if show:
            show(min(begin + ROWS, len(found)), len(found))


@click.command("find-clusters", epilog="Example: dedup find-clusters --hex --input values.txt")
@_options
def find_clusters(
    distance: int,
    blocks: int | None,
    as_hex: bool,
    source: str,
    output: str,
) -> None:
    """List clusters of fingerprints within a Hamming distance, as JSON: an array a line.

    The input is one decimal fingerprint a line; blank lines are skipped. Signed 64-bit numbers are read, too (-1 is
    2**64-1), and 0x before hex digits; the output has no signs. A cluster has at least two
    members, every occurrence of a fingerprint counts, and everything is sorted. Clusters chain: two
    members may be further apart than the distance, if others connect them.
    """
    _check_blocks(blocks, distance)
    values = _read_within(source, as_hex, partial(memory_needed, clusters=True))
    members, sizes = _clusters(values, pairs.find_clusters(values, distance))
    _write(output, _cluster_lines(members, sizes, as_hex))


def _cluster_lines(members: Numbers, sizes: Numbers, as_hex: bool) -> Iterator[bytes]:
    forms: dict[int, str] = {}
    begin = 0
    show = terminal.progress("clusters written")
    for first in range(0, len(sizes), ROWS):
        part = sizes[first : first + ROWS].tolist()
        for size in set(part):
            forms.setdefault(size, _form(size, as_hex))
        end = begin + sum(part)
        text = "".join(map(forms.__getitem__, part)) % tuple(members[begin:end].tolist())
        yield text.encode()
        begin = end
        if show:
            show(first + len(part), len(sizes))


def _read_within(source: str, as_hex: bool, needed: Callable[[int], int]) -> Numbers:
    """Return the fingerprints of a file, and say what memory the search takes, or that it is too much.

    A regular file is refused before it is read, by the lines of its first megabyte. Raises DedupError.
    """
    most = free_memory()

    def check(values: int, words: str) -> None:
        if most is not None and (size := needed(values)) > most:
            raise DedupError(
                f"{words} take about {size_text(size)} of memory, more than the {size_text(most)} that is free; "
                "`dedup scan --engine spark` finds near-duplicates among more pages than memory holds"
            )

    if source != "-" and (path := Path(source)).is_file():
        with path.open("rb") as file:
            begin = file.read(CHUNK_BYTES)
            lines = begin.count(b"\n") * os.fstat(file.fileno()).st_size // max(1, len(begin))
        check(lines, f"{source}: some {lines:,} fingerprints")
    count, read_so_far = 0, [np.empty(0, np.uint64)]
    for part in read_some(source, as_hex):
        count += len(part)
        check(count, f"{count:,} fingerprints, those read so far,")
        read_so_far.append(part)
    if (size := needed(count)) >= WORTH_SAYING:
        terminal.error(
            f"{count:,} fingerprints: about {size_text(size)} of memory, and 32 bytes a pair"
        )
    return np.concatenate(read_so_far)


def _write(output: str, texts: Iterable[bytes]) -> None:
    with click.open_file(output, "wb", lazy=True) as file:
        for text in texts:
            if output == "-":
                terminal.status.clear()
            file.write(text)
        file.flush()


def _text(rows: Numbers, as_hex: bool) -> bytes:
    """Return pairs as lines."""
    return (_form(2, as_hex) * len(rows) % tuple(rows.ravel().tolist())).encode()


def _form(members: int, as_hex: bool) -> str:
    """Return the form of a line with a number of members."""
    member = '"%016x"' if as_hex else "%d"
    return f"[{', '.join([member] * members)}]\n"


def _check_blocks(blocks: int | None, distance: int) -> None:
    if blocks is not None and not distance < blocks <= 64:
        raise click.BadParameter(
            f"{blocks} is not in the range {distance + 1}<=x<=64 (more than --distance).",
            param_hint="'--blocks'",
        )


def _clusters(values: Numbers, labels: Numbers) -> tuple[Numbers, Numbers]:
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
    return values[np.arange(len(values)) + np.repeat(moved, sizes)], sizes.astype(np.uint64)


# ------------------------------------------------------------------------------------------- lines


def read(source: str, as_hex: bool) -> Numbers:
    """Return the fingerprints of a file ("-": stdin). Raises OSError, and DedupError naming a line."""
    return np.concatenate([np.empty(0, np.uint64), *read_some(source, as_hex)])


def read_some(source: str, as_hex: bool) -> Iterator[Numbers]:
    """Yield what read() returns, some at a time."""
    name = "stdin" if source == "-" else source
    show = terminal.progress("bytes read")
    with click.open_file(source, "rb") as file:
        size, done = os.fstat(file.fileno()).st_size if show else 0, 0
        for first, chunk in _chunks(file, name):
            done += len(chunk)
            if show:
                show(min(done, size or done), size)
            numbers = _plain_hex(chunk) if as_hex else _plain_decimal(chunk)
            yield _by_line(chunk, as_hex, name, first) if numbers is None else numbers
    if show and size:
        show(size, size)


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
            raise DedupError(f"{name}: line {first} is too long; give one fingerprint a line")
    if rest:
        yield first, rest


def _plain_decimal(chunk: bytes) -> Numbers | None:
    """Return the numbers of a chunk of digits and newlines only, or None for another chunk."""
    if chunk.translate(None, b"0123456789\n"):
        return None
    if not chunk.strip():
        return np.empty(0, np.uint64)
    numbers = np.fromstring(chunk.decode("ascii"), dtype=np.uint64, sep="\n")
    # A number that is too large is read as the largest.
    return None if np.any(numbers == LARGEST) else numbers


def _plain_hex(chunk: bytes) -> Numbers | None:
    """Return the numbers of a chunk in which every line has 16 hex digits, with 0x or without, or None."""
    if chunk.startswith(b"0x"):
        chunk = chunk[2:].replace(b"\n0x", b"\n")
    lines, left = divmod(len(chunk), 17)
    if left or chunk[16::17] != b"\n" * lines or chunk.count(b"\n") != lines:
        return None
    if chunk.translate(None, HEX_DIGITS + b"\n"):
        return None
    return np.frombuffer(bytes.fromhex(chunk.decode("ascii")), dtype=">u8").astype(np.uint64)


def _by_line(chunk: bytes, as_hex: bool, name: str, first: int) -> Numbers:
    """Return the numbers of a chunk, or raise DedupError for the first line without one."""
    numbers = []
    for row, line in enumerate(chunk.split(b"\n"), first):
        text = line.strip()
        if not text:
            continue
        number = _number(text, as_hex)
        if number is None:
            shown = text[:40].decode("utf-8", "replace")
            wanted = (
                "1 to 16 hex digits" if as_hex else "a decimal number 0 to 2**64-1, or from -2**63"
            )
            looks_hex = not as_hex and not text.isdigit() and not text.translate(None, HEX_DIGITS)
            advice = "give --hex for hex digits" if looks_hex else "correct or remove it"
            raise DedupError(f"{name}: line {row}: {shown!r} is not {wanted}; {advice}")
        numbers.append(number)
    return np.array(numbers, dtype=np.uint64)


def _number(text: bytes, as_hex: bool) -> int | None:
    """Return the number of a line, or None."""
    digits = text.removeprefix(b"0x").removeprefix(b"0X")
    if as_hex or digits != text:
        is_hex = 0 < len(digits) <= 16 and not digits.translate(None, HEX_DIGITS)
        return int(digits, 16) if is_hex else None
    digits = text.removeprefix(b"-")
    if not digits.isdigit() or len(digits.lstrip(b"0")) > 20:
        return None
    number = int(digits.lstrip(b"0") or b"0")
    if digits != text:
        return 2**64 - number & LARGEST if number <= 2**63 else None
    return number if number <= LARGEST else None
