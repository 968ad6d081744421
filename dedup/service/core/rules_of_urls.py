"""What crawls learned of their sites' URLs, for all that use a namespace: urls.json in its folder.

    a crawl's rules -> merged into the file's -> the file -> the crawl, and whoever asks

With a log this is each service's own, and not in the log: rules are advice, any crawl learns them again, and
records of them would be a second truth beside the documents that they were learned from.

The rule kept here: nothing is remembered but the file, which is read and written in a thread, one at a time.
An answer comes once the file is on the disk. What comes has bounds, and so has what waits and is kept.
"""

import asyncio
from pathlib import Path

from dedup.detector.url_rules.merged_rules import (
    RULES_BYTES,
    bounded,
    encode_within,
    merged,
)
from dedup.detector.url_rules.rule_file import decode_rules, load_rules, save_rules
from dedup.model.errors import UsageError
from dedup.service.core.error_codes import Refused

__all__ = ["RulesOfUrls"]

WAITING = 64  # exchanges, of RULES_BYTES each


class RulesOfUrls:
    """The rules of every namespace of a service.

    held  by namespace and site, how many hold; of those that were asked for since the start
    """

    def __init__(self) -> None:
        self.held: dict[str, dict[str, int]] = {}
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def exchange(
        self, folder: Path | None, content: bytes | None, *, by_admin: bool = False
    ) -> bytes | None:
        """Merge rules into those of a folder, if some come; return all that it has, or None.

        folder None: there is none yet, and what comes is not kept. by_admin: what a person said is
        taken, too. Raises UsageError for rules that
        cannot be read, Refused (LIMIT) for too many, StoreDamaged and OSError.
        """
        if content is not None and len(content) > RULES_BYTES:
            raise Refused("LIMIT", f"rules have up to {RULES_BYTES:,} bytes")
        if self._waiting >= WAITING:
            raise Refused("LIMIT", f"{WAITING} others wait to exchange rules: ask again later")
        self._waiting += 1
        try:
            async with self._turn:
                answer, held = await asyncio.to_thread(_exchange, folder, content, by_admin)
                if folder is not None:
                    self.held[folder.name] = held
                return answer
        finally:
            self._waiting -= 1


def _exchange(
    folder: Path | None, content: bytes | None, by_admin: bool
) -> tuple[bytes | None, dict[str, int]]:
    try:
        theirs = {} if content is None else bounded(decode_rules(content), by_admin=by_admin)
    except ValueError as error:
        raise UsageError(f"these rules cannot be read: {error}") from error
    if folder is None:
        return None, {}
    mine = load_rules(folder)
    found = merged(mine, theirs)
    if not found:
        return None, {}
    answer = encode_within(found)
    if found != mine:
        save_rules(folder, answer)
    counts = {site: sum(each.holds for each in known.values()) for site, known in found.items()}
    return answer, {site: count for site, count in counts.items() if count}
