"""docs/reference/protocol.md is true: its examples are run, in its order, against a real service."""

from __future__ import annotations

import http.client
import inspect
import json
import re
from pathlib import Path

import pytest
import redis
from documents import blocks
from services import Serving

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "protocol.md"


def examples() -> list[tuple[int, str, str]]:
    """The (line, command, answer) of the page's text blocks."""
    found = []
    for block in blocks(PAGE):
        lines = block.text.splitlines()
        for i, line in enumerate(lines):
            if block.language == "text" and line.startswith("> "):
                found.append((block.line + i, line[2:], lines[i + 1]))
    return found


class Reader:
    """Somebody who types the commands, and writes TOKEN for the token last answered."""

    def __init__(self, service: Serving, client: redis.Redis) -> None:
        self.service = service
        self.client = client
        self.token = ""

    def answer(self, command: str) -> str:
        """Return an answer as the page has it."""
        command = command.replace("TOKEN", self.token)
        method, _, rest = command.partition(" ")
        if method in {"GET", "POST"}:
            path, _, body = rest.partition(" ")
            answer = self.http(method, path, body)
        else:
            try:
                answer = self.client.execute_command(*command.split())
            except redis.ResponseError as error:
                text = str(error)
                return "-" + (
                    text.split(maxsplit=1)[0] if text.split(maxsplit=1)[0].isupper() else "ERR"
                )
        text = json.dumps(answer)
        if found := re.search(r'"(_[0-9a-f]{32})"', text):
            self.token = found[1]
        return text.replace(f'"{self.token}"', '"TOKEN"') if self.token else text

    def http(self, method: str, path: str, body: str) -> object:
        connection = http.client.HTTPConnection("127.0.0.1", self.service.http_port, timeout=120)
        try:
            headers = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path, body.encode() or None, headers)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@pytest.mark.parametrize("protocol", [2, 3])
def test_every_example_of_the_protocol_is_answered_as_it_says(tmp_path, protocol):
    """Each command of the page gets the answer that stands below it, in both versions of RESP."""
    found = examples()
    assert len(found) > 30
    with (
        Serving(tmp_path) as service,
        service.client(protocol=protocol, decode_responses=True) as client,
    ):
        reader = Reader(service, client)
        for line, command, answer in found:
            got = reader.answer(command)
            if command == "PING":
                got = got.replace("true", '"PONG"')
            if got in {"true", "false"} and answer == '"OK"':
                got = '"OK"'
            assert got == answer, f"line {line}: {command}"
        told = client.execute_command("DEDUP.INFO").splitlines()
        namespaces = [line for line in told if line.startswith("namespace_")]
        name = namespaces[0].partition(":")[0].removeprefix("namespace_")
        told += client.execute_command("DEDUP.INFO", name).splitlines()
    text = PAGE.read_text(encoding="utf-8").partition("### INFO")[2].partition("\n### ")[0]
    for key in {line.partition(":")[0] for line in told if line not in namespaces}:
        assert f"`{key}`" in text, key


def test_every_command_and_error_is_in_the_document():
    """The page names every command that the service knows, and every code that it answers."""
    from dedup.service.core.command_table import COMMANDS
    from dedup.service.http.server import STATUS
    from dedup.service.replica import Replica

    text = PAGE.read_text(encoding="utf-8")
    forms = " ".join(text.split())
    for name, command in COMMANDS.items():
        assert re.search(rf"\b{re.escape(name.decode())}\b", text), name
        if name.startswith(b"DEDUP."):
            assert command.usage in forms, name
    for code in STATUS:
        assert f"`{code}`" in text, code
    for key in re.findall(r'"(log_\w+)":', inspect.getsource(Replica.info)):
        assert f"`{key}`" in text, key


def test_the_bounds_are_those_of_the_service():
    """The figures under Bounds are the defaults of the limits."""
    from dedup.service.core.config import Limits

    bounds, text = Limits(), PAGE.read_text(encoding="utf-8")
    text = text.partition("### Bounds")[2].partition("## HTTP")[0]
    assert bounds.command_bytes == 1 << 20
    assert "1 MiB" in text
    for figure in (
        f"batch {bounds.neighbours:,}",
        f"{bounds.command_seconds:g} seconds to be whole",
        f"{bounds.unread_seconds:g} seconds to be read",
        f"{bounds.idle_seconds:g} seconds between",
        f"{bounds.greeting_seconds:g} until",
        f"{bounds.connections} connections",
    ):
        assert figure in text, figure
