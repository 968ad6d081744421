"""dedup.spark in local mode: the same verdicts as the single-machine engine, on skewed data, too."""

import json
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from picture_site import SITE, learned_late, picture

pytest.importorskip("pyspark")

from broker import NoBroker, find_java
from command_line import call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from needing import lacking
from pyspark.sql import SparkSession
from scanning import (
    FIELDS,
    judged,
    mixed,
    page,
    records,
    response,
    write_lines,
    write_parquet,
    write_warc,
)

from dedup.core.pairs import find_clusters
from dedup.spark import accepted_pages, fingerprint_pages, judge_pages
from dedup.spark.fingerprints import signed, unsigned
from dedup.spark.verdicts import components, edges_within

pytestmark = pytest.mark.filterwarnings("ignore")  # of pyspark and pandas


@pytest.fixture(scope="module", autouse=True)
def java():
    """Where Java is, for every Spark that is started here."""
    try:
        os.environ["JAVA_HOME"] = str(Path(find_java()).resolve().parent.parent)
    except NoBroker as error:
        lacking(f"Java ({error})")


@pytest.fixture(scope="module")
def spark(java):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def pages_of(spark, pages):
    rows = [(n, p.url, p.html) for n, p in enumerate(pages)]
    return spark.createDataFrame(rows, "n bigint, url string, html string").repartition(3)


def rows_of(verdicts):
    """Return what judged() does."""
    rows = []
    for row in verdicts.orderBy("position").collect():
        held = row.asDict() | {"value": f"{unsigned(row['value']):016x}"}
        rows.append(tuple(held[name] for name in FIELDS))
    return rows


@pytest.mark.parametrize("options", [{}, {"scope": "site", "identity": True}, {"distance": 3}])
def test_verdicts_are_those_of_a_plain_slow_judge(spark, options):
    """Mixed pages, some recrawled, some short: the verdicts of a linear scan."""
    pages = mixed(150, 9)
    found = fingerprint_pages(pages_of(spark, pages), position="n").cache()
    assert rows_of(judge_pages(found, **options)) == judged(pages, **options)


def test_a_partition_learns_the_frames_of_its_sites(spark):
    """A page that is its site's frame and nearly nothing else is kept, as by a stream of the partition's pages."""
    rows = [(i, f"{SITE}/{i}", picture(i)) for i in range(60)]
    pages = spark.createDataFrame(rows, "n bigint, url string, html string").coalesce(1)
    found = judge_pages(fingerprint_pages(pages, position="n")).orderBy("position").collect()
    assert learned_late([f"{row['status']} {row['reason']}".strip() for row in found])


def test_yesterday_comes_first(spark):
    """A run beside what was accepted before is a run over both."""
    pages = mixed(120, 4)
    accepted: dict = {}
    previous = None
    for day in (pages[:50], pages[50:90], pages[90:]):
        found = fingerprint_pages(pages_of(spark, day), position="n").cache()
        verdicts = judge_pages(found, previous).cache()
        assert rows_of(verdicts) == judged(day, accepted=accepted)
        previous = accepted_pages(verdicts, previous).localCheckpoint()
        held = {row["key"]: unsigned(row["value"]) for row in previous.collect()}
        assert held == {key: p.value for key, (p, _) in accepted.items()}


def test_skewed_data_gives_the_same_verdicts(spark):
    """Nearly all pages alike: one component, one hot bucket, and the same verdicts."""
    pages = [page(f"http://s{i % 5}.example.com/{i}", "hot", changed=i % 4) for i in range(300)]
    pages += mixed(30, 2)
    found = fingerprint_pages(pages_of(spark, pages), position="n").cache()
    assert rows_of(judge_pages(found)) == judged(pages)


