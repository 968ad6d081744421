"""A report as a file: HTML or JSON, as its name says."""

from pathlib import Path

from msgspec import json

from dedup.model.errors import UsageError
from dedup.report.parts import ReportPage


def check_report(path: str | None) -> None:
    """Raise UsageError for the name of a report that says no format."""
    if path is not None and not path.lower().endswith((".html", ".htm", ".json")):
        raise UsageError(f"{path}: a report is written to a file named .html or .json")


def write_report(path: str, plain: object, page: ReportPage) -> None:
    """Write a report as its name says: plain as JSON, or the page as HTML. Raises OSError."""
    if path.lower().endswith(".json"):
        Path(path).write_bytes(json.format(json.encode(plain), indent=2) + b"\n")
        return
    from dedup.report.html import html_page  # which loads the template engine

    Path(path).write_text(html_page(page), "utf-8", "replace")
