"""The commands DEDUP.*, each read, carried out and answered; what a session asks is carried out here.

    run -> its role and the number of its arguments are right -> MULTI queues it | its handler: Operations -> bytes | Later

Invariants: until the client has shown the token, only commands with `greeting` are answered. Nothing is carried out
before EXEC, and nothing at all where a command was refused when it was queued. Between the commands of a long queue
other clients have their turn: the order is promised, not isolation, so there is no WATCH.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from dedup.model.errors import UsageError
from dedup.model.events import encode_value
from dedup.model.forms import FIELD_BYTES, decode_page, to_reply
from dedup.model.page import ITEMS_BYTES, Document, Neighbour, ReserveOptions
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
    NO_FIELDS,
    PROBES,
    LateFields,
    probe_in_slices,
)
from dedup.service.core.refusal import Refused, code, message
from dedup.service.core.turns import in_slices
from dedup.service.resp.plans import Plans, split_token, text
from dedup.service.resp.session import OF_SESSION, Command, Later, RespSession, info_lines
from dedup.wire import resp
from dedup.wire.resp import NIL, OK, array, bulk, integer, real

SHORT = 64  # bytes that a namespace and a token may have
SHORT_BYTES = 256  # an answer up to here is given even where those before it were too long
_ENCODED: dict[type, Callable[[Any], bytes]] = {
    str: lambda text: bulk(text.encode()),
    int: integer,
    float: real,
}
_is_hex = re.compile(rb"(?:[0-9a-f]{2})*").fullmatch
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


def whole_neighbours(namespace: str, found: Sequence[Neighbour]) -> bytes:
    """Return neighbours as an array of [key, distance, similarity, identity, document]."""
    return array(
        [
            array(
                [
                    bulk(n.document.key.encode()),
                    integer(n.distance),
                    real(n.similarity),
                    bulk(n.identity.encode()),
                    bulk(encode_value(namespace, n.document)),
                ]
            )
            for n in found
        ]
    )


# ------------------------------------------------------------------------------------- the work


def probe(plans: Plans, arguments: list[bytes]) -> bytes:
    """Carry out one DEDUP.PROBE."""
    asked = decode_page(arguments[2])
    plan = plans.of(PROBE, arguments[1], asked.page.recipe, arguments[3:])
    found = plans.commands.probe(plan.detector, asked)
    if not found:
        return resp.EMPTY
    some = found[: plan.given.count]
    answer = whole_neighbours(plan.namespace, some) if plan.given.fields else neighbours(some)
    plans.commands.check_answer(len(answer))
    return answer


def probes(plans: Plans, batch: list[list[bytes]]) -> list[bytes]:
    """Carry out DEDUP.PROBE commands that differ only in their page."""
    pages = [decode_page(arguments[2]) for arguments in batch]
    plan = plans.of(PROBE, batch[0][1], same_recipe_of(pages), batch[0][3:])
    if plan.given.fields:
        return [probe(plans, arguments) for arguments in batch]
    return of_batch(plans.commands.probe_many(plan.detector, pages, plan.given.count), len(batch))


def same_recipe_of(pages: Sequence[Document]) -> str:
    """Return the recipe of pages that are probed together."""
    recipe = pages[0].page.recipe
    if any(each.page.recipe != recipe for each in pages):
        raise UsageError("pages that are probed together have one recipe")
    return recipe


def _mprobe(session: RespSession, arguments: list[bytes]) -> bytes | Later:
    at = next((i for i in range(2, len(arguments), 2) if arguments[i].upper() == b"PAGES"), None)
    if at is None or not (words := arguments[at + 1 :]):
        raise wrong_usage(MPROBE)
    commands = session.commands
    first = decode_page(words[0]).page.recipe
    plan = session.plans.of(MPROBE, arguments[1], first, arguments[2:at])

    def read(some: Sequence[bytes]) -> list[Document]:
        pages = list(map(decode_page, some))
        if same_recipe_of(pages) != first:
            raise UsageError("pages that are probed together have one recipe")
        return pages

    def encoded(found: dict[int, list[Neighbour]]) -> bytes:
        return array(of_batch(found, len(words)))

    if len(words) > PROBES:
        work = probe_in_slices(commands, plan.detector, words, read, plan.given.count)
        return Later(asyncio.ensure_future(work), encoded, alone=True)
    return encoded(commands.probe_many(plan.detector, read(words), plan.given.count))


def _reserve(session: RespSession, arguments: list[bytes]) -> bytes:
    asked = decode_page(arguments[3])
    words, token = split_token(arguments[4:])
    page = asked.page
    plan = session.plans.of(RESERVE, arguments[1], page.recipe, words)
    key, given, detector = text(arguments[2], "key"), plan.given, plan.detector
    if given.least:
        page = replace(page, least=given.least)
    options = ReserveOptions(
        None, asked.domain, given.exempt, given.guard, asked.kind, token, given.seconds
    )
    if detector is None or not key:
        verdict = session.commands.reserve(plan.namespace, key, page, given.policy, options)
    else:
        verdict = session.commands.judge(detector, page, key, options)
    nil = NIL[session.protocol_version]
    if verdict.status == "unique" and verdict.token is not None:  # the most frequent verdict
        nils = 5 + given.fields
        return UNIQUE % (2 + nils, len(verdict.token), verdict.token.encode(), nil * nils)
    answer = [nil if field is None else _ENCODED[type(field)](field) for field in to_reply(verdict)]
    if given.fields:
        match = verdict.match
        answer.append(nil if match is None else bulk(encode_value(plan.namespace, match.document)))
    return array(answer)


def _token_arguments(arguments: list[bytes]) -> tuple[str, str, str]:
    namespace, key, token = arguments[1:4]
    if len(namespace) <= SHORT and len(key) <= FIELD_BYTES["key"] and len(token) <= SHORT:
        try:
            return namespace.decode(), key.decode(), token.decode()
        except UnicodeDecodeError:
            pass  # text() says which
    return text(namespace, "namespace"), text(key, "key"), text(token, "token")


def _insert_options(arguments: list[bytes]) -> LateFields:
    """Return the fields of an INSERT's document; defaults are left out."""
    given: dict[str, Any] = {}
    value: Any
    for at in range(4, len(arguments), 2):
        name, word = arguments[at].upper(), b"".join(arguments[at + 1 : at + 2])
        if name == b"PAID" and word in {b"0", b"1"}:
            field, value = "paid", word == b"1"
        elif name == b"ITEMS" and 0 < len(word) <= 2 * ITEMS_BYTES and _is_hex(word):
            field, value = "items", bytes.fromhex(word.decode())
        else:
            raise wrong_usage(INSERT, f"{shown(arguments[at])} {shown(word)} is not allowed")
        if field in given:
            raise UsageError(f"{shown(arguments[at])} is given twice")
        given[field] = value
    if given.get("paid"):
        del given["paid"]
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
