"""The headers that a dead letter adds to the record it was made of; service and worker write the same."""

MESSAGE_BYTES = 1000  # of the error's message


def error_headers(
    place: tuple[str, int, int], stage: str, error: Exception, *, value_bytes: int | None = None
) -> tuple[tuple[str, bytes], ...]:
    """Return the headers for a record read at (topic, partition, offset).

    dedup.error.topic, dedup.error.partition, dedup.error.offset   where it was read
    dedup.error.stage                                              decode, read or produce
    dedup.error.class, dedup.error.message                         why it failed
    dedup.error.value_bytes                                        size of a value that was left out
    """
    topic, partition, offset = place
    headers = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "stage": stage,
        "class": type(error).__name__,
        "message": str(error),
    }
    if value_bytes is not None:
        headers["value_bytes"] = value_bytes
    return tuple(
        (f"dedup.error.{name}", str(value).encode(errors="replace")[:MESSAGE_BYTES])
        for name, value in headers.items()
    )
