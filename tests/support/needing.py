"""What a test needs of the machine: a test without it is skipped by name; with CI=true it fails.

`make preflight` lists all that is missing, with the one command that installs it.
"""

import os
import shutil
import sys
from typing import NoReturn

import pytest

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells or does this")

WHERE = "`make preflight` says how to install it"


def lacking(what: str) -> NoReturn:
    """Skip this test, which needs something that is not here; in CI nothing is missing, so fail."""
    say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    say(f"{what} is missing: {WHERE}")


def program(name: str) -> str:
    """Return the path of a program that this test runs."""
    return shutil.which(name) or lacking(name)
