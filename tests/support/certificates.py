"""Certificates for tests: an authority, and what it signs.

authority = Authority(folder)
cert, key = authority.sign("spider-7")
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Authority:
    """Signs certificates with a key of its own; file is its certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self.file = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl("req", "-x509", *EC, "-days", "2", "-subj", f"/CN={name}",
                 "-keyout", self._key, "-out", self.file)  # fmt: skip

    def sign(self, name: str) -> tuple[Path, Path]:
        """Return a certificate for 127.0.0.1 with this subject, and its key."""
        stem = f"{self._name}-{name}"
        cert, key = self._folder / f"{stem}.pem", self._folder / f"{stem}.key"
        request, more = self._folder / f"{stem}.csr", self._folder / f"{stem}.ext"
        more.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        _openssl("req", *EC, "-subj", f"/O=crawl/CN={name}", "-keyout", key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self._key,
                 "-CAcreateserial", "-days", "2", "-extfile", more, "-out", cert)  # fmt: skip
        return cert, key


def _openssl(*arguments: object) -> None:
    program = shutil.which("openssl")
    assert program, "openssl is not installed"
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True)
