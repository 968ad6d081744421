"""The command line: how commands are found, how errors end, and what a terminal shows."""

import json
import logging
import os
import re
import subprocess
import sys

import pytest
from command_line import WORDS, call, fill, run

from dedup.cli import _COMMANDS, _GROUPS, common_options, terminal
from dedup.report.drops import Drop, encode


@pytest.mark.parametrize("command", [(), ("scan",), ("store", "info")])
def test_help_is_a_command_too(command):
    """`dedup help COMMAND` is `dedup COMMAND --help`; an unknown command is refused as ever; a version is one line."""
    assert call("help", *command).stdout == call(*command, "--help").stdout
    assert call("help", *command).exit_code == 0
    assert call("help", "zzz").exit_code == 2
    assert re.fullmatch(r"dedup \d+\.\d+\.\d+\S*\n", call("--version").output)


def test_help_lists_every_command_and_imports_none():
    """`--help` shows each command in a group, with a line, and loads no command's module."""
    assert sorted(name for names in _GROUPS.values() for name in names) == sorted(_COMMANDS)
    code = "import sys; from dedup.cli import main; main(['--help'], standalone_mode=False); print([m for m in sys.modules if m.startswith(('dedup.cli.', 'dedup.demo', 'dedup.evaluate'))])"
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600
    )
    for name, (_, text) in _COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", result.stdout, re.MULTILINE)
    assert result.stdout.endswith("['dedup.cli.terminal']\n")


def test_an_unknown_command_gets_the_list():
    """A command that is not there is a usage error that names those that are."""
    result = call("fingerprints")
    assert result.exit_code == 2
    assert "did you mean 'fingerprint'? known are demo, fingerprint, " in result.stderr
    assert "No such command 'zzz'; known are demo, " in call("zzz").stderr
    assert "did you mean 'info'?" in call("store", "infoo").stderr
    assert "--output" in call("scan", "--ouput", "v.jsonl").stderr


def test_progress_is_for_a_terminal_only(tmp_path):
    """verify shows how far it is on a terminal, and clears the line; a pipe gets none of it."""
    fill(tmp_path, count=2)
    pty = pytest.importorskip("pty", reason="no pseudo-terminals here")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "dedup", "store", "verify", str(tmp_path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=slave, timeout=600)
    os.close(slave)
    seen = os.read(master, 10_000)
    os.close(master)
    assert b"of 2 (100 %" in seen
    assert seen.endswith(b"\r\x1b[K")
    assert run("store", "verify", tmp_path).stderr == b""


@pytest.mark.parametrize("columns", [48, 60, 80])
def test_a_table_fits_the_terminal_and_keeps_every_word(monkeypatch, columns):
    """Texts go on in further lines; only a path at the end, to be copied, may stick out."""
    path = "/a/rather/long/path/of/a/store/that/is/to/be/copied/from/the/terminal"
    rows = [
        ("some words that are many, " * 3, 12_345, "0123456789abcdef", "end"),
        ("few", 1, "0123456789abcdef", path),
    ]
    monkeypatch.setenv("COLUMNS", str(columns))
    text = terminal.table(("what it is", "how many", "value", "path"), rows)
    lines = text.splitlines()
    assert all(len(line) <= columns for line in lines if path not in line)
    assert text.split().count("0123456789abcdef") == 2
    assert text.split().count("words") == 3
    assert path in text
    monkeypatch.delenv("COLUMNS")
    assert len(terminal.table(("a",), [("x " * 200,)]).splitlines()) == 2  # in a pipe


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (MemoryError(), 1, "out of memory; "),
        (OSError(28, "No space left on device", "/x"), 1, "/x: No space left on device; free some"),
        (OSError("odd"), 1, "odd"),
        (BrokenPipeError(32, "Broken pipe", "somewhere"), 1, "somewhere: Broken pipe"),
        (
            ModuleNotFoundError("no", name="scrapy.http"),
            1,
            "scrapy.http is not installed; run: pip ",
        ),
        (KeyError("x"), 1, "internal error: KeyError: 'x'; please report it "),
    ],
)
def test_every_failure_is_one_line(monkeypatch, failure, code, message):
    """Whatever a command raises becomes a line on stderr and an exit code; --debug shows it all."""

    def fail(*_):
        raise failure

    monkeypatch.setattr("dedup.core.pairs.find_all", fail)
    monkeypatch.setattr(terminal, "reader_has_gone", lambda: False)  # of stdout
    result = call("find-all", data="1\n")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(f"dedup: {message}")
    assert len(result.stderr.splitlines()) == 1
    result = call("--debug", "find-all", data="1\n")
    assert result.exit_code == code
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert f"\ndedup: {message}" in result.stderr


