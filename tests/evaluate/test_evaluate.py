"""`dedup evaluate`: figures against a naive count, labels, malformed sets."""

import json
import random
import re
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import oracle
import pytest
import zstandard
from click.testing import CliRunner, Result

from dedup import fingerprint, recipe_of
from dedup.cli import main
from dedup.evaluate import score
from dedup.model.policy import Options

PAGES = 48
RECIPE = recipe_of()
OWN = Options().policy(RECIPE)


def call(*args: object) -> Result:
    return CliRunner().invoke(main, ["evaluate", *map(str, args)], prog_name="dedup")


def lines(records) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def html(words: list[str], title: str = "") -> str:
    head = f"<title>{title}</title>" * bool(title)
    return f"<html>{head}<body><p>{' '.join(words)}</p></body></html>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A set in which labels, kinds and likeness have nothing to do with each other."""
    rng = random.Random(7)
    stories = [[f"w{rng.randrange(10_000)}" for _ in range(length)] for length in (12, 80, 80, 300)]
    pages, metas = [], []
    for i in range(PAGES):
        words = list(rng.choice(stories))
        for _ in range(rng.choice((0, 0, 1, 3, 6))):
            words[rng.randrange(len(words))] = f"n{rng.randrange(1000)}"
        url = f"http://{rng.choice('hhi')}/{i}"
        pages.append({"id": f"p{i}", "url": url, "html": html(words, rng.choice(("", "One")))})
        kind = rng.choice(("real", "real", "c-ads", "synd", "soft404"))
        metas.append({"id": f"p{i}", "grp": f"g{i % 9}", "kind": kind})
    order = [page["id"] for page in pages]
    rng.shuffle(order)
    some = [pair for pair in combinations(range(PAGES), 2) if rng.random() < 0.3]
    rows = [(*pair[:: rng.choice((1, -1))], rng.choice((0.51, 0.7, 0.9, 1.0))) for pair in some]
    listed = [(*pair, rng.choice("11100U")) for pair in rng.sample([*combinations(order, 2)], 300)]
    top = tmp_path_factory.mktemp("set")
    compress = zstandard.ZstdCompressor().compress
    (top / "pages.jsonl.zst").write_bytes(compress(lines(pages)))
    (top / "labels_meta.jsonl.zst").write_bytes(compress(lines(metas[::-1])))
    (top / "order.json").write_text(json.dumps(order))
    (top / "pairs.tsv").write_text("".join("\t".join(row) + "\n" for row in listed))
    np.savez(top / "allpairs_j.npz", main=np.array(rows))
    return top, Naive(pages, metas, order, rows, listed)


class Naive:
    """Counts pair by pair, with Python's own numbers."""

    def __init__(self, pages, metas, order, rows, listed) -> None:
        self.meta = {meta["id"]: meta for meta in metas}
        self.host = {page["id"]: page["url"].split("/")[2] for page in pages}
        self.prints = {p["id"]: fingerprint(p["html"], url=p["url"]) for p in pages}
        similar = {frozenset((order[i], order[j])): similarity for i, j, similarity in rows}
        self.every = {
            frozenset(pair): self._label(*pair, similar.get(frozenset(pair), 0))
            for pair in combinations(order, 2)
        }
        self.listed = {frozenset(row[:2]): {"1": 1, "0": 0}.get(row[2]) for row in listed}

    def _label(self, a, b, similarity):
        soft = [self.meta[page]["kind"] == "soft404" for page in (a, b)]
        if all(soft):
            return 1 if self.meta[a]["grp"] == self.meta[b]["grp"] else None
        if any(soft):
            return 0
        return 1 if similarity >= 0.9 else None if similarity > 0.5 else 0

    def near(self, a, b, policy=OWN):
        kinds = {self.meta[page]["kind"] for page in (a, b)}
        same_site = self.host[a] == self.host[b] and "synd" not in kinds
        a, b = self.prints[a], self.prints[b]
        bits, alike = (a.value ^ b.value).bit_count(), oracle.similarity(a.sketch, b.sketch)
        least = policy.similarity if same_site else policy.similarity_across
        few = min(a.features, b.features)
        if few < 20:
            least = policy.similarity if same_site and few >= 8 else 2
        elif same_site and few >= 60 and a.title == b.title != 0:
            least = policy.similarity_titled
        return bits <= policy.distance and alike >= least

    def count(self, labels, policy=OWN, where=lambda pair: True):
        near = found = wrong = 0
        for pair, label in labels.items():
            if label is not None and where(pair):
                called = self.near(*pair, policy)
                near += label == 1
                found += called and label == 1
                wrong += called and label == 0
        return near, found, wrong

    def real(self, pair):
        return all(self.meta[page]["kind"] == "real" for page in pair)


