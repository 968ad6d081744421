"""Whatever comes in whatever order: the commands of eight clients, and kills, against a model (tools/soak_commands.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from seeds import seed_of

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.mark.parametrize("rounds", [2, pytest.param(120, marks=pytest.mark.long)])
def test_promise_6_what_was_acknowledged_survives_whatever_comes(rounds):
    """Each answer is what the model says, and so is every document at the end; DROP and EXEC are among the commands."""
    done = subprocess.run(
        [sys.executable, SUPPORT, "soak_commands"],
        env=os.environ | {"SOAK_ROUNDS": str(rounds), "SOAK_SEED": str(seed_of("SOAK"))},
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["wrong"] == []
    assert figures["killed"] == {"service": rounds}
    assert figures["commands"] > 0
