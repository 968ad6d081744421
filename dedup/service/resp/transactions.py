"""MULTI, EXEC, DISCARD: commands that a client wants carried out together, as redis-py's pipelines do.

    MULTI -> commands are queued -> EXEC: carried out in their order, one array of answers

The rule kept here: nothing is carried out before EXEC, and nothing at all where a command was refused
when it was queued. Between the commands of a long queue other clients have their turn: what is promised
is the order, not that no one comes in between. So there is no WATCH.
"""

import asyncio
from collections.abc import Callable

from dedup.model.errors import UsageError
from dedup.service.core.batches import in_slices
from dedup.service.core.error_codes import Refused, code, message
from dedup.service.resp import protocol
from dedup.service.resp.client_session import Later, Session, check_arity
from dedup.service.resp.protocol import OK

__all__ = ["NOT_QUEUED", "discard", "execute", "multi", "queue", "unwatch", "watch"]

NOT_QUEUED = frozenset((b"MULTI", b"EXEC", b"DISCARD", b"WATCH", b"QUIT"))
SHORT_BYTES = 256  # an answer up to here is given even where those before it were too long

Run = Callable[[Session, list[bytes]], tuple[bytes, bytes | Later]]


def multi(session: Session, arguments: list[bytes]) -> bytes:
    """Begin to queue commands."""
    check_arity(arguments, 1, 1)
    if session.queued is not None:
        raise UsageError("MULTI calls can not be nested")
    session.queued, session.spoilt = [], False
    return OK


def discard(session: Session, arguments: list[bytes]) -> bytes:
    """Forget the queued commands."""
    check_arity(arguments, 1, 1)
    _taken(session, "DISCARD")
    return OK


def watch(_: Session, __: list[bytes]) -> bytes:
    """Refuse."""
    raise UsageError("there is no WATCH: RESERVE takes a page atomically")


def unwatch(_: Session, __: list[bytes]) -> bytes:
    """Say that nothing is watched."""
    return OK


def queue(session: Session, arguments: list[bytes]) -> bytes:
    """Queue a command."""
    queued, limits = session.queued, session.commands.limits
    assert queued is not None
    session.queued_bytes += sum(map(len, arguments))
    if len(queued) >= limits.batch or session.queued_bytes > limits.command_bytes:
        raise Refused(
            "LIMIT",
            f"a transaction has up to {limits.batch:,} commands and {limits.command_bytes:,} bytes",
        )
    queued.append(arguments)
    return b"+QUEUED\r\n"


def execute(session: Session, arguments: list[bytes], run: Run) -> bytes | Later:
    """Carry out what is queued."""
    check_arity(arguments, 1, 1)
    spoilt = session.spoilt
    queued = _taken(session, "EXEC")
    if spoilt:
        raise Refused("EXECABORT", "Transaction discarded because of previous errors.")
    if not queued:
        return protocol.EMPTY
    work = _answers(session, queued, run)
    return Later(asyncio.ensure_future(work), protocol.array, alone=True)


async def _answers(session: Session, queued: list[list[bytes]], run: Run) -> list[bytes]:
    """Return the answers of commands, each once its turn has come."""
    answers: list[bytes] = []
    size = 0
    async for arguments in in_slices(queued):
        try:
            answer = run(session, arguments)[1]
            if not isinstance(answer, bytes):
                answer = answer.encode(await answer.future)
            if len(answer) > SHORT_BYTES:
                session.commands.check_answer(size + len(answer))
        except Exception as fault:
            answer = protocol.error(code(fault), message(fault))
        answers.append(answer)
        size += len(answer)
    return answers


def _taken(session: Session, name: str) -> list[list[bytes]]:
    queued, session.queued, session.queued_bytes = session.queued, None, 0
    if queued is None:
        raise UsageError(f"{name} without MULTI")
    return queued