def chains(rng: random.Random, count: int, k: int) -> list[int]:
    """Values of which many lie in chains: each a few bits from the one before."""
    values: list[int] = []
    for _ in range(count):
        if values and rng.random() < 0.7:
            value = rng.choice(values[-5:])
            for bit in rng.sample(range(64), rng.randrange(k + 2)):
                value ^= 1 << bit
            values.append(value)
        else:
            values.append(rng.getrandbits(64))
    return values


@settings(
    deadline=None, max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 2**32), st.sampled_from((0, 1, 3, 7, 15)))
def test_components_are_those_of_all_pairs(spark, seed, k):
    """Values in long chains: the components that find_clusters gives for everything at once."""
    values = chains(random.Random(seed), 300, k)
    frame = spark.createDataFrame([(signed(v),) for v in values], "value bigint")
    found = {row["a"]: row["b"] for row in components(edges_within(frame, k)).collect()}
    distinct = np.array(sorted(set(values)), np.uint64)
    labels = find_clusters(distinct, k)
    clusters: dict[int, set[int]] = {}
    for value, label in zip(distinct.tolist(), labels.tolist(), strict=True):
        clusters.setdefault(label, set()).add(signed(value))
    expected = {v: min(members) for members in clusters.values() for v in members}
    assert {v: found.get(v, v) for v in map(signed, set(values))} == expected


def test_what_is_no_page_is_told(spark):
    """Null columns and pages beyond the limit."""
    rows = [
        (0, "http://a/", "<p>x"),
        (1, None, "<p>x"),
        (2, "http://b/", None),
        (3, "http://c/", "x" * 99),
    ]
    frame = spark.createDataFrame(rows, "n bigint, url string, html string")
    found = fingerprint_pages(frame, position="n", max_bytes=50).cache()
    kinds = {row["position"]: row["kind"] for row in found.collect()}
    assert kinds == {0: "page", 1: "broken", 2: "broken", 3: "large"}
    verdicts = {row["position"]: row["reason"] for row in judge_pages(found).collect()}
    assert verdicts == {0: "short", 3: "too_large"}


def test_the_engines_write_the_same(spark, tmp_path):
    """`dedup scan --engine spark`: output, report and summary of the local engine, faults and all."""
    folder = tmp_path / "in"
    folder.mkdir()
    pages = mixed(120, 6)
    found = records(pages[:50])
    found.insert(7, response("http://a/", b"", kind="revisit"))
    data = bytearray(write_warc(folder / "a.warc.gz", found).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 100] = bytes(100)
    (folder / "a.warc.gz").write_bytes(data)
    lines = write_lines(folder / "b.jsonl", pages[50:100])
    lines.write_bytes(b"no json\n" + lines.read_bytes())
    write_parquet(
        folder / "c.parquet",
        [*pages[100:], page("http://big/", 1, words=590), page("urn:page:2", 2)],
    )
    for engine in ("local", "spark"):
        options = ["--engine", engine, "--json", "--identity"]
        options += [
            "--output",
            tmp_path / f"{engine}.jsonl",
            "--report",
            tmp_path / f"{engine}.json",
        ]
        done = call("scan", folder, *options, env={"DEDUP_MAX_BYTES": "2500"})
        assert done.exit_code == 0, done.output
    for suffix in (".jsonl", ".json"):
        local, on_spark = ((tmp_path / f"{e}{suffix}").read_bytes() for e in ("local", "spark"))
        assert on_spark == local
    summary = json.loads((tmp_path / "spark.json").read_bytes())["summary"]
    assert summary["broken"] == 2 and summary["exempt"]["too_large"] >= 1


@pytest.mark.parametrize("options", [["--resume"], ["--store", "s"], ["--output", "-"]])
def test_what_the_engine_does_not_do_is_named(tmp_path, options):
    """Options of the local engine alone are refused, not passed over."""
    file = write_lines(tmp_path / "p.jsonl", mixed(3))
    done = call("scan", file, "--engine", "spark", *options)
    assert done.exit_code == 2
    assert options[0] in done.output
