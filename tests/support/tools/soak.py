"""make soak: crawls killed and resumed, services killed with their spiders, and stores damaged byte by byte.

A round (SOAK_ROUNDS, 100) is a crawl on an embedded store that is killed with -9 and resumed (tests/support/killing.py),
a service, its spiders and, in every other round, Kafka, killed three times (killing_service.py), and a hundredth of
the damages of a store: all bits of those bytes that steer, and SOAK_BYTES (5000) by chance (damage.py). Settings and
verdict: soaking.py.
"""

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import killing_service
from broker import Cluster
from crawling import Site, serve
from damage import counted, heads, outcomes, sampled, small_store, wrong
from killing import killed_and_resumed, lost, missing, own_duplicates, site_pages, wrongs
from soaking import Soak

ROUNDS = 100
CONTENTS = 40
SERVICE_CONTENTS = 20


def kill_crawl(soak: Soak, folder: Path, site: Site, number: int) -> None:
    """Kill a crawl and resume it."""
    done = killed_and_resumed(folder / f"round{number}", site, soak.seed + number)
    ours = len(lost(done))
    soak.killed["crawl"] += 1
    soak.figures["contents"] += CONTENTS
    soak.figures["lost_by_dedup"] += ours
    soak.figures["lost_by_the_queue"] += len(missing(done)) - ours
    soak.figures["own_duplicates"] += len(own_duplicates(done))
    soak.wrong += wrongs(done)
    shutil.rmtree(folder / f"round{number}")


def kill_service(soak: Soak, folder: Path, site: Site, number: int, broker: Cluster | None) -> None:
    """Kill a service, its spiders and its Kafka."""
    place, topic = folder / f"service{number}", f"soak-{soak.seed}-{number}"
    done = killing_service.killed_round(place, site, soak.seed + number, broker, topic)
    soak.killed.update(done.killed)
    soak.figures["acknowledged"] += len(done.acknowledged)
    soak.wrong += killing_service.wrongs(done)
    shutil.rmtree(place)


def main() -> None:
    samples = int(os.environ.get("SOAK_BYTES", "5000"))
    with Soak("soak", ROUNDS) as soak, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        crawled = stack.enter_context(serve(site_pages(CONTENTS)))
        shared = stack.enter_context(serve(site_pages(SERVICE_CONTENTS)))
        broker = stack.enter_context(Cluster()) if soak.asked > 1 else None
        store = small_store(folder)
        harms = heads(store, [1 << bit for bit in range(8)]) if samples else []
        harms += sampled(store, soak.seed, samples)
        for number in soak.rounds():
            kill_crawl(soak, folder, crawled, number)
            kill_service(soak, folder, shared, number, broker if number % 2 else None)
            mine = harms[number % ROUNDS :: ROUNDS]
            found = outcomes(store, mine)
            soak.figures.update(counted(found))
            soak.wrong += [f"{harm}: {what}" for harm, what in wrong(mine, found)]
            soak.round(
                f"{soak.figures['acknowledged']} inserts acknowledged, "
                f"{soak.figures['lost_by_the_queue']} of {soak.figures['contents']} contents "
                f"lost by the queue, {soak.figures['refused']} bytes refused, "
                f"{soak.figures['harmless']} harmless"
            )


if __name__ == "__main__":
    main()
