"""What archives.py compares with: FastWARC alone, and MinHash of datatrove and text-dedup.

    archive_contenders.py records|bodies|fingerprints PROCESSES FILE ...   read WARC files with FastWARC
    archive_contenders.py datatrove|text-dedup TEXTS WORK                  deduplicate *.jsonl, {"id", "text"}
    archive_contenders.py kept datatrove|text-dedup WORK                   the ids that were kept, as JSON

The second and third run in a Python that has them, each with its own defaults and two processes. Nothing is imported that
a contender does not need: its start counts, too.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def read(way: str, path: str) -> int:
    """Read a file with FastWARC; return the number of its records."""
    from fastwarc.warc import ArchiveIterator

    count = 0
    with open(path, "rb") as file:  # noqa: PTH123 - FastWARC reads any file
        for record in ArchiveIterator(file, inplace=True, parse_http=way != "records"):
            count += 1
            if way != "records":
                body = record.reader.read()
                if way == "fingerprints":
                    from dedup.core.fingerprint import fingerprint

                    fingerprint(body, encoding=record.http_charset)
    return count


def read_all(way: str, processes: str, *paths: str) -> None:
    """Read files, each in one of so many processes."""
    if processes == "1":
        print(sum(read(way, path) for path in paths))
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(int(processes)) as pool:
        print(sum(pool.map(read, [way] * len(paths), paths)))


def datatrove(texts: str, work: str) -> None:
    """Signatures, buckets, clusters, filter, as its example has them."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import (
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
        MinhashDedupSignature,
    )
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers.jsonl import JsonlWriter

    config = MinhashConfig()
    folders = {name: f"{work}/{name}" for name in ("signatures", "buckets", "removed", "kept")}

    def step(pipeline: list, tasks: int) -> None:
        LocalPipelineExecutor(
            pipeline,
            tasks=tasks,
            workers=2,
            skip_completed=False,
            start_method="fork",
            logging_dir=f"{work}/logs",
        ).run()  # only so is their CPU time counted

    step([JsonlReader(texts), MinhashDedupSignature(folders["signatures"], config=config)], 2)
    step(
        [MinhashDedupBuckets(folders["signatures"], folders["buckets"], config=config)],
        config.num_buckets,
    )
    step([MinhashDedupCluster(folders["buckets"], folders["removed"], config=config)], 1)
    step(
        [JsonlReader(texts), MinhashDedupFilter(folders["removed"]), JsonlWriter(folders["kept"])],
        2,
    )


def text_dedup(texts: str, work: str) -> None:
    """Its script for MinHash."""
    command = [sys.executable, "-m", "text_dedup.minhash", "--path", "json", "--data_dir", texts]
    command += ["--split", "train", "--column", "text", "--cache_dir", f"{work}/cache"]
    command += ["--output", f"{work}/kept", "--num_proc", "2"]
    subprocess.run(command, check=True, stdout=sys.stderr)


def kept(name: str, work: str) -> None:
    """Print the ids of the texts that were kept."""
    if name == "datatrove":
        files = Path(work, "kept").glob("*.jsonl.gz")
        lines = [line for f in files for line in gzip.decompress(f.read_bytes()).splitlines()]
        ids = [json.loads(line)["id"] for line in lines]
    else:
        from datasets import load_from_disk

        ids = load_from_disk(f"{work}/kept")["id"]
    print(json.dumps(sorted(int(each) for each in ids)))


def deduplicate(name: str, texts: str, work: str) -> None:
    """Run one of the two in an empty folder; what it says is in the file `log` there."""
    shutil.rmtree(work, ignore_errors=True)
    Path(work).mkdir(parents=True)
    stderr = os.dup(2)
    with Path(work, "log").open("wb") as log:
        os.dup2(log.fileno(), 2)
        try:
            {"datatrove": datatrove, "text-dedup": text_dedup}[name](texts, work)
        except BaseException:
            os.dup2(stderr, 2)
            sys.stderr.write(Path(work, "log").read_text("utf-8", "replace")[-4000:])
            raise


def main(what: str, *arguments: str) -> None:
    """Do what the first argument says."""
    if what == "kept":
        kept(*arguments)
    elif what in {"datatrove", "text-dedup"}:
        deduplicate(what, *arguments)
    else:
        read_all(what, *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
