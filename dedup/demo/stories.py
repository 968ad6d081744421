"""The stories of the demo site: news articles, introductions and product pages, in three languages.

    words.toml -> Language -> Author -> Story

A pattern is text with slots in braces: `{np}` takes a noun phrase, `{noun}`, `{nouns}`, `{verb}` and
`{adjective}` come from a story's own part of a topic, `{person}`, `{place}` and `{organisation}` from its
cast, all others from the slots of the language. English nouns take a regular plural, verbs are transitive
and in the past tense, which is also their participle.

Invariant: a story depends only on the random generator it is given. Each draws its own cast of invented
names, its own part of a topic's vocabulary and its own sentence patterns, so two stories share hardly a run
of words, even about the same topic.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Self

import msgspec

# How much of each a writer keeps for one story.
NOUNS, VERBS, ADJECTIVES = 16, 10, 9
PATTERNS_KEPT = 0.5

_SLOT = re.compile(r"\{(\w+)\}")
_A_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")


def _entries(text: str) -> tuple[str, ...]:
    """Return the entries of a list of words.toml."""
    if "|" not in text:
        return tuple(text.split())
    return tuple(" ".join(entry.split()) for entry in text.split("|"))


class Subject(msgspec.Struct, frozen=True):
    """The vocabulary of one field."""

    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]


class Language(msgspec.Struct, frozen=True):
    """The words and patterns of one language, and what its page shells say."""

    code: str
    direction: str
    space: str  # what stands between two words
    comma: str
    stop: str
    topics: dict[str, Subject]
    noun_phrases: tuple[str, ...]
    clauses: tuple[str, ...]
    openers: tuple[str, ...]
    connectors: tuple[str, ...]
    closers: tuple[str, ...]
    titles: tuple[str, ...]
    slots: dict[str, tuple[str, ...]]
    person_parts: tuple[tuple[str, ...], ...]
    place_parts: tuple[tuple[str, ...], ...]
    organisation_parts: tuple[tuple[str, ...], ...]
    labels: "ShellLabels"


class ShellLabels(msgspec.Struct, frozen=True):
    """One language's words of the shell."""

    home: str
    by: str
    related: str
    popular: str
    more: str
    previous: str
    following: str
    views: str
    updated: str
    comments: str
    name: str
    send: str
    search: str
    advertisement: str
    account: str
    archive: str
    tools: dict[str, str]  # what a link to a copy or a missing page is called, by the page's kind
    footer: tuple[str, ...]
    notice: str
    advertising: tuple[str, ...]  # advertisements are drawn from these, at every request


def _language(code: str, held: dict[str, Any]) -> Language:
    parts = {name: _entries(text) for name, text in held.pop("parts").items()}
    lists = ("noun_phrases", "clauses", "openers", "connectors", "closers", "titles")
    found = held | {name: _entries(held[name]) for name in lists}
    for name in ("person_parts", "place_parts", "organisation_parts"):
        found[name] = tuple(parts.get(part, (part,)) for part in held[name])
    for name in ("footer", "advertising"):
        found["labels"][name] = _entries(found["labels"][name])
    found["slots"] = {name: _entries(text) for name, text in held["slots"].items()}
    found["topics"] = {
        name: {kind: _entries(text) for kind, text in topic.items()}
        for name, topic in held["topics"].items()
    }
    return msgspec.convert(found | {"code": code}, Language)


_WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
LANGUAGES = {code: _language(code, _WORDS[code]) for code in ("en", "zh", "ar")}
COLOURS = _entries(_WORDS["en"]["colours"])
# What a missing page says, by look and language: a title, then paragraphs.
NOT_FOUND = {
    (look, language): _entries(text)
    for (look, language), text in (
        (name.split("-"), text) for name, text in _WORDS["missing"].items()
    )
}


class Story(msgspec.Struct, frozen=True):
    """What a page has to say, before any markup."""

    language: str
    title: str
    author: str
    summary: str  # for teasers and the description; never part of the paragraphs
    caption: str
    paragraphs: tuple[str, ...]

    @property
    def text(self) -> str:
        """The main content: title, paragraphs and caption."""
        return "\n".join((self.title, *self.paragraphs, self.caption))


class Cast(msgspec.Struct, frozen=True):
    """The people, places and organisations a story is about."""

    persons: tuple[str, ...]
    places: tuple[str, ...]
    organisations: tuple[str, ...]

    @classmethod
    def draw(cls, language: Language, rng: Random) -> Self:
        """Invent three persons, three places and two organisations."""
        return cls(
            persons=tuple(_compose(language.person_parts, rng) for _ in range(3)),
            places=tuple(_compose(language.place_parts, rng) for _ in range(3)),
            organisations=tuple(_compose(language.organisation_parts, rng) for _ in range(2)),
        )


