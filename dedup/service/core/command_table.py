"""The table of commands: their form, who may use them, and what they are over HTTP.

    COMMANDS -> dispatch, arity, roles, batching, MULTI, paths over HTTP

A command is declared here, checked in access.py, carried out in operations.py, and answered in resp/commands.py.
"""

import re
from typing import Literal, NamedTuple

from dedup.model.errors import UsageError

Role = Literal["", "crawl", "read", "admin"]


class Command(NamedTuple):
    """A command of RESP, and its path over HTTP.

    usage      its form, as docs/reference/protocol.md has it
    role       the role that a client needs; "": any token does
    path       of the same command over HTTP, or ""
    together   which commands of its name behind it are carried out with it: "alike" have the same options,
               "inserts" are of one namespace, and committed by the service itself
    queued     whether MULTI queues it
    greeting   whether it is answered before the token was shown
    name       the first word of its form
    least      number of arguments, its name among them
    most       None: any number from `least` on
    """

    usage: str
    role: Role = ""
    path: str = ""
    together: Literal["", "alike", "inserts"] = ""
    queued: bool = True
    greeting: bool = False
    name: bytes = b""
    least: int = 1
    most: int | None = None


_OPTIONAL = re.compile(r"\[[^][]*\]")


def _with_arity(command: Command) -> Command:
    """Return a command with its name and its number of arguments, as its form has them."""
    needed = command.usage
    while needed != (needed := _OPTIONAL.sub("", needed)):
        pass
    words = needed.split()
    is_open = "..." in command.usage or re.search(r"\[[A-Z]", command.usage)
    most = None if is_open else len(command.usage.split())
    return command._replace(name=words[0].encode(), least=len(words), most=most)


COMMANDS = {
    (command := _with_arity(each)).name: command
    for each in (
        Command(
            "DEDUP.PROBE ns page [COUNT n] [DISTANCE k] [SIMILARITY s] [FEATURES n] [SCOPE site|global] "
            "[FIELDS on|off]",
            together="alike",
        ),
        Command(
            "DEDUP.MPROBE ns [COUNT n] [DISTANCE k] [SIMILARITY s] [FEATURES n] [SCOPE site|global] "
            "PAGES page [page ...]"
        ),
        Command(
            "DEDUP.RESERVE ns key page [SCOPE site|global] [DISTANCE k] [SIMILARITY s] [FEATURES n] "
            "[SECONDS s] [EXEMPT reason] [GUARD on|off] [LEAST s] [TOKEN t] [FIELDS on|off]",
            "crawl",
        ),
        Command(
            "DEDUP.INSERT ns key token [PAID 0|1] [ITEMS digest]",
            "crawl",
            "/v1/insert",
            "inserts",
        ),
        Command("DEDUP.RELEASE ns key token", "crawl", "/v1/release"),
        Command("DEDUP.FORGET ns key", "admin", "/v1/forget"),
        Command("DEDUP.DROP ns", "admin"),
        Command("DEDUP.INFO [ns]"),
        Command("COMMAND [COUNT|DOCS]"),
        Command("MULTI", queued=False),
        Command("EXEC", queued=False),
        Command("DISCARD", queued=False),
        Command("WATCH [key ...]", queued=False),
        Command("UNWATCH"),
        Command("PING [text]"),
        Command("ECHO text"),
        Command("AUTH [user] token", greeting=True),
        Command("HELLO [2|3] [AUTH user token] [SETNAME name]", greeting=True),
        Command("CLIENT subcommand [value ...]"),
        Command("CONFIG GET name [name ...]"),
        Command("INFO [section ...]"),
        Command("SELECT 0"),
        Command("QUIT [...]", queued=False, greeting=True),
    )
}

TOKEN = re.compile("[A-Za-z0-9-]{16,64}")  # that a client makes
REASON = re.compile("[a-z][a-z_]{0,31}")
LEAST_SPAN, LONGEST_SPAN = 0.001, 86_400.0  # seconds that a client may ask for; more are cut

PROBE, MPROBE, RESERVE, INSERT = b"DEDUP.PROBE", b"DEDUP.MPROBE", b"DEDUP.RESERVE", b"DEDUP.INSERT"


def wrong_usage(name: bytes, what: str = "") -> UsageError:
    """Return the error of a command that has another form, and what is wrong with it."""
    return UsageError(f"{what or 'wrong form'}; usage: {COMMANDS[name].usage}")


def shown(name: bytes) -> str:
    """Return an argument as error messages show it."""
    return "'" + name[:40].decode("ascii", "replace") + "'"
