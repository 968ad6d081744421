"""`dedup scan --resume`: a scan that is killed with -9 and gone on with is one that was never broken.

Verdicts, summary, report and store must be those of an unbroken run, wherever the kill fell.
"""

import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from crawling import wait_for
from forking import completed
from needing import linux_only
from scanning import mixed, records, response, write_lines, write_parquet, write_warc
from sizes import sized

from dedup.scan import ScanJob, scan
from dedup.scan.scanner import work_folder
from dedup.scan.verdicts import ScanJudge
from dedup.store import Store

# The command, with commits so frequent that a small input has many; argv[1] is where to be killed:
# before or after the n-th call of a step, or "" for nowhere.
CHILD = """
import os, signal, sys
import dedup.scan.scanner as run
from dedup.cli import main
from dedup.scan import accepted, kept, verdicts

run.COMMIT_ROWS = 40
where, count = sys.argv.pop(1), 0

def dies(room, name):
    step = getattr(room, name)
    def counted(*args, **options):
        global count
        count += 1
        number = count  # steps have steps
        if where == f"{number}-":
            os.kill(os.getpid(), signal.SIGKILL)
        result = step(*args, **options)
        if where == f"{number}+":
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(room, name, counted)

dies(run.Work, "_write_position")
dies(accepted.AcceptedLayers, "commit")
dies(run, "_update")
dies(kept, "_copy_unit")
dies(kept, "replace_file")
dies(kept, "sync_folder")
dies(verdicts, "write_report")
dies(run, "finish")
dies(run.Work, "remove")
dies(run.shutil, "rmtree")
dies(run.Store, "apply")
"""

# Runs the command once: python -c ... WHERE ARGUMENTS
ONCE = "main()"

# Kills it at every step in turn, and resumes it once; python -c ... FOLDER ARGUMENTS with {} for a name.
# every: 1, or 3 for a third of the steps.
# Each run is a fork: what takes long is to start Python. Prints the places, and how the runs ended.
EVERYWHERE = """
import itertools
from pathlib import Path

def forked(place, name):
    global where
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    where = place
    with open(f"{where_to}/{name}.out", "w") as out:
        os.dup2(out.fileno(), 1)
    sys.argv[1:] = [a.replace("{}", name) for a in sys.argv[1:]]
    main()

where_to = where
for place in (f"{number}{side}" for number in itertools.count(1, every) for side in "-+"):
    name = f"{place}.jsonl"
    ended = [forked(place, name)]
    if ended == [0]:
        break
    output = Path(where_to, name)
    if not output.exists() or run.work_folder(str(output)).exists():
        ended.append(forked("", name))
    print(name, *ended, flush=True)
"""

PAGES = mixed(160, 5)


@pytest.fixture
def inputs(tmp_path):
    """Files of every format, some of them damaged: a scan of many steps."""
    folder = tmp_path / "in"
    folder.mkdir()
    found = records(PAGES[:60])
    found.insert(20, response("http://a/", b"", kind="revisit"))
    write_warc(folder / "a.warc.gz", found)
    data = bytearray((folder / "a.warc.gz").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 300] = bytes(300)
    (folder / "a.warc.gz").write_bytes(data)
    write_warc(folder / "b.warc.gz", [b"".join(records(PAGES[60:80]))])
    write_lines(folder / "c.jsonl.gz", PAGES[80:110])
    with (folder / "d.jsonl").open("wb") as file:
        file.write(b"no json\n" + write_lines(tmp_path / "x.jsonl", PAGES[110:130]).read_bytes())
    write_parquet(folder / "e.parquet", PAGES[130:145], rows=4)
    for i, p in enumerate(PAGES[145:]):
        (folder / f"f{i:02}.html").write_text(p.html)
    return folder


def arguments(tmp_path, name, inputs) -> list[object]:
    report, store = tmp_path / f"{name}.json", tmp_path / f"{name}.store"
    given = ["scan", inputs, "--output", tmp_path / name, "--report", report, "--json"]
    return [*given, "--store", store, "--update", "--resume"]


