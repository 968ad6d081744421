"""RESP commands: arguments in, encoded answers out. Those that every Redis client sends: greetings.py.

A command is a function of a session and its arguments (the name is the first). It returns bytes, or
Later for an answer that is still to come.
"""

import asyncio
from typing import Any

from msgspec.structs import replace

from dedup.model.errors import UsageError
from dedup.model.forms import GIVEN_AT_INSERT
from dedup.model.page import Neighbour, PageFingerprint
from dedup.model.verdict_forms import to_reply
from dedup.model.words import INSERT_WORDS, hex_number, text
from dedup.service.core.batches import PROBES, probe_in_slices
from dedup.service.core.command_table import COMMANDS, INSERT, PROBE
from dedup.service.core.error_codes import Refused
from dedup.service.core.operations import ANY_FEATURES
from dedup.service.core.roles import audit, check_role
from dedup.service.resp import protocol
from dedup.service.resp.client_session import (
    Command,
    Later,
    Plans,
    Session,
    shown,
)
from dedup.service.resp.greetings import GREETINGS
from dedup.service.resp.protocol import NIL, OK, bulk, integer
from dedup.service.resp.transactions import (
    discard,
    execute,
    multi,
    queue,
    unwatch,
    watch,
)

_INSERT_DEFAULTS = {field.name: field.default for field in GIVEN_AT_INSERT}


def run(session: Session, arguments: list[bytes]) -> tuple[bytes, bytes | Later]:
    """Carry out a command; return its name and its answer. Raises what the command raises."""
    name = arguments[0].upper()
    command = COMMANDS.get(name)
    if not session.trusted and (command is None or not command.greeting):
        raise Refused("NOAUTH", "authenticate first: AUTH default <token>")
    if command is None:
        raise UsageError(f"unknown command {shown(arguments[0])}; see docs/protocol.md")
    if command.role and command.role not in session.roles:
        check_role(name, session.roles)
    count = len(arguments)
    if count < command.least or (command.most is not None and count > command.most):
        raise UsageError(f"wrong number of arguments for {shown(arguments[0])}")
    if session.queued is not None and command.queued:
        return name, queue(session, arguments)
    return name, _HANDLERS[name](session, arguments)


def is_known(name: bytes) -> bool:
    """Whether there is a command of this name."""
    return name.upper() in COMMANDS


def run_together(session: Session, batch: list[list[bytes]]) -> bytes:
    """Carry out commands that can be batched (Session.can_batch) at once; return their answers.

    Raises what one of them raises: then each is to be carried out by itself.
    """
    if batch[0][0] == PROBE:
        answers = b"".join(probes(session.plans, batch))
        session.commands.check_answer(len(answers))  # too much at once: one by one, with pauses
        return answers
    pages = []
    for command in batch:
        pin, given = _insert_options(command)
        if pin:
            raise UsageError("PIN is not batched")
        pages.append((text(command[2], "key"), text(command[3], "token"), given))
    session.commands.insert_many(text(batch[0][1], "namespace"), pages)
    return OK * len(batch)


# ------------------------------------------------------------------------------------- the work


def probe(plans: Plans, arguments: list[bytes]) -> bytes:
    """Carry out one DEDUP.PROBE."""
    plan = plans.of(arguments)
    value = hex_number(arguments[2], "fingerprint")
    sketch = protocol.sketch_of(arguments[3])
    if plan is None:
        return protocol.EMPTY
    page = plan.page
    probed = PageFingerprint(value, sketch, 0, ANY_FEATURES, plan.recipe)
    found = plans.commands.probe(
        plan.detector, replace(probed, **page) if page else probed, plan.domain
    )
    if not found:
        return protocol.EMPTY
    some = found if plan.most is None else found[: plan.most]
    if plan.fields or "identity" in page:
        answer = protocol.neighbours_with_identity(some, fields=plan.fields)
    else:
        answer = protocol.neighbours(some)
    plans.commands.check_answer(len(answer))
    return answer


