"""The demo's pages as a labelled set, a folder as `dedup evaluate --set` takes it."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np

from dedup.demo.site import Site

SAME, ALIKE = 1.0, 0.7  # of one group; of one family of products: left open


def write_demo_set(folder: Path, pages: int, seed: int = 1) -> Path:
    """Write each page as its first request gets it, and what the site knows of it; return the folder."""
    site = Site(pages, seed)
    ids = list(site.truth)
    truths = list(site.truth.values())
    with (
        (folder / "pages.jsonl").open("w") as file,
        (folder / "labels_meta.jsonl").open("w") as meta,
    ):
        for number, (path, truth) in enumerate(site.truth.items()):
            html = site.render(path, number)[2].decode()
            json.dump({"id": path, "url": f"http://localhost{path}", "html": html}, file)
            json.dump({"id": path, "grp": truth.family or truth.group, "kind": truth.kind}, meta)
            file.write("\n")
            meta.write("\n")
    rows = [
        (i, j, SAME if truths[i].group == truths[j].group else ALIKE)
        for i, j in combinations(range(pages), 2)
        if truths[i].group == truths[j].group
        or (truths[i].family and truths[i].family == truths[j].family)
    ]
    np.savez(folder / "allpairs_j.npz", main=np.array(rows, np.float64).reshape(-1, 3))
    (folder / "order.json").write_text(json.dumps(ids))
    return folder
