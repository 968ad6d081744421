"""The table service: one memory for many crawlers, over RESP and HTTP. `dedup serve` runs it.

    bytes -> resp | http -> commands -> namespaces (detectors) -> answers
                               |
                            inserts -> the store, or Kafka and back through replica

The rules kept here:
  - Whatever comes from outside has a bound: length, count, time (limits in config.py). What is
    beyond it gets a clear error, or its connection ends; the others are served meanwhile.
  - Commands run on the event loop, in the order they came, since each takes microseconds; opening
    stores and writing their index happens in a thread.
  - commands.py knows no socket and no clock of its own: the simulation in the tests runs it as it is.
"""
