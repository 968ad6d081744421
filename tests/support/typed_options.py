"""What a type checker is to say of dedup.open(). Never run; test_typed_options.py checks it."""

from typing import assert_type

import dedup

assert_type(dedup.open("store"), dedup.Detector)
assert_type(dedup.open("redis://localhost", timeout_seconds=1.5), dedup.Detector)
dedup.open("store", distance=3, scope="site", secret=None, recipe="words-0-9")
dedup.open("store", similarity=0.9)
dedup.open("store", similarity="paper")
dedup.open("store", distnace=3)  # type: ignore[call-arg]
dedup.open("store", distance="3")  # type: ignore[arg-type]
dedup.open("store", similarity="strict")  # type: ignore[arg-type]
dedup.open("store", scope="page")  # type: ignore[arg-type]


async def asynchronous() -> None:
    async with await dedup.open_async("redis://localhost", namespace="news") as detector:
        assert_type(detector, dedup.AsyncDetector)
        page = detector.fingerprint("<p>text</p>")
        assert_type(await detector.reserve(page, "http://example.com/"), dedup.Verdict)
        assert_type(await detector.count(), int)
    await dedup.open_async("store", distnace=3)  # type: ignore[call-arg]


def blocking() -> None:
    with dedup.open("store") as detector:
        page = detector.fingerprint("<p>text</p>")
        verdict = detector.reserve(page, "http://example.com/")
        assert_type(detector.insert(verdict), bool)
        assert_type(detector.probe(page), list[dedup.Neighbour])
        assert_type(len(detector), int)
        detector.reserve(page, key="http://example.com/", gaurd=False)  # type: ignore[call-arg]
