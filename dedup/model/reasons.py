"""The reasons for which a page is kept, declared once: settings, reports and the dashboard derive theirs."""

from typing import NamedTuple


class Reason(NamedTuple):
    """Why a page is kept without being judged, or although it was found to be a near-duplicate.

    name     in verdicts, stats (`dedup/exempt/NAME`) and DEDUP_EXEMPT
    label    for people
    judged   whether the page was compared with others
    setting  whether DEDUP_EXEMPT has it; by default all of these are in force
    """

    name: str
    label: str
    judged: bool = False
    setting: bool = True


REASONS = {
    reason.name: reason
    for reason in (
        Reason("start", "start requests"),
        Reason("non_html", "no HTML or text"),
        Reason("status", "another status than 200"),
        Reason("method", "another method than GET"),
        Reason("short", "too few distinct words to be judged"),
        Reason("too_large", "larger than the limit in bytes"),
        Reason("data_page", "made of inline data"),
        Reason("new_links", "similar text, but a link that no page had before", judged=True),
        Reason("other_title", "similar text, but another title or canonical URL", judged=True),
        Reason("barren", "similar text, but no similar page yielded an item yet", judged=True),
        Reason("unread", "too little of the page was read"),
        Reason("no_callback", "robots.txt, media, the shell"),
        Reason("inline", "downloaded by a callback, not by the scheduler"),
        Reason(
            "items",
            "parsed as evidence: do its items equal the original's?",
            judged=True,
            setting=False,
        ),
        Reason("control", "visited again, to find what differs between two visits", setting=False),
        Reason("expired", "its reservation had expired", setting=False),
        Reason(
            "in_flight", "a near-duplicate was in flight for too long", judged=True, setting=False
        ),
        Reason("dont_dedup", "left out by request.meta", setting=False),
        Reason("fault", "no table service answered, or dedup failed", setting=False),
    )
}

EXEMPTIONS = tuple(reason.name for reason in REASONS.values() if reason.setting)


def label_of(name: str, other: str = "kept") -> str:
    """Return the label of a reason, or another text for one that is not in the table."""
    known = REASONS.get(name)
    return other if known is None else known.label
