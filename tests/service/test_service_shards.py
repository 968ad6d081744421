"""Services that share a log: who holds what on the wire, partitions that move, and what is refused."""

from __future__ import annotations

import asyncio
import json

import pytest
import redis
from command_line import call
from forking import completed
from log_services import client
from logs import document, inserts, log_config, murmur2, write
from services import RECIPE, Serving

from dedup.model.events import record_key

NS = "d"
PARTITIONS = 3  # of logs.write


def partition(key: str) -> int:
    return (murmur2(record_key(NS, key)) & 0x7FFFFFFF) % PARTITIONS


def keys_of(partitions: set[int], count: int) -> list[str]:
    keys = (f"http://new.example/{i}" for i in range(1000))
    return [key for key in keys if partition(key) in partitions][:count]


def found(service: Serving, numbers: range) -> set[int]:
    """Which of the documents a service has."""
    pages = [document(i).page for i in numbers]
    words = [word for page in pages for word in (f"{page.value:016x}", page.sketch.hex())]
    with client(service) as at:
        rows = at.execute_command("DEDUP.MPROBE", NS, "RECIPE", RECIPE, "VALUES", *words)
    return {
        i for i, near in zip(numbers, rows, strict=True) if [document(i).key, 0, "1.0000"] in near
    }


def inserted(at: redis.Redis, key: str) -> str:
    """Reserve and insert; return what INSERT says."""
    words = ["0" * 16, "00" * 37, "0" * 16, 300, "", "RECIPE", RECIPE, "EXEMPT", "start"]
    token = at.execute_command("DEDUP.RESERVE", NS, key, *words)[1]
    try:
        return at.execute_command("DEDUP.INSERT", NS, key, token)
    except redis.ResponseError as error:
        at.execute_command("DEDUP.RELEASE", NS, key, token)
        return str(error)


@pytest.mark.long
def test_a_partition_moves_to_another_service_and_back(kafka, tmp_path, ask):
    """Whole, then 0-1 and 2, then whole again: no document is lost, and each is at its holder alone."""
    config = log_config(kafka)
    log = ["--kafka", ",".join(config.bootstrap), "--topic", config.topic]
    numbers = range(240)
    of = {p: {i for i in numbers if partition(document(i).key) == p} for p in range(PARTITIONS)}
    asyncio.run(write(config, inserts(numbers, NS)))
    with Serving(tmp_path / "a", *log) as a:
        with client(a) as at:
            assert at.execute_command("DEDUP.PARTITIONS") == ["*", PARTITIONS]
        assert found(a, numbers) == set(numbers)
        with Serving(tmp_path / "b", *log, "--partitions", "2") as b:  # ready before A lets go
            assert found(b, numbers) == of[2]
            a.stop()
            a.options += ["--partitions", "0-1", "--rebuild"]
            a.start()
            assert found(a, numbers) == of[0] | of[1]
            a.kill()
            a.options.pop()
            a.start()
            assert found(a, numbers) == of[0] | of[1]
            with client(a) as at_a, client(b) as at_b:
                assert at_a.execute_command("DEDUP.PARTITIONS") == ["0-1", PARTITIONS]
                assert at_b.execute_command("DEDUP.PARTITIONS") == ["2", PARTITIONS]
                _refuses_what_is_others(a, at_a, ask)
                _shows_its_share(a, at_a)
                for at, mine in ((at_a, {0, 1}), (at_b, {2})):
                    for key in keys_of(mine, 3):
                        assert inserted(at, key) == "OK"
        a.stop()
        del a.options[-2:]
        a.start()
        assert found(a, numbers) == set(numbers)
        with client(a) as at:
            assert at.execute_command("DEDUP.PARTITIONS") == ["*", PARTITIONS]
            info = at.execute_command("DEDUP.INFO", NS)
        assert f"documents:{len(numbers) + 6}\r\n" in info


