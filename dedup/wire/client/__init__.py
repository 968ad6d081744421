"""The client of the table service: a Detector whose store is elsewhere (docs/protocol.md).

    page -> flows.py (what is asked, step by step) -> sync.py, aio.py -> the services of a route
                                                  <- answers, made one verdict

commands.py says what is asked and what an answer means, routing.py which of several services are
asked, asked.py what their answers come to, all without I/O; address.py reads the URLs; breaker.py
says when a service that failed is asked again. sync.py is for threads (threads.py, over redis-py),
aio.py for an asyncio loop (service.py, over end.py and link.py). opening.py checks the options and
makes a detector of either kind. outbox.py keeps insert events on disk until Kafka has them.

The rule kept here: a call takes a bounded time and ends in an answer or in ServiceUnavailable;
never is a page called near_duplicate because of a fault.
"""

from dedup.wire.client.aio import AsyncServiceDetector
from dedup.wire.client.opening import open_async_service, open_service
from dedup.wire.client.sync import ServiceDetector

__all__ = ["AsyncServiceDetector", "ServiceDetector", "open_async_service", "open_service"]
