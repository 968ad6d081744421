"""Several table services as shards, each with the pages of some registrable domains: real processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from detecting import ONES, InLoop, flat_neighbours, page
from seeds import seed_of
from services import Serving
from sizes import sized

import dedup
from dedup.model.errors import ServiceUnavailable, UsageError
from dedup.model.page import Verdict
from dedup.wire.shards import partition_of

FIRST = seed_of("SHARDS")
DOMAINS = [f"site{n}.example" for n in range(8)] + ["b.co.uk", "127.0.0.1", ""]


def url(service: Serving) -> str:
    return f"redis://127.0.0.1:{service.port}"


def shard(domain: str) -> int:
    return partition_of(domain.encode(), 2)


DOMAIN = {shard(name): name for name in DOMAINS if name}  # one of each shard


@pytest.fixture(scope="module")
def services(tmp_path_factory) -> Iterator[list[Serving]]:
    """Two shards, and a service that holds everything."""
    folder = tmp_path_factory.mktemp("shards")
    with Serving(folder / "0") as a, Serving(folder / "1") as b, Serving(folder / "whole") as whole:
        yield [a, b, whole]


@pytest.fixture(params=[dedup.open, InLoop], ids=["threads", "loop"])
def opens(request) -> Callable[..., Any]:
    return request.param


def told(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.status, verdict.reason, verdict.of, verdict.distance, verdict.similarity


def test_shards_judge_as_one_service_that_holds_everything(services, opens, request):
    """Whatever is asked, in any order: the same verdicts, neighbours and counts; each page is at the shard of its domain."""
    options = {
        "namespace": f"exact-{request.node.callspec.id}",
        "scope": "site",
        "timeout_seconds": 60,
    }
    rng = random.Random(FIRST)
    with (
        opens([url(each) for each in services[:2]], **options) as many,
        opens(url(services[2]), **options) as one,
    ):
        held: list[tuple[Verdict, Verdict]] = []
        for _ in range(sized(quick=150, full=1500)):
            domain, number = rng.choice(DOMAINS), rng.randrange(9)
            key = f"http://www.{domain}/{number}" if domain else f"nowhere {number}"
            asked = page(rng.choice([0, 0xFF << 20]) ^ (1 << rng.randrange(6)))
            step = rng.random()
            if step < 0.5:
                verdicts = many.reserve(asked, key), one.reserve(asked, key)
                assert told(verdicts[0]) == told(verdicts[1])
                if verdicts[0].token:
                    held.append(verdicts)
            elif step < 0.8 and held:
                ended = held.pop(rng.randrange(len(held)))
                if rng.random() < 0.7:
                    many.insert(ended[0])
                    one.insert(ended[1])
                else:
                    assert many.release(ended[0]) == one.release(ended[1])
            elif step < 0.9:
                found = [each.probe(asked, domain=domain or None) for each in (many, one)]
                assert flat_neighbours(found[0]) == flat_neighbours(found[1])
            else:
                assert many.forget(key) == one.forget(key)
        for name in ("documents", "in_flight"):
            assert many.info()[name] == one.info()[name]
        assert len(many) == len(one)


def test_a_page_is_at_the_shard_of_its_domain_alone(services, opens, request):
    """The domain that is given counts, before that of the URL, before the key's."""
    namespace = f"spread-{request.node.callspec.id}"
    urls = [url(each) for each in services[:2]]
    with opens(urls, namespace=namespace, scope="site", timeout_seconds=60) as detector:
        a, b = DOMAIN[0], DOMAIN[1]
        for number, options in enumerate(({"domain": b}, {"url": f"http://{b}/"}, {})):
            host = b if not options else a
            verdict = detector.reserve(
                page(0x0F0F0F0F0F0F0F0F << number), f"http://{host}/{number}", **options
            )
            assert verdict.status == "unique"
            detector.insert(verdict)
    counts = []
    for each in services[:2]:
        with each.client(decode_responses=True) as at:
            counts.append("documents:3\r\n" in at.execute_command("DEDUP.INFO", namespace))
    assert counts == [False, True]


def test_promise_1_nothing_is_lost_when_a_shard_is_killed(tmp_path, opens):
    """Pages of its domains are not judged; those of the others are, and dropped; back again, it has all it acknowledged."""
    with (
        Serving(tmp_path / "0") as a,
        Serving(tmp_path / "1") as b,
        opens([url(a), [url(b)]], scope="site", timeout_seconds=30) as detector,
    ):
        keys = [f"http://{DOMAIN[n]}/1" for n in range(2)]
        for key in keys:
            detector.insert(detector.reserve(page(), key))
        held = detector.reserve(page(ONES), f"http://{DOMAIN[1]}/held")
        b.kill()
        assert detector.reserve(page(), f"http://{DOMAIN[0]}/2").of == keys[0]
        with pytest.raises(ServiceUnavailable, match=f"{b.port}.*dedup serve"):
            detector.reserve(page(), f"http://{DOMAIN[1]}/2")
        with pytest.raises(ServiceUnavailable):
            detector.insert(held)
        b.start()
        while True:  # until it is asked again
            try:
                found = detector.reserve(page(), f"http://{DOMAIN[1]}/2")
                break
            except ServiceUnavailable:
                pass
        assert found.of == keys[1]
        detector.insert(held)  # it has forgotten the token
        assert len(detector) == 3


def test_shards_need_the_scope_of_a_site():
    """In another one a copy may lie at another shard: refused before anything is asked, and by name."""
    for opens in (dedup.open, InLoop):
        with pytest.raises(UsageError, match="2 shards.*need the scope 'site'"):
            opens(["redis://a", "redis://b"])
        with pytest.raises(UsageError, match="'store' is not allowed"):
            opens(["redis://a", "store"], scope="site")
