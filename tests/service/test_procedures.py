"""The procedures of docs/use/service.md and kafka.md work as they stand there.

Commands are taken from the page, with its folder, addresses and names replaced by those of the test. A command or an
event of a page that no test takes fails the last tests.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import tarfile
import time
from pathlib import Path

import pytest
import redis
from command_line import fill
from commands import ONCE, TOKEN, insert, probe, spread
from log_services import event, ready, until, write_records
from logs import log_config
from mounting import can_mount
from procedures import KAFKA, OPERATIONS, STORE, commands, do, events, served, the
from services import Serving

from dedup.wire.kafka import ensure_topic, kafka_config

TESTS = Path(__file__).parents[1]

SERVE = the(OPERATIONS, f"serve --path {STORE}\n")
KEEP = the(OPERATIONS, "--keep ")
BACKUP = the(OPERATIONS, "store backup ")
IMPORT = the(OPERATIONS, "store import ")
DROP = the(OPERATIONS, "DEDUP.DROP ")
VERIFY = the(OPERATIONS, "store verify")
READ_AGAIN = the(OPERATIONS, "kill -HUP")
START = the(KAFKA, "dedup serve ")
CREATE = the(KAFKA, "kafka-topics.sh ")
PRODUCE = the(KAFKA, "store produce ")
ELSEWHERE = {
    "dedup serve --help": "service/test_operations.py",
    "kill -9": "service/test_random_run.py",
    "docker compose up": "support/broker.py",
}


def client(service, password: str | None = None) -> redis.Redis:
    return service.client(password=password or service.token, decode_responses=True, **ONCE)


def crawled(service, *numbers: int, ns: str = "news", password: str | None = None) -> None:
    """Insert pages."""
    with client(service, password) as at:
        for number in numbers:
            insert(at, ns, f"http://example.com/{number}", value=spread(number))


def known(service, *numbers: int, ns: str = "news", password: str | None = None) -> bool:
    """Whether the service has these pages, and not the one after the last."""
    with client(service, password) as at:
        found = [bool(probe(at, ns, spread(number))) for number in (*numbers, max(numbers) + 1)]
    return found == [True] * len(numbers) + [False]


# ------------------------------------------------------------------------------------ alone


def test_backup_verify_restore_and_removal(tmp_path):
    """A backup of a running service, imported into an empty folder, is what was served; DROP removes a namespace."""
    with served(SERVE, tmp_path / "served") as service:
        http = {"127.0.0.1:7780": f"127.0.0.1:{service.http_port}"}
        crawled(service, 1, 2, 3)
        crawled(service, 4, ns="old-crawl")
        do(BACKUP, tmp_path, http)
        assert do(DROP, tmp_path, {"7700": service.port}).strip() == "1"
        assert not (tmp_path / "served" / "old-crawl").exists()
        assert known(service, 1, 2, 3)
    do(IMPORT, tmp_path, {STORE: tmp_path / "restored"})
    assert "old-crawl" in do(f"{VERIFY} {tmp_path / 'restored'}", tmp_path)
    with served(SERVE, tmp_path / "restored") as service:
        assert known(service, 1, 2, 3)
        assert known(service, 4, ns="old-crawl")


@pytest.mark.parametrize("copied", ["folder", "documents.mdb alone"])
def test_a_store_is_moved_by_copying_it(tmp_path, copied):
    """A store that no process has open: its folder, or documents.mdb alone, whose index is made again."""
    with served(SERVE, tmp_path / "here") as service:
        crawled(service, 1, 2, 3)
    if copied == "folder":
        shutil.copytree(tmp_path / "here" / "news", tmp_path / "there" / "news")
    else:
        (tmp_path / "there" / "news").mkdir(parents=True)
        shutil.copy(tmp_path / "here" / "news" / "documents.mdb", tmp_path / "there" / "news")
    with served(SERVE, tmp_path / "there") as service:
        assert known(service, 1, 2, 3)


def test_a_snapshot_of_the_file_system_has_what_was_acknowledged(tmp_path):
    """Files of one moment, of a service that goes on: a store of them opens, as after a kill."""
    with served(SERVE, tmp_path / "here") as service:
        crawled(service, *range(30))
        service.process.send_signal(signal.SIGSTOP)
        shutil.copytree(tmp_path / "here", tmp_path / "there")
        service.process.send_signal(signal.SIGCONT)
        crawled(service, 30)
    with served(SERVE, tmp_path / "there") as service:
        assert known(service, *range(30))


def test_an_upgrade_that_retires_a_recipe_stops_one_namespace(tmp_path):
    """Its name is in /readyz, the others are served; once its folder is moved away, all is well."""
    with served(SERVE, tmp_path / "stores") as service:
        crawled(service, 1)
    with tarfile.open(TESTS / "store" / "store-of-words-0-4.tar.gz") as archive:
        archive.extractall(tmp_path / "stores", filter="data")
    with served(SERVE, tmp_path / "stores") as service:
        assert ready(service)["status"] == "partial"
        assert "old" in ready(service)["reason"]
        assert known(service, 1)
    (tmp_path / "stores" / "old").rename(tmp_path / "old")
    with served(SERVE, tmp_path / "stores") as service:
        assert ready(service)["status"] == "ok"


def test_a_token_is_changed_without_a_gap(tmp_path):
    """The new one is added, `kill -HUP`; the old one is removed, `kill -HUP`: clients of both are served between."""
    tokens = tmp_path / "tokens"
    old, new, admin = (f"{name}-token-of-sixteen-bytes" for name in ("old", "new", "admin"))

    def write(*lines: str) -> None:
        tokens.write_text("".join(f"{line}\n" for line in (*lines, f"admin {admin}")))
        tokens.chmod(0o600)

    write(f"crawl {old}")
    with served(SERVE, tmp_path / "store", "--tokens", tokens) as service:

        def read_again(*lines: str) -> None:
            write(*lines)
            before = len(service.log)
            do(f"{READ_AGAIN} {service.process.pid}", tmp_path)
            until(lambda: any("read again" in line for line in service.log[before:]))

        crawled(service, 1, password=old)
        read_again(f"crawl {old}", f"crawl {new}")
        crawled(service, 2, password=old)
        crawled(service, 3, password=new)
        read_again(f"crawl {new}")
        crawled(service, 4, password=new)
        with pytest.raises(redis.AuthenticationError):
            crawled(service, 5, password=old)
        with client(service, admin) as at:
            at.execute_command("DEDUP.FORGET", "news", "http://example.com/1")
    assert not any(old in line or new in line for line in service.log)
    shown = re.search(
        r"^    (audit: FORGET .*), certificate", OPERATIONS.read_text("utf-8"), re.MULTILINE
    )
    said = [json.loads(line)["message"] for line in service.log if '"audit"' in line]
    assert said == [shown[1].replace("10.0.0.7", "127.0.0.1")]


def test_old_documents_are_removed(tmp_path):
    """Those that were inserted before the time of --keep, once the service is ready."""
    fill(tmp_path, "news")  # in 2023
    with served(KEEP, tmp_path) as service:
        until(lambda: b'dedup_results_total{result="pruned"} 3.0' in service.get("/metrics")[1])
        crawled(service, 9)
        assert known(service, 9)


@pytest.mark.skipif(not can_mount(), reason="needs to mount a disk of its own")
def test_a_full_disk_is_freed_and_nothing_else_is_needed(tmp_path):
    """INSERT answers -STORE, probes go on, /readyz says stale and why; with room again it goes on by itself."""
    disk = tmp_path / "disk"
    disk.mkdir()
    setup = (
        f"import sys; sys.path.insert(0, {str(TESTS / 'support')!r})\n"
        f"import mounting; mounting.small_disk({str(disk)!r}, '3m')"
    )
    with served(SERVE, disk, setup=setup) as service:
        crawled(service, 1)
        seen = Path(f"/proc/{service.process.pid}/root{disk}/filler")  # the process's own disk
        with seen.open("wb", 0) as filler, pytest.raises(OSError, match="No space left"):
            while True:
                filler.write(bytes(4096))
        with pytest.raises(redis.ResponseError, match=r"^STORE .*No space left"):
            crawled(service, *range(2, 5000))
        assert ready(service)["code"] == 200
        assert ready(service)["status"] == "stale"
        assert "No space left" in ready(service)["reason"]
        with client(service) as at:
            assert probe(at, "news", spread(1))
        seen.unlink()
        crawled(service, 10_000)
        assert ready(service)["status"] == "ok"
        assert known(service, 1, 10_000)
        until(lambda: any("/readyz: ok again; before: " in line for line in service.log))
        assert sum("/readyz: stale: a store takes no changes" in line for line in service.log) == 1


# ------------------------------------------------------------------------------------ Kafka


def test_documents_are_moved_to_a_new_topic(kafka, tmp_path):
    """Stopped, the topic created, written by the command, started with --rebuild: Kafka is added to a service."""
    config = log_config(kafka)
    with served(SERVE, tmp_path) as service:
        crawled(service, 1, 2, 3)
    asyncio.run(ensure_topic(config, partitions=4))
    produce = {"kafka-1:9092": kafka, "NAME": config.topic, STORE: tmp_path}
    assert "3 documents" in do(PRODUCE, tmp_path, produce)
    with following(tmp_path, kafka, config.topic, "--rebuild") as service:
        assert known(service, 1, 2, 3)
        with client(service) as at:
            assert "log_status:current" in at.execute_command("DEDUP.INFO")
        crawled(service, 4)


def following(folder: Path, bootstrap: str, topic: str, *more: object, **how: object) -> Serving:
    """Return the service that the page starts with Kafka."""
    stands = {"kafka-1:9092,kafka-2:9092": bootstrap}
    return served(START, folder, "--topic", topic, *more, stands=stands, token=TOKEN, **how)


def created(command: str, bootstrap: str, topic: str) -> None:
    """Do what kafka-topics.sh would: the test's Kafka has no shell scripts."""
    words = command.split()
    assert words[:2] == ["kafka-topics.sh", "--bootstrap-server"]
    assert words[3:6] == ["--create", "--topic", "dedup.inserts"]
    named = dict(zip(words[6:10:2], words[7:10:2], strict=True))
    assert words[10::2] == ["--config"] * len(words[11::2])
    made = ensure_topic(
        kafka_config(bootstrap, topic, environ={}),
        partitions=int(named["--partitions"]),
        replication=int(named["--replication-factor"]),
        settings=dict(each.split("=") for each in words[11::2]),
    )
    assert asyncio.run(made).partitions == int(named["--partitions"])


