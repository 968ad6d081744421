"""`dedup store rules`: what was learned of URLs, as a table, as JSON, and as a plugin reads it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import RUNNER
from crawling import article
from needing import lacking

import dedup
from dedup.cli import main
from dedup.detector.url_rules import Learner, Page, Record, rule_of
from dedup.detector.url_rules.rule_records import (
    FILE,
    begin_again,
    decode_rules,
    encode_rules,
    load_rules,
    plugin_rules,
    save_rules,
)
from dedup.model.errors import StoreDamaged

A = "http://a.com"


def run(*arguments: str, code: int = 0) -> str:
    done = RUNNER.invoke(main, ["store", "rules", *arguments])
    assert done.exit_code == code, done.output
    return done.stdout + done.stderr


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store whose crawl learned that `sid` may be absent, and that `page` matters."""
    with dedup.open(tmp_path, namespace="news") as detector:
        page = dedup.fingerprint(article(1).body)
        detector.insert(detector.reserve(page, A + "/0"))
    learner = Learner()
    for number in range(12):
        learner.accept(Page(f"{A}/{number}", page))
        for parameter in ("sid", "page"):
            learner.copy(f"{A}/{number}?{parameter}=1", f"{A}/{number}")
    learner.accept(Page(f"{A}/3?page=2", None))
    save_rules(tmp_path / "news", encode_rules(learner.records()))
    return tmp_path


def test_rules_are_listed(store):
    """What holds is listed with its evidence and an example; --all has what fell, too."""
    text = run(str(store))
    assert "drop:sid a.com" in text
    assert "http://a.com/0?sid=1 = http://a.com/0" in text
    assert "page" not in text
    assert "differs from" in run(str(store), "--all")
    (found,) = json.loads(run(str(store), "--json"))["stores"]
    assert [(r["rule"], r["state"], r["pairs"]) for r in found["rules"]] == [
        ("drop:sid a.com", "holds", 12)
    ]


def test_damage_is_named(store):
    """A file that was changed is refused, byte by byte, and costs no other store."""
    file = store / "news" / FILE
    content = file.read_bytes()
    for at in range(0, len(content), 37):
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        try:
            assert decode_rules(changed) == decode_rules(content)  # white space
        except ValueError:
            pass
    file.write_bytes(content[:-20])
    with pytest.raises(StoreDamaged, match="learned again"):
        load_rules(store / "news")
    run(str(store), code=1)


def test_what_is_left_for_an_empty_store(store):
    """Without its pages a store keeps what keeps pages."""
    begin_again(store / "news")
    known = load_rules(store / "news")["a.com"]
    assert not any(record.holds for record in known.values())
    assert known[rule_of("drop:page a.com")].against is not None


def test_what_a_file_holds_is_read_back():
    """Rules and evidence survive the file."""
    learner = Learner()
    for number in range(12):
        learner.copy(f"{A}/{number}/é?sid=1", f"{A}/{number}/é")
    assert decode_rules(encode_rules(learner.records())) == learner.records()


@pytest.mark.filterwarnings(
    "ignore::scrapy.exceptions.ScrapyDeprecationWarning"
)  # the plugin's own
def test_the_plugin_reads_its_file(store, tmp_path):
    """duplicate-url-discarder takes for one what the rules take for one, and nothing else."""
    if find_spec("duplicate_url_discarder") is None:
        lacking("duplicate_url_discarder")
    from duplicate_url_discarder.url_canonicalizer import UrlCanonicalizer

    known = load_rules(store / "news")
    for text in ("drop:id a.com/news", "host:www.b.com=b.com", "slash b.com", "value:x a.com"):
        site = "b.com" if "b.com" in text else "a.com"
        known.setdefault(site, {})[rule_of(text)] = Record(pairs=12, holds=True)
    save_rules(store / "news", encode_rules(known))
    output = RUNNER.invoke(
        main, ["store", "rules", str(store), "--format", "duplicate-url-discarder"]
    )
    assert "value:x a.com" in output.stderr
    file = tmp_path / "rules.json"
    file.write_text(output.stdout)
    plain = UrlCanonicalizer([file]).process_url
    assert plain(A + "/p?sid=1&b=2") == plain(A + "/p?b=2")
    assert plain(A + "/p?x=1") != plain(A + "/p?x=2")
    assert plain(A + "/news?id=1") == plain(A + "/news")
    assert plain(A + "/news/1?id=1&sid=3") == plain(A + "/news/1")
    assert plain(A + "/newsletter?id=1") != plain(A + "/newsletter")
    assert plain("http://shop.a.com/p?sid=1") != plain("http://shop.a.com/p")
    assert plain("https://www.b.com/x/") == plain("https://b.com/x")


def test_what_the_plugin_has_no_words_for():
    """Values, parts of paths, capitals and mirrors are left out, and named."""
    texts = [
        "value:x a.com",
        "part:/print a.com",
        "case a.com",
        "host:m.a.com=a.com",
        "slash a.com",
    ]
    assert plugin_rules(map(rule_of, texts)) == ([], sorted(map(rule_of, texts)))
