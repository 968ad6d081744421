"""Pages stay short: README, pages for users, and all of them together. A word is a run of characters with a letter or digit."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = {  # looked up, not read
    "settings.md",
    "meta-keys.md",
    "stats.md",
    "commands.md",
    "python.md",
    "protocol.md",
    "events.md",
    "fingerprint-spec.md",
    "glossary.md",
    "how-it-decides.md",  # 500 words, and the table of rules
}
LONGER = {
    "service.md",
    "service-kafka.md",
    "scan.md",
    "architecture.md",
}  # than they should be
FORMATS = {
    "fingerprint-spec.md",
    "store-format.md",
    "table-format.md",
    "segment-format.md",
    "golden-vectors.md",
}
USERS = sorted(DOCS.rglob("*.md"))
FOR_USERS = 30_500  # without the specification of the fingerprint
ALL = 42_600  # the appendix included, without FORMATS


def words(text):
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def test_the_readme_is_a_screen_and_a_half():
    """README has 600 words at most."""
    assert words((ROOT / "README.md").read_text("utf-8")) <= 600


def test_the_model_has_500_words():
    """What happens to a page is said in 500 words and one drawing, above the table of rules."""
    text = (DOCS / "explain" / "how-it-decides.md").read_text("utf-8").partition("## The rules")[0]
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    assert words(prose) <= 500


@pytest.mark.parametrize(
    "page", [p for p in USERS if p.name not in REFERENCE | LONGER], ids=lambda p: p.stem
)
def test_a_page_for_users_has_1200_words(page):
    """No page that a user reads is longer; pages to look things up in are left out."""
    assert words(page.read_text("utf-8")) <= 1200


def total(pages):
    return sum(words(p.read_text("utf-8")) for p in pages if p.name not in FORMATS)


def test_all_pages():
    """README and all pages outside of the appendix together, and with it; specifications are left out."""
    assert total([ROOT / "README.md", *USERS]) <= FOR_USERS
    assert total([ROOT / "README.md", *DOCS.rglob("*.md")]) <= ALL
