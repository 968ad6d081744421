"""`dedup evaluate`: figures against a naive count, labels, intervals, malformed sets."""

import json
import random
import re
import sys
from itertools import combinations
from pathlib import Path

import msgspec
import numpy as np
import oracle
import pytest
import zstandard
from click.testing import CliRunner, Result
from demo_set import write_demo_set

from dedup import fingerprint, near_duplicate, recipe_of
from dedup.cli import main
from dedup.core.fingerprint import similarity
from dedup.evaluate import score as pairs_module
from dedup.evaluate.score import (
    SIMILARITIES,
    bootstrap,
    called,
    evaluate,
    every_pair,
    within,
)
from dedup.evaluate.sets import FolderSet, measure
from dedup.model.errors import DedupError
from dedup.model.page import identity_of
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
        title = rng.choice(("", "One", "Two"))
        pages.append({"id": f"p{i}", "url": url, "html": html(words, title)})
        metas.append(
            {
                "id": f"p{i}",
                "src": rng.choice("st"),
                "grp": f"g{i % 9}",
                "kind": rng.choice(("real", "real", "c-ads", "c-nav", "synd", "soft404")),
                "lang": rng.choice(("en", "zh", "ja")),
                "main": " ".join(words),
            }
        )
    order = [page["id"] for page in pages]
    rng.shuffle(order)
    rows = [
        (i, j, rng.choice((0.51, 0.7, 0.9, 1.0)))
        for i, j in combinations(range(PAGES), 2)
        if rng.random() < 0.3
    ]
    rows = [
        (j, i, similarity) if rng.random() < 0.5 else (i, j, similarity)
        for i, j, similarity in rows
    ]
    listed = rng.sample([*combinations(order, 2)], 300)
    kinds = ("c-ads", "c-ads+c-nav", "hardneg:x", "synd")
    tsv = "page_a\tpage_b\tlabel\tkind\tjaccard\n" + "".join(
        f"{a}\t{b}\t{rng.choice('11100U')}\t{rng.choice(kinds)}\t0.5\n" for a, b in listed
    )
    top = tmp_path_factory.mktemp("set")
    compress = zstandard.ZstdCompressor().compress
    (top / "pages.jsonl.zst").write_bytes(compress(lines(pages)))
    (top / "labels_meta.jsonl.zst").write_bytes(compress(lines(metas[::-1])))
    (top / "order.json").write_text(json.dumps(order))
    (top / "pairs.tsv").write_text(tsv)
    np.savez(top / "allpairs_j.npz", main=np.array(rows), full=np.zeros((0, 3)))
    return top


# ------------------------------------------------------------------------------ the naive count


