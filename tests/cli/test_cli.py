"""The command line: how commands are found, how errors end, and what a terminal shows."""

import os
import re
import subprocess
import sys

import pytest
from command_line import call, fill, run

from dedup.cli import _COMMANDS, _GROUPS, terminal


def test_version():
    """`--version`, or `-V`, is one line."""
    for option in ("--version", "-V"):
        result = call(option)
        assert result.exit_code == 0
        assert re.fullmatch(r"dedup \d+\.\d+\.\d+\S*\n", result.output)


@pytest.mark.parametrize("command", [(), ("scan",), ("store", "info")])
def test_help_is_a_command_too(command):
    """`dedup help COMMAND` is `dedup COMMAND --help`; an unknown command is refused as ever."""
    assert call("help", *command).stdout == call(*command, "--help").stdout
    assert call("help", *command).exit_code == 0
    assert call("help", "zzz").exit_code == 2


def test_the_help_groups_every_command():
    """Each command is in one group."""
    assert sorted(name for names in _GROUPS.values() for name in names) == sorted(_COMMANDS)


def test_a_broken_connection_is_no_closed_pipe(monkeypatch):
    """A BrokenPipeError while stdout has its reader is a failure that is reported."""

    def fail(*_):
        raise BrokenPipeError(32, "Broken pipe", "somewhere")

    monkeypatch.setattr("dedup.core.pairs.find_all", fail)
    monkeypatch.setattr(terminal, "reader_has_gone", lambda: False)
    result = call("find-all", data="1\n")
    assert result.exit_code == 1
    assert "somewhere: Broken pipe" in result.stderr


def test_help_lists_every_command_and_imports_none():
    """`--help` shows each command with a line, and loads no command's module."""
    code = "import sys; from dedup.cli import main; main(['--help'], standalone_mode=False); print([m for m in sys.modules if m.startswith(('dedup.cli.', 'dedup.demo', 'dedup.evaluate'))])"
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600
    )
    for name, (_, text) in _COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", result.stdout, re.MULTILINE)
    assert result.stdout.endswith("['dedup.cli.terminal']\n")


@pytest.mark.parametrize(
    "command",
    [
        "fingerprint",
        "compare",
        "find-all",
        "find-clusters",
        "store info",
        "store verify",
        "store export",
        "store import",
        "store prune",
    ],
)
def test_each_help_shows_an_example(command):
    """The help of a command ends with an example that calls it."""
    result = call(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"dedup {command}" in result.output.rpartition("Example:")[2]


def test_an_unknown_command_gets_the_list():
    """A command that is not there is a usage error that names those that are."""
    result = call("fingerprints")
    assert result.exit_code == 2
    assert (
        "No such command 'fingerprints'; did you mean 'fingerprint'? known are demo, fingerprint, "
        in result.stderr
    )
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


def test_progress_has_rate_and_remaining_time(monkeypatch, capsys):
    """From the second step on: how many a second, or how long each takes, and how long it takes yet."""
    now = [0.0]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "100")
    said = []
    for label, steps, total in (("lines", 1000, 4000), ("rounds", 1, 4), ("bytes", 10, 0)):
        show = terminal.progress(label)
        for done in range(2):
            show(done * steps, total)
            now[0] += 20
        show(2 * steps, total)
        said.append(capsys.readouterr().err.split("\r")[-1].removesuffix("\x1b[K"))
        terminal.status.clear()
    assert said == [
        "lines: 2,000 of 4,000 (50 %), 50 a second, 0:40 left",
        "rounds: 2 of 4 (50 %), 20 s each, 0:40 left",
        "bytes: 20, 2 s each",
    ]


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
    result = call("find-all", data="1\n")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(f"dedup: {message}")
    assert len(result.stderr.splitlines()) == 1
    result = call("--debug", "find-all", data="1\n")
    assert result.exit_code == code
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert f"\ndedup: {message}" in result.stderr


def test_a_wrong_option_names_the_help_of_its_command():
    """Also where click does not say whose option it is."""
    assert call("scan", "-j").stderr.splitlines()[1] == "Try 'dedup scan --help'."
    assert call("no-such").stderr.splitlines()[1] == "Try 'dedup --help'."


def test_exit_codes_of_a_process(tmp_path):
    """`python -m dedup` ends with 0, 1 or 2, as the command does, and shows no traceback."""
    assert run("find-all", input=b"1\n2\n").returncode == 0
    failed = run("find-all", input=b"one\n")
    assert failed.returncode == 1
    assert failed.stderr.startswith(b"dedup: stdin: line 1: 'one' is not a decimal number")
    assert b"Traceback" not in failed.stderr
    usage = run("find-all", "--distance", "many")
    assert usage.returncode == 2
    assert b"Traceback" not in usage.stderr
    assert b"Traceback" in run("--debug", "compare", tmp_path / "a", tmp_path / "b").stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("dedup st", "store"), ("dedup store pr", "prune"), ("dedup compare --ht", "--html")],
)
def test_the_tab_key_completes(typed, offered):
    """What the shell asks for the Tab key is answered: commands, their commands, their options."""
    asked = {"_DEDUP_COMPLETE": "bash_complete", "COMP_WORDS": typed}
    asked["COMP_CWORD"] = str(len(typed.split()) - 1)
    done = run(env=os.environ | asked, text=True)
    assert f"plain,{offered}" in done.stdout.splitlines()
