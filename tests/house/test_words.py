"""Pages stay short: README, each page that is read, and all of them together.

A word is a run of characters with a letter or digit. What exceeds a limit is cut, not moved to another page. What
`make docs` writes of help and docstrings is the program's own text: it has a limit of its own.
"""

import re
from pathlib import Path

import pytest
from tools import make_reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
READ = [p for p in sorted(DOCS.rglob("*.md")) if p.parent.name != "reference"]
TABLES = {"rules.md"}  # the table of rules
GENERATED = {"commands.md", "python.md"}
FOR_USERS = 12_400  # README, docs/start and docs/use
ALL = 35_700  # every page of the repository
HELP = 7_000  # what is generated


def words_of(text):
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def words(path):
    return words_of(path.read_text("utf-8"))


def every_page():
    tops = ("docs", "tests", "native", "examples", ".github")
    found = [*ROOT.glob("*.md"), *(p for top in tops for p in (ROOT / top).rglob("*.md"))]
    return [path for path in found if path.name not in GENERATED]


def test_the_readme_is_a_screen_and_a_half():
    """README has 600 words at most."""
    assert words(ROOT / "README.md") <= 600


def test_the_model_has_500_words():
    """What happens to a page is said in 500 words and one drawing, above its limits."""
    text = (DOCS / "explain" / "how-it-decides.md").read_text("utf-8").partition("## Limits")[0]
    prose = [line for line in text.splitlines() if not line.startswith("    ")]
    assert words_of(" ".join(prose)) <= 500


@pytest.mark.parametrize("page", [p for p in READ if p.name not in TABLES], ids=lambda p: p.stem)
def test_a_page_has_1200_words(page):
    """No page that is read from its beginning is longer; reference is looked up."""
    assert words(page) <= 1200


def test_the_pages_for_users_stay_short():
    """README and what one reads to use it, together."""
    users = (DOCS / "start", DOCS / "use")
    pages = [ROOT / "README.md", *(page for folder in users for page in folder.rglob("*.md"))]
    assert sum(map(words, pages)) <= FOR_USERS


def test_all_pages_of_the_repository():
    """With the specifications, CONTRIBUTING, SECURITY and CHANGELOG."""
    assert sum(map(words, every_page())) <= ALL


def test_help_and_docstrings_are_short():
    """What is generated of them, all commands and names together."""
    assert sum(map(words_of, make_reference.made().values())) <= HELP
