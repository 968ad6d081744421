"""Which of several something belongs to, by a hash that every language has: murmur2, as Kafka's producers use it.

a record of the log    by its key, to a partition
a page                 by its registrable domain, to a shard: one of several table services (detector/remote.py)
"""

from dedup.core.native import lib

KAFKA_SEED = 0x9747B28C


def partition_of(key: bytes, count: int) -> int:
    """Return which of `count` a key belongs to."""
    found: int = lib.ndd_hash_murmur2(key, len(key), KAFKA_SEED)
    return (found & 0x7FFFFFFF) % count