def test_one_of_three_brokers_dies(three_brokers, tmp_path):
    """With the topic of the page, a service that the page starts takes inserts while any one is gone."""
    topic = f"procedures-{time.time_ns()}"
    created(CREATE, three_brokers.bootstrap, topic)
    with following(tmp_path, three_brokers.bootstrap, topic) as service:
        crawled(service, 0)
        for number in (1, 2, 3):
            three_brokers.kill(number)

            def taken(number: int = number) -> bool:
                try:
                    crawled(service, number)
                except redis.ResponseError:  # a pause of seconds
                    return False
                return True

            until(taken)
            three_brokers.start(number)
        until(lambda: known(service, 0, 1, 2, 3))
        until(lambda: ready(service)["status"] == "ok")


def empty(folder: Path) -> None:
    shutil.rmtree(folder)


def without_a_namespace(folder: Path) -> None:
    shutil.rmtree(folder / "news")


def damage(folder: Path, file: str) -> None:
    data = (folder / file).read_bytes()
    (folder / file).write_bytes(data[: len(data) // 2])


@pytest.mark.long
@pytest.mark.parametrize("fault", [empty, without_a_namespace])
def test_what_a_replica_lost_is_read_from_the_log(kafka, tmp_path, fault):
    """Its disk, or a namespace's folder: nothing is to be done but to start it."""
    config = log_config(kafka)
    with following(tmp_path / "s", kafka, config.topic) as service:
        crawled(service, 1, 2, 3)
    fault(tmp_path / "s")
    with following(tmp_path / "s", kafka, config.topic) as service:
        assert known(service, 1, 2, 3)


@pytest.mark.long
@pytest.mark.parametrize("file", ["log.json", "news/documents.mdb"])
def test_a_replica_whose_files_are_damaged_is_restored_or_rebuilt(kafka, tmp_path, file):
    """It names the file and does not start; a copy of the whole folder does, and so does --rebuild."""
    config = log_config(kafka)
    replica = [tmp_path / "s", kafka, config.topic]
    with following(*replica) as service:
        crawled(service, 1, 2, 3)
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    damage(tmp_path / "s", file)
    service = following(*replica, wait=False)
    service.start()
    assert service.ended() == 1
    assert any(file.rpartition("/")[2] in line for line in service.log), service.log
    with following(*replica, "--rebuild") as service:
        assert known(service, 1, 2, 3)
    shutil.rmtree(tmp_path / "s")
    (tmp_path / "copy").rename(tmp_path / "s")
    with following(*replica) as service:
        assert known(service, 1, 2, 3)


@pytest.mark.long
def test_a_topic_that_deletes_by_age_is_followed_with_keep(kafka, tmp_path):
    """What Kafka may remove unseen, the service removes by the same time."""
    config = log_config(kafka)
    settings = {"cleanup.policy": "compact,delete"}
    asyncio.run(ensure_topic(config, partitions=1, settings=settings))
    write_records(config, [event("http://example.com/1", spread(1))])  # of 1970
    more = ["--kafka", kafka, "--topic", config.topic]
    with served(KEEP, tmp_path, *more) as service:
        until(lambda: b'dedup_results_total{result="pruned"} 1.0' in service.get("/metrics")[1])
        crawled(service, 9)
        until(lambda: known(service, 9))


# ------------------------------------------------------------------------------------ all of them

HERE = "service/test_procedures.py"
EVENTS = {
    "Kafka is unavailable": "service/test_service_kafka.py::test_while_kafka_is_away_it_serves_stale_and_says_so",
    "Kafka is unavailable when the service starts": "service/test_service_start.py::test_a_start_without_kafka_serves_stale_and_says_so",
    "the service is killed": "service/test_random_run.py::test_promise_6_what_was_acknowledged_survives_whatever_comes",
    "one of three brokers dies": f"{HERE}::test_one_of_three_brokers_dies",
    "the service's disk is full": "service/test_replica_faults.py::test_a_full_disk_stops_the_view_and_not_the_service",
    "its disk, or a namespace's folder, is lost": f"{HERE}::test_what_a_replica_lost_is_read_from_the_log",
    "`log.json` or a store is damaged": f"{HERE}::test_a_replica_whose_files_are_damaged_is_restored_or_rebuilt",
    "the topic was deleted or lost records, or a broker was restored from an older copy":
        "service/test_replica.py::test_a_topic_that_was_made_again_is_refused_and_rebuilt_from_when_told",
    "an event of a newer version": "service/test_replica.py::test_a_newer_version_is_a_dead_letter_and_an_alarm",
    "Move the documents to a new topic": f"{HERE}::test_documents_are_moved_to_a_new_topic",
    "A record that cannot be read": "wire/test_kafka.py::test_a_record_that_cannot_be_read_is_never_skipped",
    "A service was down for longer than `delete.retention.ms`":
        "service/test_replica.py::test_a_topic_that_was_made_again_is_refused_and_rebuilt_from_when_told",
}  # fmt: skip


def test_every_event_of_the_page_has_a_test():
    """What an operator meets, by the page, and the test that makes it happen."""
    assert events(KAFKA, "When something fails") == list(EVENTS)
    for where in EVENTS.values():
        file, _, name = where.partition("::")
        assert f"def {name}(" in (TESTS / file).read_text("utf-8"), where


def test_every_command_of_the_pages_is_run():
    """Here, or in the file of tests that is named."""
    here = {
        SERVE, KEEP, BACKUP, IMPORT, DROP, VERIFY, READ_AGAIN, START,
        CREATE, PRODUCE,
    }  # fmt: skip
    assert {*commands(OPERATIONS), *commands(KAFKA)} == here | ELSEWHERE.keys()
    for file in ELSEWHERE.values():
        assert (TESTS / file).exists()