class Naive:
    """Counts pair by pair, with Python's own numbers, from the files themselves."""

    def __init__(self, folder: Path) -> None:
        read = zstandard.ZstdDecompressor().decompress
        self.pages = [
            json.loads(x) for x in read((folder / "pages.jsonl.zst").read_bytes()).splitlines()
        ]
        metas = [
            json.loads(x)
            for x in read((folder / "labels_meta.jsonl.zst").read_bytes()).splitlines()
        ]
        self.meta = {meta["id"]: meta for meta in metas}
        self.ids = [page["id"] for page in self.pages]
        self.prints = {p["id"]: fingerprint(p["html"], url=p["url"]) for p in self.pages}
        order = json.loads((folder / "order.json").read_text())
        similar = {
            frozenset((order[int(i)], order[int(j)])): similarity
            for i, j, similarity in np.load(folder / "allpairs_j.npz")["main"]
        }
        self.every = {
            frozenset(pair): self._label(*pair, similar) for pair in combinations(self.ids, 2)
        }
        rows = [x.split("\t") for x in (folder / "pairs.tsv").read_text().splitlines()[1:]]
        self.listed = {frozenset(row[:2]): {"1": 1, "0": 0}.get(row[2]) for row in rows}
        self.listed_kinds = {frozenset(row[:2]): row[3].split("+") for row in rows}

    def _label(self, a, b, similar):
        soft = [self.meta[page]["kind"] == "soft404" for page in (a, b)]
        if all(soft):
            return 1 if self.meta[a]["grp"] == self.meta[b]["grp"] else None
        if any(soft):
            return 0
        similarity = similar.get(frozenset((a, b)), 0)
        return 1 if similarity >= 0.9 else None if similarity > 0.5 else 0

    def near(self, a, b, policy=OWN, identity=False):
        sites = {self.pages[self.ids.index(page)]["url"].split("/")[2] for page in (a, b)}
        same_site = len(sites) == 1 and "synd" not in {self.meta[page]["kind"] for page in (a, b)}
        a, b = self.prints[a], self.prints[b]
        bits, alike = (a.value ^ b.value).bit_count(), oracle.similarity(a.sketch, b.sketch)
        least = policy.similarity if same_site else policy.similarity_across
        few = min(a.features, b.features)
        if few < 20:
            least = policy.similarity_short if same_site and few >= 8 else 2
        other = same_site and (bits, alike) != (0, 1)
        other = other and identity_of(a.identity, b.identity) == "other"
        return bits <= policy.distance and alike >= least and not (identity and other)

    def count(self, labels, policy=OWN, where=lambda pair: True, identity=False):
        near = found = wrong = 0
        for pair, label in labels.items():
            if label is not None and where(pair):
                called = self.near(*pair, policy, identity)
                near += label == 1
                found += called and label == 1
                wrong += called and label == 0
        return near, found, wrong

    def real(self, pair):
        return all(self.meta[page]["kind"] == "real" for page in pair)


def counts(figures) -> tuple[int, int, int]:
    return figures["near_duplicates"], figures["found"], figures["wrong"]


@pytest.mark.parametrize("identity", [False, True])
def test_every_figure_is_what_a_naive_count_gives(folder, identity):
    """Over all and labelled pairs, real pages too: defaults, both presets, by k and by similarity."""
    naive = Naive(folder)
    options = ["--identity"] if identity else []
    seen = json.loads(call("--set", folder, "--json", "--bootstrap", 0, *options).stdout)
    for name, labels in (("all", naive.every), ("labelled", naive.listed)):
        for view, where in ((name, lambda _: True), (f"{name}_real", naive.real)):
            assert counts(seen[view]) == naive.count(labels, OWN, where, identity)
            paper = Options(similarity="paper").policy(RECIPE)
            assert counts(seen[view]["paper"]) == naive.count(labels, paper, where)
            assert [point["k"] for point in seen[view]["curve"]] == list(range(1, 11))
            for point in seen[view]["curve"][::3]:
                with_ = Options(distance=point["k"]).policy(RECIPE)
                alone = Options(distance=point["k"], similarity="paper").policy(RECIPE)
                assert counts(point["confirmed"]) == naive.count(labels, with_, where, identity)
                assert counts(point["alone"]) == naive.count(labels, alone, where)
            thresholds = seen[view]["thresholds"]
            assert tuple(point["similarity"] for point in thresholds) == SIMILARITIES
            for point in thresholds[::4]:
                asked = point["similarity"]
                policy = msgspec.structs.replace(
                    OWN,
                    similarity=asked,
                    similarity_across=asked - 0.125,
                    similarity_short=max(asked, 0.9),
                )
                assert counts(point["figures"]) == naive.count(labels, policy, where, identity)
    near, found, wrong = counts(seen["all"])
    assert found and wrong
    assert seen["all"]["precision"] == pytest.approx(found / (found + wrong))
    assert seen["all"]["recall"] == pytest.approx(found / near)


