"""DEDUP_SERVICE = "auto": the table service on this machine, if one answers when a crawl begins.

    connect -> HELLO (with the token, if it asks for one) -> DEDUP.PARTITIONS -> its URL, or none

Invariant: this is decided once, before the first page, within DEDUP_TIMEOUT_SECONDS, and logged.
Anything on this port but a table service that holds everything is not used.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

from dedup.scrapy.counts import logger

HOST, PORT = "127.0.0.1", 7700  # where `dedup serve` listens by default
VARIABLE = "DEDUP_TOKEN"  # in the environment: the token, as for `dedup serve`

Ask = Callable[..., Awaitable[Any]]


async def find_service(timeout_seconds: float) -> tuple[str, ...]:
    """Return the URL of the table service on this machine, none if none can be used."""
    place = f"redis://{HOST}:{PORT}"
    try:
        async with asyncio.timeout(timeout_seconds):
            trouble, token = await _greet(timeout_seconds)
    except ModuleNotFoundError as error:
        trouble = f"to use one run pip install 'crawl-dedup[client]' ({error})"
    except ConnectionRefusedError:
        logger.info("dedup: no table service listens at %s, a store is used", place)
        return ()
    except TimeoutError:
        trouble = f"no answer within {timeout_seconds:g} s"
    except Exception as error:
        trouble = str(error) or type(error).__name__
    if trouble:
        logger.warning("dedup: a store is used, not the table service %s: %s", place, trouble)
        return ()
    logger.info("dedup: the table service at %s is used, not a store", place)
    login = f":{quote(token, safe='')}@" if token else ""
    return (f"redis://{login}{HOST}:{PORT}",)


async def _greet(timeout_seconds: float) -> tuple[str, str]:
    """Return what is wrong with the listener, or "", and the token that it accepted, or ""."""
    from dedup.wire.client.command_codec import PARTITIONS, holding_of
    from dedup.wire.client.services import Connection, ReplyError
    from dedup.wire.resp import pack

    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Connection(timeout_seconds, nullcontext()), HOST, PORT
    )

    def ask(*words: bytes | str | int) -> Awaitable[Any]:
        return connection.send(pack(words))

    try:
        facts, token = await _hello(ask)
        if b"dedup" not in facts:
            return "what listens there is not a table service", ""
        try:
            holding = holding_of(await ask(*PARTITIONS))
        except ReplyError as answer:
            return ("", token) if "NOTREADY" in str(answer) else (f"it answers {answer}", "")
        return (f"it holds {holding} only" if holding.share else ""), token
    except ReplyError as answer:
        return f"it answers {answer}; its token is read from the environment, {VARIABLE}", ""
    finally:
        connection.close()


async def _hello(ask: Ask) -> tuple[Any, str]:
    """Return a service's answer to HELLO, and the token that it wanted, or "". Raises ReplyError."""
    from dedup.wire.client.services import ReplyError

    token = os.environ.get(VARIABLE, "")
    try:
        return await ask(b"HELLO", b"2"), ""
    except ReplyError as answer:
        if not token or not str(answer).startswith("NOAUTH"):
            raise
    return await ask(b"HELLO", b"2", b"AUTH", b"default", token.encode()), token