def _refuses_what_is_others(a: Serving, at: redis.Redis, ask) -> None:
    """INSERT, FORGET and documents of a key of partition 2, over RESP and HTTP."""
    key = keys_of({2}, 1)[0]
    said = "ELSEWHERE this key belongs to partition 2, which is not held here"
    assert inserted(at, key) == said
    with pytest.raises(redis.ResponseError) as error:
        at.execute_command("DEDUP.FORGET", NS, key)
    assert str(error.value) == said
    status, body = a.get(f"/v1/documents?ns={NS}&key={key}")
    assert (status, json.loads(body)["error"]["code"]) == (421, "ELSEWHERE")
    held = {"key": key, "token": "0" * 16}
    for path, asked in (("insert", {"items": [held]}), ("forget", {"keys": [key]})):
        [result] = ask(a, "POST", f"/v1/{path}", {"ns": NS} | asked)[2]["results"]
        assert result["error"]["code"] == "ELSEWHERE"


def _shows_its_share(a: Serving, at: redis.Redis) -> None:
    """INFO and the metrics say what is held."""
    info = at.execute_command("DEDUP.INFO")
    assert "\npartitions:0-1\r\n" in info
    assert f"\npartition_count:{PARTITIONS}\r\n" in info
    metrics = a.get("/metrics")[1].decode()
    assert "dedup_log_partitions_held 2.0\n" in metrics
    assert f"dedup_log_partitions {PARTITIONS}.0\n" in metrics
    assert 'dedup_log_applied_offset{partition="1"}' in metrics
    assert 'dedup_log_applied_offset{partition="2"}' not in metrics


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--partitions", "0-3"], "give it with --kafka"),
        (["--kafka", "127.0.0.1:1", "--partitions", "0-"], "'0-' are not allowed"),
        (["--kafka", "127.0.0.1:1", "--partitions", "3-1"], "'3-1' are not allowed"),
    ],
)
def test_wrong_partitions_are_refused_before_anything_is_made(options, said, tmp_path):
    done = call("serve", "--path", tmp_path / "store", *options)
    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "store").exists()


def test_partitions_beyond_the_topic_end_the_service_with_the_count(kafka, tmp_path):
    """Known once Kafka has answered: wrong usage, exit code 2."""
    config = log_config(kafka)
    asyncio.run(write(config, []))
    given = ["serve", "--path", tmp_path, "--listen", "127.0.0.1:0", "--http", "none"]
    given += ["--kafka", config.bootstrap[0], "--topic", config.topic, "--partitions", "1-3"]
    done = completed("from dedup.cli import main; main()", given)
    assert done.returncode == 2
    assert "3 lies beyond the 3 partitions of the topic" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_token_of_ones_own_can_be_released_and_asked_again(tmp_path, ask):
    """Though the answer was lost: the same answer again, nothing more taken; then it is given back.

    A RESERVE that its RELEASE has overtaken takes nothing.
    """
    token = "5c1f0f3a-9be34a4c8d6c2ab4f1f7e6d0"
    page = {"key": "http://a/1", "value": "0" * 16, "sketch": "00" * 37, "identity": "0" * 16}
    page |= {"features": 300, "token": token}
    asked = {"ns": NS, "recipe": RECIPE, "pages": [page]}
    with Serving(tmp_path) as service, client(service) as at:
        for _ in range(2):
            [verdict] = ask(service, "POST", "/v1/reserve", asked)[2]["results"]
            assert (verdict["status"], verdict["token"]) == ("unique", token)
        assert "in_flight:1\r\n" in at.execute_command("DEDUP.INFO", NS)
        assert at.execute_command("DEDUP.RELEASE", NS, "http://a/1", token) == 1
        [again] = ask(service, "POST", "/v1/reserve", asked)[2]["results"]
        assert "used before" in again["error"]["message"]
        asked["pages"] = [page | {"token": "overtaken-" + token}]
        assert at.execute_command("DEDUP.RELEASE", NS, "http://a/1", "overtaken-" + token) == 0
        [late] = ask(service, "POST", "/v1/reserve", asked)[2]["results"]
        assert "used before" in late["error"]["message"]
        assert "in_flight:0\r\n" in at.execute_command("DEDUP.INFO", NS)
        for bad in ("short", "with a space in it", "x" * 65, "_" + "0" * 32):
            with pytest.raises(redis.ResponseError, match="TOKEN .* not allowed"):
                words = ["0" * 16, "00" * 37, "0" * 16, 300, "", "RECIPE", RECIPE, "TOKEN", bad]
                at.execute_command("DEDUP.RESERVE", NS, "k", *words)
