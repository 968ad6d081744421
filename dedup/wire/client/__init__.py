"""How a process reaches table services (docs/protocol.md), for an asyncio loop.

    Request -> services.py (who is asked: routing.py) -> endpoint.py -> pipelined_connection.py -> a service
                                                      <- replies, merged into one verdict (request.py)

command_codec.py writes commands and reads replies, request.py merges the replies of several services,
routing.py selects the services, all without I/O; address.py parses URLs; endpoint.py decides when a
service that failed is asked again. dedup.detector.remote is the detector made of these.

Invariants: a request takes a bounded time and ends in a reply or in ServiceUnavailable.
"""
