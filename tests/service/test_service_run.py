"""Starting and ending the table service: tokens, TLS, kill -9, SIGTERM, its log."""

import json

import pytest
import redis
from command_line import call
from commands import TOKEN, insert, spread
from services import Serving

import dedup


@pytest.mark.parametrize("option", ["--listen", "--http"])
def test_it_does_not_start_beyond_loopback_without_a_token(tmp_path, option):
    """Any address but loopback's needs DEDUP_TOKEN; the error says so."""
    done = call("serve", "--path", tmp_path, option, "0.0.0.0:0")
    assert (done.exit_code, "DEDUP_TOKEN" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "advised"),
    [
        (["--listen", "127.0.0.1:99999"], "a port is a number from 0 to 65535"),
        (["--port", "7700"], "Did you mean --listen HOST:PORT?"),
        (["--path", "{folder}/d"], "give the folder above it"),
        (["--path", "{folder}/d/documents.mdb/x"], "give a folder that this user may write to"),
    ],
)
def test_a_start_that_cannot_be_says_what_to_give(tmp_path, options, advised):
    """Before a line says that it listens."""
    with dedup.open(tmp_path, namespace="d"):
        pass
    given = [each.format(folder=tmp_path) for each in options]
    done = call("serve", "--path", tmp_path, *given)
    assert done.exit_code == 2
    assert advised in done.stderr
    assert "listening" not in done.stdout


def test_sigterm_answers_what_was_asked_and_writes_snapshots(tmp_path):
    """The commands that came before SIGTERM are answered, stores closed, the exit status is 0."""
    with Serving(tmp_path) as service, service.client() as client:
        for i in range(1000):  # as many as an index is written for
            insert(client, "d", f"k{i}", value=spread(i))
        with service.connect() as plain:
            plain.sendall(b"*1\r\n$4\r\nPING\r\n")
            assert plain.recv(100) == b"+PONG\r\n"
            assert service.stop() == 0
            assert plain.recv(100) == b""
    assert (tmp_path / "d" / "keys" / "manifest.json").exists()
    assert any("stopped" in line for line in service.log)


def test_the_log_is_an_object_a_line(tmp_path):
    """With --log json every line parses, has time, level and message, and names no key or token."""
    with Serving(tmp_path, token=TOKEN) as service:
        with service.client(password=TOKEN) as client:
            insert(client, "d", "http://secret.example/path")
            with pytest.raises(redis.ResponseError):
                client.execute_command("DEDUP.PROBE", "d", "http://secret.example/path")
        with service.connect() as plain:
            plain.sendall(b"garbage http://secret.example/path\r\n")
            plain.recv(1000)
    lines = [json.loads(line) for line in service.log if line]
    assert len(lines) >= 3
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert "secret.example" not in "".join(service.log)