class Author:
    """One author's voice: a cast, a part of a topic's words and half of the sentence patterns."""

    def __init__(
        self, language: Language, topic: Subject, rng: Random, cast: Cast | None = None
    ) -> None:
        cast = cast or Cast.draw(language, rng)
        nouns = _some(topic.nouns, NOUNS, rng)
        self.language = language
        self._rng = rng
        self._choices: dict[str, Sequence[str]] = {
            **language.slots,
            "noun": nouns,
            "nouns": [_plural(noun) for noun in nouns],
            "verb": _some(topic.verbs, VERBS, rng),
            "adjective": _some(topic.adjectives, ADJECTIVES, rng),
            "person": cast.persons,
            "place": cast.places,
            "organisation": cast.organisations,
            "np": _half(language.noun_phrases, rng),
        }
        self._decks: dict[str, list[str]] = {}
        self._clauses = _half(language.clauses, rng)
        self._openers = _half(language.openers, rng)
        self._connectors = _half(language.connectors, rng)
        self._closers = _half(language.closers, rng)

    def fill(self, pattern: str) -> str:
        """Replace the slots of a pattern; a word drawn may itself be a pattern."""
        while "{" in pattern:
            pattern = _SLOT.sub(self._word, pattern)
        return pattern

    def sentence(self) -> str:
        """Return one sentence: a clause, often with something before or after it."""
        chance, choice = self._rng.random, self._rng.choice
        comma = self.language.comma + self.language.space
        pattern = choice(self._clauses)
        if chance() < 0.35:
            pattern = choice(self._openers) + comma + pattern
        if chance() < 0.5:
            pattern += comma + choice(self._connectors) + self.language.space
            pattern += choice(self._clauses)
        if chance() < 0.35:
            pattern += comma + choice(self._closers)
        return _polish(self.fill(pattern), self.language) + self.language.stop

    def paragraph(self, sentences: int) -> str:
        """Return that many sentences in a row."""
        return self.language.space.join(self.sentence() for _ in range(sentences))

    def title(self) -> str:
        """Return a headline."""
        return _polish(self.fill(self._rng.choice(self.language.titles)), self.language)

    def story(self, length: int, longest_paragraph: int = 4) -> Story:
        """Return a story of that many words or a few more, in paragraphs of 2 sentences or more.

        Two characters count as one word in Chinese.
        """
        paragraphs: list[str] = []
        written = 0
        while written < length:
            paragraphs.append(self.paragraph(self._rng.randint(2, longest_paragraph)))
            written += _count_words(paragraphs[-1], self.language)
        return Story(
            language=self.language.code,
            title=self.title(),
            author=self.fill("{person}"),
            summary=self.sentence(),
            caption=self.sentence(),
            paragraphs=tuple(paragraphs),
        )

    def _word(self, slot: re.Match[str]) -> str:
        """Draw like from a deck of cards: no word comes again before all others came."""
        name = slot[1]
        deck = self._decks.get(name)
        if not deck:
            choices = self._choices[name]
            deck = self._decks[name] = self._rng.sample(choices, len(choices))
        return deck.pop()


def write_event(language: Language, topic: Subject, reports: int, rng: Random) -> list[Story]:
    """Return reports of one event: the same cast, and not one noun, verb or adjective in common."""
    cast = Cast.draw(language, rng)
    words = [_some(kind, len(kind), rng) for kind in (topic.nouns, topic.verbs, topic.adjectives)]
    shares = (Subject(*(tuple(kind[part::reports]) for kind in words)) for part in range(reports))
    return [Author(language, share, rng, cast).story(rng.randint(200, 320)) for share in shares]


# One line of facts a product page; all variants of a family take the same one.
_FACTS = (
    "It comes in {colour}, measures {size} cm and is listed as {article}.",
    "Ask for article {article}: {size} cm wide, finished in {colour}.",
    "Available in {colour} at {size} cm under number {article}.",
    "Order number {article} stands for the {size} cm model, dyed {colour}.",
)


def write_product(topic: Subject, variants: int, rng: Random) -> list[Story]:
    """Return the variants of one product: alike but for colour, size and article number."""
    writer = Author(LANGUAGES["en"], topic, rng)
    name = writer.fill("{adjective} {noun} {place}").capitalize()
    facts = rng.choice(_FACTS)
    base = writer.story(rng.randint(80, 105), longest_paragraph=2)
    colours = rng.sample(COLOURS, variants)
    stories = []
    for number, colour in enumerate(colours):
        size = 20 + 5 * number
        article = f"{rng.randrange(10_000, 100_000)}"
        line = facts.format(colour=colour, size=size, article=article)
        stories.append(
            msgspec.structs.replace(
                base,
                title=f"{name}, {colour}, {size} cm",
                paragraphs=(base.paragraphs[0], line, *base.paragraphs[1:]),
            )
        )
    return stories


def _compose(parts: tuple[tuple[str, ...], ...], rng: Random) -> str:
    return "".join(rng.choice(part) for part in parts)


def _some(choices: Sequence[str], count: int, rng: Random) -> list[str]:
    return rng.sample(choices, min(count, len(choices)))


def _half(choices: Sequence[str], rng: Random) -> list[str]:
    return _some(choices, max(3, int(len(choices) * PATTERNS_KEPT)), rng)


def _plural(noun: str) -> str:
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def _polish(text: str, language: Language) -> str:
    if language.code == "en":
        text = _A_BEFORE_VOWEL.sub(r"\1n ", text)
    return text[0].upper() + text[1:]


def _count_words(text: str, language: Language) -> int:
    return len(text.split()) if language.space else len(text) // 2
