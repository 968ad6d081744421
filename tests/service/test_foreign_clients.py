"""The clients of other languages, as they come: each takes a page its way, and a transaction where it can.

They are fetched by their own package managers into the build folder. Where one is not installed, or its
registry not reached, its clients are skipped, by name.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from commands import page

SOURCES = Path(__file__).parents[1] / "support" / "foreign_clients"
BUILT = Path(__file__).parents[2] / "build" / "foreign_clients"
GO = (
    "github.com/redis/go-redis/v9@v9.7.0",
    "github.com/redis/rueidis@v1.0.50",
    "github.com/valkey-io/valkey-go@v1.0.50",
)
CLIENTS = {
    "ioredis, node-redis": (
        "node",
        [["npm", "install", "--silent", "--no-audit"]],
        ["node", "node.mjs"],
        ["ioredis ok", "node-redis-2 ok", "node-redis-3 ok"],
    ),
    "go-redis, rueidis, valkey-go": (
        "go",
        [["go", "mod", "init", "dedup/clients"], ["go", "get", *GO],
         ["go", "build", "-o", "clients", "."]],
        ["./clients"],
        ["go-redis ok", "rueidis ok", "valkey-go ok"],
    ),
    "Jedis, Lettuce": (
        "mvn",
        [["mvn", "-q", "dependency:copy-dependencies", "-DoutputDirectory=jars"]],
        ["java", "-cp", "jars/*", "Clients.java"],
        ["jedis ok", "lettuce ok"],
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("names", CLIENTS)
def test_clients_of_other_languages_need_no_settings(serving, names):
    """Reserve, insert and probe, over the connection that the client makes by itself."""
    tool, steps, run, said = CLIENTS[names]
    if shutil.which(tool) is None:
        pytest.skip(f"{names}: {tool} is not installed")
    folder = BUILT / tool
    made = folder / "made"
    if not made.exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(SOURCES, folder)
        for step in steps:
            done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{names}: {' '.join(step[:2])} failed: {done.stderr[-200:]}")
        made.touch()
    words = [str(serving.port), page()]
    done = subprocess.run(
        [*run, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == said
