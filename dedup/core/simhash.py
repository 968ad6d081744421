"""Features of the caller's own: tokens become hashes, hashes and weights a simhash.

fingerprint() does both inside the native core for a page; here are the two steps for anything else.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from dedup.core.fingerprint import keyed_recipe
from dedup.core.native import check, ffi, lib
from dedup.core.numbers import Array, Numbers, many, packed, pointer
from dedup.model.errors import UsageError
from dedup.model.recipes import Recipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def simhash(hashes: Numbers, weights: "ArrayLike | None" = None) -> int:
    """Return the 64-bit simhash of feature hashes (Charikar 2002; Manku et al. 2007, section 2).

    hashes   (n,) of integers 0 to 2**64 - 1, at most 2**31 of them
    weights  (n,) of numbers >= 0, default 1 each. Integers up to 2**32 - 1 count exactly; floats
             count in steps of the largest divided by 2**32 - 1, so that their order never matters

    A bit is 1 when the weight of the hashes that have it set is more than half of all; a tie gives
    0, no hashes give 0. Raises UsageError for other shapes or values.
    """
    values = packed(hashes, "hashes")
    if weights is None:
        return int(lib.ndd_simhash(pointer(values), len(values)))
    exact = _weights(weights)
    if exact.shape != (len(values),):
        raise UsageError(
            f"weights has shape {exact.shape}, hashes {(len(values),)}; give one for each"
        )
    value = ffi.new("uint64_t *")
    check(
        lib.ndd_simhash_weighted(
            pointer(values), ffi.from_buffer("uint32_t[]", exact), len(values), value
        )
    )
    return int(value[0])


def token_hashes(
    tokens: Sequence[str | bytes],
    algorithm: Literal["recipe", "fnv1", "fnv1a", "jenkins"] = "recipe",
    *,
    seed: int = 0,
    recipe: Recipe | str | None = None,
) -> Array:
    """Return a 64-bit hash for each token (text as UTF-8), ready for simhash(): (n,) uint64.

    "recipe" is the mixed hash of this package's fingerprints. "fnv1" and "fnv1a" (64 bits) and
    "jenkins" (lookup3 hashlittle2, takes a seed) are for fingerprints compatible with other tools;
    raw FNV hashes of short words have bits that move together and make poor fingerprints.
    """
    key = keyed_recipe(recipe).key
    functions = {
        "recipe": lambda data: lib.ndd_hash_token(data, len(data), key),
        "fnv1": lambda data: lib.ndd_hash_fnv1(data, len(data)),
        "fnv1a": lambda data: lib.ndd_hash_fnv1a(data, len(data)),
        "jenkins": lambda data: lib.ndd_hash_jenkins(data, len(data), seed),
    }
    if algorithm not in functions:
        raise UsageError(f"algorithm is {algorithm!r}; known are {', '.join(functions)}")
    encoded = (t if isinstance(t, bytes) else t.encode("utf-8", "surrogatepass") for t in tokens)
    import numpy as np

    return np.fromiter(map(functions[algorithm], encoded), dtype=np.uint64, count=len(tokens))


def _weights(weights: "ArrayLike") -> "NDArray[np.uint32]":
    import numpy as np

    try:
        array = np.asarray(weights)
    except ValueError as error:  # lists of unequal length
        raise UsageError(f"weights must be numbers, one for each hash ({error})") from error
    if array.dtype.kind == "f" and array.ndim == 1:
        if not (np.isfinite(array).all() and (array >= 0).all()):
            raise UsageError("weights holds a negative or non-finite value; allowed is 0 and more")
        most = float(array.max()) if array.size else 0.0
        scaled = array.astype(np.float64) / most * (2**32 - 1) if most > 0 else array
        return np.ascontiguousarray(np.rint(scaled), dtype=np.uint32)
    exact = many(array if array.dtype.kind in "iub" else array.tolist(), "weights")
    if exact.size and exact.max() > 2**32 - 1:
        raise UsageError("weights holds a value above 2**32 - 1")
    return exact.astype(np.uint32)
