"""A service without Kafka whose files are damaged, and pages that it refuses."""

import pytest
import redis
from commands import insert, page, probe, spread
from services import Serving
from stores import fill


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ("documents.mdb", "damaged"),
        ("documents.mdb", "no file"),
        ("values/manifest.json", "damaged"),
    ],
)
def test_damaged_files_are_named(tmp_path, file, fault):
    """A namespace of damaged documents is refused, the others are served; a damaged index is made again."""
    fill(tmp_path, 1100)
    damaged = tmp_path / "default" / file
    if fault == "no file":
        damaged.unlink()
        damaged.mkdir()
    else:
        data = bytearray(damaged.read_bytes())
        for at in range(len(data) // 3 // 4096 * 4096, len(data), 4096):
            data[at : at + 64] = bytes(len(data[at : at + 64]))
        damaged.write_bytes(data)
    with Serving(tmp_path) as service, service.client(decode_responses=True) as client:
        if file == "documents.mdb":
            refused = pytest.raises(
                redis.ResponseError, match=r"^STORE .*default is not served.*documents\.mdb"
            )
            with refused:
                probe(client, "default", spread(7))
            with refused:
                insert(client, "default", "k")
            with pytest.raises(redis.ResponseError, match="^STORE"):
                client.execute_command("DEDUP.DROP", "default")
            insert(client, "other", "k", value=spread(7))
            assert "unserved:default" in client.execute_command("DEDUP.INFO")
        else:
            assert [key for key, *_ in probe(client, "default", spread(7))]
            insert(client, "default", "new", value=spread(5000))
    assert any(file in line for line in service.log), service.log


def test_a_refused_page_makes_no_namespace(tmp_path):
    """An unknown recipe, too great a distance or a key too long leaves no folder."""
    with Serving(tmp_path) as service, service.client() as client:
        for words, code in (
            (
                ("d", "k", page(recipe="words-9-9")),
                "RECIPE .*upgrade the older of client and service;",
            ),
            (("d", "k", page(), "DISTANCE", 40), "DISTANCE"),
            (("d", "k" * 8193, page()), "LIMIT"),
        ):
            with pytest.raises(redis.ResponseError, match=f"^{code} "):
                client.execute_command("DEDUP.RESERVE", *words)
        assert not (tmp_path / "d").exists()
