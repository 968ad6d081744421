"""Figures in their place in a page: what stands between a pair of marks is replaced.

    <!-- NAME: begin -->  figures  <!-- NAME: end -->

Invariant: only what stands between the two marks is written; the words around it stay.
"""

from collections.abc import Sequence
from pathlib import Path

from dedup.model.errors import UsageError


def marked(page: Path, name: str) -> tuple[str, str, str]:
    """Return a page's text before, between and after its marks, the marks outside.

    Raises UsageError if it has none, OSError if it cannot be read.
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    text = page.read_text(encoding="utf-8")
    if not 0 <= text.find(begin) < text.find(end):
        raise UsageError(f"{page} has no place for these figures: it needs the lines {begin}{end}")
    first, last = text.index(begin) + len(begin), text.index(end)
    return text[:first], text[first:last], text[last:]


def between(page: Path, name: str) -> str:
    """Return what stands between the marks. Raises as marked()."""
    return marked(page, name)[1]


def put(page: Path, name: str, text: str) -> None:
    """Replace what stands between the marks. Raises as marked()."""
    before, _, after = marked(page, name)
    page.write_text(f"{before}{text}\n{after}", encoding="utf-8")


def rows(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headers, ["---"] * len(headers), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
