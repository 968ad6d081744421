"""Whether the container's process works: exit code 0, or an exception, for Docker's HEALTHCHECK.

A service is asked at its HTTP port, a worker where its --metrics are; any other command has no port to ask, and
runs as long as its container does.
"""

import ssl
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

ASKED = {"serve": ("--http", "127.0.0.1:7780"), "worker": ("--metrics", "none")}


def address(arguments: list[str]) -> str | None:
    """Return the URL to ask for a command line, or None if there is none."""
    command = next((word for word in arguments if word in ASKED), None)
    if command is None:
        return None
    option, where = ASKED[command]
    given = dict(zip(arguments, [*arguments[1:], ""], strict=True))
    given |= dict(word.partition("=")[::2] for word in arguments if "=" in word)
    where = given.get(option, where)
    if where == "none":
        return None
    scheme = "https" if "--tls-cert" in given else "http"
    return f"{scheme}://127.0.0.1:{urlsplit(f'//{where}').port}/livez"


def main() -> None:
    """Ask the first process of the container."""
    url = address(Path("/proc/1/cmdline").read_text(encoding="utf-8").split("\0"))
    if url is None:
        return
    to = urlsplit(url)
    if to.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False  # its certificate is of the outer name
        context.verify_mode = ssl.CERT_NONE
        connection = HTTPSConnection(to.netloc, timeout=4, context=context)
    else:
        connection = HTTPConnection(to.netloc, timeout=4)
    connection.request("GET", to.path)
    if connection.getresponse().status != 200:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
