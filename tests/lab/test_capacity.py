"""The capacity model: beside real tables and stores, and against what must hold of any cluster."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from capacity_comparison import KEY_BYTES, SOURCES, checks, costs_of, read_results
from click.testing import CliRunner
from comparisons import bench
from fanout_page import CASES, LOADS, SHARDS
from figure_pages import capacity as measured_capacity
from page_figures import between
from service_commands import answered
from stores import verified
from tools.figures import FILE

from dedup.cli import main
from dedup.lab.bench.store import Limit, lines_of, measure_stores
from dedup.lab.capacity import (
    ANSWER_SHARES,
    ANSWER_US,
    MEASURED,
    Costs,
    Crawl,
    Machine,
    capacity,
    index_bytes,
    probe_us,
    read_costs,
    segments_of,
    shard_of,
)
from dedup.model.errors import UsageError
from dedup.store import Store
from dedup.store.index import MOST
from dedup.store.segmented_table import MERGED_MOST, SegmentedTable

DOCS = Path(__file__).parents[2] / "docs"
SCALE = DOCS / "appendix" / "scale.md"
GIB = 2**30
MEASUREMENTS = measured_capacity(json.loads(FILE.read_bytes()))  # of docs/appendix/scale.md
CRAWL = Crawl(documents=8 * 10**9, rate=2000, k=3)
MACHINE = Machine(memory=64 * GIB, cores=8)


def changed(value, **fields):
    return msgspec.structs.replace(value, **fields)


# -------------------------------------------------------------------------- against what is built


@pytest.mark.long
def test_a_store_takes_what_the_model_says(tmp_path):
    """Filled, killed, opened, and filled further: the modelled bytes, and nothing that was stored is lost."""
    small, large = measure_stores([20_000, 50_000], 3, 200, tmp_path)
    assert small.documents >= 20_000
    assert large.documents >= 50_000
    assert small.figures["events/s, all"] != large.figures["events/s, all"], "intervals of both"
    for measured in (small, large):
        figures = measured.figures
        assert figures["B written an event"] > 0
        record = MEASURED.record_bytes + KEY_BYTES
        assert figures["B of disk a document: documents"] == pytest.approx(record, rel=0.2)
        said = index_bytes(measured.documents, 3) / measured.documents
        assert figures["B of disk a document: index"] == pytest.approx(said, rel=0.3)
        assert sum(measured.segments) == measured.documents
        for what in ("search", "RESERVE", "INSERT"):
            for where in ("", " in a small store"):
                assert 0 < figures[f"us, {what}{where}, p50"] <= figures[f"us, {what}{where}, p99"]
    with Store.open(tmp_path, "bench", create=False) as store:
        assert verified(store).problems == []
        assert len(store) == large.documents + 200, "those that were judged"


def test_segments_are_those_that_merging_leaves():
    """Never fewer than the store's own rule for merging leaves, nor many more; no document is lost."""
    left, most = [], 0
    for written in range(MOST, 4 * MERGED_MOST, MOST):
        left.append(range(MOST))
        while span := SegmentedTable._worth_merging(
            SimpleNamespace(_folder=SimpleNamespace(segments=left, removed=((), ()))), MERGED_MOST
        ):
            left[slice(*span)] = [range(sum(map(len, left[slice(*span)])))]
        most = max(most, len(left))
        said = segments_of(written)
        assert sum(said) == written
        assert len(said) <= most + 2
        assert sum(len(each) > MERGED_MOST // 4 for each in left) <= len(said)


def test_a_search_took_at_most_what_the_model_says():
    """In every store that was measured; and not below a quarter of it."""
    stores = [each for each in MEASUREMENTS if each.bench == "store"]
    assert {store.documents // 10**6 for store in stores} >= {1, 10}
    for store in stores:
        took = store("us of CPU of their search, alone")
        assert 0.25 < took / probe_us(store.documents, store.k) <= 1


def test_memory_is_limited(tmp_path):
    """A process that is to have too little fails, with what it said; a cgroup gets limit and process."""
    given = {"folder": str(tmp_path), "k": 3, "every": 1000}
    with pytest.raises(OSError, match="measuring fill failed"):
        next(lines_of("fill", given, Limit(1 << 20)))
    (tmp_path / "memory.max").touch()
    Limit(1 << 30, tmp_path).take(4711)
    assert (tmp_path / "memory.max").read_text() == "1073741824\n"
    assert (tmp_path / "cgroup.procs").read_text() == "4711\n"
    with pytest.raises(OSError, match="no cgroup"):
        Limit(1 << 30, DOCS).take(4711)


@pytest.mark.long
def test_the_benchmark_measures_and_checks(tmp_path):
    """The benchmark asks a real service, and what it writes can be read and planned with."""
    figures, costs = tmp_path / "figures.json", tmp_path / "costs.json"
    size = ("--documents", "5000", "--requests", "200")
    done = CliRunner().invoke(bench, ["commands", *size, "--json", str(figures)])
    assert done.exit_code == 0, done.output
    (command,) = read_results([figures.read_bytes()])
    assert {check.what for check in checks([command])} == {
        "RESERVE",
        "RESERVE away from home",
        "RELEASE with the next RESERVE",
    }
    times = [command(answered(share), "us") for share in ANSWER_SHARES]
    assert times == sorted(times)
    assert command("RESERVE", "B on the wire") > KEY_BYTES + 3 * 16
    done = CliRunner().invoke(bench, ["capacity", str(figures), "--costs", str(costs)])
    assert done.exit_code == 0, done.output
    assert "RELEASE with the next RESERVE" in done.stdout
    asked = ["plan", "--cluster", "--documents", "1000000", "--rate", "10", "--memory", "8G"]
    planned = CliRunner().invoke(main, [*asked, "--costs", str(costs), "--json"])
    assert planned.exit_code == 0, planned.output
    assert json.loads(planned.stdout)["shards"] == 1


@pytest.mark.long
def test_two_services_of_one_log_are_measured(kafka):
    """INSERT, the event at the other service, bytes of the log and memory; all constants but one follow from them."""
    done = CliRunner().invoke(bench, ["log", "--requests", "100", "--json"])
    assert done.exit_code == 0, done.output
    (log,) = read_results([done.stdout.encode()])
    assert all(figure > 0 for row in log.rows.values() for figure in row.values())


def test_constants_follow_from_the_figures():
    """Those of the file of measurements give the constants of the model, where one run gave them."""
    found, no_run = costs_of(MEASUREMENTS), {"merge_bytes"}
    assert {name for name, source in SOURCES.items() if source.of is None} == no_run
    for name in (
        "record_bytes",
        "event_bytes",
        "insert_us",
        "applied_us",
        "written_bytes",
        "open_us",
    ):
        assert getattr(found, name) == pytest.approx(getattr(MEASURED, name), rel=0.02), name


def test_what_are_no_figures():
    """A file that no benchmark wrote is refused."""
    with pytest.raises(UsageError, match="no figures"):
        read_results([b"{}"])


# ------------------------------------------------------------------------------ what must hold


@pytest.mark.parametrize("k", [3, 7])
@pytest.mark.parametrize("memory", [16, 64, 512])
@pytest.mark.parametrize("documents", [10**6, 8 * 10**9, 5 * 10**10])
def test_a_cluster_holds_what_it_should(documents, memory, k):
    """Every document has a shard, every shard fits its machine, and no core is busier than allowed."""
    machine = Machine(memory=memory * GIB, cores=8)
    found = capacity(Crawl(documents, 1000, k), machine)
    assert found.shards * found.shard.documents >= documents
    assert found.instances == found.shards * found.sets
    assert found.machines * found.instances_per_machine >= found.instances
    assert found.instances_per_machine * found.shard.memory_bytes <= 0.85 * machine.memory
    assert found.machines >= found.sets, "copies of a shard stand on different machines"
    assert found.partitions % found.shards == 0
    assert found.shard.core_share <= machine.core_share


def test_shards_do_not_divide_the_crawl():
    """Each shard reserves every page of its set, however many shards there are."""
    few = capacity(CRAWL, Machine(memory=512 * GIB))
    many = capacity(CRAWL, Machine(memory=16 * GIB))
    assert many.shards > few.shards
    for found in (few, many):
        assert found.shard.reserves * found.active_sets == pytest.approx(CRAWL.rate)
        shared = found.shards * found.active_sets
        assert found.shard.inserts * shared == pytest.approx(CRAWL.rate)


def test_past_a_cores_rate_sets_share_the_crawl():
    """More pages a second than one set carries take more sets, each with all documents."""
    slow = capacity(CRAWL, MACHINE)
    fast = capacity(changed(CRAWL, rate=3 * slow.set_rate), MACHINE)
    assert (slow.active_sets, slow.sets) == (1, 2)
    assert fast.active_sets >= 3
    assert fast.sets == fast.active_sets + CRAWL.copies - 1
    assert fast.shard.reserves == pytest.approx(3 * slow.set_rate / fast.active_sets)
    assert "several" in " ".join(fast.notes) or "whole sets" in " ".join(fast.notes)


def test_a_set_carries_its_rate_and_no_more():
    """At the rate that is said to be one set's, one set does; what RESERVE and RELEASE leave no room for takes more."""
    crawl = changed(CRAWL, rate=capacity(CRAWL, MACHINE).set_rate)
    assert capacity(changed(crawl, rate=0.99 * crawl.rate), MACHINE).active_sets == 1
    most = MACHINE.core_share / (MEASURED.away_us + MEASURED.release_us) * 1e6
    assert capacity(changed(crawl, rate=most), MACHINE).active_sets >= 2


def test_pages_of_one_write_cost_less():
    """From one page a write, which is what is measured of one, to sixteen, which is what is measured of them."""
    crawls = [changed(CRAWL, together=n) for n in range(16, 0, -1)]
    shares = [shard_of(crawl, 40, 1, MEASURED).core_share for crawl in crawls]
    assert shares == sorted(set(shares))
    alone, many = (shard_of(changed(CRAWL, together=n), 40, 1, MEASURED) for n in (1, 16))
    saved = MEASURED.away_us - MEASURED.away_deep_us
    assert alone.reserve_us - many.reserve_us == pytest.approx(saved, rel=0.01)
    assert alone.release_share / alone.releases * 1e6 == pytest.approx(MEASURED.release_us)
    per_release = many.release_share / many.releases * 1e6
    assert per_release == pytest.approx(MEASURED.release_deep_us)
    with pytest.raises(UsageError, match="together"):
        capacity(changed(CRAWL, together=17), MACHINE)


def test_more_is_never_less():
    """More documents, pages a second or copies never take fewer machines; more memory never more."""
    base = capacity(CRAWL, MACHINE).machines
    for more in ({"documents": 16 * 10**9}, {"rate": 20_000}, {"copies": 3}, {"key_bytes": 200}):
        assert capacity(changed(CRAWL, **more), MACHINE).machines >= base
    assert capacity(CRAWL, changed(MACHINE, memory=128 * GIB)).machines <= base


def test_disk_and_kafka_are_counted():
    """A shard's disk holds documents, the index and what is merged of it; the log all documents, copied."""
    found = capacity(CRAWL, MACHINE)
    shard, costs = found.shard, MEASURED
    records = (costs.record_bytes + CRAWL.key_bytes) * shard.documents
    merged = index_bytes(MERGED_MOST, CRAWL.k)
    assert shard.disk_bytes == pytest.approx(records + shard.index_bytes + merged)
    assert found.kafka_bytes == pytest.approx(costs.event_bytes * CRAWL.documents * 3 * 2)


def test_memory_is_the_process_and_the_index():
    """The more documents, the more files should be in memory; the process has enough at some time."""
    few, many = (capacity(CRAWL, Machine(memory * GIB)).shard for memory in (64, 512))
    assert few.memory_bytes == few.working_bytes + few.index_bytes
    assert many.working_bytes == few.working_bytes
    assert many.index_bytes > 3.9 * few.index_bytes


def test_a_crawl_may_accept_nothing():
    """Then nothing is inserted, and what is printed still is JSON."""
    done = run(*ASKED, "--unique", "0", "--json")
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found["shard"]["inserts"] == 0
    assert found["shard"]["reserves"] * found["active_sets"] == CRAWL.rate


def test_a_price_is_the_users():
    """Without a price there is no cost; with one it is the machines' hours of a month times that."""
    assert capacity(CRAWL, MACHINE).cost is None
    found = capacity(CRAWL, MACHINE, price=0.5)
    assert found.machine_hours == found.machines * 730
    assert found.cost == found.machine_hours * 0.5


def test_what_stands_in_the_way_is_said():
    """Too little memory, and more events than a core applies, are errors that say what to do."""
    with pytest.raises(UsageError, match="more memory"):
        capacity(CRAWL, Machine(memory=50_000_000))
    with pytest.raises(UsageError, match="namespaces"):
        capacity(changed(CRAWL, rate=1e9), MACHINE)


@pytest.mark.parametrize(
    "fields",
    [
        {"documents": 0},
        {"rate": 0},
        {"rate": float("nan")},
        {"unique": 1.5},
        {"copies": 0},
        {"kafka_copies": 0},
        {"room": 0},
        {"key_bytes": 0},
        {"k": 16},
    ],
)
def test_what_is_no_crawl(fields):
    """Arguments out of range are refused."""
    with pytest.raises(UsageError):
        capacity(changed(CRAWL, **fields), MACHINE)


@pytest.mark.parametrize("data", [b"[]", b"{", b'{"reserve": 1}', b'{"reserve_us": -1}'])
def test_what_are_no_costs(data):
    """A file of costs that is none is refused, and says which there are."""
    with pytest.raises(UsageError, match="cost"):
        read_costs(data)


def test_costs_of_ones_own_count():
    """A cost from a file takes the place of the measured one, and the others stay."""
    costs = read_costs(b'{"away_us": 600}')
    assert costs == changed(MEASURED, away_us=600.0)
    assert capacity(CRAWL, MACHINE, costs).set_rate < capacity(CRAWL, MACHINE).set_rate / 3


# ------------------------------------------------------------------------------------ the command


def run(*arguments):
    return CliRunner().invoke(main, ["plan", "--cluster", *arguments])


ASKED = ("--documents", "8G", "--rate", "2000", "--memory", "64G", "--distance", "3")


def test_the_command_as_json():
    """--json is one object, with the model's fields."""
    done = run(*ASKED, "--cores", "8", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == msgspec.to_builtins(capacity(CRAWL, MACHINE))


def test_the_command_prints_what_the_model_says():
    """A line a figure, with units; at a price there is a cost."""
    said = run(*ASKED, "--cores", "8", "--price", "2").stdout
    found = capacity(CRAWL, MACHINE, price=2)
    assert re.search(rf"^shards +{found.shards} ", said, re.MULTILINE)
    assert re.search(rf"^machines +{found.machines} ", said, re.MULTILINE)
    assert f"{found.cost:,.2f} at your price" in said
    assert "at your price" not in run(*ASKED).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--documents", "9"), "--rate and --memory"),
        (("--documents", "9", "--rate", "5"), "--memory"),
        (("--documents", "9", "--rate", "0", "--memory", "1G"), "rate"),
        (("--documents", "9", "--rate", "5", "--memory", "1M"), "more memory"),
    ],
)
def test_what_is_missing_is_said(arguments, said):
    """The exit code is 2, and stderr says what to give."""
    done = run(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize("option", ["--rate", "--price", "--copies", "--room", "--together"])
def test_options_of_a_cluster_need_it(option):
    """Without --cluster they are no silent nothing."""
    done = CliRunner().invoke(main, ["plan", "--documents", "9", option, "2"])
    assert done.exit_code == 2
    assert f"{option} is for --cluster" in done.stderr


# ------------------------------------------------------------------------------ docs/appendix/scale.md


def test_every_constant_says_where_it_was_measured():
    """Each cost has a source, whose command exists, and stands in docs/appendix/scale.md with its value."""
    assert {field.name for field in msgspec.structs.fields(Costs)} == SOURCES.keys()
    text = SCALE.read_text(encoding="utf-8")
    for name, source in SOURCES.items():
        words = source.command.removeprefix("chrt -r 5 ").split()
        group, words = (main, words[1:]) if words[0] == "dedup" else (bench, words[2:])
        done = CliRunner().invoke(group, [*words, "--help"])
        assert done.exit_code == 0, f"{name}: {source.command}"
        row = f"| `{name}` | {getattr(MEASURED, name):,.10g} | {source.unit} |"
        assert row in text, row


def test_rates_of_a_set_on_the_page_are_the_models():
    """Of 1 to 8 shards with full cores, each page alone and sixteen in one write."""
    text = SCALE.read_text(encoding="utf-8")
    for name, together in (
        ("each page in a write of its own", 1),
        ("sixteen pages in one write", 16),
    ):
        rates = [
            1 / shard_of(Crawl(n * 10**6, 1, 3, together=together), n, 1, MEASURED).core_share
            for n in (1, 2, 4, 8)
        ]
        assert f"| {name} | {' | '.join(f'{rate:,.0f}' for rate in rates)} |" in text


def test_answers_are_those_that_were_measured():
    """The distribution that fan-out is simulated with is that of the file of measurements."""
    (command,) = [one for one in MEASUREMENTS if one.bench == "commands" and one.k == 3]
    times = [command(answered(share), "us") for share in ANSWER_SHARES]
    assert times == pytest.approx(ANSWER_US, abs=0.06)


def test_plans_on_the_page_are_the_models():
    """Every plan that is shown is what the command prints, simulated times aside."""
    text = SCALE.read_text(encoding="utf-8")
    shown = re.findall(r"^\$ dedup (plan --cluster .*)\n((?:.+\n|\n)*?)```", text, re.MULTILINE)
    assert len(shown) >= 4
    for command, expected in shown:
        said = CliRunner().invoke(main, command.split()).stdout.splitlines()
        said = [line.rstrip() for line in said if not line.startswith("a page's answer")]
        lines = [line for line in expected.splitlines() if not line.startswith("a page's answer")]
        assert said[: len(lines)] == lines, command


def test_fan_out_has_a_row_for_every_case_and_number_of_shards():
    """Of the same seed the same figures, on any machine."""
    done, again = (
        CliRunner().invoke(bench, ["fanout", "--pages", "1000", "--json"]) for _ in range(2)
    )
    assert done.exit_code == 0, done.output
    assert done.stdout == again.stdout
    rows = json.loads(done.stdout)["rows"]
    assert [*rows] == [f"{case.name}: {shards}" for case in CASES for shards in SHARDS]


def test_fan_out_on_the_page_is_of_every_case():
    """Each case has a row for each number of shards, and p99 never falls as they become more."""
    text = between(SCALE, "fan-out")
    assert [case.name for case in CASES] == re.findall(r"\*\*Held up by: (.*)\*\*", text)
    for table in text.split("**Held up by")[1:]:
        lines = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")][2:]
        assert [int(line[0]) for line in lines] == list(SHARDS)
        for i in range(len(LOADS)):
            p99s = [float(line[1 + i].split(",")[1]) for line in lines]
            assert p99s == sorted(p99s)
