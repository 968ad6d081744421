"""The commands DEDUP.*, each read, carried out and answered; what a session asks is carried out here.

    run -> its role and the number of its arguments are right -> MULTI queues it | its handler: Operations -> bytes | Later

Invariants: until the client has shown the token, only commands with `greeting` are answered. Nothing is carried out
before EXEC, and nothing at all where a command was refused when it was queued. Between the commands of a long queue
other clients have their turn: the order is promised, not isolation, so there is no WATCH.
"""

import asyncio
from binascii import Error as NotHex
from binascii import unhexlify
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from dedup.core.numbers import Packed, big_endian
from dedup.model.errors import UsageError
from dedup.model.forms import GIVEN_AT_INSERT, to_reply
from dedup.model.page import SKETCH_BYTES, Document, Neighbour, PageFingerprint
from dedup.model.words import INSERT_WORDS, hex_bytes, hex_number, read_page, text, write_document
from dedup.service.core.access import audit, check_role
from dedup.service.core.command_table import (
    COMMANDS,
    INSERT,
    MPROBE,
    PROBE,
    RESERVE,
    shown,
    wrong_usage,
)
from dedup.service.core.operations import (
    ANY_FEATURES,
    NO_FIELDS,
    PROBES,
    LateFields,
    probe_in_slices,
)
from dedup.service.core.refusal import Refused, code, message
from dedup.service.core.turns import in_slices
from dedup.service.resp.plans import Plans, options
from dedup.service.resp.session import OF_SESSION, Command, Later, RespSession, info_lines
from dedup.wire import resp
from dedup.wire.resp import NIL, OK, array, bulk, integer, real

_INSERT_DEFAULTS = {field.name: field.default for field in GIVEN_AT_INSERT}
SHORT_BYTES = 256  # an answer up to here is given even where those before it were too long
_ENCODED: dict[type, Callable[[Any], bytes]] = {
    str: lambda text: bulk(text.encode()),
    int: integer,
    float: real,
}
UNIQUE = b"*%d\r\n$6\r\nunique\r\n$%d\r\n%b\r\n%b"


def neighbours(found: Sequence[Neighbour]) -> bytes:
    """Return neighbours as an array of [key, distance, similarity]."""
    parts = [b"*%d\r\n" % len(found)]
    for n in found:
        key, similarity = n.key.encode(), b"%.4f" % n.similarity
        parts.append(
            b"*3\r\n$%d\r\n%b\r\n:%d\r\n$%d\r\n%b\r\n"
            % (len(key), key, n.distance, len(similarity), similarity)
        )
    return b"".join(parts)


def of_batch(found: Mapping[int, Sequence[Neighbour]], count: int) -> list[bytes]:
    """Return the answers to a batch of probes, of which those with neighbours are given by their place."""
    answers = [resp.EMPTY] * count
    for i, near in found.items():
        answers[i] = neighbours(near)
    return answers


def neighbours_with_identity(found: Sequence[Neighbour], *, fields: bool) -> bytes:
    """Return neighbours as an array of [key, distance, similarity, identity, domain].

    With fields it is [key, distance, similarity, identity, [name, value, ...]].
    """
    return array(
        [
            array(
                [
                    bulk(n.document.key.encode()),
                    integer(n.distance),
                    real(n.similarity),
                    bulk(n.identity.encode()),
                    document(n.document) if fields else bulk(n.document.domain.encode()),
                ]
            )
            for n in found
        ]
    )


def document(found: Document) -> bytes:
    """Return the fields of a document as an array of name, value, name, value and so on."""
    return array(
        [
            bulk(word if isinstance(word, bytes) else str(word).encode())
            for word in write_document(found)
        ]
    )


def sketch_of(argument: bytes) -> bytes:
    """Return a sketch, 74 hex digits."""
    return hex_bytes(argument, "sketch", SKETCH_BYTES, SKETCH_BYTES)


def fingerprints(arguments: Sequence[bytes]) -> Packed:
    """Return a batch of fingerprints."""
    joined = b"".join(arguments)
    if len(joined) == 16 * len(arguments) and set(map(len, arguments)) <= {16}:
        try:
            return big_endian(unhexlify(joined))
        except NotHex:
            pass
    return big_endian(b"".join(hex_bytes(each, "fingerprint", 8, 8) for each in arguments))


# ------------------------------------------------------------------------------------- the work