def keeping(tmp_path, name) -> list[object]:
    """The option that has the input written once more, and where outcome() looks for it."""
    return ["--kept", tmp_path / f"{name}.kept"]


def run(tmp_path, name, inputs, where="", *options, wait=True):
    """Run the command in a process of its own, its output named `name`."""
    words = [where, *arguments(tmp_path, name, inputs), *options]
    if not wait:
        return subprocess.Popen(
            [sys.executable, "-c", CHILD + ONCE, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    done = completed(CHILD + ONCE, words)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode == 0, done.stdout


def is_over(output) -> bool:
    """Whether a scan is complete; a kill may come after that, and before the process has ended."""
    return output.exists() and not work_folder(str(output)).exists()


def outcome(tmp_path, name):
    """Return everything a finished scan leaves."""
    with Store.open(tmp_path / f"{name}.store", create=False) as store:
        documents = [d for _, d in store._documents.batch(0, 10**6)]
    kept = tmp_path / f"{name}.kept"
    return {
        "kept": {p.relative_to(kept): p.read_bytes() for p in kept.rglob("*") if p.is_file()},
        "verdicts": (tmp_path / name).read_bytes(),
        "report": (tmp_path / f"{name}.json").read_bytes(),
        "documents": {d.key: d.page for d in documents},
    }


@pytest.mark.sized
def test_a_scan_killed_at_any_step_ends_as_an_unbroken_one(tmp_path, inputs):
    """Killed before and after every single step (in `make test` every 25th) in turn, and resumed once."""
    done, summary = run(tmp_path, "whole.jsonl", inputs, "", *keeping(tmp_path, "whole.jsonl"))
    assert done
    whole = outcome(tmp_path, "whole.jsonl")
    rows = whole["verdicts"].splitlines()
    assert json.loads(summary)["broken"] >= 2
    assert len(rows) > 120
    assert len(whole["kept"]) > 10
    every = f"every = {sized(quick=25, full=1)}\n"
    command = [sys.executable, "-c", CHILD + every + EVERYWHERE, tmp_path]
    command += [*arguments(tmp_path, "{}", inputs), *keeping(tmp_path, "{}"), "--processes", "1"]
    done = subprocess.run(
        [*map(str, command)], capture_output=True, check=True, text=True, timeout=3600
    )
    kills = [line.split() for line in done.stdout.splitlines()]
    assert len(kills) > sized(quick=2, full=30), done.stderr
    for name, killed, *resumed in kills:
        assert killed == str(-signal.SIGKILL)
        if resumed:  # else the kill came after the end of everything
            assert resumed == ["0"], (name, done.stderr)
            assert json.loads((tmp_path / f"{name}.out").read_text()) == json.loads(summary)
        assert outcome(tmp_path, name) == whole, name


@pytest.mark.long
def test_a_scan_killed_at_random_moments_ends_as_an_unbroken_one(tmp_path, inputs):
    """Killed at a step, then from outside, a random while after it came further, and then let be."""
    assert run(tmp_path, "whole.jsonl", inputs, "", *keeping(tmp_path, "whole.jsonl"))[0]
    whole = outcome(tmp_path, "whole.jsonl")
    rng, name = random.Random(0), "killed.jsonl"
    kept = keeping(tmp_path, name)
    assert run(tmp_path, name, inputs, "5-", *kept)[0] is False
    for _ in range(5):
        processes = str(rng.choice((1, 2)))
        before = progress(tmp_path / name)
        process = run(tmp_path, name, inputs, "", *kept, "--processes", processes, wait=False)
        wait_for(lambda: process.poll() is not None or progress(tmp_path / name) != before)  # noqa: B023
        time.sleep(rng.uniform(0, 0.05))
        process.kill()  # which comes too late for one that was quick
        process.communicate()
        assert process.returncode in {0, -signal.SIGKILL}
        if is_over(tmp_path / name):
            break
    else:
        assert run(tmp_path, name, inputs, "", *kept)[0]
    assert is_over(tmp_path / name)
    assert outcome(tmp_path, name) == whole


def progress(output: Path) -> set[tuple[str, int]]:
    """Return what the unfinished work of a scan is, file by file."""
    with contextlib.suppress(FileNotFoundError):  # a file that was put in its place
        return {(f.name, f.stat().st_mtime_ns) for f in work_folder(str(output)).iterdir()}
    return set()


def test_what_was_done_is_not_done_again(tmp_path, monkeypatch):
    """After a kill near the end, hardly a page is judged once more."""
    file = write_warc(tmp_path / "p.warc.gz", records(PAGES))
    assert run(tmp_path, "v.jsonl", file, "12-", "--processes", "1")[0] is False
    before = (work_folder(str(tmp_path / "v.jsonl")) / "verdicts.jsonl").read_bytes()
    judged, take = [], ScanJudge.take
    monkeypatch.setattr(ScanJudge, "take", lambda *given: judged.append(given) or take(*given))
    again(tmp_path, file)
    whole = (tmp_path / "v.jsonl").read_bytes()
    assert len(before) > len(whole) // 3
    assert whole.startswith(before[: len(before) // 2])
    assert len(judged) < len(PAGES) * 2 // 3


@linux_only
def test_a_killed_scan_leaves_no_process(tmp_path):
    """Its workers end with it."""
    pages = mixed(2000)
    files = [write_lines(tmp_path / f"{i}.jsonl", pages[i::2]) for i in range(2)]
    process = run(tmp_path, "v.jsonl", files[0], "", files[1], "--processes", "2", wait=False)

    children: list[int] = []

    def two_work() -> bool:
        assert process.poll() is None
        children[:] = children_of(process.pid)
        return len(children) >= 2

    wait_for(two_work)
    process.kill()
    process.communicate()
    assert len(children) == 2
    wait_for(lambda: not any(map(alive, children)))


def children_of(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            found += map(int, thread.read_text().split())
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# ------------------------------------------------------------------------- work that does not fit


@pytest.fixture
def broken_off(tmp_path):
    """An input, and the work of a scan of it that was killed half way."""
    file = write_lines(tmp_path / "p.jsonl", PAGES)
    assert run(tmp_path, "v.jsonl", file, "9-")[0] is False
    return file


def again(tmp_path, file, **options):
    given = {"store": str(tmp_path / "v.jsonl.store"), "update": True, "resume": True} | options
    return scan(ScanJob(inputs=(str(file),), output=str(tmp_path / "v.jsonl"), **given))


def test_unfinished_work_is_not_overwritten(tmp_path, broken_off):
    """Without --resume a scan does not touch it, and says what to do."""
    with pytest.raises(Exception, match=r"\.v\.jsonl\.scan.*--resume"):
        again(tmp_path, broken_off, resume=False)
    assert again(tmp_path, broken_off).pages == len(PAGES)


def test_work_of_another_job_is_refused(tmp_path, broken_off):
    """Other options are named; the same ones go on."""
    for options in ({"distance": 3}, {"scope": "site"}, {"url_field": "u"}):
        with pytest.raises(Exception, match=next(iter(options))):
            again(tmp_path, broken_off, **options)
    assert again(tmp_path, broken_off, processes=2).pages == len(PAGES)


def test_a_changed_input_is_refused(tmp_path, broken_off):
    """A file that grew since is named."""
    with broken_off.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(Exception, match=r"p\.jsonl has changed since"):
        again(tmp_path, broken_off)


def test_damaged_work_is_refused_or_harmless(tmp_path, broken_off):
    """A cut file of the work ends in a clear error, or in the right verdicts."""
    assert run(tmp_path, "whole.jsonl", broken_off)[0]
    kept = shutil.copytree(work := work_folder(str(tmp_path / "v.jsonl")), tmp_path / "kept")
    for name in ("position.0", "position.1", "verdicts.jsonl", "job.json"):
        for folder in (work, tmp_path / "v.jsonl.store"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, work)
        (work / name).write_bytes((work / name).read_bytes()[:-5])
        try:
            again(tmp_path, broken_off)
        except Exception as error:
            assert "remove" in str(error), name
        else:
            assert (tmp_path / "v.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
            (tmp_path / "v.jsonl").unlink()