def counts(figures) -> tuple[int, int, int]:
    return figures["near_duplicates"], figures["found"], figures["wrong"]


def test_every_figure_is_what_a_naive_count_gives(folder):
    """Over all and labelled pairs, real pages too: by the recipe, and for every k with and without similarity."""
    folder, naive = folder
    seen = json.loads(call("--set", folder, "--json").stdout)
    for name, labels in (("all", naive.every), ("labelled", naive.listed)):
        for view, where in ((name, lambda _: True), (f"{name}_real", naive.real)):
            assert counts(seen[view]) == naive.count(labels, OWN, where)
            assert [point["k"] for point in seen[view]["curve"]] == list(range(1, 11))
            for point in seen[view]["curve"][::3]:
                confirmed = Options(distance=point["k"]).policy(RECIPE)
                alone = Options(distance=point["k"], similarity="paper").policy(RECIPE)
                assert counts(point["confirmed"]) == naive.count(labels, confirmed, where)
                assert counts(point["alone"]) == naive.count(labels, alone, where)
    near, found, wrong = counts(seen["all"])
    assert found and wrong
    assert seen["all"]["precision"] == pytest.approx(found / (found + wrong))
    assert seen["all"]["recall"] == pytest.approx(found / near)


def test_a_similarity_can_be_asked_for(folder):
    """Both reach the rule, and stand in the answer."""
    folder, naive = folder
    seen = json.loads(call("--set", folder, "--json", "--similarity", 0.7).stdout)
    policy = Options(similarity=0.7).policy(RECIPE)
    assert counts(seen["all"]) == naive.count(naive.every, policy)
    assert seen["similarity"] == 0.7


def test_too_many_pairs_are_an_error_not_a_full_memory(folder, monkeypatch):
    """A set most of whose pages read the same is refused."""
    monkeypatch.setattr(score, "PAIRS_LIMIT", 10)
    result = call("--set", folder[0])
    assert result.exit_code == 1
    assert "more than 10 pairs of pages lie within distance 10" in result.stderr


# ----------------------------------------------------------------------------- sets of other forms


@pytest.fixture
def files(tmp_path):
    """Three pages, of which two are alike, and their labels; no pair (a, c)."""
    story = [f"word{i}" for i in range(100)]
    texts = {"a": story, "b": [*story[:99], "other"], "c": story[::-1], "d": ["x", "y"]}
    pages = [{"id": name, "html": html(words)} for name, words in texts.items()]
    (tmp_path / "pages.jsonl").write_bytes(lines(pages))
    (tmp_path / "pairs.tsv").write_text("a\tb\t1\tedit\nd\tb\t0\n\nc\tb\tU\n")
    return tmp_path


def given_files(files: Path, *options: object) -> Result:
    return call("--pages", files / "pages.jsonl", "--pairs", files / "pairs.tsv", *options)


