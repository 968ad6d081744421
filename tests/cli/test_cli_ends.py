"""How a command ends: Ctrl-C, colour, exit codes that scripts read, extras that are not installed."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from command_line import call, run
from forking import completed
from needing import linux_only

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


# ------------------------------------------------------------------------------------------- Ctrl-C


def interrupted(monkeypatch, what: str, *args: object):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(what, stop)
    return call(*args)


def test_ctrl_c_ends_with_130_and_a_line(monkeypatch):
    """As shells say it of SIGINT; there is no traceback."""
    result = interrupted(monkeypatch, "dedup.core.pairs.find_all", "find-all")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "dedup: interrupted"


def test_ctrl_c_names_resume_where_there_is_one(monkeypatch, tmp_path):
    """A scan with an output can be gone on with, one without cannot."""
    for options, is_named in (
        (["--output", tmp_path / "v.jsonl"], True),
        (["--kept", tmp_path / "k.jsonl"], True),
        (["--output", "-"], False),
        ([], False),
    ):
        result = interrupted(monkeypatch, "dedup.scan.scan", "scan", tmp_path, *options)
        assert result.exit_code == 130
        assert ("--resume" in result.stderr) == is_named, options


@linux_only
def test_ctrl_c_in_a_scan_leaves_what_resume_needs(tmp_path):
    """SIGINT to the process while it waits for more input: 130, the hint, and the work goes on."""
    (tmp_path / "a.jsonl").write_text('{"url": "http://a/", "html": "<p>some words"}\n')
    os.mkfifo(tmp_path / "b.jsonl")  # blocks until the other end is opened
    command = [sys.executable, "-m", "dedup", "scan", "a.jsonl", "b.jsonl", "--output", "v.jsonl"]
    command += ["--processes", "1"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 120
    while not (tmp_path / ".v.jsonl.scan" / "job.json").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "the same command and --resume" in err
    assert "Traceback" not in err
    (tmp_path / "b.jsonl").unlink()
    (tmp_path / "b.jsonl").write_text('{"url": "http://b/", "html": "<p>other words"}\n')
    done = run("scan", "a.jsonl", "b.jsonl", "--output", "v.jsonl", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "v.jsonl").read_text().splitlines()) == 2


# ------------------------------------------------------------------------------------------- colour


def in_terminal(command: list[object], **env: str) -> tuple[str, str]:
    """Return what a command writes to a terminal: stdout, stderr."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals here")
    (out, to_out), (err, to_err) = pty.openpty(), pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "dedup", *map(str, command)],
        check=False,
        timeout=600,
        env=os.environ | {"TERM": "xterm", "NO_COLOR": ""} | env,
        stdout=to_out,
        stderr=to_err,
    )
    os.close(to_out)
    os.close(to_err)
    return _rest(out), _rest(err)


def _rest(master: int) -> str:
    """Return what was written to a terminal that is closed."""
    data = b""
    try:
        while part := os.read(master, 65536):
            data += part
    except OSError:  # Linux's way to say that the other end is closed
        pass
    os.close(master)
    return data.decode()


def test_a_terminal_gets_colour(pages):
    """The verdict, differences and an error's prefix; none with NO_COLOR, or where a terminal has no colours."""
    command = ["compare", pages / "a.html", pages / "b.html"]
    out, _ = in_terminal(command)
    assert re.search(r"verdict: (\x1b\[[0-9;]*m)+near-duplicate\x1b\[0m", out)
    assert re.search(r"\x1b\[32m\{\+.*\+\}\x1b\[0m", out)
    _, err = in_terminal(["compare", pages / "none.html", pages / "b.html"])
    assert re.match(r"\x1b\[31m\x1b\[1mdedup:\x1b\[0m ", err)
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = "".join(in_terminal(command, **env))
        assert ESCAPE.sub("", out).split() == plain.split()


# ----------------------------------------------------------------------------------------- extras


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        (["worker", "--kafka", "x:1", "--input", "t", "--path", "s"], "aiokafka", "worker"),
        (["scan", "p.jsonl", "--engine", "spark"], "pyspark", "spark"),
        (["serve", "--path", "s"], "uvicorn", "service"),
        (["serve", "--path", "s", "--kafka", "x:1"], "aiokafka", "kafka"),
        (["demo"], "scrapy", "scrapy"),
    ],
)
def test_a_missing_extra_is_the_one_that_the_command_needs(tmp_path, command, module, extra):
    """The advice names one extra, that of the command; nothing waits for what is not installed."""
    (tmp_path / "p.jsonl").write_text("")
    code = f"import sys; sys.modules[{module!r}] = None; from dedup.cli import main; main()"
    done = completed(code, command, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"pip install '.[{extra}]' in the checkout" in done.stderr
    assert "Traceback" not in done.stderr


# -------------------------------------------------------------------------------- numbers and logs


@pytest.mark.parametrize("text", ["1e9", "1_000_000_000", "1,000,000,000", "1000M", "1g", "0.001T"])
def test_plan_takes_large_numbers_as_people_write_them(text):
    """All of these are a thousand millions."""
    asked, plain = (call("plan", "--documents", n).stdout.splitlines() for n in (text, 10**9))
    assert asked[0] == plain[0]


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1e30", "many", "nan", "", "M", "200MB"])
def test_plan_refuses_what_is_no_number_of_documents(text):
    """A usage error says what is taken."""
    result = call("plan", f"--documents={text}")
    assert result.exit_code == 2
    assert "as 1000000000 or 1e9" in result.stderr


@pytest.mark.parametrize("option", ["--listen", "--http", "--unix"])
def test_serve_that_cannot_listen_says_what_to_do_next(tmp_path, option):
    """An address that is taken, or none of this machine's, is named with the option for another one."""
    places = {"--listen": "127.0.0.1:0", "--http": "none"}
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        if option == "--unix":
            (tmp_path / "socket").write_text("")
            asked = [
                (tmp_path / "socket", "a file is there, or a process that answers: remove that")
            ]
        else:
            asked = [
                (f"127.0.0.1:{taken.getsockname()[1]}", "another process listens there"),
                ("192.0.2.1:7700", "this machine has no such address"),
            ]
        for place, said in asked:
            words = [word for pair in (places | {option: place}).items() for word in pair]
            tokens = {"DEDUP_TOKEN": "0123456789abcdef"}
            command = ["serve", "--path", tmp_path / "store", *words]
            done = completed("from dedup.cli import main; main()", command, env=os.environ | tokens)
            assert (done.returncode, done.stdout) == (1, "")
            assert f"cannot listen on {place}: " in done.stderr
            assert said in done.stderr
            assert f"give {option} " in done.stderr


def test_serve_json_says_where_it_listens(tmp_path):
    """The one line of stdout is an object, and comes once its folder can be written."""
    command = [
        sys.executable,
        "-m",
        "dedup",
        "serve",
        "--path",
        str(tmp_path / "new"),
        "--log=json",
    ]
    command += ["--listen", "127.0.0.1:0", "--http", "none"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        assert "redis" in json.loads(process.stdout.readline())["listening"]
        assert (tmp_path / "new").is_dir()
        assert not list((tmp_path / "new").glob("*.tmp"))
    finally:
        process.terminate()
        process.communicate(timeout=120)
