"""JSON lines once more without those that are near-duplicates.

The rule kept here: every other line is copied byte for byte, blank and broken ones, too; where the
compression is torn, the copy ends after the last whole line.
"""

from dedup.scan.formats.drops import Copy, Drops
from dedup.scan.formats.json_lines import longest_line, opened
from dedup.scan.formats.packed import PackedFile

__all__ = ["copy_lines"]


def copy_lines(copy: Copy, drops: Drops) -> str | None:
    """Copy a file of lines; return why a part of it is missing, or None. Raises OSError."""
    line_bytes, number, begins, dropped = longest_line(copy.max_bytes), 0, True, False
    with (
        opened(copy.source) as (file, _raw, unpacked),
        PackedFile(copy.target, copy.packing) as out,
    ):
        while line := file.readline(line_bytes):
            is_whole = line.endswith(b"\n")
            if unpacked is not None and unpacked.error and not is_whole:
                break
            if begins:  # else it is more of a line that is too long to be read
                number += 1
                dropped = drops.of(number) is not None
            begins = is_whole
            if not dropped:
                out.write(line)
        error = None if unpacked is None else unpacked.error
    return None if error is None else f"the compression is torn ({error})"
