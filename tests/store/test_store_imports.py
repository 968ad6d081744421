"""A crawl needs no arrays: numpy stays unloaded where a page is reserved, inserted and looked up."""

import subprocess
import sys
import textwrap

CRAWL = """
import sys
import dedup
from dedup.core.table import Table
from dedup.store import Store

with dedup.open(sys.argv[1], namespace="site") as detector:
    for i in range(30):
        page = dedup.fingerprint_text(" ".join(f"word{i * 31 + j}" for j in range(300)))
        verdict = detector.reserve(page, f"https://example.com/{i}")
        assert verdict.status == "unique", verdict
        if i % 3:
            detector.insert(verdict)
        else:
            detector.release(verdict)
    again = detector.reserve(page, "https://example.com/29")
    assert again.status == "refetch", again
    detector.insert(again)
    assert detector.reserve(page, "https://example.com/copy").status == "near_duplicate"
    assert detector.forget("https://example.com/1")
    detector.insert_many(
        [
            detector.reserve(
                dedup.fingerprint_text(" ".join(f"more{i * 31 + j}" for j in range(300))), f"k{i}"
            )
            for i in range(20)
        ]
    )
table = Table()
assert table.insert(7, 1) and table.insert_many([5, 9], [2, 3]) == 2
assert [m.document for m in table.probe(7, limit=1)] == [1]
assert table.remove(7, 1)
table.save(sys.argv[1] + "/table")
assert len(Table.load(sys.argv[1] + "/table")) == 2
assert dedup.simhash([1, 2, 3]) >= 0
print([name for name in sys.modules if name.split(".")[0] == "numpy"])
"""


def run(code, *arguments):
    """Run code in a process that has imported nothing."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_an_embedded_store_and_single_probes_load_no_numpy(tmp_path):
    """Reserve, insert, release, forget, one by one and in a crawl's batches; a saved table, too."""
    found = run(CRAWL, tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (0, "[]\n", ""), found.stderr


def test_the_addon_loads_no_numpy():
    found = run(
        "import sys, dedup.scrapy.middlewares, dedup.detector; print('numpy' in sys.modules)"
    )
    assert (found.returncode, found.stdout) == (0, "False\n"), found.stderr


def test_the_index_of_a_crawl_is_written_without_numpy(tmp_path):
    """Where a thousand documents and more are written at the end, as one segment a table."""
    found = run(
        """
        import sys
        import dedup
        with dedup.open(sys.argv[1]) as detector:
            page = dedup.fingerprint_text("some words " * 40)
            for i in range(1500):
                other = type(page)(i << 40, page.sketch, page.identity, page.features, page.recipe)
                detector.insert(detector.reserve(other, f"k{i}", exempt="start"))
        print("numpy" in sys.modules)
        """,
        tmp_path,
    )
    assert (found.returncode, found.stdout) == (0, "False\n"), found.stderr
    assert (tmp_path / "default" / "values" / "manifest.json").exists()
