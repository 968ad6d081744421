"""Sketches made by hand: how alike two of them are is decided by the bits in which they differ.

Each ends in a hash of its bits for that of the text, unless another is given: where no bit differs, two are the same word
for word.
"""

from dedup.core.fingerprint import similarities
from dedup.model.page import SKETCH_BYTES

__all__ = ["differing", "sketch"]

PLACES = 255  # a text of many shingles, all places taken


def sketch(bits: int = 0, text: int | None = None) -> bytes:
    """Return the sketch with these of its 256 bits set; sketch(a) and sketch(b) differ in a ^ b.

    text  the hash of the whole text, 32 bits; None: made of the bits
    """
    text = bits % (2**32 - 5) if text is None else text
    made = bytes([PLACES]) + (bits % 2**256).to_bytes(32, "little") + text.to_bytes(4, "little")
    assert len(made) == SKETCH_BYTES
    return made


def differing(similarity: float) -> int:
    """Return bits whose sketch is the least alike to sketch() that is still at least this similar."""
    found = 0
    for count in range(256):
        bits = (1 << count) - 1
        if similarities(sketch(), [sketch(bits)])[0] < similarity:
            break
        found = bits
    return found
