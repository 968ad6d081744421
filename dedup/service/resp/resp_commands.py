"""RESP commands: arguments in, encoded answers out. Those that every Redis client sends: greetings.py.

A command is a function of a session and its arguments (the name is the first). It returns bytes, or
Later for an answer that is still to come.
"""

import asyncio

from msgspec.structs import replace

from dedup.model.errors import UsageError
from dedup.model.values import Neighbour
from dedup.model.verdict_forms import to_reply
from dedup.service.core.batches import PROBES, probe_in_slices
from dedup.service.core.error_codes import Refused
from dedup.service.core.roles import audit, check_role
from dedup.service.resp import protocol
from dedup.service.resp.client_session import (
    INSERT,
    PROBE,
    Command,
    Later,
    Plans,
    Session,
    check_arity,
    shown,
)
from dedup.service.resp.greetings import BEFORE_AUTH, GREETINGS
from dedup.service.resp.protocol import NIL, OK, bulk, integer
from dedup.service.resp.transactions import (
    NOT_QUEUED,
    discard,
    execute,
    multi,
    queue,
    unwatch,
    watch,
)

__all__ = ["INSERT", "PROBE", "is_known", "probe", "run", "run_together"]


def run(session: Session, arguments: list[bytes]) -> tuple[bytes, bytes | Later]:
    """Carry out a command; return its name and its answer. Raises what the command raises."""
    name = arguments[0].upper()
    command = _COMMANDS.get(name)
    if not session.trusted and name not in BEFORE_AUTH:
        raise Refused("NOAUTH", "show the token first: AUTH default <token>")
    if command is None:
        raise UsageError(f"unknown command {shown(arguments[0])}; see docs/protocol.md")
    check_role(name, session.roles)
    if session.queued is not None and name not in NOT_QUEUED:
        return name, queue(session, arguments)
    return name, command(session, arguments)


def is_known(name: bytes) -> bool:
    """Whether there is a command of this name."""
    return name.upper() in _COMMANDS


def run_together(session: Session, batch: list[list[bytes]]) -> bytes:
    """Carry out commands that can be batched (Session.can_batch) at once; return their answers.

    Raises what one of them raises: then each is to be carried out by itself.
    """
    if batch[0][0] == PROBE:
        answers = b"".join(probes(session.plans, batch))
        session.commands.check_answer(len(answers))  # too much at once: one by one, with pauses
        return answers
    text = protocol.text
    pages = [
        (text(command[2], "key"), text(command[3], "token"), len(command) == 4) for command in batch
    ]
    session.commands.insert_many(text(batch[0][1], "namespace"), pages)
    return OK * len(batch)


# ------------------------------------------------------------------------------------- the work


def probe(plans: Plans, arguments: list[bytes]) -> bytes:
    """Carry out one DEDUP.PROBE."""
    plan = plans.of(arguments)
    value, sketch = protocol.value_and_sketch(arguments[2], arguments[3])
    if plan is None:
        return protocol.EMPTY
    detector, recipe, domain, most, identity = plan
    found = plans.commands.probe(detector, value, sketch, recipe, domain, identity or 0)
    if identity is None and not found:
        return protocol.EMPTY
    some = found if most is None else found[:most]
    if identity is None:
        answer = protocol.neighbours(some)
    else:
        answer = protocol.neighbours_with_identity(some)
    plans.commands.check_answer(len(answer))
    return answer


def probes(plans: Plans, batch: list[list[bytes]]) -> list[bytes]:
    """Carry out DEDUP.PROBE commands that differ only in value and sketch."""
    plan = plans.of(batch[0])
    if plan is not None and plan.identity is not None:
        return [probe(plans, arguments) for arguments in batch]
    values = protocol.fingerprints([arguments[2] for arguments in batch])
    sketches = [protocol.sketch_of(arguments[3]) for arguments in batch]
    answers = [protocol.EMPTY] * len(batch)
    if plan is not None:
        detector, recipe, domain, most, _ = plan
        found = plans.commands.probe_many(detector, values, sketches, recipe, domain, most)
        for i, near in found.items():
            answers[i] = protocol.neighbours(near)
    return answers


def _probe(session: Session, arguments: list[bytes]) -> bytes:
    check_arity(arguments, 6)
    return probe(session.plans, arguments)


def _mprobe(session: Session, arguments: list[bytes]) -> bytes | Later:
    check_arity(arguments, 5)
    if arguments[2].upper() != b"RECIPE":
        raise UsageError("DEDUP.MPROBE ns RECIPE id [options] VALUES value sketch ...")
    head = [word.upper() for word in arguments[4:11]]
    if b"VALUES" not in head:
        raise UsageError("DEDUP.MPROBE ns RECIPE id [options] VALUES value sketch ...")
    first = 4 + head.index(b"VALUES")
    given = protocol.options("MPROBE", arguments[4:first])
    pairs = arguments[first + 1 :]
    if len(pairs) % 2:
        raise UsageError("after VALUES come pairs of value and sketch")
    commands, recipe = session.commands, protocol.text(arguments[3], "recipe")
    detector = commands.detector(protocol.text(arguments[1], "namespace"), recipe, given.asked)
    values = protocol.fingerprints(pairs[::2])
    sketches = [protocol.sketch_of(sketch) for sketch in pairs[1::2]]

    def encoded(found: dict[int, list[Neighbour]]) -> bytes:
        answers = [protocol.EMPTY] * len(values)
        for i, near in found.items():
            answers[i] = protocol.neighbours(near)
        return protocol.array(answers)

    if len(values) > PROBES:
        work = probe_in_slices(commands, detector, values, sketches, recipe, given.count)
        return Later(asyncio.ensure_future(work), encoded, alone=True)
    return encoded(commands.probe_many(detector, values, sketches, recipe, None, given.count))


