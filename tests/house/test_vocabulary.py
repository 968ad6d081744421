"""One word for one thing: what the glossary has replaced stands in no page, no message and no public name.

    pages      every .md but the changelog, and what `make docs` writes of help and docstrings
    messages   every text of the package with a space in it that is no docstring: log lines, errors, help, reports
    names      settings, stats, reasons, commands, their options, fields of a page, of DEDUP_DROPPED and the report, and what
               `import dedup` gives

Two fields of an insert event keep their names, since a topic holds them for years: `thing` and `paid`.
"""

import ast
import re
from pathlib import Path

import click
import pytest
from tools import make_reference

import dedup
import dedup.scrapy
from dedup.cli import main
from dedup.model.page import REASONS, Document, PageFingerprint
from dedup.model.policy import SETTINGS
from dedup.model.stats import STATS
from dedup.report.crawl import Crawl
from dedup.report.drops import Drop
from dedup.service.core.command_table import COMMANDS

ROOT = Path(__file__).parents[2]
TOPS = ("docs", "tests", "native", "examples", ".github")
PAGES = {
    path.relative_to(ROOT).as_posix(): " ".join(path.read_text("utf-8").split())
    for path in (*ROOT.glob("*.md"), *(p for top in TOPS for p in (ROOT / top).rglob("*.md")))
    if path.name not in {"CHANGELOG.md", "commands.md", "python.md"}
} | {path.name: text for path, text in make_reference.made().items()}

RETIRED = {  # the word of the glossary: what stood for it
    "near-duplicate": r"look-?alikes?|\b(?:pages?|texts?|two) (?:are |that are )?alike|pages? like another",
    "checked": r"\bcompared (?:pages?|ones)|`compared`|dedup/compared",
    "spot check": r"\b(?:last|first|second) look\b|\blooks at once|\ba look at (?:a|the) page",
    "pattern": r"\bclass(?:es)? of (?:look|near|pages|URLs|copies)|\bspoil\w*|\b(?:shown|proven) class|`classes`",
    "signals": r"\bletters of (?:a|the) page|\bparts of (?:a|the|two) pages?\b",
    "link budget": r"(?<!link )\bbudgets?\b|\baccounts? of (?:its|the|a) |\bon credit\b|\bpaid on the way|\ba lead\b",
    "template": r"\bframes? of (?:a|the|its|their) sites?\b|\bsites?'s? frames?\b|\bis (?:the )?frame\b|, the frame\b",
    "seen": r"\bmet\b|\bknown (?:items?|requests?|URLs?|links?)\b|\b(?:item|request)s? (?:is|are) known\b",
    "product id": r"\bthe things?(?:'s)?\b(?! that)|\bthe thing that its|\btwo things (?!do|keep|make|are)|\bthing's\b|\bthings' ",
    "noisy field": r"\bvolatile\b",
    "second fetch": r"\bcontrol visits?\b|\bvisited again\b|\b(?:two|each) visits?\b",
    "stores pages": r"\bpage-holding\b|\bpage-keeping\b",
}
IN_NAMES = {
    *"lookalike lookalikes alike compared look looks last_look class classes shown spoiled letters account".split(),
    *"frame frames met known volatile visit keeping says tells told shows speaks silent lead way side made".split(),
}
SPECIFICATION = "docs/reference/fingerprint-spec.md"  # it has the words of HTML and schema.org: volatile names, things

HOUSE_WORDS = (  # words that a reader stumbled over: say it in the trade's words
    r"word triples alike|kept all the same|asks for something|without end|given back"
    r"|under their own key|the site not known|nobody|anew\b|whoever|\bevery other (?:row|line|file|page)s?\b"
)


def messages(path):
    """Return the texts of a module that are no docstrings, a value in one as {}."""
    tree = ast.parse(path.read_text("utf-8"))
    nodes = [*ast.walk(tree)]
    said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(getattr(part, "value", "{}")) if isinstance(part, ast.Constant) else "{}"
                for part in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in said | inner
        ):
            yield node.value


MESSAGES = {
    path.relative_to(ROOT).as_posix(): "\n".join(text for text in messages(path) if " " in text)
    for path in sorted((ROOT / "dedup").rglob("*.py"))
    if path.name != "site.py"  # the demo's pages are made of common words
}


def names():
    """Yield each public name."""
    yield from SETTINGS
    yield from (setting.key for setting in SETTINGS.values())
    yield from STATS
    yield from REASONS
    yield from (*dedup.__all__, *dedup.scrapy.__all__)
    yield from (name.decode() for name in COMMANDS)
    for struct in (PageFingerprint, Document, Drop, Crawl):
        yield from struct.__struct_fields__
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        yield name
        for each in (command, *getattr(command, "commands", {}).values()):
            yield from (option for parameter in each.params for option in parameter.opts)


def found(word, texts, pattern):
    return {
        f"{name}, for which the glossary has {word!r}": hits
        for name, text in texts.items()
        if (hits := re.findall(pattern, text, re.IGNORECASE))
    }


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_term_stands_in_no_page(word):
    """It was replaced on all of them at once."""
    assert found(word, {n: t for n, t in PAGES.items() if n != SPECIFICATION}, RETIRED[word]) == {}


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_term_stands_in_no_message(word):
    """Log lines, errors, help, reports and reasons speak of what the pages speak of."""
    assert found(word, MESSAGES, RETIRED[word]) == {}


def test_a_retired_term_stands_in_no_public_name():
    """Settings, stats, reasons, commands, options, fields and Python names."""
    parts = {
        n: re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", n).lower()) for n in names()
    }
    assert len(parts) > 200
    assert {name: hits for name, words in parts.items() if (hits := IN_NAMES & {*words})} == {}


@pytest.mark.parametrize("word", RETIRED)
def test_the_glossary_has_the_word(word):
    """What replaced a term is explained."""
    assert f"**{word}" in PAGES["docs/explain/glossary.md"]


def test_pages_and_messages_use_the_words_of_the_trade():
    """README, the pages, the help of each command, and messages."""
    assert found("a word of the trade", PAGES | MESSAGES, HOUSE_WORDS) == {}