def probe(plans: Plans, arguments: list[bytes]) -> bytes:
    """Carry out one DEDUP.PROBE."""
    plan = plans.of(arguments)
    value = hex_number(arguments[2], "fingerprint")
    sketch = sketch_of(arguments[3])
    given, page = plan.given, plan.given.page
    probed = PageFingerprint(value, sketch, 0, ANY_FEATURES, plan.recipe)
    found = plans.commands.probe(
        plan.detector, replace(probed, **page) if page else probed, given.domain
    )
    if not found:
        return resp.EMPTY
    some = found if given.count is None else found[: given.count]
    if given.fields or "identity" in page:
        answer = neighbours_with_identity(some, fields=given.fields)
    else:
        answer = neighbours(some)
    plans.commands.check_answer(len(answer))
    return answer


def probes(plans: Plans, batch: list[list[bytes]]) -> list[bytes]:
    """Carry out DEDUP.PROBE commands that differ only in value and sketch."""
    plan = plans.of(batch[0])
    if plan.given.page or plan.given.fields:
        return [probe(plans, arguments) for arguments in batch]
    values = fingerprints([arguments[2] for arguments in batch])
    sketches = [sketch_of(arguments[3]) for arguments in batch]
    found = plans.commands.probe_many(
        plan.detector, values, sketches, plan.recipe, plan.given.domain, plan.given.count
    )
    return of_batch(found, len(batch))


def _mprobe(session: RespSession, arguments: list[bytes]) -> bytes | Later:
    head = [word.upper() for word in arguments[4:11]]
    if arguments[2].upper() != b"RECIPE" or b"VALUES" not in head:
        raise wrong_usage(MPROBE)
    first = 4 + head.index(b"VALUES")
    given = options(MPROBE, arguments[4:first])
    pairs = arguments[first + 1 :]
    if len(pairs) % 2:
        raise wrong_usage(MPROBE, "after VALUES come pairs of value and sketch")
    commands, recipe = session.commands, text(arguments[3], "recipe")
    detector = commands.detector(text(arguments[1], "namespace"), recipe, given.asked)
    values = fingerprints(pairs[::2])
    sketches = [sketch_of(sketch) for sketch in pairs[1::2]]

    def encoded(found: dict[int, list[Neighbour]]) -> bytes:
        return array(of_batch(found, len(values)))

    if len(values) > PROBES:
        work = probe_in_slices(commands, detector, values, sketches, recipe, given.count)
        return Later(asyncio.ensure_future(work), encoded, alone=True)
    return encoded(commands.probe_many(detector, values, sketches, recipe, None, given.count))


def _reserve(session: RespSession, arguments: list[bytes]) -> bytes:
    plan, fields, token = session.plans.of_page(arguments)
    namespace, detector, given = plan.namespace, plan.detector, plan.given
    page = read_page(arguments[3:7], plan.recipe)
    if fields:
        page = replace(page, **fields)
    key, domain = text(arguments[2], "key"), text(arguments[7], "domain")
    options = replace(given.reserve, domain=domain, token=token)
    if detector is None or not key:
        verdict = session.commands.reserve(namespace, key, page, given.asked, options)
    else:
        verdict = session.commands.judge(detector, page, key, options)
    nil = NIL[session.protocol_version]
    if verdict.status == "unique" and verdict.token is not None:  # the most frequent verdict
        nils = 5 + given.fields
        return UNIQUE % (2 + nils, len(verdict.token), verdict.token.encode(), nil * nils)
    answer = [nil if field is None else _ENCODED[type(field)](field) for field in to_reply(verdict)]
    if given.fields:
        match = verdict.match
        answer.append(nil if match is None else document(match.document))
    return array(answer)


def _token_arguments(arguments: list[bytes]) -> tuple[str, str, str]:
    namespace, key, token = arguments[1:4]
    return text(namespace, "namespace"), text(key, "key"), text(token, "token")


def _insert_options(arguments: list[bytes]) -> LateFields:
    """Return the fields of an INSERT's document; defaults are left out."""
    given, seen = {}, set()
    words = iter(arguments[4:])
    for word in words:
        name = word.upper()
        if name in seen:
            raise UsageError(f"{shown(word)} is given twice")
        seen.add(name)
        if name in INSERT_WORDS:
            field, read = INSERT_WORDS[name]
            value = read(next(words, b""))
            if value != _INSERT_DEFAULTS[field]:
                given[field] = value
        else:
            raise wrong_usage(INSERT, f"unknown option {shown(word)}")
    return given


def _insert(session: RespSession, arguments: list[bytes]) -> bytes | Later:
    given = NO_FIELDS if len(arguments) == 4 else _insert_options(arguments)
    done = session.commands.insert(*_token_arguments(arguments), given)
    return OK if done is None else Later(done, lambda _: OK)


