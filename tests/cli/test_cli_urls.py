"""`dedup urls`: what a crawl has learned of its URLs, as rules that duplicate-url-discarder takes in the next crawl."""

from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
from crawling import Case, article, hub, run_case
from needing import lacking

from dedup.cli.urls import LEAST, Pattern, read_report, rules_of
from dedup.model.errors import UsageError

COPIES = 14
PAGES = {"/": hub(*(f"/{n}{q}" for n in range(COPIES) for q in ("", f"?tok={n}", "?page=2")))}
PAGES |= {f"/{n}{q}": article(n) for n in range(COPIES) for q in ("", f"?tok={n}")}
PAGES |= {f"/{n}?page=2": article(n + 100) for n in range(COPIES)}
BODY = """
def parse(self, response):
    self.note("parsed", response)
    yield {"url": response.url, "text": response.css("p::text").get()}
    yield from self.links(response)
"""


def test_promise_1_rules_of_one_crawl_save_the_next_one_its_copies(tmp_path: Path) -> None:
    """A real crawl, its report, the rules, and a second crawl with duplicate-url-discarder: the same items, fewer requests."""
    if find_spec("duplicate_url_discarder") is None:
        lacking("duplicate_url_discarder")
    report, rules = tmp_path / "report.json", tmp_path / "rules.json"
    first = run_case(tmp_path / "one", Case(PAGES, BODY, {"DEDUP_REPORT": str(report)}))
    made = [*rules_of(read_report(report))]
    assert [(each["processor"], each["args"]) for each in made] == [("queryRemoval", ["tok"])]
    assert LEAST <= made[0]["pages"] <= COPIES
    assert made[0]["urlPattern"] == {"include": ["127.0.0.1"]}
    made[0]["urlPattern"][
        "include"
    ] = []  # the package matches no address with a port, as this site has
    rules.write_bytes(msgspec.json.encode(made))
    settings = {
        "ADDONS": {"dedup.scrapy.Addon": 500, "duplicate_url_discarder.Addon": 600},
        "DUD_LOAD_RULE_PATHS": [str(rules)],
    }
    second = run_case(tmp_path / "two", Case(PAGES, BODY, settings))
    assert len(first.requested) == len(PAGES)
    assert len(second.requested) == len(PAGES) - COPIES


def pattern(difference: str, same: int = LEAST, new: int = 0, site: str = "a.example") -> Pattern:
    return Pattern(site, difference, same, 0, new)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([pattern("?+sid")], [("queryRemoval", ["sid"])]),
        ([pattern("?~sid", 5), pattern("?~sid", 5)], [("queryRemoval", ["sid"])]),
        ([pattern("?+sid", LEAST - 1)], []),
        ([pattern("?+sid"), pattern("?+sid", new=1)], []),
        ([pattern("?+sid ?+page")], []),
        ([pattern("slash")], [("normalizer", [])]),
        ([pattern("host:www> slash")], [("normalizer", [])]),
        ([pattern("host:m>")], []),
        ([pattern(">amp")], []),
        ([pattern("?+sid", site="")], []),
    ],
)
def test_a_rule_needs_many_pages_and_none_against_it(
    patterns: list[Pattern], expected: list[tuple[str, list[str]]]
) -> None:
    """A difference that the package has no rule for has none; nor has one of several."""
    found = [(each["processor"], each.get("args", [])) for each in rules_of(patterns)]
    assert found == expected


def test_what_is_no_report_is_refused(tmp_path: Path) -> None:
    """HTML, or another JSON: the error names the file and the setting."""
    (tmp_path / "report.html").write_text("<html>")
    with pytest.raises(UsageError, match="DEDUP_REPORT"):
        read_report(tmp_path / "report.html")
