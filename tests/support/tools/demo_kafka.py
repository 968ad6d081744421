"""The demo with Kafka: two spiders, a table service and a broker; some are killed, nothing is lost.

    python tests/support demo_kafka [--install] [--pages N] [--seed N] [--json]        (make demo-kafka)

Two spiders share a table service, and their accepted pages go to a Kafka broker (KAFKA_BOOTSTRAP_SERVERS, or
one that is started; --install downloads it, and Java if it is missing, with Maven, pip and apt-get).
Halfway, one spider and the service are killed with -9 and restarted. Exit code 1 if anything was lost.
"""

import argparse
import json
import sys

import msgspec
from fleet import run_fleet

from dedup.model.errors import DedupError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/support demo_kafka")
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    out = sys.stderr if options.json else sys.stdout
    try:
        report = run_fleet(
            options.pages, options.seed, lambda line: print(line, file=out), install=options.install
        )
    except DedupError as error:
        sys.exit(str(error))
    if options.json:
        print(json.dumps({"seed": options.seed} | msgspec.structs.asdict(report)))
        return bool(report.complaints)
    for name, number in (
        ("pages", report.pages),
        ("parsed", report.parsed),
        ("dropped, each as alike to an accepted page", report.dropped),
        ("accepted before the kill", report.accepted_before_kill),
        ("of those forgotten", len(report.forgotten)),
        ("remembered by the service now", report.remembered),
        ("dropped without an accepted original", len(report.unexplained)),
        ("lost", len(report.lost)),
    ):
        print(f"{name:<45} {number:>6,}")
    for line in report.complaints or ["Nothing was lost."]:
        print(line)
    return bool(report.complaints)


if __name__ == "__main__":
    sys.exit(main())
