"""`dedup worker`: filters a Kafka topic of pages.

    options -> WorkerConfig -> a judge (embedded store or service) -> the worker's loop -> SIGTERM

Invariants: everything a worker needs is checked before it joins its group; the first
SIGTERM or Ctrl-C finishes the current batch, a second one ends the process.
"""

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dedup.cli import terminal
from dedup.cli.common_options import (
    LogForm,
    from_environment,
    identity_option,
    log_option,
    policy_options,
    set_up_logs,
    setting_option,
    warn_of_paper,
)

if TYPE_CHECKING:
    from dedup.worker.adapters import WorkerConfig

log = logging.getLogger("dedup.worker")


@click.command(
    epilog="Example: dedup worker --kafka localhost:9092 --input demo.crawled_firehose "
    "--format scrapy-cluster --path store"
)
@setting_option(
    "kafka",
    metavar="HOST:PORT,...",
    default=None,
    environment=True,
    required=True,
)
@click.option(
    "--input", "input_topic", metavar="TOPIC", required=True, help="Topic with the pages."
)
@click.option(
    "--unique", metavar="TOPIC", help="Topic for the pages that are kept. [default: INPUT.unique]"
)
@click.option(
    "--duplicates",
    metavar="TOPIC",
    help="Topic for the near-duplicates. [default: INPUT.duplicates]",
)
@click.option(
    "--group",
    metavar="NAME",
    help="Consumer group; its workers share the partitions. [default: dedup-INPUT]",
)
@click.option(
    "--instance",
    metavar="NAME",
    help="Name of this worker in its group (a static member): after a restart with the same name "
    "it gets its partitions back at once.",
)
@click.option(
    "--format",
    "format_name",
    metavar="NAME",
    default="json",
    show_default=True,
    help="Format of the records: json, scrapy-cluster or nutch.",
)
@click.option("--url-field", metavar="FIELD", help="Field with the URL.")
@click.option("--body-field", metavar="FIELD", help="Field with the HTML.")
@click.option("--text-field", metavar="FIELD", help="Field with plain text, instead of HTML.")
@click.option("--body-encoding", metavar="text|base64", help="How the body is encoded.")
@click.option(
    "--path", type=click.Path(path_type=Path), help="Folder of a store, for a single worker."
)
@setting_option(
    "service",
    metavar="URL,...",
    default=(),
    show_default=False,
    multiple=True,
    environment=True,
    help="Table services that several workers share, redis://[:TOKEN@]HOST:PORT, in order of "
    "preference. Given several times (in the variable, between spaces): shards, with --scope site.",
)
@setting_option("namespace", default="default")
@policy_options
@identity_option
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics, /livez and /readyz there.")
@click.option("--until-end", is_flag=True, help="Stop at the present end of the topic.")
@log_option
def worker(kafka: str, log_form: LogForm, metrics: str | None, **options: Any) -> None:
    """Split a Kafka topic of pages into a topic of unique pages and one of near-duplicates.

    Each record is copied byte for byte. Its verdict is added in the headers dedup.status,
    dedup.reason, dedup.of, dedup.distance, dedup.similarity and dedup.identity. Records that are not
    pages go to the topic INPUT.dlq. DEDUP_SECRET keys the fingerprints; pages of more than DEDUP_MAX_BYTES (16 MiB) are kept
    unjudged. The current batch may take 20 seconds after SIGTERM; a page waits DEDUP_WAIT_SECONDS (1) for a near-duplicate that another worker has.
    """
    terminal.say("extra", "worker")
    warn_of_paper(options["similarity"], options["distance"])
    config = _config(kafka, metrics, options)
    set_up_logs(
        log_form,
        {"aiokafka": logging.CRITICAL, "asyncio": logging.WARNING},
    )
    asyncio.run(_work(config))


def _config(kafka: str, metrics: str | None, options: dict[str, Any]) -> "WorkerConfig":
    from dedup.model.addresses import parse_address
    from dedup.model.policy import Options
    from dedup.wire.kafka import kafka_config
    from dedup.worker.adapters import WorkerConfig, format_of, topics_of

    topics = topics_of(
        options.pop("input_topic"),
        options.pop("unique"),
        options.pop("duplicates"),
    )
    form = format_of(
        options.pop("format_name"),
        url=options.pop("url_field"),
        body=options.pop("body_field"),
        text=options.pop("text_field"),
        body_encoding=options.pop("body_encoding"),
    )
    judging = {name: options.pop(name) for name in Options.__struct_fields__ if name in options}
    options["group"] = options["group"] or f"dedup-{topics.input}"
    return WorkerConfig(
        kafka=kafka_config(kafka, topics.input, client_id="dedup-worker"),
        topics=topics,
        format=form,
        metrics=parse_address(metrics, "--metrics") if metrics else None,
        detector=Options(**judging, secret=from_environment("secret")),
        max_bytes=from_environment("max_bytes"),
        wait_seconds=from_environment("wait_seconds"),
        **options,
    )


async def _work(config: "WorkerConfig") -> None:
    from dedup.worker.worker import MetricsServer, Worker, WorkerHealth, WorkerMetrics

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, stop, number)
    metrics, health = WorkerMetrics(), WorkerHealth()
    async with contextlib.AsyncExitStack() as stack:
        listening = None
        if config.metrics:
            server = stack.enter_context(MetricsServer(config.metrics, metrics, health))
            listening = str(server.address)
        fields = {"event": "start", "group": config.group, "namespace": config.detector.namespace}
        fields |= {"metrics": listening} if listening else {}
        log.info("worker of %s starts", config.topics.input, extra={"fields": fields})
        worker = Worker(config, metrics, health)
        await worker.run(stop)


def _stop(stop: asyncio.Event, number: int) -> None:
    if stop.is_set():
        log.warning(
            "second signal: exiting now; uncommitted records are read again at the next start"
        )
        os._exit(128 + number)
    log.info("stopping: finishing the current batch")
    stop.set()
