"""The documentation is true: its code runs, its links lead somewhere."""

import json
import re
import runpy
from pathlib import Path

import click
import pytest
from documents import Reader
from tools import make_reference

import dedup
from dedup.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = {"commands.md", "python.md"}  # by make_reference, at each build
PAGES = [ROOT / "README.md", *(p for p in sorted(DOCS.rglob("*.md")) if p.name not in GENERATED)]
READ_TOGETHER = [DOCS / "start" / "tutorial.md", DOCS / "use" / "spidermon.md"]
WITH_CODE = [
    page
    for page in PAGES
    if page not in READ_TOGETHER
    and re.search(r"^```(python|console)$", page.read_text("utf-8"), re.MULTILINE)
]
# They take long to run, or need what takes long to install.
LONG = ["docs/use/several-spiders.md", "docs/use/scan.md", "docs/use/dataframes.md"]


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.long if name(p) in LONG else ()) for p in WITH_CODE],
    ids=name,
)
def test_code_runs(page, tmp_path):
    """Every Python block and every command of the page runs, in its order, from an empty folder."""
    with Reader(tmp_path) as reader:
        reader.read(page)


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory):
    """What came of the tutorial, and then of the how-to about Spidermon: their folder, what was said.

    Every block of both runs here, in one folder, so that the tutorial's crawls are made once.
    """
    folder = tmp_path_factory.mktemp("tutorial")
    with Reader(folder) as reader:
        for page in READ_TOGETHER:
            reader.read(page)
        settings = {
            name: reader.names[name]
            for name in ("EXTENSIONS", "SPIDERMON_ENABLED", "SPIDERMON_SPIDER_CLOSE_MONITORS")
        }
        settings["ADDONS"] = {"dedup.scrapy.Addon": 500}
        settings["DEDUP_NAMESPACE"] = "again"
        options = " ".join(
            f"-s {name}='{value if isinstance(value, str) else json.dumps(value)}'"
            for name, value in settings.items()
            if name != "SPIDERMON_SPIDER_CLOSE_MONITORS"
        )
        options += " -s SPIDERMON_SPIDER_CLOSE_MONITORS=monitors.CloseSuite"
        reader.run(f"PYTHONPATH=. scrapy runspider news.py -L INFO {options}")
    return folder, reader.said


@pytest.mark.long
def test_the_tutorial_drops_near_duplicates(tutorial):
    """A newcomer ends with fewer pages than there are, and the next crawl knows them.

    It follows other links than the first (copies are dropped from its beginning), so that it may
    meet a few pages under another URL only, as copies.
    """
    folder, said = tutorial
    every, unique, again = (
        {json.loads(line)["url"] for line in (folder / f"{file}.jsonl").read_text().splitlines()}
        for file in ("all", "unique", "again")
    )
    assert len(unique) < 0.75 * len(every)
    assert unique <= every
    assert again <= every
    assert len(again & unique) > 0.75 * len(unique)
    assert "near_duplicate" in said


def shapes(text):
    """Return the lines of a summary without what differs from crawl to crawl: numbers, URLs, what pages brought."""
    text = re.sub(r"\d[\d,]*", "N", text)
    text = re.sub(r"(?<=unparsed: ).*", "URLS", text)
    text = re.sub(r"(?<=checked: ).*(?=;)", "BROUGHT", text)
    return text.splitlines()


@pytest.mark.long
def test_the_log_in_the_readme_is_that_of_the_tutorial(tutorial):
    """Each line of the README's excerpt has the words of a line that the tutorial's crawl logged."""
    text = (ROOT / "README.md").read_text("utf-8")
    excerpt = text.partition("At the end of the log")[2].split("```")[1].removeprefix("text\n")
    said = {line.rpartition("INFO: ")[2] for line in shapes(tutorial[1])}
    assert len(shapes(excerpt)) == 4
    assert [line for line in shapes(excerpt) if line not in said] == []


@pytest.mark.long
def test_spidermon(tutorial):
    """The monitors of the how-to run at the end of a crawl, and its share check fails one."""
    _, said = tutorial
    assert re.search(r"Near-duplicates/Deduplication worked\.\.\. .*OK", said)
    assert re.search(r"Near-duplicates/Not everything is a near-duplicate\.\.\. .*OK", said)