def _reserve(session: Session, arguments: list[bytes]) -> bytes:
    check_arity(arguments, 10)
    page, domain = protocol.page(arguments[3:10])
    given, token = protocol.reserve_options(arguments[10:])
    if given.links:
        page = replace(page, links=given.links)
    verdict = session.commands.reserve(
        protocol.text(arguments[1], "namespace"),
        protocol.text(arguments[2], "key"),
        page,
        domain,
        given.asked,
        exempt=given.exempt,
        guard=given.guard,
        kind=given.kind,
        tries=given.tries,
        token=token,
        home=given.home,
        seconds=given.seconds,
    )
    nil = NIL[session.protocol_version]
    if verdict.status == "unique" and verdict.token is not None:  # the most frequent verdict
        return protocol.UNIQUE % (
            len(verdict.token),
            verdict.token.encode(),
            nil,
            nil,
            nil,
            nil,
            nil,
        )
    return protocol.array(
        [
            nil
            if field is None
            else integer(field)
            if isinstance(field, int)
            else protocol.real(field)
            if isinstance(field, float)
            else bulk(field.encode())
            for field in to_reply(verdict)
        ]
    )


def _token_arguments(arguments: list[bytes]) -> tuple[str, str, str]:
    namespace, key, token = arguments[1:4]
    return (
        protocol.text(namespace, "namespace"),
        protocol.text(key, "key"),
        protocol.text(token, "token"),
    )


_INSERT_OPTIONS = frozenset((b"", b"PIN", b"UNPAID"))


def _insert(session: Session, arguments: list[bytes]) -> bytes | Later:
    check_arity(arguments, 4, 5)
    option = arguments[4].upper() if len(arguments) == 5 else b""
    if option not in _INSERT_OPTIONS:
        raise UsageError("DEDUP.INSERT ns key token [PIN | UNPAID]")
    done = session.commands.insert(
        *_token_arguments(arguments), pin=option == b"PIN", paid=option != b"UNPAID"
    )
    return OK if done is None else Later(done, lambda _: OK)


def _release(session: Session, arguments: list[bytes]) -> bytes:
    check_arity(arguments, 4, 4)
    return integer(session.commands.release(*_token_arguments(arguments)))


def _forget(session: Session, arguments: list[bytes]) -> bytes | Later:
    check_arity(arguments, 3, 3)
    namespace, key = protocol.text(arguments[1], "namespace"), protocol.text(arguments[2], "key")
    done = session.commands.forget(namespace, key)
    if done is not False:
        audit(session.caller, "FORGET", namespace, key)
    return integer(done) if isinstance(done, bool) else Later(done, integer)


def _drop(session: Session, arguments: list[bytes]) -> Later:
    check_arity(arguments, 2, 2)
    namespace = protocol.text(arguments[1], "namespace")
    is_there = session.commands.namespaces.get(namespace) is not None
    done = session.commands.drop(namespace)
    if is_there:
        audit(session.caller, "DROP", namespace)
    return Later(done, integer)


def _rules(session: Session, arguments: list[bytes]) -> Later:
    check_arity(arguments, 2, 3)
    nil = NIL[session.protocol_version]
    content = arguments[2] if len(arguments) == 3 else None
    return Later(
        session.commands.rules(protocol.text(arguments[1], "namespace"), content),
        lambda rules: nil if rules is None else bulk(rules),
        alone=True,
    )


def _partitions(session: Session, arguments: list[bytes]) -> bytes:
    check_arity(arguments, 1, 1)
    held, count = session.commands.partitions()
    return protocol.array((bulk(held.encode()), integer(count)))


def _dedup_info(session: Session, arguments: list[bytes]) -> bytes:
    check_arity(arguments, 1, 2)
    commands = session.commands
    info = (
        commands.info()
        if len(arguments) == 1
        else commands.namespace_info(protocol.text(arguments[1], "namespace"))
    )
    lines = (f"{key}:{value}\r\n" for key, value in info.items())
    return bulk("".join(lines).encode())


def _command(_: Session, arguments: list[bytes]) -> bytes:
    if arguments[1:2] and arguments[1].upper() == b"COUNT":
        return integer(len(_COMMANDS))
    return protocol.EMPTY  # DOCS, INFO: docs/protocol.md has them


_COMMANDS: dict[bytes, Command] = {
    PROBE: _probe,
    b"DEDUP.MPROBE": _mprobe,
    b"DEDUP.RESERVE": _reserve,
    INSERT: _insert,
    b"DEDUP.RELEASE": _release,
    b"DEDUP.FORGET": _forget,
    b"DEDUP.DROP": _drop,
    b"DEDUP.INFO": _dedup_info,
    b"DEDUP.PARTITIONS": _partitions,
    b"DEDUP.RULES": _rules,
    b"COMMAND": _command,
    b"MULTI": multi,
    b"EXEC": lambda session, arguments: execute(session, arguments, run),
    b"DISCARD": discard,
    b"WATCH": watch,
    b"UNWATCH": unwatch,
    **GREETINGS,
}
