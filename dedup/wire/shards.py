"""One store in several services: who holds which documents, and one verdict out of several answers.

    record key -> its partition of the log -> the shard that holds it: the document's home
    a page -> RESERVE at every shard at once, under one token -> merged() -> one verdict
           -> INSERT at its home, then RELEASE at the others (or RELEASE at all: dropped, given back)

A shard is a service that holds some partitions of the log. It answers for the documents in them, and
for all pages in flight, which are reserved at every shard. Invariants (docs/reference/protocol.md):

- The client names one shard as the home of a page, and sends the others `HOME off`. So a page has one
  home however shares overlap or move.
- Of two near-duplicates in flight one shard decides: the home of the smaller key. There the one that
  came second is `pending`; every other shard ignores the pair. So they never wait for
  each other, and what came first at the deciding shard goes on. A page that was accepted, whose event
  is only to be applied, counts at its home against everybody.
- Only its home knows whether a page is a refetch; the others judge it like any.
- A page is dropped only for a document that some shard holds, and when its home was asked. Any shard
  that gives no answer otherwise keeps it.
"""

from collections.abc import Mapping

import msgspec

from dedup.core.native import lib
from dedup.model.errors import UsageError
from dedup.model.page import Verdict

PARTITIONS_LIMIT = 10_000  # of a topic
KAFKA_SEED = 0x9747B28C


def partition_of(record_key: bytes, count: int) -> int:
    """Return the partition of a record among `count`: Kafka's own, by the murmur2 hash of the key."""
    found: int = lib.ndd_hash_murmur2(record_key, len(record_key), KAFKA_SEED)
    return (found & 0x7FFFFFFF) % count


def check_partitions(text: str) -> frozenset[int]:
    """Return the partitions that "0-3,6" says. Raises UsageError for what says none."""
    held: set[int] = set()
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        last = last if dash else first
        if not all(len(each) < 6 and each.isascii() and each.isdigit() for each in (first, last)):
            raise UsageError(f"partitions {text!r} are not allowed: 0-3 or 0,2,5-7, say")
        low, high = int(first), int(last)
        if not low <= high < PARTITIONS_LIMIT:
            raise UsageError(
                f"partitions {text!r} are not allowed: {part.strip()} is not a range of numbers below "
                f"{PARTITIONS_LIMIT:,}"
            )
        held.update(range(low, high + 1))
    return frozenset(held)


class PartitionShare(msgspec.Struct, frozen=True):
    """The partitions that a service holds, of those of the log."""

    partitions: frozenset[int]
    count: int

    @classmethod
    def of(cls, text: str, count: int) -> "PartitionShare":
        """Return the share that "0-3,6" says, of count partitions. Raises UsageError."""
        share = cls(check_partitions(text), count)
        beyond = cls(frozenset(n for n in share.partitions if n >= count), count)
        if beyond.partitions:
            raise UsageError(
                f"partitions {text!r} are not allowed: {beyond} lies beyond the {count} partitions "
                f"of the topic, which are 0 to {count - 1}"
            )
        return share

    @classmethod
    def everything(cls, count: int) -> "PartitionShare":
        """Return the share of a service that holds every partition."""
        return cls(frozenset(range(count)), count)

    @property
    def whole(self) -> bool:
        """Whether these are all partitions."""
        return len(self.partitions) == self.count

    def __str__(self) -> str:
        """Return the partitions as of() takes them."""
        runs: list[list[int]] = []
        for number in sorted(self.partitions):
            if runs and runs[-1][1] == number - 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)

    def holds(self, record_key: bytes) -> bool:
        """Tell whether a document with this record key belongs here."""
        return partition_of(record_key, self.count) in self.partitions


_COMPARED = frozenset(
    ("other_title", "short", "unread")
)  # another shard may have a match that counts


def merged(answers: Mapping[int, Verdict | None], home: int) -> Verdict | None:
    """Merge the answers of all shards into one verdict; None: keep the page.

    answers  each shard's verdict on the same page; None where it gave none
    home     which of them is the home of the page's key

    A verdict with a token is reserved: insert it at its home, and release it at the others. One without
    holds nothing: whatever the shards reserved for it is to be released.
    """
    first = answers[home]
    if first is None or len(answers) == 1:
        return first
    if first.status == "refetch" or (first.status == "exempt" and first.reason not in _COMPARED):
        return first
    given = [answer for answer in answers.values() if answer is not None]
    dropped = [answer for answer in given if answer.status == "near_duplicate"]
    if dropped:
        return min(dropped, key=_rank)
    if len(given) < len(answers):
        return None
    waiting = [answer for answer in given if answer.status == "pending"]
    if waiting:
        return min(waiting, key=_rank)
    other_title = [answer for answer in given if answer.reason == "other_title"]
    matched = [answer for answer in other_title if answer.match is not None]
    chosen = min(matched, key=_rank) if matched else other_title[0] if other_title else first
    return msgspec.structs.replace(chosen, token=first.token)


def _rank(verdict: Verdict) -> tuple[float, int, str]:
    match = verdict.match
    if match is None:
        return 0.0, 0, ""
    return -match.similarity, match.distance, match.document.key
