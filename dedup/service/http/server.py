"""The HTTP port: JSON for clients without a Redis library, health, metrics, and a page that draws them.

    request -> guard.py -> endpoint -> decoded (bodies.py) -> commands -> JSON

Invariant: the types in bodies.py say what requests and answers look like.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from dedup.model.errors import DedupError
from dedup.model.events import event_of
from dedup.service.core.access import Caller, Tokens, audit
from dedup.service.core.config import Limits
from dedup.service.core.operations import Operations
from dedup.service.core.refusal import Refused, code
from dedup.service.core.turns import in_slices
from dedup.service.http import bodies, judge
from dedup.service.http.bodies import openapi
from dedup.service.http.guard import PAGE, Guard, HttpConnections
from dedup.service.http.judge import HTML_TYPES, JudgeAnswer, JudgeRequest, PageJudge
from dedup.service.metrics import ServiceMetrics
from dedup.store.transfer import encode_line

STATUS = {
    "NOAUTH": 401,
    "RECIPE": 409,
    "DISTANCE": 409,
    "LIMIT": 413,
    "NOTREADY": 503,
    "STORE": 503,
    "NOTOKEN": 409,
    "ERR": 400,
}
DECODED_FACTOR = 8  # how much more a body may take once it is decoded: a list of short texts
EXPORTED = 500  # documents of one answer
PART = 25  # documents that are read before others may have their turn
EXPORTED_BYTES = 1 << 20  # of their lines, from which on no more follow


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


async def _failure(_: Request, error: Exception) -> Response:
    """Answer a request that was refused, or that a store could not carry out."""
    return _json(bodies.Failed(bodies.fault(error)), STATUS.get(code(error), 400))


def _missing(what: str) -> Response:
    return _json(bodies.Failed(bodies.Fault("ERR", f"there is no such {what}")), 404)


def _no_namespace(name: str) -> Response:
    return _missing(f"namespace {name[:64]!r}")


def _done(result: Any) -> bodies.Done:
    """Encode the result of a command: None, a bool, an exception, or a future of one of them."""
    if isinstance(result, asyncio.Future):
        result = result.exception() or result.result()
    if isinstance(result, Exception):
        return bodies.Done(done=False, error=bodies.fault(result))
    return bodies.Done(done=result is None or bool(result))


class _Endpoints:
    """The endpoints, each a function of a request."""

    def __init__(
        self,
        commands: Operations,
        metrics: ServiceMetrics,
        health: Callable[[], bodies.Health],
    ) -> None:
        self._commands = commands
        self._metrics = metrics
        self._health = health
        self._readers = ThreadPoolExecutor(judge.READERS, "dedup-read")
        self._judge = PageJudge(commands, self._readers)
        described = openapi(commands.version, (JudgeRequest, JudgeAnswer), HTML_TYPES)
        self._openapi = msgspec.json.encode(described)

    def post(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a command: decode, carry out, encode."""
        decoder, row = map(msgspec.json.Decoder, bodies.ROWS[name])
        carry_out = getattr(self, f"_{name}")

        async def endpoint(request: Request) -> Response:
            body = await request.body()
            try:
                if len(body) > judge.LARGE_BYTES:
                    await request.state.hold(DECODED_FACTOR * len(body))
                    loop = asyncio.get_running_loop()
                    asked = await loop.run_in_executor(self._readers, decoder.decode, body)
                else:
                    asked = decoder.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise Refused("ERR", str(error)) from None
            do = partial(carry_out, request.state.caller, asked.ns)
            return _json(await self._each(asked.rows, row, do))

        return endpoint

    async def judge(self, request: Request) -> Response:
        """Judge the pages of a request."""
        body = await request.body()
        answer = await self._judge.answer(
            request.headers, request.query_params, body, request.state.hold
        )
        return _json(answer)

    def _insert(self, _: Caller, ns: str, held: Any) -> Any:
        return self._commands.insert(ns, held.key, held.token, bodies.given(held))

    def _release(self, _: Caller, ns: str, held: Any) -> Any:
        return self._commands.release(ns, held.key, held.token)

    def _forget(self, caller: Caller, ns: str, key: str) -> Any:
        done = self._commands.forget(ns, key)
        if done is not False:
            audit(caller, "FORGET", ns, key)
        return done

    async def _each(
        self, rows: Iterable[Any], decoder: Any, do: Callable[[Any], Any]
    ) -> bodies.DoneAnswer:
        """Carry out a command for each row, in order; then wait for those that take time."""
        self._commands.check_ready()
        results: list[Any] = []
        async for row in in_slices(rows, self._commands.turns):
            try:
                results.append(do(decoder.decode(row)))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                results.append(Refused("ERR", str(error)))
            except Exception as error:  # noqa: BLE001 - becomes the answer, with its code
                results.append(error)
        coming = [result for result in results if isinstance(result, asyncio.Future)]
        if coming:
            await asyncio.wait(coming)
        return bodies.DoneAnswer([_done(result) for result in results])

    def get(self, get: bodies.Get) -> Callable[[Request], Awaitable[Response]]:
        """Return the GET handler of a path: the method of that name."""
        name = get.path.rpartition("/")[2].partition(".")[0] or "page"
        handler: Callable[[Request], Awaitable[Response]] = getattr(self, name)
        return handler

    async def documents(self, request: Request) -> Response:
        """Answer with a stored document."""
        query = judge.once(request.query_params)
        if not {"ns", "key"} <= query.keys():
            raise Refused("ERR", "the query is ns=NAMESPACE and key=KEY")
        found = self._commands.document(query["ns"], query["key"])
        if self._commands.namespaces.get(query["ns"]) is None:
            return _no_namespace(query["ns"])
        return _missing("document") if found is None else _json(event_of(query["ns"], found))

    async def export(self, request: Request) -> Response:
        """Answer with documents as lines, from an id on; a header says where the next ones begin."""
        query = judge.once(request.query_params)
        namespace = query.get("ns")
        if namespace is None:
            raise Refused("ERR", "the query is ns=NAMESPACE and from=ID, from 0 on")
        lines, first, after = bytearray(), _first(query), None
        async for _ in in_slices(range(EXPORTED // PART), self._commands.turns):
            found = self._commands.documents_from(namespace, first, PART)
            if found is None:
                return _no_namespace(namespace)
            for last, document in found:
                lines += encode_line(namespace, document)
                first = after = last + 1
                if len(lines) > EXPORTED_BYTES:
                    break
            if len(found) < PART or len(lines) > EXPORTED_BYTES:
                break
        audit(request.state.caller, "EXPORT", namespace)
        answer = Response(bytes(lines), media_type="application/x-ndjson")
        if after is not None:
            answer.headers["x-dedup-next"] = str(after)
        return answer

    async def livez(self, _: Request) -> Response:
        """Say that the process works."""
        return _json(bodies.Health("ok"))

    async def readyz(self, _: Request) -> Response:
        """Say whether pages are answered for."""
        health = self._health()
        return _json(health, 503 if health.status == "not_ready" else 200)

    async def metrics(self, _: Request) -> Response:
        """Answer with the metrics."""
        return Response(self._metrics.text(), media_type=self._metrics.media_type)

    async def openapi(self, _: Request) -> Response:
        """Answer with the OpenAPI description."""
        return Response(self._openapi, media_type="application/json")

    async def page(self, _: Request) -> Response:
        """Answer with the page that draws the metrics."""
        return Response(PAGE, media_type="text/html")


def _first(query: Mapping[str, str]) -> int:
    """Return the id that a query asks to go on from. Raises Refused."""
    first = query.get("from", "0")
    if not (first.isascii() and first.isdigit() and len(first) < 19):
        raise Refused("ERR", "from=ID is a number, from 0 on")
    return int(first)


def _no_answer(request: Request, error: Exception) -> Response:
    """Answer a request for an unknown path or method, or one that failed by an internal error."""
    if not isinstance(error, HTTPException):
        return _json(bodies.Failed(bodies.Fault("ERR", "internal error, see the log")), 500)
    text = f"there is no {request.method} {request.url.path}: /openapi.json describes what there is"
    answer = _json(bodies.Failed(bodies.Fault("ERR", text)), error.status_code)
    answer.headers.update(error.headers or {})  # Allow
    return answer


def made_app(
    commands: Operations,
    metrics: ServiceMetrics,
    health: Callable[[], bodies.Health],
    tokens: Tokens,
    hosts: Iterable[str],
    limits: Limits,
    port: HttpConnections,
) -> ASGIApp:
    """Return the port as an ASGI application. hosts are the names that clients may call it by."""
    do = _Endpoints(commands, metrics, health)
    routes = [Route(f"/v1/{name}", do.post(name), methods=["POST"]) for name in bodies.ENDPOINTS]
    routes.append(Route(judge.PATH, do.judge, methods=["POST"]))
    routes += [Route(get.path, do.get(get)) for get in bodies.GETS]
    answers: dict[Any, Any] = dict.fromkeys((DedupError, OSError), _failure)
    answers |= dict.fromkeys((HTTPException, 500), _no_answer)
    app = Starlette(routes=routes, exception_handlers=answers)
    return Guard(app, tokens, hosts, limits, port)
