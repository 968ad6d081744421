"""The table service on this machine, if one answers: DEDUP_SERVICE = "auto".

Decided once, before the first page of a crawl, within a timeout, and logged. Anything else on its port is not used.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

from dedup.wire.client.services import ReplyError, ServiceConnection
from dedup.wire.resp import pack

logger = logging.getLogger("dedup")

HOST, PORT = "127.0.0.1", 7700  # where `dedup serve` listens by default
VARIABLE = "DEDUP_TOKEN"  # in the environment: the token, as for `dedup serve`

Ask = Callable[..., Awaitable[Any]]


async def find_service(timeout_seconds: float) -> tuple[str, ...]:
    """Return the URL of the table service on this machine, none if none can be used."""
    place = f"redis://{HOST}:{PORT}"
    try:
        async with asyncio.timeout(timeout_seconds):
            trouble, token = await _greet(timeout_seconds)
    except ConnectionRefusedError:
        logger.info("[dedup] no table service listens at %s, a store is used", place)
        return ()
    except TimeoutError:
        trouble = f"no answer within {timeout_seconds:g} s"
    except Exception as error:  # noqa: BLE001 - the result, which the caller counts
        trouble = str(error) or type(error).__name__
    if trouble:
        logger.warning("[dedup] a store is used, not the table service %s: %s", place, trouble)
        return ()
    logger.info("[dedup] the table service at %s is used, not a store", place)
    login = f":{quote(token, safe='')}@" if token else ""
    return (f"redis://{login}{HOST}:{PORT}",)


async def _greet(timeout_seconds: float) -> tuple[str, str]:
    """Return what is wrong with the listener, or "", and the token that it accepted, or ""."""
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: ServiceConnection(timeout_seconds, nullcontext()), HOST, PORT
    )

    def ask(*words: bytes | str | int) -> Awaitable[Any]:
        return connection.send(pack(words))

    try:
        facts, token = await _hello(ask)
        if b"dedup" not in facts:
            return "what listens there is not a table service", ""
        return "", token
    except ReplyError as answer:
        return f"it answers {answer}; its token is read from the environment, {VARIABLE}", ""
    finally:
        connection.close()


async def _hello(ask: Ask) -> tuple[Any, str]:
    """Return a service's answer to HELLO, and the token that it wanted, or "". Raises ReplyError."""
    token = os.environ.get(VARIABLE, "")
    try:
        return await ask(b"HELLO", b"2"), ""
    except ReplyError as answer:
        if not token or not str(answer).startswith("NOAUTH"):
            raise
    return await ask(b"HELLO", b"2", b"AUTH", b"default", token.encode()), token