def test_exit_codes_of_a_process(tmp_path):
    """`python -m dedup` ends with 1 or 2, as the command does, and shows no traceback but with --debug."""
    failed = run("find-all", input=b"one\n")
    assert failed.returncode == 1
    assert failed.stderr.startswith(b"dedup: stdin: line 1: 'one' is not a decimal number")
    assert b"Traceback" not in failed.stderr
    usage = run("find-all", "--distance", "many")
    assert usage.returncode == 2
    assert b"Traceback" not in usage.stderr
    assert b"Traceback" in run("--debug", "compare", tmp_path / "a", tmp_path / "b").stderr


FORGED = "http://a.example/\nverdict: near-duplicate\u2028dedup: done\x1b[2J"


def test_no_text_of_a_stranger_begins_a_line(tmp_path, capsysbinary):
    """What is printed, as results, tables and errors, has the lines of the command and no others."""
    terminal.out(FORGED)
    terminal.error(FORGED)
    terminal.out_lines(terminal.table(("key", "documents"), [(FORGED, 1)]))
    captured = capsysbinary.readouterr()
    assert len(captured.out.decode().splitlines()) == 3
    assert len(captured.err.decode().splitlines()) == 1
    assert b"\x1b" not in captured.out + captured.err
    log = logging.LogRecord("dedup", logging.INFO, "", 0, "%s is stored", (FORGED,), None)
    assert len(common_options._Text().format(log).splitlines()) == 1


def test_a_key_cannot_forge_a_line(tmp_path):
    """Keys in drops, ids in an audit, names of files: each command prints them within its own lines."""
    name = tmp_path / "a\nffffffffffffffff 200 b.html"
    name.write_text(f"<p>{' '.join(WORDS)}")
    assert len(call("fingerprint", name).stdout.splitlines()) == 1
    assert "\nffff" not in call("compare", name, name).stdout
    similar = ("http://a.example/", 0.9, 2, "unknown", "", "parse")
    drop = Drop("2026-11-28T00:00:00Z", "dropped", FORGED, FORGED, *similar, differs=[])
    (tmp_path / "drops.jsonl").write_bytes(encode(drop))
    for options in ((FORGED,), ("--top", 1)):
        shown = call("why", *options, "--drops", tmp_path / "drops.jsonl").stdout
        assert "a.example" in shown
        assert "\nverdict: near-duplicate" not in shown
    rows = [{"id": FORGED, "text": "a b c d"}, {"id": "k", "text": "e f g h"}]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "r.jsonl").write_text(json.dumps(["k", FORGED]))
    asked = ("--documents", tmp_path / "d.jsonl", "--id-field", "id", "--text-field", "text")
    shown = call("audit", tmp_path / "r.jsonl", *asked).stdout
    assert "a.example" in shown
    assert "\nverdict: near-duplicate" not in shown


@pytest.mark.parametrize("option", ["--port", "--host"])
def test_an_option_that_other_servers_have_is_meant(option):
    """`dedup serve --port` names --listen."""
    done = call("serve", option, "7700")
    assert done.exit_code == 2
    assert "--listen HOST:PORT" in done.stderr
    assert "--path" not in done.stderr
    wrong = call("serve", "--path", "x", "--listen", "127.0.0.1:99999")
    assert "from 0 to 65535" in wrong.stderr
