"""A table service for the crawl benchmark, in a process of its own on loopback."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from dedup.model.errors import DedupError

__all__ = ["table_service"]

STOP_SECONDS = 20.0


@contextmanager
def table_service() -> Iterator[str]:
    """Serve an empty folder until the block ends; give the URL. Raises DedupError."""
    with TemporaryDirectory(prefix="dedup-bench-") as folder:
        command = [sys.executable, "-m", "dedup", "serve", f"--path={folder}", "--log=json"]
        command += ["--listen=127.0.0.1:0", "--http=none"]
        process = subprocess.Popen(  # noqa: S603 - this package
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise DedupError("the table service did not start; try `dedup serve` by itself")
            yield str(json.loads(line)["listening"]["redis"])
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()
