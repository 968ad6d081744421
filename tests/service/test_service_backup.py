"""`dedup store backup`: the documents of a service while it serves, and the store made of them."""

import socket
import stat
import threading

from command_line import call
from commands import spread
from detecting import accept, page
from services import Serving

import dedup
from dedup.store.transfer import decode_line

BEFORE = 1200  # more than two answers hold


def key(number: int) -> str:
    return f"http://example.com/{number}"


def fill(detector, numbers):
    for number in numbers:
        accept(detector, page(spread(number)), key(number), kind="parse")


def test_promise_6_a_backup_under_load_has_every_document_of_its_beginning(tmp_path):
    """Inserts, replacements and removals go on meanwhile; a store made of it is as good as its service."""
    file = tmp_path / "backup.jsonl"
    with dedup.open(tmp_path / "served", namespace="news") as detector:
        fill(detector, range(BEFORE))
    with Serving(tmp_path / "served") as serving:
        where = f"redis://127.0.0.1:{serving.port}"
        ended = threading.Event()
        with dedup.open(where, namespace="news", timeout_seconds=60) as detector:
            accept(detector, page(5), key(0), kind="other")

            def load() -> None:
                number = BEFORE
                while not ended.is_set():
                    fill(detector, [number, number % BEFORE])  # a new one, and a replaced one
                    number += 1

            busy = threading.Thread(target=load)
            busy.start()
            try:
                url = f"http://127.0.0.1:{serving.http_port}"
                done = call("store", "backup", url, "--output", file)
            finally:
                ended.set()
                busy.join()
    assert done.exit_code == 0, done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = file.read_bytes().splitlines()
    written = {document.key for _, document in map(decode_line, lines)}
    assert {key(number) for number in range(BEFORE)} <= written
    restored = call("store", "import", tmp_path / "restored", "--input", file)
    assert restored.exit_code == 0, restored.stderr
    with dedup.open(tmp_path / "restored", namespace="news") as detector:
        assert len(detector) == len(written)
        assert detector.reserve(page(spread(7)), "http://example.com/x").of == key(7)


def test_a_backup_that_cannot_be_made_says_why_and_leaves_the_former_one(tmp_path):
    """No token, no service, no URL: the file of before stays."""
    output = tmp_path / "backup.jsonl"
    output.write_text("of yesterday")

    def fails(*arguments: str, env: dict[str, str] | None = None) -> str:
        done = call("store", "backup", *arguments, "--output", str(output), env=env)
        assert done.exit_code in {1, 2}
        assert output.read_text() == "of yesterday"
        return done.stderr

    with Serving(tmp_path / "served", token="secret-token-of-this-test") as serving:
        url = f"http://127.0.0.1:{serving.http_port}"
        assert "DEDUP_TOKEN" in fails(url)
    assert "does not answer" in fails(url)
    assert "dedup store export" in fails(str(tmp_path / "served"))


def test_an_answer_of_long_keys_is_cut_and_goes_on(tmp_path):
    """An answer has about a megabyte at most; the header says where the next documents begin."""
    keys = [f"http://example.com/{number}/".ljust(8000, "x") for number in range(300)]
    with Serving(tmp_path / "served") as serving:
        where = f"redis://127.0.0.1:{serving.port}"
        with dedup.open(where, namespace="news", timeout_seconds=60) as detector:
            for number, long in enumerate(keys):
                accept(detector, page(spread(number)), long)
        status, first = serving.get("/v1/export?ns=news")
        assert status == 200
        assert 1 << 20 < len(first) < 1.1 * (1 << 20)
        assert serving.get("/v1/export?ns=news&from=x")[0] == 400
        assert serving.get("/v1/export?ns=none")[0] == 404
        done = call("store", "backup", f"http://127.0.0.1:{serving.http_port}")
    assert [decode_line(line)[1].key for line in done.stdout_bytes.splitlines()] == keys


def test_a_service_that_dies_within_an_answer_is_named(tmp_path):
    """As one that does not answer, not as an internal error."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def die() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{")

        dying = threading.Thread(target=die)
        dying.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        done = call("store", "backup", url, "--output", str(tmp_path / "backup.jsonl"))
        dying.join()
    assert done.exit_code == 1
    assert f"{url} does not answer" in done.stderr
    assert "internal error" not in done.stderr
