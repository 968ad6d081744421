"""What learning of URLs costs a page: `python tests/support/url_rule_costs.py` prints microseconds of CPU.

Pages of one site, half of them with parameters; the public suffix list is loaded before.
"""

import random
import time
from collections import deque
from collections.abc import Callable

from dedup.detector.url_rules import Learner, Page
from dedup.model.names import registrable_domain
from dedup.model.page import SKETCH_BYTES, PageFingerprint
from dedup.model.recipes import NEWEST

PAGES = 20_000
SITE = "http://www.example.com"


def _page(number: int) -> Page:
    source = random.Random(number)
    fingerprint = PageFingerprint(
        source.getrandbits(64), source.randbytes(SKETCH_BYTES), 5, 200, NEWEST
    )
    path = f"/view?id={number}&lang=en" if number % 2 else f"/section/{number % 7}/a-{number}.html"
    return Page(SITE + path, fingerprint)


def _microseconds(each: Callable[[Page], object], pages: list[Page]) -> float:
    start = time.process_time()
    for page in pages:
        each(page)
    return (time.process_time() - start) / len(pages) * 1e6


def main() -> None:
    """Print the costs."""
    pages, learner = [*map(_page, range(PAGES))], Learner()
    queue: deque[Page] = deque(maxlen=PAGES)
    registrable_domain(SITE)

    def asked(page: Page) -> None:
        learner.known(page.key + "1")
        learner.likely_form(page.key + "1")

    print(f"no near-duplicate was met, an accepted page: {_microseconds(queue.append, pages):.2f}")
    print(f"no rule, an accepted page: {_microseconds(learner.accept, pages):.2f}")
    print(f"no rule, a request: {_microseconds(asked, pages):.2f}")
    for page in pages[:30:2]:
        learner.copy(f"{page.key}?sid=1", page.key)
    print(
        f"{len([*learner.held()])} rules, an accepted page: {_microseconds(learner.accept, pages):.2f}"
    )
    print(f"a request: {_microseconds(asked, pages):.2f}")


if __name__ == "__main__":
    main()
