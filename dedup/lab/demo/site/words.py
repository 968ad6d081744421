"""What a language is to the story writer: topics, sentence patterns and the parts of names.

Rule: data only. A pattern is text with slots in braces; `articles.Writer` fills `{np}` with a noun
phrase, `{noun}`, `{nouns}`, `{verb}` and `{adjective}` from an article's own draw of a topic,
`{person}`, `{place}` and `{organisation}` from its cast, and all others from `Language.slots`.
"""

import msgspec

__all__ = ["Language", "Topic", "lines", "words"]


class Topic(msgspec.Struct, frozen=True):
    """The vocabulary of one field."""

    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]


class Language(msgspec.Struct, frozen=True):
    """Everything the writer needs to know about one language."""

    code: str
    direction: str
    space: str  # what stands between two words
    comma: str
    stop: str
    topics: dict[str, Topic]
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

    @property
    def vocabulary(self) -> frozenset[str]:
        """All distinct content words: of the topics and of the slots."""
        found: set[str] = set()
        for topic in self.topics.values():
            found.update(topic.nouns, topic.verbs, topic.adjectives)
        for choices in self.slots.values():
            found.update(choices)
        return frozenset(found)


def words(text: str) -> tuple[str, ...]:
    """Split a block of text at white space."""
    return tuple(text.split())


def lines(text: str) -> tuple[str, ...]:
    """Split a block of text into its lines, without the empty ones."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())
