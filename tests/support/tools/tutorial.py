"""Runs the tutorial, and prints what came of its two crawls: python tests/support tutorial

fetched, items  of the crawl without the add-on and of the one with it; different: items that differ in more than the URL
log             the summary of the second crawl, a line each
"""

import json
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from documents import Reader

PAGE = Path(__file__).parents[3] / "docs" / "start" / "tutorial.md"


def main() -> None:
    """Read the page as a user does, in a folder of its own."""
    with TemporaryDirectory() as folder, Reader(Path(folder)) as reader:
        reader.read(PAGE)
        every, unique = (
            [json.loads(line) for line in Path(folder, f"{name}.jsonl").read_text().splitlines()]
            for name in ("all", "unique")
        )
    summary = re.search(r"INFO: (\[dedup\] [\d,]+ pages: .*(?:\n\[dedup\] .*)*)", reader.said)
    assert summary is not None, reader.said
    lines = summary[1].splitlines()
    different = {(item["title"], *item["text"]) for item in every}
    found = {
        "without": len(every),
        "fetched": int(lines[0].split()[1].replace(",", "")),
        "items": len(unique),
        "different": len(different),
        "log": lines,
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