def test_pages_and_a_list_of_pairs(files):
    """Without a folder, figures are over the listed pairs."""
    seen = json.loads(given_files(files, "--json").stdout)
    assert "all" not in seen
    assert counts(seen["labelled"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pages.jsonl", '{"id": "a", "html": ""}\n{"id": 7, "html": ""}\n', r"pages.jsonl: line 2: Expected `str`, got `int` - at `\$.id`"),
        ("pages.jsonl", '{"id": "a"}\n', "pages.jsonl: line 1: Object missing required field `html`"),
        ("pages.jsonl", '\n{"id": "a", "html": ""}\nnot json\n', "pages.jsonl: line 3: JSON is malformed"),
        ("pages.jsonl", '{"id":"a","html":""}\n{"id":"a","html":""}\n', "line 2: the id 'a' occurs twice"),
        ("pages.jsonl", "\n", "pages.jsonl: it contains no pages"),
        ("pairs.tsv", "a\tb\t1\na\tzz\t1\n", "pairs.tsv: line 2: 'zz' is no page's id"),
        ("pairs.tsv", "a\tb\t2\n", "pairs.tsv: line 1: '2' is .* no label"),
        ("pairs.tsv", "a\tb\t1\nb\ta\t0\n", "line 2: .*two labels of one pair"),
        ("pairs.tsv", "page_a\tpage_b\tkind\na\tb\tx\n", "line 2: 'label' is .* a column that is missing"),
        ("pairs.tsv", "", "pairs.tsv: it contains no pairs"),
        ("pairs.tsv", b"a\tb\t1\n\xff\n", "pairs.tsv: line 2: "),
        ("labels_meta.jsonl", '{"id": "a", "grp": "g"}\n', "labels_meta.jsonl: it has no line for 'b'"),
        ("allpairs_j.npz", b"no array", "allpairs_j.npz: 'main' must be rows"),
        ("order.json", '["a", "x"]', "order.json the ids .*'x'"),
    ],
)  # fmt: skip
def test_a_malformed_set_is_named_with_file_and_line(files, name, content, message):
    """Each kind of fault ends with exit code 1 and one line that names file, place and fault."""
    meta = [{"id": each, "grp": each} for each in "abcd"]
    (files / "order.json").write_text('["a", "b", "c", "d"]')
    if name in {"labels_meta.jsonl", "allpairs_j.npz", "order.json"}:
        (files / "labels_meta.jsonl").write_bytes(lines(meta))
        np.savez(files / "allpairs_j.npz", main=np.array([[0, 1, 1.0]]))
    (files / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = call("--set", files)
    assert result.exit_code == 1, result.output
    assert re.search(message, result.stderr)
    assert result.stderr.count("\n") == 1
    assert not result.stdout


def test_a_cut_or_false_archive_is_named(files):
    """What is not zstd, or ends too early, is a named file, not a shorter set."""
    pages = (files / "pages.jsonl").read_bytes() * 1
    padding = random.Random(1).randbytes(300_000).hex()
    whole = zstandard.ZstdCompressor().compress(
        pages + lines([{"id": "long", "html": padding}, {"id": "last", "html": padding}])
    )
    (files / "pages.jsonl").unlink()
    for content in (b"not compressed at all", whole[: len(whole) * 3 // 4]):
        (files / "pages.jsonl.zst").write_bytes(content)
        result = call("--set", files)
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
        assert "pages.jsonl.zst: " in result.stderr


def test_what_is_missing_is_a_usage_error(files, tmp_path, monkeypatch):
    """No set, half a set, two sets, an empty folder, a missing extra: exit code 2, with the way out."""
    empty = tmp_path / "empty"
    empty.mkdir()
    (files / "pages.zst").write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "zstandard", None)
        compressed = call("--pages", files / "pages.zst", "--pairs", files / "pairs.tsv")
    for result, message in (
        (call(), "Give either --set, or --pages with --pairs"),
        (call("--pages", files / "pages.jsonl"), "Give either --set, or --pages with --pairs"),
        (given_files(files, "--set", files), "Give either --set, or --pages with --pairs"),
        (call("--set", empty), "no labelled set: there is no pages.jsonl"),
        (compressed, "pip install '.[eval]'"),
    ):
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())


# ---------------------------------------------------------------------- the demo's pages, the output


def test_the_report_for_a_person(folder):
    """Headline and curve come as tables, with the figures of the JSON."""
    folder, _ = folder
    seen = json.loads(call("--set", folder, "--json").stdout)
    result = call("--set", folder)
    assert result.exit_code == 0
    near, found, wrong = counts(seen["all"])
    wanted = rf"^all pairs +{near} +{found} +{wrong} +{seen['all']['precision']:.4f} "
    assert re.search(wanted, result.stdout, re.MULTILINE)
    assert re.search(r"^  real pages only ", result.stdout, re.MULTILINE)
    for k in range(1, 11):
        assert re.search(rf"^ *{k}  [01]\.\d{{4}} ", result.stdout, re.MULTILINE)
