"""The client of the table service: a Detector whose store is elsewhere (docs/protocol.md).

    page -> commands.py -> one of the URLs (sync.py, or aio.py over link.py) -> replies -> verdict

commands.py says what is asked and what an answer means, without I/O; address.py reads the URLs;
breaker.py says when a service that failed is asked again. sync.py is for threads (redis-py),
aio.py for an asyncio loop. opening.py checks the options and makes a detector of either kind.
outbox.py keeps insert events on disk until Kafka has them.

The rule kept here: a call takes a bounded time and ends in an answer or in ServiceUnavailable;
never is a page called near_duplicate because of a fault.
"""

from dedup.client.aio import AsyncServiceDetector
from dedup.client.opening import open_async_service, open_service
from dedup.client.sync import ServiceDetector

__all__ = ["AsyncServiceDetector", "ServiceDetector", "open_async_service", "open_service"]