def _forget(session: RespSession, arguments: list[bytes]) -> bytes | Later:
    namespace, key = text(arguments[1], "namespace"), text(arguments[2], "key")
    done = session.commands.forget(namespace, key)
    if done is not False:
        audit(session.caller, "FORGET", namespace, key)
    return integer(done) if isinstance(done, bool) else Later(done, integer)


def _drop(session: RespSession, arguments: list[bytes]) -> Later:
    namespace = text(arguments[1], "namespace")
    is_there = session.commands.namespaces.get(namespace) is not None
    done = session.commands.drop(namespace)
    if is_there:
        audit(session.caller, "DROP", namespace)
    return Later(done, integer, alone=True)


def _dedup_info(session: RespSession, arguments: list[bytes]) -> bytes:
    commands = session.commands
    if len(arguments) == 1:
        return info_lines(commands.info())
    return info_lines(commands.namespace_info(text(arguments[1], "namespace")))


# ------------------------------------------------------------------------------------ dispatch


def run(session: RespSession, arguments: list[bytes]) -> tuple[bytes, bytes | Later]:
    """Carry out a command; return its name and its answer. Raises what the command raises."""
    name = arguments[0]
    command = COMMANDS.get(name)
    if command is None:
        command = COMMANDS.get(name := name.upper())
    if not session.trusted and (command is None or not command.greeting):
        raise Refused("NOAUTH", "authenticate first: AUTH default <token>")
    if command is None:
        raise UsageError(f"unknown command {shown(arguments[0])}; see docs/reference/protocol.md")
    if command.role and command.role not in session.roles:
        check_role(name.decode(), command.role, session.roles)
    count = len(arguments)
    if count < command.least or (command.most is not None and count > command.most):
        raise wrong_usage(name, f"wrong number of arguments for {shown(arguments[0])}")
    if session.queued is not None and command.queued:
        return name, session.queue(arguments)
    return name, _HANDLERS[name](session, arguments)


def run_together(session: RespSession, batch: list[list[bytes]]) -> bytes:
    """Carry out commands that can be batched (RespSession.can_batch) at once; return their answers.

    Raises what one of them raises: then each is to be carried out by itself.
    """
    if batch[0][0] == PROBE:
        answers = b"".join(probes(session.plans, batch))
        session.commands.check_answer(len(answers))  # too much at once: one by one, with pauses
        return answers
    pages = []
    for command in batch:
        given = NO_FIELDS if len(command) == 4 else _insert_options(command)
        pages.append((text(command[2], "key"), text(command[3], "token"), given))
    session.commands.insert_many(text(batch[0][1], "namespace"), pages)
    return OK * len(batch)


def execute(session: RespSession, _: list[bytes]) -> bytes | Later:
    """Carry out what is queued."""
    spoilt = session.spoilt
    queued = session.take_queue("EXEC")
    if spoilt:
        session.queued_memory = 0
        raise Refused("EXECABORT", "Transaction discarded because of previous errors.")
    if not queued:
        return resp.EMPTY
    return Later(asyncio.ensure_future(_answers(session, queued)), array, alone=True)


async def _answers(session: RespSession, queued: list[list[bytes]]) -> list[bytes]:
    """Return the answers of commands, each once its turn has come."""
    answers: list[bytes] = []
    size = 0
    async for arguments in in_slices(queued, session.commands.turns):
        try:
            answer = run(session, arguments)[1]
            if not isinstance(answer, bytes):
                answer = answer.encode(await answer.future)
            if len(answer) > SHORT_BYTES:
                session.commands.check_answer(size + len(answer))
        except Exception as fault:  # noqa: BLE001 - becomes the answer of the command at fault
            answer = resp.error(code(fault), message(fault))
        answers.append(answer)
        size += len(answer)
    session.queued_memory = 0  # until now they are held
    return answers


_HANDLERS: dict[bytes, Command] = {
    **OF_SESSION,
    PROBE: lambda session, arguments: probe(session.plans, arguments),
    MPROBE: _mprobe,
    RESERVE: _reserve,
    INSERT: _insert,
    b"DEDUP.RELEASE": lambda session, arguments: integer(
        session.commands.release(*_token_arguments(arguments))
    ),
    b"DEDUP.FORGET": _forget,
    b"DEDUP.DROP": _drop,
    b"DEDUP.INFO": _dedup_info,
    b"EXEC": execute,
}
assert _HANDLERS.keys() == COMMANDS.keys()
