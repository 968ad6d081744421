"""How a process reaches table services (docs/protocol.md), for an asyncio loop.

    Request -> services.py: who is asked (routing.py) -> endpoint.py -> connection.py -> a service
                                                      <- replies, one verdict of many (request.py)

commands.py says what is asked and what an answer means, request.py what the answers of several
services come to, routing.py which of them are asked, all without I/O; address.py reads the URLs;
endpoint.py when a service that failed is asked again. dedup.detector.remote is the
detector made of these.

The rule kept here: a request takes a bounded time and ends in a reply or in ServiceUnavailable.
"""