def test_slices_are_what_a_naive_count_gives(folder):
    """Kinds of pages or of listed pairs, languages, lengths and sources, each counted by hand."""
    naive = Naive(folder)
    seen = json.loads(call("--set", folder, "--json", "--distance", 4, "--similarity", 0.7).stdout)
    every, listed = seen["all"]["slices"], seen["labelled"]["slices"]

    def check(labels, figures, where):
        policy = Options(distance=4, similarity=0.7).policy(RECIPE)
        assert counts(figures) == naive.count(labels, policy, where)

    def values(pair, field):
        return {naive.meta[page][field] for page in pair}

    for kind, figures in every["kind"].items():
        wanted = {"real"} if kind == "real" else None
        check(
            naive.every,
            figures,
            lambda p, w=wanted, k=kind: values(p, "kind") == w if w else k in values(p, "kind"),
        )
    for kind, figures in listed["kind"].items():
        check(naive.listed, figures, lambda p, k=kind: k in naive.listed_kinds[p])
    assert set(listed["kind"]) == {"c-ads", "c-nav", "hardneg:x", "synd"}
    for language, figures in every["language"].items():
        wanted = [{language}] if len(language) == 2 else [{"zh"}, {"ja"}, {"zh", "ja"}]
        if language == "mixed":
            check(naive.every, figures, lambda p: len(values(p, "lang")) == 2)
        else:
            check(naive.every, figures, lambda p, w=wanted: values(p, "lang") in w)
    assert set(every["language"]) == {"en", "zh", "ja", "mixed", "zh+ja"}

    def words(pair):
        return min(len(naive.meta[page]["main"].split()) for page in pair)

    for name, (low, high) in {
        "under 60": (0, 60),
        "60 to 99": (60, 100),
        "300 to 999": (300, 1000),
    }.items():
        check(naive.every, every["words"][name], lambda p, a=low, b=high: a <= words(p) < b)
    for source in "st":
        check(naive.every, every["source"][source], lambda p, s=source: values(p, "src") == {s})


def test_the_rule_is_that_of_near_duplicate(folder):
    """What is called for many pairs at once is what near_duplicate() calls for each."""
    source = FolderSet(folder)
    prints = measure(source.pages(), RECIPE)
    pages = prints.pages
    pages[3] = msgspec.structs.replace(pages[3], unread=True)
    pairs = every_pair(prints, source.labels(prints.ids), 15)
    expected = [
        near_duplicate(pages[a], pages[b], same_site=bool(site))
        for a, b, site in zip(pairs.a, pairs.b, pairs.site, strict=True)
    ]
    assert set(pairs.site.tolist()) == {0, 1}
    assert any(expected)
    assert called(pairs, OWN).tolist() == expected
    alike = [similarity(pages[a], pages[b]) for a, b in zip(pairs.a, pairs.b, strict=True)]
    assert pairs.similarity.tolist() == alike


def test_too_many_pairs_are_an_error_not_a_full_memory(monkeypatch):
    """A set whose pages all read the same is refused, by the sample or by the count."""
    monkeypatch.setattr(pairs_module, "PAIRS_LIMIT", 1000)
    with pytest.raises(DedupError, match="can be looked at: most pages of this set read the same"):
        within(np.full(60, 9, np.uint64), 1)
    with pytest.raises(DedupError, match="can be looked at"):
        within(np.full(2000, 9, np.uint64), 1)


# ------------------------------------------------------------------------------------ bootstrap


