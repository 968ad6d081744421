"""MinHash of datatrove and text-dedup on the texts of archives.py, run by a Python that has them.

    archive_peers.py datatrove|text-dedup TEXTS WORK     deduplicate *.jsonl, {"id", "text"}
    archive_peers.py kept datatrove|text-dedup WORK      the ids that were kept, as a list of JSON

Each with its own defaults and two processes.
"""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path


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
        LocalPipelineExecutor(pipeline, tasks=tasks, workers=2, skip_completed=False).run()

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


def main(what: str, *arguments: str) -> None:
    """Run one of them in an empty folder, or say what it kept."""
    if what == "kept":
        kept(*arguments)
        return
    _, work = arguments
    shutil.rmtree(work, ignore_errors=True)
    Path(work).mkdir(parents=True)
    {"datatrove": datatrove, "text-dedup": text_dedup}[what](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
