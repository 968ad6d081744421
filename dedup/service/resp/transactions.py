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
from dedup.service.resp.client_session import Later, Session
from dedup.service.resp.protocol import OK

ELEMENTS = 99_999  # of all queued commands, as one command may have
ELEMENT_BYTES, COMMAND_BYTES = (
    48,
    128,
)  # of memory beside the bytes of an argument, and of a command
SHORT_BYTES = 256  # an answer up to here is given even where those before it were too long

Run = Callable[[Session, list[bytes]], tuple[bytes, bytes | Later]]


def multi(session: Session, _: list[bytes]) -> bytes:
    """Begin to queue commands."""
    if session.queued is not None:
        raise UsageError("MULTI calls can not be nested")
    session.queued, session.spoilt = [], False
    session.queued_bytes = session.queued_elements = 0
    return OK


def discard(session: Session, _: list[bytes]) -> bytes:
    """Forget the queued commands."""
    _taken(session, "DISCARD")
    session.queued_memory = 0
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
    size = session.queued_bytes + sum(map(len, arguments))
    elements = session.queued_elements + len(arguments)
    if len(queued) >= limits.batch or size > limits.command_bytes or elements > ELEMENTS:
        raise Refused(
            "LIMIT",
            f"a transaction has up to {limits.batch:,} commands, {ELEMENTS:,} elements and "
            f"{limits.command_bytes:,} bytes",
        )
    queued.append(arguments)
    session.queued_bytes, session.queued_elements = size, elements
    session.queued_memory = size + ELEMENT_BYTES * elements + COMMAND_BYTES * len(queued)
    return b"+QUEUED\r\n"


def execute(session: Session, run: Run) -> bytes | Later:
    """Carry out what is queued."""
    spoilt = session.spoilt
    queued = _taken(session, "EXEC")
    if spoilt:
        session.queued_memory = 0
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
    session.queued_memory = 0  # until now they are held
    return answers


def _taken(session: Session, name: str) -> list[list[bytes]]:
    queued, session.queued = session.queued, None
    if queued is None:
        raise UsageError(f"{name} without MULTI")
    return queued
