"""Downloads of the demo and the tests: only when asked for, tried again, and not for ever."""

import subprocess
import sys

import brokers
import fetch
import pytest


@pytest.fixture
def pauses(monkeypatch):
    """The seconds that were waited, none of them really."""
    waited = []
    monkeypatch.setattr(fetch, "sleep", waited.append)
    return waited


FAILS_TWICE = """
import pathlib, sys
file = pathlib.Path("tries")
tries = int(file.read_text()) + 1 if file.exists() else 1
file.write_text(str(tries))
sys.exit("not yet" if tries < 3 else 0)
"""


def test_a_download_that_fails_is_tried_again(tmp_path, pauses):
    """The third try works: that is what comes back, after two pauses, the second one longer."""
    done = fetch.fetched([sys.executable, "-c", FAILS_TWICE], cwd=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "tries").read_text() == "3"
    assert len(pauses) == 2
    assert pauses[0] < pauses[1]


def test_a_download_that_never_works_ends_with_its_reason(pauses):
    """After the last try its status and words come back, and no pause follows."""
    done = fetch.fetched([sys.executable, "-c", "import sys; sys.exit('no such mirror')"])
    assert (done.returncode, done.stderr) == (1, "no such mirror\n")
    assert len(pauses) == fetch.TRIES - 1 >= 2


@pytest.fixture
def bare_machine(tmp_path, monkeypatch):
    """A machine with neither Java, Maven nor Kafka; returns the commands that were run to fetch some."""
    commands = []

    def fetched(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, "", "no network")

    monkeypatch.setattr(brokers, "fetched", fetched)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return commands


def test_without_install_nothing_is_downloaded(bare_machine):
    """Neither pip, Maven nor apt-get is run; the error names the one command that would."""
    with pytest.raises(
        brokers.NoBroker, match=r"no Java.*`python tests/support demo_kafka --install`"
    ):
        brokers.find_java()
    with pytest.raises(
        brokers.NoBroker, match=r"Kafka is not.*`python tests/support demo_kafka --install`"
    ):
        brokers.find_jars("java")
    assert bare_machine == []


def test_with_install_java_is_fetched(bare_machine):
    """By pip, as there is no apt-get here; that this fails is said."""
    with pytest.raises(brokers.NoBroker, match="none could be fetched"):
        brokers.find_java(install=True)
    (command,) = bare_machine
    assert command[1:4] == ["-m", "pip", "install"]
