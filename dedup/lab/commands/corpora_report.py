"""`dedup evaluate --corpora`: whole sites, a line each, for a person or a program."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dedup.cli import terminal

if TYPE_CHECKING:
    from dedup.lab.evaluate.corpora import CorpusFigures, CorpusPoint

__all__ = ["corpora_json", "corpora_table"]


def corpora_table(corpora: Sequence["CorpusFigures"], total: "CorpusPoint") -> str:
    """Return the table, and below it what all of them come to."""
    headers = (
        "corpus",
        "pages",
        "drops",
        "P J>=.8",
        "wrong J<.5",
        "recall J>=.9 (of)",
        "exempt (twins)",
    )
    rows: list[tuple[str, ...]] = [
        (
            one.corpus,
            f"{one.pages:,}",
            f"{one.figures.drops:,}",
            *_shares(one.figures),
            ", ".join(f"{reason} {n:,} ({had})" for reason, (n, had) in one.exempt.items()),
        )
        for one in corpora
    ]
    pages = sum(one.pages for one in corpora)
    rows.append(("all", f"{pages:,}", f"{total.drops:,}", *_shares(total), ""))
    return terminal.table(headers, rows)


def corpora_json(corpora: Sequence["CorpusFigures"], total: "CorpusPoint") -> dict[str, Any]:
    """Return the figures as plain values."""
    rows = [
        msgspec.to_builtins(one)
        | {"figures": _plain(one.figures), "curve": [_plain(point) for point in one.curve]}
        for one in corpora
    ]
    return {"corpora": rows, "all": _plain(total)}


def _shares(point: "CorpusPoint") -> tuple[str, str, str]:
    return _share(point.precision), f"{point.wrong:,}", f"{_share(point.recall)} ({point.twins:,})"


def _plain(point: "CorpusPoint") -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(point)
    return plain | {"precision": point.precision, "recall": point.recall}


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"
