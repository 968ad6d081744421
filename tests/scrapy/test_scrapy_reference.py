"""The reference pages name what the source has: every setting, meta key and stat, and no other."""

import json
import re
from pathlib import Path

from scrapy.settings import Settings

from dedup.model.forms import to_plain
from dedup.model.page import EXEMPTIONS, SKETCH_BYTES, Document, PageFingerprint, Verdict
from dedup.model.policy import SETTINGS
from dedup.model.recipes import NEWEST
from dedup.model.stats import STATS, table
from dedup.scrapy import settings as config

FINGERPRINT = PageFingerprint(0, bytes(SKETCH_BYTES), 0, 0, NEWEST)
ROOT = Path(__file__).parents[2]
SOURCE = "".join(p.read_text() for p in sorted((ROOT / "dedup" / "scrapy").rglob("*.py")))


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text()


def settings_pages() -> str:
    return page("settings.md") + page("rare-settings.md")


def first_column(text: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


class Reads(Settings):
    """Settings that note which names of ours are asked for."""

    asked: set[str] = set()

    def get(self, name, default=None):
        if str(name).startswith("DEDUP_"):
            self.asked.add(name)
        return super().get(name, default)


def test_settings():
    """The two pages of settings have a row for each setting that is read, and name no other."""
    config.Config.from_settings(Reads())
    assert {n for n in first_column(settings_pages()) if n.isupper()} == Reads.asked
    assert set(re.findall(r"DEDUP_[A-Z_]+", settings_pages())) == Reads.asked


def test_settings_say_their_defaults_and_ranges():
    """The two pages have the default, choices and bounds of the table of settings."""
    rows = re.findall(r"^\| `DEDUP_(\w+)` \| ([^|]*) \| ([^|]*) \|", settings_pages(), re.MULTILINE)
    of_services = {"kafka", "topic"}
    assert {name.lower() for name, _, _ in rows} == set(SETTINGS) - of_services
    for name, default, allowed in rows:
        setting = SETTINGS[name.lower()]
        given, form = setting.default, setting.form
        if isinstance(given, Path):
            given = str(given)
        if given not in {None, ()}:
            shown = str(given) if isinstance(given, bool) else json.dumps(given)
            assert default == f"`{shown}`", name
        for choice in setting.choices:
            assert f"`{choice}`" in allowed, name
        if (low := getattr(form, "ge", None)) is not None:
            found = re.match(r"(\S+) to (\S+)", allowed)
            assert found, name
            assert (float(found[1]), float(found[2])) == (low, form.le or form.lt), name


def test_exempt_reasons():
    """docs/reference/settings.md names each reason of DEDUP_EXEMPT."""
    (table,) = re.findall(r"^\| reason \|.+?\n\n", page("settings.md"), re.DOTALL | re.MULTILINE)
    rows = "".join(re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE))
    assert set(re.findall(r"`([a-z_]+)`", rows)) == set(EXEMPTIONS)


def test_meta_keys():
    """docs/reference/meta-keys.md has the keys that the source reads, and those of the verdict."""
    read = set(re.findall(r'meta\.get\("((?:dont_)?dedup\w*)"', SOURCE)) - {"dedup"}
    written = set(to_plain(Verdict("unique", "", Document("", FINGERPRINT))))
    written |= set(re.findall(r'meta\["dedup"\]\["(\w+)"\]', SOURCE))
    assert first_column(page("meta-keys.md")) == read | written


def test_stats():
    """docs/reference/stats.md has the table of stats, with the stats that the source counts, and no other."""
    assert table() in page("stats.md"), "paste what dedup.model.stats.table() returns"
    counted = set(re.findall(r'(?:counts|self)\[\s*f?"([a-z_/]+)', SOURCE))
    counted |= set(re.findall(r'"((?:items|requests)/\w+)"', SOURCE))
    counted |= set(re.findall(r'\.(?:inc|set)_value\(\s*f?"dedup/([a-z_/]+)', SOURCE))
    counted |= {"unique", "refetch", "near_duplicate"}  # a verdict's status
    counted -= {"error/requests"}  # one of error/KIND
    assert {re.sub(r"[A-Z]+$", "", name) for name in STATS} == counted
