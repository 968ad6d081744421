"""What docs/use/other-crawlers.md lets Redpanda Connect send is what the service understands."""

import json
import re
from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from documents import blocks

PAGE = Path(__file__).parents[2] / "docs" / "use" / "other-crawlers.md"
STORY = "<title>Bridge</title><p>" + " ".join(f"word{n}" for n in range(80))


def processors(part):
    """Every `redis` processor of a configuration, in its order."""
    if isinstance(part, dict):
        for name, inner in part.items():
            yield from [inner] if name == "redis" else processors(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from processors(inner)


@pytest.fixture(scope="module")
def shown():
    """The page's function that makes a message, and its three commands."""
    code = {block.language: block.text for block in blocks(PAGE) if block.language != "sh"}
    names = {}
    exec(code["python"], names)
    configuration = yaml.safe_load(code["yaml"])
    assert configuration["output"]["broker"]["pattern"] == "fan_out_sequential"
    return names["message"], list(processors(configuration))


def send(client, processor, message):
    """Send what the processor would: its args_mapping is an array of texts and of fields."""
    inner = re.fullmatch(r"root = \[ (.*) \]", processor["args_mapping"])[1]
    arguments = []
    for part in re.findall(r"\{.*?\}\.string\(\)|[^{},]+", inner):
        part = part.strip()
        if part.startswith("{"):
            names = re.findall(r'"(\w+)": this\.(\w+)', part)
            arguments.append(json.dumps({name: message[field] for name, field in names}))
        elif not part:
            continue
        elif part.startswith('"'):
            arguments.append(part.strip('"'))
        else:
            value = message
            for name in part.removeprefix("this.").split("."):
                value = value[name]
            arguments.append(value)
    return client.execute_command(processor["command"], *arguments)


def test_redpanda_connect(client, shown):
    """A page is kept until it is inserted, however often it is delivered; then its copy is dropped."""
    made, (reserve, reserve_in_flight, insert) = shown

    def message(url, more=""):
        return made(STORY + more, url) | {"dedup": {"token": str(uuid4())}}

    page = message("http://example.com/a")
    assert send(client, reserve, page)[:2] == ["unique", page["dedup"]["token"]]
    assert send(client, reserve, page)[0] == "unique"  # the same again: its answer was lost
    copy = message("http://example.com/b", "<footer>Seen 17 times</footer>")
    assert send(client, reserve, copy)[0] == "pending"
    kept = send(client, reserve_in_flight, copy)
    assert (kept[0], kept[1], kept[5]) == ("exempt", copy["dedup"]["token"], "in_flight")
    again = message("http://example.com/a")  # delivered again before it was inserted
    assert send(client, reserve, again)[0] == "refetch"
    assert send(client, insert, page) == "OK"
    late = message("http://example.com/c")
    assert send(client, reserve, late)[:3] == ["near_duplicate", None, "http://example.com/a"]
    assert send(client, reserve, message("http://example.com/a"))[0] == "refetch"
