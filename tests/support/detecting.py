"""What tests of detectors share: pages by their fingerprints, and a clock that a test turns."""

from typing import Any

from dedup.model.values import PageFingerprint, Verdict

RECIPE = "words-0-3"
A, B, C = (f"http://example.com/{name}" for name in "abc")
ONES = 2**64 - 1


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def page(value: int = 0, check: int = 0, **fields: object) -> PageFingerprint:
    defaults = {"links": 0, "features": 100, "link_count": 0, "recipe": RECIPE}
    return PageFingerprint(value, check, **(defaults | fields))


def bits(n: int) -> int:
    """A number with n bits set."""
    return 2**n - 1


def accept(detector: Any, fingerprint: PageFingerprint, key: str, **options: Any) -> Verdict:
    """Reserve and insert a page that is to be kept."""
    verdict = detector.reserve(fingerprint, key, **options)
    assert verdict.token
    detector.insert(verdict)
    return verdict