def probes(plans: Plans, batch: list[list[bytes]]) -> list[bytes]:
    """Carry out DEDUP.PROBE commands that differ only in value and sketch."""
    plan = plans.of(batch[0])
    if plan is not None and (plan.page or plan.fields):
        return [probe(plans, arguments) for arguments in batch]
    values = protocol.fingerprints([arguments[2] for arguments in batch])
    sketches = [protocol.sketch_of(arguments[3]) for arguments in batch]
    answers = [protocol.EMPTY] * len(batch)
    if plan is not None:
        found = plans.commands.probe_many(
            plan.detector, values, sketches, plan.recipe, plan.domain, plan.most
        )
        for i, near in found.items():
            answers[i] = protocol.neighbours(near)
    return answers


def _probe(session: Session, arguments: list[bytes]) -> bytes:
    return probe(session.plans, arguments)


def _mprobe(session: Session, arguments: list[bytes]) -> bytes | Later:
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
    commands, recipe = session.commands, text(arguments[3], "recipe")
    detector = commands.detector(text(arguments[1], "namespace"), recipe, given.asked)
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
    page, domain = protocol.page(arguments[3:10])
    given, fields, token = protocol.reserve_options(arguments[10:])
    if fields:
        page = replace(page, **fields)
    verdict = session.commands.reserve(
        text(arguments[1], "namespace"),
        text(arguments[2], "key"),
        page,
        given.asked,
        replace(given.reserve, domain=domain, token=token),
    )
    nil = NIL[session.protocol_version]
    if verdict.status == "unique" and verdict.token is not None:  # the most frequent verdict
        nils = 5 + given.fields
        return protocol.UNIQUE % (
            2 + nils,
            len(verdict.token),
            verdict.token.encode(),
            nil * nils,
        )
    answer = [
        nil
        if field is None
        else integer(field)
        if isinstance(field, int)
        else protocol.real(field)
        if isinstance(field, float)
        else bulk(field.encode())
        for field in to_reply(verdict)
    ]
    if given.fields:
        match = verdict.match
        answer.append(nil if match is None else protocol.document(match.document))
    return protocol.array(answer)


def _token_arguments(arguments: list[bytes]) -> tuple[str, str, str]:
    namespace, key, token = arguments[1:4]
    return (
        text(namespace, "namespace"),
        text(key, "key"),
        text(token, "token"),
    )


def _insert_options(arguments: list[bytes]) -> tuple[bool, dict[str, Any]]:
    """Return whether an INSERT has PIN, and the fields of its document; defaults are left out."""
    if len(arguments) == 4:
        return False, {}
    pin, given, seen = False, {}, set()
    words = iter(arguments[4:])
    for word in words:
        name = word.upper()
        if name in seen or (name == b"UNPAID" and b"PAID" in seen):
            raise UsageError(f"{shown(word)} is given twice")
        seen.add(name)
        if name == b"PIN":
            pin = True
        elif name == b"UNPAID":
            seen.add(b"PAID")
            given["paid"] = False
        elif name in INSERT_WORDS:
            field, read = INSERT_WORDS[name]
            value = read(next(words, b""))
            if value != _INSERT_DEFAULTS[field]:
                given[field] = value
        else:
            names = " ".join(f"[{each.decode()} value]" for each in INSERT_WORDS)
            raise UsageError(f"DEDUP.INSERT ns key token [PIN | UNPAID] {names}")
    return pin, given


def _insert(session: Session, arguments: list[bytes]) -> bytes | Later:
    pin, given = _insert_options(arguments)
    done = session.commands.insert(*_token_arguments(arguments), pin=pin, given=given)
    return OK if done is None else Later(done, lambda _: OK)


def _release(session: Session, arguments: list[bytes]) -> bytes:
    return integer(session.commands.release(*_token_arguments(arguments)))


def _forget(session: Session, arguments: list[bytes]) -> bytes | Later:
    namespace, key = text(arguments[1], "namespace"), text(arguments[2], "key")
    done = session.commands.forget(namespace, key)
    if done is not False:
        audit(session.caller, "FORGET", namespace, key)
    return integer(done) if isinstance(done, bool) else Later(done, integer)