def test_intervals_are_those_of_groups_drawn_one_by_one(folder):
    """Each draw, made by hand from the same numbers, gives the figures behind the interval."""
    source = FolderSet(folder)
    prints = measure(source.pages(), RECIPE)
    labels = source.labels(prints.ids)
    _, judged = evaluate(prints, labels, Options(distance=4).policy(RECIPE), 0, 1)
    pairs, found = judged
    groups = labels.pages.groups
    rng = np.random.default_rng(11)
    precision, recall = [], []
    for _ in range(40):
        drawn = rng.integers(0, 9, 9).tolist()
        near = right = wrong = 0
        for a, b, label, called_near in zip(pairs.a, pairs.b, pairs.label, found, strict=True):
            v, w = drawn.count(groups[a]), drawn.count(groups[b])
            weight = v if groups[a] == groups[b] else v * w
            near += weight * (label == 1)
            right += weight * (label == 1 and called_near)
            wrong += weight * (label == 0 and called_near)
        recall.append(right / near)
        precision.append(right / (right + wrong))
    seen = bootstrap(pairs, found, None, groups, 40, 11)
    assert seen.recall == pytest.approx(np.percentile(recall, (2.5, 97.5)))
    assert seen.precision == pytest.approx(np.percentile(precision, (2.5, 97.5)))


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
    """Without a folder, figures are over the listed pairs, and over all if the list is complete."""
    seen = json.loads(given_files(files, "--json").stdout)
    assert "all" not in seen
    assert counts(seen["labelled"]) == (1, 1, 0)
    assert set(seen["labelled"]["slices"]) == {"kind", "features"}
    seen = json.loads(given_files(files, "--json", "--complete", "--similarity", 0).stdout)
    assert counts(seen["labelled"]) == (1, 1, 0)
    assert counts(seen["all"]) == (1, 1, 1)  # a and c: the same words in another order


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pages.jsonl", '{"id": "a", "html": ""}\n{"id": 7, "html": ""}\n', r"pages.jsonl: line 2: Expected `str`, got `int` - at `\$.id`"),
        ("pages.jsonl", '{"id": "a"}\n', "pages.jsonl: line 1: Object missing required field `html`"),
        ("pages.jsonl", '\n{"id": "a", "html": ""}\nnot json\n', "pages.jsonl: line 3: JSON is malformed"),
        ("pages.jsonl", '{"id":"a","html":""}\n{"id":"a","html":""}\n', "line 2: the id 'a' occurs twice"),
        ("pages.jsonl", "\n", "pages.jsonl: it contains no pages"),
        ("pairs.tsv", "a\tb\t1\na\tzz\t1\n", "pairs.tsv: line 2: 'zz' is not the id of a page"),
        ("pairs.tsv", "a\tb\t2\n", "pairs.tsv: line 1: the label '2' is none of 1, 0, U"),
        ("pairs.tsv", "a\tb\t1\nb\ta\t0\n", "line 2: .* had another label before"),
        ("pairs.tsv", "page_a\tpage_b\tkind\n", "line 1: there is no column label"),
        ("pairs.tsv", "", "pairs.tsv: it contains no pairs"),
        ("pairs.tsv", b"a\tb\t1\n\xff\n", "pairs.tsv: it is not UTF-8"),
        ("labels_meta.jsonl", '{"id": "a", "grp": "g"}\n', "labels_meta.jsonl: it has no line for 'b'"),
        ("labels_meta.jsonl", '{"id":"a","grp":"g"}\n' * 2, "line 2: 'a' occurs twice"),
        ("allpairs_j.npz", b"no array", "allpairs_j.npz: there is no array 'main' to be read"),
    ],
)  # fmt: skip
def test_a_malformed_set_is_named_with_file_and_line(files, name, content, message):
    """Each kind of fault ends with exit code 1 and one line that names file, place and fault."""
    (files / "order.json").write_text('["a", "b", "c", "d"]')
    (files / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = call("--set", files)
    assert result.exit_code == 1, result.output
    assert re.search(message, result.stderr)
    assert result.stderr.count("\n") == 1
    assert not result.stdout


@pytest.mark.parametrize(
    ("rows", "order", "message"),
    [
        ([[0, 4, 1.0]], "abcd", r"row 0 of 'main', \[0.0, 4.0, 1.0\], is no pair of the 4 pages"),
        ([[0, 1, 1.0], [2, 2, 1.0]], "abcd", "row 1 of 'main'"),
        ([[0, 1, float("nan")]], "abcd", "row 0 of 'main'"),
        ([[0, 1, 1.0]], "abc", "order.json: its 3 ids are not those of the 4 pages"),
    ],
)
def test_malformed_labels_of_all_pairs_are_named(files, rows, order, message):
    """Rows that are no pairs, and an order of other pages, are refused."""
    (files / "order.json").write_text(json.dumps(list(order)))
    np.savez(files / "allpairs_j.npz", main=np.array(rows))
    result = call("--set", files)
    assert result.exit_code == 1
    assert re.search(message, result.stderr)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: b"not compressed at all", "no whole zstd file"),
        (lambda whole: whole + whole[:9], "it ends in the middle"),
    ],
    ids=["false", "second frame cut"],
)
def test_a_cut_or_false_archive_is_named(files, change, message):
    """What is not zstd, ends too early or was changed is a named file, not a shorter set."""
    compress = zstandard.ZstdCompressor(write_checksum=True).compress
    whole = compress((files / "pages.jsonl").read_bytes())
    (files / "pages.jsonl").unlink()
    (files / "pages.jsonl.zst").write_bytes(change(whole))
    result = call("--set", files)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "pages.jsonl.zst: " in result.stderr
    assert message in result.stderr


