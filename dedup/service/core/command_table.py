"""The commands of the service, declared once: RESP dispatch, roles, batching and COMMAND COUNT derive theirs."""

from typing import Literal, NamedTuple

Role = Literal["", "crawl", "read", "admin"]


class Command(NamedTuple):
    """A command of RESP, and its path over HTTP.

    role       the role that a client needs; "": any token does
    least      number of arguments, its name among them
    most       None: any number from `least` on
    path       of the same command over HTTP, or ""
    together   which commands behind it are carried out with it: "alike" have the same options,
               "inserts" are of one namespace, and committed by the service itself, "pages" are any
               of these
    queued     whether MULTI queues it
    greeting   whether it is answered before the token was shown
    """

    name: bytes
    role: Role = ""
    least: int = 1
    most: int | None = None
    path: str = ""
    together: Literal["", "alike", "inserts", "pages"] = ""
    queued: bool = True
    greeting: bool = False


COMMANDS = {
    command.name: command
    for command in (
        Command(b"DEDUP.PROBE", least=6, path="/v1/probe", together="alike"),
        Command(b"DEDUP.MPROBE", least=5),
        Command(b"DEDUP.RESERVE", "crawl", 10, None, "/v1/reserve", "pages"),
        Command(b"DEDUP.INSERT", "crawl", 4, None, "/v1/insert", "inserts"),
        Command(b"DEDUP.RELEASE", "crawl", 4, 4, "/v1/release", "pages"),
        Command(b"DEDUP.FORGET", "admin", 3, 3, "/v1/forget"),
        Command(b"DEDUP.DROP", "admin", 2, 2),
        Command(b"DEDUP.INFO", most=2),
        Command(b"DEDUP.PARTITIONS", most=1),
        Command(b"DEDUP.RULES", "crawl", 2, 3),
        Command(b"DEDUP.JOIN", "crawl", 4, 4),
        Command(b"DEDUP.SEEN", "crawl", 3),
        Command(b"DEDUP.FETCHED", "crawl", 3),
        Command(b"DEDUP.LEFT", "crawl", 3, 5),
        Command(b"DEDUP.LEAVE", "crawl", 3, 4),
        Command(b"COMMAND"),
        Command(b"MULTI", most=1, queued=False),
        Command(b"EXEC", most=1, queued=False),
        Command(b"DISCARD", most=1, queued=False),
        Command(b"WATCH", queued=False),
        Command(b"UNWATCH"),
        Command(b"PING", most=2),
        Command(b"ECHO", least=2, most=2),
        Command(b"AUTH", least=2, most=3, greeting=True),
        Command(b"HELLO", greeting=True),
        Command(b"CLIENT", least=2),
        Command(b"CONFIG", least=3),
        Command(b"INFO"),
        Command(b"SELECT", least=2, most=2),
        Command(b"QUIT", queued=False, greeting=True),
    )
}

PROBE, INSERT = b"DEDUP.PROBE", b"DEDUP.INSERT"
PAGES = frozenset(name for name, command in COMMANDS.items() if command.together == "pages")

# Paths of HTTP without a command.
_READ = ("/v1/documents", "/v1/near-duplicates", "/v1/overview", "/metrics")
_PATHS: dict[bytes | str, str] = {**dict.fromkeys(_READ, "read"), "/v1/export": "admin"}

# What is not in it may be done with any token.
ROLES: dict[bytes | str, str] = {
    name: command.role
    for command in COMMANDS.values()
    for name in (command.name, command.path)
    if command.role and name
} | _PATHS