def _drop(session: Session, arguments: list[bytes]) -> Later:
    namespace = text(arguments[1], "namespace")
    is_there = session.commands.namespaces.get(namespace) is not None
    done = session.commands.drop(namespace)
    if is_there:
        audit(session.caller, "DROP", namespace)
    return Later(done, integer)


def _rules(session: Session, arguments: list[bytes]) -> Later:
    nil = NIL[session.protocol_version]
    content = arguments[2] if len(arguments) == 3 else None
    return Later(
        session.commands.rules(
            text(arguments[1], "namespace"), content, by_admin="admin" in session.roles
        ),
        lambda rules: nil if rules is None else bulk(rules),
        alone=True,
    )


def _crawl_arguments(arguments: list[bytes]) -> tuple[str, str]:
    # what is not ASCII, or too long, is refused as what it is
    return text(arguments[1], "namespace"), arguments[2][:64].decode("ascii", "replace")


def _join(session: Session, arguments: list[bytes]) -> bytes:
    memory = arguments[3][:64].decode("ascii", "replace")
    session.commands.requests().join(*_crawl_arguments(arguments), memory)
    return OK


def _seen(session: Session, arguments: list[bytes]) -> bytes:
    seen = session.commands.requests().seen(*_crawl_arguments(arguments), arguments[3:])
    return protocol.array(tuple(map(integer, seen)))


def _fetched(session: Session, arguments: list[bytes]) -> bytes:
    requests = session.commands.requests()
    return integer(requests.fetched(*_crawl_arguments(arguments), arguments[3:]))


def _left(session: Session, arguments: list[bytes]) -> bytes:
    own = b" ".join(arguments[3:]).lower()
    if own not in {b"", b"own first", b"own next"}:
        raise UsageError("DEDUP.LEFT ns crawl [OWN first|next]")
    records, waiting = session.commands.requests().left(
        *_crawl_arguments(arguments), own=own.removeprefix(b"own ").decode()
    )
    answer = [integer(waiting)]
    for digest, request in records:
        answer += (bulk(digest.hex().encode()), bulk(request))
    return protocol.array(answer)


def _leave(session: Session, arguments: list[bytes]) -> bytes:
    if arguments[3:] and arguments[3].upper() != b"FINISHED":
        raise UsageError("DEDUP.LEAVE ns crawl [FINISHED]")
    more = session.commands.requests().leave(
        *_crawl_arguments(arguments), finished=bool(arguments[3:])
    )
    return integer(more)


def _partitions(session: Session, _: list[bytes]) -> bytes:
    held, count = session.commands.partitions()
    return protocol.array((bulk(held.encode()), integer(count)))


def _dedup_info(session: Session, arguments: list[bytes]) -> bytes:
    commands = session.commands
    info = (
        commands.info()
        if len(arguments) == 1
        else commands.namespace_info(text(arguments[1], "namespace"))
    )
    lines = (f"{key}:{value}\r\n" for key, value in info.items())
    return bulk("".join(lines).encode())


def _command(_: Session, arguments: list[bytes]) -> bytes:
    if arguments[1:2] and arguments[1].upper() == b"COUNT":
        return integer(len(COMMANDS))
    return protocol.EMPTY  # DOCS, INFO: docs/protocol.md has them


_HANDLERS: dict[bytes, Command] = {
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
    b"DEDUP.JOIN": _join,
    b"DEDUP.SEEN": _seen,
    b"DEDUP.FETCHED": _fetched,
    b"DEDUP.LEFT": _left,
    b"DEDUP.LEAVE": _leave,
    b"COMMAND": _command,
    b"MULTI": multi,
    b"EXEC": lambda session, _: execute(session, run),
    b"DISCARD": discard,
    b"WATCH": watch,
    b"UNWATCH": unwatch,
    **GREETINGS,
}
assert _HANDLERS.keys() == COMMANDS.keys()