def test_what_is_missing_is_a_usage_error(files, tmp_path, monkeypatch):
    """No set, half a set, two sets, an empty folder, missing extras: exit code 2, with the way out."""
    empty = tmp_path / "empty"
    empty.mkdir()
    (files / "pages.zst").write_bytes(b"")
    with monkeypatch.context() as patch:
        for module in ("zstandard", "matplotlib"):
            patch.setitem(sys.modules, module, None)
        compressed = call("--pages", files / "pages.zst", "--pairs", files / "pairs.tsv")
        plotted = given_files(files, "--plot", files / "p.svg")
    for result, message in (
        (call(), "Give either --set, or --pages with --pairs"),
        (call("--pages", files / "pages.jsonl"), "--pages and --pairs need each other"),
        (call("--set", empty), "no labelled set: there is no pages.jsonl"),
        (given_files(files, "--plot", files / "p.gif"), "a plot is .svg or .png"),
        (compressed, "pip install 'crawl-dedup[eval]'"),
        (plotted, "a plot needs matplotlib, which is not installed; run: pip install"),
    ):
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())


# ---------------------------------------------------------------------- the demo's pages, the output


def test_the_demos_pages_are_judged_well(tmp_path):
    """On the demo's site all near-duplicates but some soft 404 pages are found.

    Pages of a listing whose teasers the reader leaves out say the same: a crawl keeps them for their
    links, which no figure here knows of.
    """
    plain = json.loads(call("--set", write_demo_set(tmp_path, 500), "--json").stdout)
    assert plain["pages"] == 500
    kinds = plain["all"]["slices"]["kind"]
    assert all(f["recall"] == 1 for kind, f in kinds.items() if kind not in ("listing", "soft404"))
    assert kinds["listing"]["wrong"] == plain["all"]["wrong"]
    assert set(kinds) >= {"session", "print", "syndicated", "soft404"}


def test_the_report_for_a_person(folder):
    """Headline, curve and slices come as tables, with the figures of the JSON."""
    seen = json.loads(call("--set", folder, "--json").stdout)
    result = call("--set", folder)
    assert result.exit_code == 0
    near, found, wrong = counts(seen["all"])
    share = f"{seen['all']['precision']:.4f}"
    low, high = seen["all"]["intervals"]["precision"]
    wanted = rf"^all pairs +{near} +{found} +{wrong} +{share} \({low:.3f} to {high:.3f}\) "
    assert re.search(wanted, result.stdout, re.MULTILINE)
    assert re.search(r"^  real pages only ", result.stdout, re.MULTILINE)
    for k in range(1, 11):
        assert re.search(rf"^ *{k}  [01]\.\d{{4}} ", result.stdout, re.MULTILINE)
    for sort in ("kind", "language", "words of the shorter page's reference text", "source"):
        assert f"\nall pairs, by {sort}\n" in result.stdout


@pytest.mark.long
@pytest.mark.parametrize(("name", "begin"), [("p.svg", b"<?xml"), ("p.png", b"\x89PNG")])
def test_the_plot_is_drawn(files, name, begin):
    """A picture of the figures is written, the same twice."""
    drawn = []
    for _ in range(2):
        assert given_files(files, "--complete", "--plot", files / name).exit_code == 0
        drawn.append((files / name).read_bytes())
    assert drawn[0] == drawn[1]
    assert drawn[0].startswith(begin)
