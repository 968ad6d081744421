"""How a process reaches table services (docs/reference/protocol.md), for an asyncio loop.

    Request -> services.py (which are asked: a route) -> a connection -> a service
                                                     <- replies, merged into one verdict

command_codec.py writes commands, reads replies and merges those of several services, without I/O; services.py parses
URLs, holds the connections, and decides when a service that failed is asked again. dedup.detector.remote is the
detector made of these. updates.py holds what is not acknowledged yet; discovery.py finds the service on this machine.

Invariants: a request takes a bounded time and ends in a reply or in ServiceUnavailable.
"""
