"""What a document and a page cost a table service: every constant of the capacity model, measured.

    dedup bench capacity -> these numbers -> dedup.lab.capacity.capacity_model

The rule kept here: no number without the command that measured it. Those that are CPU time are of one
slow shared core, wall times of its disk (MACHINE); measure your own, and give them to `dedup plan` as
a file. Byte counts are the same on every 64-bit machine.
"""

from typing import NamedTuple

import msgspec

from dedup.model.errors import UsageError

__all__ = ["MACHINE", "MEASURED", "SOURCES", "Costs", "Source", "read_costs"]

MACHINE = (
    "2 shared cores of an x86-64 server, 24 GiB, Linux, Python 3.11.7, lmdb 3.0.0, "
    "others at work beside it"
)


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The constants; SOURCES says what each is, in which unit, and how it was measured."""

    process_bytes: float = 38e6
    buffer_bytes: float = 159e6
    merge_bytes: float = 54.0
    record_bytes: float = 120.2
    event_bytes: float = 321.9
    reserve_us: float = 60.6
    away_us: float = 55.0
    insert_us: float = 126.3
    release_us: float = 11.6
    reserve_deep_us: float = 27.7
    away_deep_us: float = 26.0
    release_deep_us: float = 8.3
    applied_us: float = 56.3
    probe_share: float = 1.8
    segment_us: float = 1.0
    rebuild_us: float = 5.2
    written_bytes: float = 353.0
    open_us: float = 0.22
    reserve_wire_bytes: float = 326.0
    away_wire_bytes: float = 394.0
    insert_wire_bytes: float = 86.0
    release_wire_bytes: float = 86.0


class Source(NamedTuple):
    """What a constant is: its unit, what it says, and the command that measures it."""

    unit: str
    what: str
    command: str


STORE = "dedup bench store"
COMMANDS = "chrt -r 5 dedup bench capacity --part commands"
LOG = "dedup bench capacity --part log"

SOURCES = {
    "process_bytes": Source("B", "memory of a service without documents", LOG),
    "buffer_bytes": Source("B", "the tables in memory before the segments, at most", STORE),
    "merge_bytes": Source(
        "B a document", "memory while segments are merged, of the largest that is made", STORE
    ),
    "record_bytes": Source(
        "B a document", "documents.mdb, and as many as the document's key has", STORE
    ),
    "event_bytes": Source(
        "B a document", "a record in a broker's log, one copy, each a batch of its own", LOG
    ),
    "reserve_us": Source("us of CPU", "RESERVE, one at a time, little to search", COMMANDS),
    "away_us": Source("us of CPU", "the same at a shard that is not the key's home", COMMANDS),
    "insert_us": Source("us of CPU", "INSERT through Kafka, until it is applied", LOG),
    "release_us": Source("us of CPU", "RELEASE, written with the next RESERVE", COMMANDS),
    "reserve_deep_us": Source("us of CPU", "RESERVE, sixteen in one write", COMMANDS),
    "away_deep_us": Source("us of CPU", "the same away from home", COMMANDS),
    "release_deep_us": Source("us of CPU", "RELEASE, sixteen in one write", COMMANDS),
    "applied_us": Source("us of CPU", "an event of another service, applied as it comes", LOG),
    "probe_share": Source("", "a search, times the plan's estimate for segments", STORE),
    "segment_us": Source(
        "us of CPU", "each segment of a search for a single value, beside that", STORE
    ),
    "rebuild_us": Source("us", "an event, when a store is filled (wall time)", STORE),
    "written_bytes": Source("B an event", "written to the disk, merging included", STORE),
    "open_us": Source("us a document", "opening a store that was killed (wall time)", STORE),
    "reserve_wire_bytes": Source(
        "B", "RESERVE and its answer, and as many as the key has", COMMANDS
    ),
    "away_wire_bytes": Source("B", "the same at a shard that is not the key's home", COMMANDS),
    "insert_wire_bytes": Source("B", "INSERT and its answer, and as many as the key has", COMMANDS),
    "release_wire_bytes": Source(
        "B", "RELEASE and its answer, and as many as the key has", COMMANDS
    ),
}

MEASURED = Costs()

# How long an answer to RESERVE took on loopback with nothing else under way, in microseconds: the
# shares of answers that took less. COMMANDS, a million documents, k = 3, 20,000 pages.
ANSWER_SHARES = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995)
ANSWER_US = (77.1, 78.9, 80.8, 82.3, 85.3, 90.3, 100.1, 123.4, 162.9, 183.1, 292.8, 1144.2)


def read_costs(data: bytes) -> Costs:
    """Return costs from JSON: an object with some of the fields of Costs; the others stay measured.

    Raises UsageError saying what is wrong with it.
    """
    try:
        costs = msgspec.json.decode(data, type=Costs)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"costs are a JSON object of numbers, of: {', '.join(SOURCES)}; {error}"
        ) from error
    for name in SOURCES:
        if not 0 <= getattr(costs, name) < float("inf"):
            raise UsageError(f"the cost {name} is {getattr(costs, name)}; it must be 0 or more")
    return costs
