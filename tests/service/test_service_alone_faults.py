"""A service without Kafka that is killed with -9 under load, again and again: nothing is lost.

SERVICE_KILLS (3) sets the rounds; the seed is printed.
"""

import os
import random
import threading
import time

import pytest
import redis
from commands import insert, page, probe, reserve, spread
from crawling import wait_for
from redis.backoff import NoBackoff
from redis.retry import Retry
from seeds import seed_of
from services import Serving

ROUNDS = int(os.environ.get("SERVICE_KILLS", "3"))
SEED = seed_of("SERVICE_KILLS")
SPIDERS = 4


class Spider(threading.Thread):
    """Sends pages, each content twice under two keys, and notes what it was told."""

    def __init__(self, service: Serving, number: int) -> None:
        super().__init__(daemon=True)
        self.service, self.number = service, number
        self.ends = threading.Event()
        self.acknowledged: set[str] = set()
        self.dropped: dict[str, str] = {}
        self.sent = 0

    def run(self) -> None:
        rng = random.Random(SEED + self.number)
        while not self.ends.is_set():
            try:
                with redis.Redis(
                    port=self.service.port,
                    decode_responses=True,
                    retry=Retry(NoBackoff(), 0),
                    socket_timeout=60,
                ) as client:
                    while not self.ends.is_set():
                        self.sent += 1
                        content = rng.randrange(self.sent // 2 + 1) * SPIDERS + self.number
                        self.page(client, f"http://s/{content}/{self.sent}", spread(content + 1))
            except (redis.RedisError, OSError):
                time.sleep(0.02)  # it was killed: what was under way is kept, and not noted

    def page(self, client: redis.Redis, key: str, value: int) -> None:
        status, token, of, *_ = reserve(client, "d", key, value=value)
        if status == "near_duplicate":
            self.dropped[key] = of
        elif token:
            client.execute_command("DEDUP.INSERT", "d", key, token)
            self.acknowledged.add(key)


def test_nothing_acknowledged_is_lost_by_kills(tmp_path, tell):
    """Every acknowledged insert is found afterwards; every drop names a page that was accepted."""
    rng = random.Random(SEED)
    with Serving(tmp_path) as service:
        spiders = [Spider(service, number) for number in range(SPIDERS)]
        for spider in spiders:
            spider.start()

        def told() -> tuple[int, int]:
            return tuple(
                sum(map(len, each))
                for each in zip(*((s.acknowledged, s.dropped) for s in spiders), strict=True)
            )

        def wait_for_more() -> None:
            acknowledged, dropped = told()
            wait_for(lambda: told()[0] > acknowledged + 5 and told()[1] > dropped)

        for _ in range(ROUNDS):
            wait_for_more()
            time.sleep(rng.uniform(0, 0.6))
            service.kill()
            service.start()
        wait_for_more()
        for spider in spiders:
            spider.ends.set()
        for spider in spiders:
            spider.join(120)
            assert not spider.is_alive()
        acknowledged = set().union(*(spider.acknowledged for spider in spiders))
        dropped = {key: of for spider in spiders for key, of in spider.dropped.items()}
        with service.client(decode_responses=True) as client:
            found = set()
            contents = {int(key.split("/")[-2]) for key in acknowledged | set(dropped.values())}
            for content in contents:
                found |= {near[0] for near in probe(client, "d", spread(content + 1))}
        assert acknowledged <= found, f"SERVICE_KILLS_SEED={SEED}: {acknowledged - found}"
        for key, of in dropped.items():
            assert of in found, f"SERVICE_KILLS_SEED={SEED}: {key} was dropped for {of}"
            assert key.split("/")[-2] == of.split("/")[-2]
    tell(
        f"service killed {ROUNDS} times, seed {SEED}: {len(acknowledged)} inserts acknowledged and "
        f"found, {len(dropped)} pages dropped"
    )
    assert len(acknowledged) > 10
    assert dropped


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
