"""A service without Kafka that is killed with -9 under load, again and again: nothing is lost.

SERVICE_KILLS (3) sets the rounds; the seed is printed.
"""

import pytest
import redis
from commands import insert, page, probe, reserve, spread
from services import Serving


@pytest.mark.parametrize("file", ["documents.mdb", "values/manifest.json"])
def test_damaged_files_are_named(tmp_path, file):
    """A namespace of damaged documents is refused, the others are served; a damaged index is made again."""
    with (
        Serving(tmp_path) as service,
        service.client(decode_responses=True) as client,
    ):
        pipeline = client.pipeline(transaction=False)
        for i in range(1100):
            reserve(pipeline, "d", f"k{i}", "EXEMPT", "start", value=spread(i))
        tokens = [answer[1] for answer in pipeline.execute()]
        for i, token in enumerate(tokens):
            pipeline.execute_command("DEDUP.INSERT", "d", f"k{i}", token)
        pipeline.execute()
    damaged = tmp_path / "d" / file
    data = bytearray(damaged.read_bytes())
    for at in range(len(data) // 3 // 4096 * 4096, len(data), 4096):
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    damaged.write_bytes(data)
    again = Serving(tmp_path, wait=False)
    again.start()
    try:
        again.wait_until_ready()
        with again.client(decode_responses=True) as client:
            if file == "documents.mdb":
                for call in (probe, insert):
                    with pytest.raises(
                        redis.ResponseError, match=r"^STORE .*d is not served.*documents\.mdb"
                    ):
                        call(client, "d", *([spread(7)] if call is probe else ["k"]))
                with pytest.raises(redis.ResponseError, match="^STORE"):
                    client.execute_command("DEDUP.DROP", "d")
                insert(client, "other", "k", value=spread(7))
                assert "unserved:d" in client.execute_command("DEDUP.INFO")
            else:
                assert probe(client, "d", spread(7)) == [["k7", 0, "1.0000"]]
                insert(client, "d", "new", value=spread(5000))
    finally:
        again.__exit__(None)
    assert any(file in line for line in again.log), again.log


def test_a_refused_page_makes_no_namespace(tmp_path):
    """An unknown recipe, too great a distance or a key too long leaves no folder."""
    with Serving(tmp_path) as service, service.client() as client:
        for words, code in (
            (("d", "k", *page()[:-1], "words-9-9"), "RECIPE"),
            (("d", "k", *page(), "DISTANCE", 40), "DISTANCE"),
            (("d", "k" * 8193, *page()), "LIMIT"),
        ):
            with pytest.raises(redis.ResponseError, match=f"^{code} "):
                client.execute_command("DEDUP.RESERVE", *words)
        assert not (tmp_path / "d").exists()
