"""Writes the stories: news articles, introductions and product pages, from a language's words.

Rule: a story depends only on the random generator it is given. Each story draws its own cast of
invented names, its own part of a topic's vocabulary and its own sentence patterns, so two stories
share no run of words worth speaking of, even about the same topic.
"""

import re
from collections.abc import Sequence
from random import Random
from typing import Self

import msgspec

from dedup.lab.demo.site.words import Language, Topic
from dedup.lab.demo.site.words_ar import ARABIC
from dedup.lab.demo.site.words_en import COLOURS, ENGLISH
from dedup.lab.demo.site.words_zh import CHINESE

__all__ = ["LANGUAGES", "Cast", "Story", "Writer", "write_event", "write_product"]

LANGUAGES: dict[str, Language] = {"en": ENGLISH, "zh": CHINESE, "ar": ARABIC}

_SLOT = re.compile(r"\{(\w+)\}")
_A_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")

# How much of each a writer keeps for one story.
_NOUNS, _VERBS, _ADJECTIVES = 16, 10, 9
_PATTERNS_KEPT = 0.5


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


class Writer:
    """One author's voice: a cast, a part of a topic's words and half of the sentence patterns."""

    def __init__(
        self, language: Language, topic: Topic, rng: Random, cast: Cast | None = None
    ) -> None:
        cast = cast or Cast.draw(language, rng)
        nouns = _some(topic.nouns, _NOUNS, rng)
        self.language = language
        self._rng = rng
        self._choices: dict[str, Sequence[str]] = {
            **language.slots,
            "noun": nouns,
            "nouns": [_plural(noun) for noun in nouns],
            "verb": _some(topic.verbs, _VERBS, rng),
            "adjective": _some(topic.adjectives, _ADJECTIVES, rng),
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


def write_event(language: Language, topic: Topic, reports: int, rng: Random) -> list[Story]:
    """Return reports of one event: the same cast, and not one noun, verb or adjective in common."""
    cast = Cast.draw(language, rng)
    nouns, verbs, adjectives = (
        _some(kind, len(kind), rng) for kind in (topic.nouns, topic.verbs, topic.adjectives)
    )
    return [
        Writer(
            language,
            Topic(
                tuple(nouns[part::reports]),
                tuple(verbs[part::reports]),
                tuple(adjectives[part::reports]),
            ),
            rng,
            cast,
        ).story(rng.randint(200, 320))
        for part in range(reports)
    ]


# One line of facts a product page; all variants of a family take the same one.
_FACTS = (
    "It comes in {colour}, measures {size} cm and is listed as {article}.",
    "Ask for article {article}: {size} cm wide, finished in {colour}.",
    "Available in {colour} at {size} cm under number {article}.",
    "Order number {article} stands for the {size} cm model, dyed {colour}.",
)


def write_product(topic: Topic, variants: int, rng: Random) -> list[Story]:
    """Return the variants of one product: alike but for colour, size and article number."""
    writer = Writer(ENGLISH, topic, rng)
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
    return _some(choices, max(3, int(len(choices) * _PATTERNS_KEPT)), rng)


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
