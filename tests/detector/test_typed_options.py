"""Type checkers see what open() takes and gives: mypy --strict over the file that this one names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKED = Path(__file__).parents[1] / "support" / "typed_options.py"


@pytest.mark.long
def test_a_wrong_option_fails_under_mypy(tmp_path):
    """Each `type: ignore` in the checked file is an error that mypy finds, and there is no other."""
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores"]
    # what is imported is checked by `make lint`; here it is only looked up
    command += ["--follow-imports=silent", "--cache-dir", str(tmp_path), str(CHECKED)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stdout
