"""The table service: one memory for many crawlers, over RESP and HTTP. `dedup serve` runs it.

    bytes -> resp | http -> commands -> namespaces (detectors) -> answers
                               |
                            inserts -> the store, or Kafka and back through replica

Invariants:
  - Whatever comes from outside has a bound: length, count, time (core/config.py). What exceeds it gets a
    clear error, or its connection is closed; other clients are served meanwhile.
  - Commands run on the event loop, in the order of their arrival, since each takes microseconds; opening
    stores and writing their index happens in a thread.
  - core/operations.py has no socket and no clock of its own: the simulation in the tests runs it as it is.
"""