@pytest.mark.long
def test_examples(tmp_path):
    """The examples run: a program, and a spider that drops pages of the demo site."""
    with Reader(tmp_path) as reader:
        reader.run(f"python {ROOT / 'examples' / 'library.py'}")
        assert re.findall(r"^(keep|drop)  http", reader.said, re.MULTILINE) == [
            "keep",
            "drop",
            "keep",
        ]
        reader.run(f"python {ROOT / 'examples' / 'scan_warc.py'}")
        assert re.search(r"200 pages of 1 file.*\n(?:.*\n)*the pages with most", reader.said)
        port = reader.ports["8000"]
        reader.run(f"dedup demo --site-only --port {port} &")
        url = f"http://127.0.0.1:{port}/"
        reader.run(f"scrapy runspider {ROOT / 'examples' / 'spider.py'} -L INFO -a url={url}")
    assert re.search(r"'dedup/near_duplicate': [1-9]\d", reader.said)


FOR_DEVELOPERS = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md")),
    DOCS / "explain" / "architecture.md",
]


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"],
    ids=name,
)
def test_links_lead_somewhere(page):
    """Every relative link of the page leads to a file, and its anchor to a heading of it."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        file = (page.parent / target) if target else page
        if page.name == "index.md" and file.name in GENERATED:
            continue
        assert file.exists(), f"{target} is not there"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in slugs, f"{target}#{anchor} is not there"


FILE = re.compile(
    r"(?<![\w./-])(?:docs|tests|native|examples|dedup(?!/error)|\.github|\.ci)/[\w./*-]*\w"
)


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=name)
def test_files_that_are_named_exist(page):
    """Each path of the repository in what developers read is a file or folder of it."""
    named = {*FILE.findall(page.read_text("utf-8"))}
    assert named
    assert [path for path in sorted(named) if not any(ROOT.glob(path))] == []


SHOWN = re.compile(r"(?<![\w./-])dedup ((?:help|[a-z]+(?:-[a-z]+)?)\b[^\n`|;&>#]*)")


def shown(page):
    """Return the commands that stand in code of the page, each as its words."""
    code = re.findall(
        r"^```\w*\n(.*?)^```|((?:^ {4}.*\n)+)|(?<!`)`([^`\n]+)`(?!`)",
        page.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    for found in code:
        part = "".join(found).replace("\\\n", " ")
        for line in SHOWN.finditer(part):
            yield [word.strip("\"'()[],.") for word in line[1].split()]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_that_are_shown_have_their_options(page):
    """Each `dedup COMMAND --option` in code of the page is a command that takes this option."""
    context = click.Context(main)
    for words in shown(page):
        command = main.get_command(context, words[0])
        if command is None:
            continue  # dedup-... as a name, or a word after it
        inner = getattr(command, "commands", {})
        command = next((inner[word] for word in words[1:2] if word in inner), command)
        taken = {name for option in command.params for name in option.opts} | {"--help"}
        if isinstance(command, click.Group):
            taken |= {n for each in inner.values() for o in each.params for n in o.opts}
        wrong = [w for w in words if w.startswith("--") and w.partition("=")[0] not in taken]
        assert wrong == [], words


def test_the_reference_has_every_name():
    """The generated pages have each command, and each name of `import dedup` under one heading."""
    commands, python = make_reference.made().values()
    assert [
        n for n in main.list_commands(click.Context(main)) if f"## dedup {n}\n" not in commands
    ] == []
    assert [n for n in dedup.__all__ if python.count(f"### {n}\n") != 1] == []
    named = {name for names in make_reference.PYTHON.values() for name in names.split()}
    assert named - {"ReserveOptions"} == {*dedup.__all__}


def test_the_badges_are_true():
    """Systems, Python versions and licence are those of the workflow and of the package."""
    made = runpy.run_path(str(DOCS / "pictures" / "badges.py"))["made"]()
    assert {path.name: path.read_text("utf-8") for path in made} == {
        path.name: text for path, text in made.items()
    }


UNPUBLISHED = re.compile(r"pip install (?:-\S+ )*['\"]?crawl-dedup")
INSTALLING = [
    *PAGES,
    *(p for top in ("dedup", "examples") for p in (ROOT / top).rglob("*.*") if p.suffix != ".pyc"),
]


def test_nothing_installs_what_is_not_published():
    """Until the package is on an index, pages, messages and examples install it from a checkout."""
    texts = {name(p): p.read_bytes().decode(errors="replace") for p in INSTALLING if p.is_file()}
    assert [each for each, text in texts.items() if UNPUBLISHED.search(text)] == []
