"""What the demo and the tests fetch from elsewhere is asked for again, and not for ever."""

import sys

import pytest

from dedup.lab.demo import fetch


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
