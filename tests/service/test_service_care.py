"""What the person who runs a service does while it serves: a namespace is dropped, the index is written."""

import stat
import sys
import threading
from pathlib import Path

import pytest
from commands import reserve, spread
from crawling import wait_for
from detecting import accept, page
from services import Serving
from sketches import sketch

import dedup
from dedup.model.errors import UsageError
from dedup.model.page import USUAL, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.service.core.namespaces import Namespaces, PolicyOverrides
from dedup.service.core.operations import Operations
from dedup.service.core.refusal import Refused
from dedup.store.verify import verify_store


def fill(where: str, namespace: str, numbers: range) -> None:
    with dedup.open(where, namespace=namespace, timeout_seconds=60) as detector:
        for number in numbers:
            accept(detector, page(spread(number)), f"http://example.com/{number}")


@pytest.mark.parametrize("transaction", [False, True])
def test_what_follows_a_drop_in_one_write_comes_after_it(tmp_path, transaction):
    """What is acknowledged behind DROP is there, in the new namespace, and survives kill -9."""
    token = f"{0:032x}"
    with Serving(tmp_path / "served") as serving:
        fill(f"redis://127.0.0.1:{serving.port}", "shop", range(50))
        client = serving.client(decode_responses=True)
        write = client.pipeline(transaction=transaction)
        write.execute_command("DEDUP.DROP", "shop")
        reserve(write, "shop", "http://example.com/1", "TOKEN", token)
        write.execute_command("DEDUP.INSERT", "shop", "http://example.com/1", token)
        write.execute_command("DEDUP.INFO", "shop")
        dropped, verdict, inserted, info = write.execute()
        assert (dropped, verdict[0], inserted) == (1, "unique", "OK")
        assert "documents:1\r\n" in info
        serving.kill()
        serving.start()
        client = serving.client(decode_responses=True)
        assert "documents:1\r\n" in client.execute_command("DEDUP.INFO", "shop")


async def test_what_is_being_dropped_is_refused(tmp_path):
    """From the command on, before any other turn of the loop; once the folder is away, all is new."""
    commands = Operations(Namespaces(tmp_path))
    commands.not_ready = None
    pages = [PageFingerprint(spread(n), sketch(), 0, 300, NEWEST) for n in range(2)]
    token = commands.reserve("shop", "a", pages[0], PolicyOverrides(), USUAL).token
    done = commands.drop("shop")
    for refused in (
        lambda: commands.reserve("shop", "b", pages[1], PolicyOverrides(), USUAL),
        lambda: commands.insert("shop", "a", token),
        lambda: commands.detector("shop", NEWEST, PolicyOverrides()),
        lambda: commands.forget("shop", "a"),
        lambda: commands.drop("shop"),
    ):
        with pytest.raises(Refused, match="shop is being dropped") as error:
            refused()
        assert error.value.code == "NOTREADY"
    assert await done
    assert not await commands.drop("shop")
    assert commands.reserve("shop", "b", pages[1], PolicyOverrides(), USUAL).status == "unique"
    commands.namespaces.close()


def test_a_namespace_is_dropped_while_others_are_asked(tmp_path):
    """Its documents and its folder are gone, a new one of its name is empty, the others have theirs."""
    with Serving(tmp_path / "served") as serving:
        where = f"redis://127.0.0.1:{serving.port}"
        fill(where, "going", range(50))
        fill(where, "staying", range(50))
        client = serving.client()
        ended = threading.Event()

        def load() -> None:
            number = 1000
            while not ended.is_set():
                fill(where, "staying", range(number, number + 20))
                number += 20

        busy = threading.Thread(target=load)
        busy.start()
        try:
            assert client.execute_command("DEDUP.DROP", "going") == 1
        finally:
            ended.set()
            busy.join()
        assert client.execute_command("DEDUP.DROP", "going") == 0
        assert [each.name for each in (tmp_path / "served").glob("[!.]*")] == ["staying"]
        assert b"documents:0" in client.execute_command("DEDUP.INFO", "going")
        with dedup.open(where, namespace="going", timeout_seconds=60) as detector:
            assert accept(detector, page(spread(1)), "http://example.com/1").status == "unique"
            assert detector.reserve(page(spread(2)), "http://example.com/x").status == "unique"
        with dedup.open(where, namespace="staying", timeout_seconds=60) as detector:
            assert detector.reserve(page(spread(2)), "http://example.com/x").of
    assert verify_store(tmp_path / "served", "staying").problem_count == 0


def test_a_store_itself_is_no_folder_of_namespaces(tmp_path):
    """A namespace that was imported into a folder of its name, served as --path: refused, with the right one."""
    with dedup.open(tmp_path, namespace="news") as detector:
        accept(detector, page(spread(1)), "http://example.com/1")
    with pytest.raises(UsageError, match=f"news is a store itself.*--path {tmp_path}"):
        Namespaces(tmp_path / "news").open_all()


def test_a_removal_that_a_kill_cut_short_is_ended_at_the_next_start(tmp_path):
    """What is left of a dropped namespace is no namespace."""
    left = tmp_path / ".dropped-news-0123"
    left.mkdir()
    (left / "documents.mdb").write_bytes(b"half")
    with Serving(tmp_path) as serving, serving.client() as client:
        assert client.ping()
    assert not left.exists()


def test_a_service_writes_its_index_while_it_runs(tmp_path):
    """After a kill the next opening need not read every document."""
    changes = "from dedup.store import index\nindex.MEMORY_FIRST = index.MEMORY_FULL = 100\n"
    with Serving(tmp_path / "served", setup=changes) as serving:
        fill(f"redis://127.0.0.1:{serving.port}", "news", range(150))
        written = tmp_path / "served" / "news" / "keys" / "manifest.json"
        wait_for(written.exists)
        serving.kill()
    report = verify_store(tmp_path / "served", "news")
    assert report.problem_count == 0
    assert report.indexed >= 100


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_a_store_is_for_its_owner_alone(tmp_path: Path):
    """Its files hold URLs: no other user of the machine can read them."""
    with dedup.open(tmp_path, namespace="news") as detector:
        for number in range(1100):
            accept(detector, page(spread(number)), f"http://example.com/{number}")
    folder = tmp_path / "news"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} == {"documents.mdb", "lock", "keys", "values"}
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
