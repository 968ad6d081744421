"""DEDUP.RULES: what crawls learned of URLs, kept by a service for all that use a namespace."""

from __future__ import annotations

import json

import redis
from detecting import accept, page
from services import Serving

import dedup
from dedup.detector.url_rules import Record, rule_of
from dedup.detector.url_rules.rule_records import (
    FILE,
    FOR,
    MOST_RULES,
    MOST_SITES,
    RULES_BYTES,
    TOLD_PAIRS,
    Records,
    decode_rules,
    encode_rules,
    load_rules,
    save_rules,
)

SID, REF, PAGE = (rule_of(f"drop:{name} a.com") for name in ("sid", "ref", "page"))
CRAWL, ADMIN = "a-crawl-token-of-this-test", "an-admin-token-of-this-test"


class Asking:
    """A client of a service, in one namespace."""

    def __init__(
        self, serving: Serving, namespace: str = "shop", password: str | None = None
    ) -> None:
        self.client = redis.Redis(port=serving.port, password=password)
        self.namespace = namespace

    def rules(self, records: Records | None = None) -> Records | None:
        told = () if records is None else (encode_rules(records),)
        answer = self.client.execute_command("DEDUP.RULES", self.namespace, *told)
        return None if answer is None else decode_rules(answer)

    def refusal(self, *words: object) -> str:
        try:
            self.client.execute_command("DEDUP.RULES", *words)
        except redis.ResponseError as error:
            return str(error)
        raise AssertionError("it was taken")


def make(serving: Serving, namespace: str = "shop", password: str = "") -> None:
    where = f"redis://{password and f':{password}@'}127.0.0.1:{serving.port}"
    with dedup.open(where, namespace=namespace, timeout_seconds=60) as detector:
        accept(detector, page(1), "http://a.com/1")


def one(**fields: object) -> Records:
    return {"a.com": {SID: Record(**fields)}}


def test_rules_are_merged_and_kept(tmp_path):
    """A round trip; the greater evidence stands; what fell stays; a restart and a person keep it."""
    with Serving(tmp_path) as serving:
        shop, holds = Asking(serving), one(pairs=12, originals=[1, 2, 3], holds=True)
        assert shop.rules() is None
        assert shop.rules(holds) is None  # there is no such namespace: nothing is kept
        assert not (tmp_path / "shop").exists()
        make(serving)
        assert shop.rules() is None
        assert shop.rules({}) is None
        assert not (tmp_path / "shop" / FILE).exists()
        for _ in range(2):
            assert shop.rules(holds) == holds
        assert shop.rules(one(pairs=3)) == holds
        more = {"a.com": {REF: Record(pairs=10, holds=True)}, "b.com": {REF: Record(pairs=1)}}
        both = {"a.com": holds["a.com"] | more["a.com"], "b.com": more["b.com"]}
        assert shop.rules(more) == shop.rules() == both == load_rules(tmp_path / "shop")
        fell = one(pairs=1, against=("http://a.com/1", "http://a.com/2"))
        answer = shop.rules(fell)
        assert answer is not None
        assert answer["a.com"][SID].against
        assert Asking(serving, "other").rules() is None
        make(serving)
        (host,) = json.loads(serving.get("/v1/overview")[1])["hosts"]
        assert (host["domain"], host["rules"]) == ("a.com", 1)
        assert serving.stop() == 0
        known = load_rules(tmp_path / "shop")
        known["a.com"][REF].said, known["a.com"][REF].holds = "forbid", False
        save_rules(tmp_path / "shop", encode_rules(known))
        serving.start()
        shop = Asking(serving)
        again = shop.rules(holds | {"a.com": holds["a.com"] | more["a.com"]})
        assert again is not None
        assert again == shop.rules()
        assert not again["a.com"][SID].holds
        assert again["a.com"][SID].against == fell["a.com"][SID].against
        assert again["a.com"][REF].said == "forbid"
        assert not again["a.com"][REF].holds


def test_what_is_no_rules_is_refused(tmp_path):
    """One error each, the connection goes on, and what was there stays as it was."""
    with Serving(tmp_path) as serving:
        make(serving)
        shop = Asking(serving)
        known = shop.rules(one(pairs=10, holds=True))
        good = encode_rules(one(pairs=1))
        for bad in (
            b"",
            b"{",
            b"[]",
            b"\xff",
            b'{"v":2}',
            b'{"v":1}',
            b'{"x":' + b"[" * 100_000,
            good.replace(b"sid", b"six"),
            b'{"v":1,"digest":"","sites":{"a.com":[{"rule":"drop:sid a.com"}]}}',
        ):
            assert "rules cannot be read" in shop.refusal("shop", bad), bad
        assert shop.refusal("shop", b" " * (RULES_BYTES + 1)).startswith("LIMIT")
        assert "number of arguments" in shop.refusal("shop", good, good)
        assert "number of arguments" in shop.refusal()
        assert "namespace" in shop.refusal("../shop")
        assert shop.rules() == known
        assert shop.client.execute_command("DEDUP.DROP", "shop") == 1
        assert shop.rules() is None
        make(serving)
        assert shop.rules() is None


def test_a_damaged_file_is_named_and_left(tmp_path):
    """The documents are served; the rules are refused until somebody removes the file."""
    with Serving(tmp_path) as serving:
        make(serving)
        shop, path = Asking(serving), tmp_path / "shop" / FILE
        path.write_bytes(b"half")
        for words in ((), (encode_rules(one(pairs=1)),)):
            said = shop.refusal("shop", *words)
            assert said.startswith("STORE")
            assert str(path) in said
        assert path.read_bytes() == b"half"
        make(serving)


def test_what_many_send_is_bounded(tmp_path):
    """However many rules come, the file and the answer have a bound; what fell is among them."""
    url = "http://a.com/" + "x" * 300
    with Serving(tmp_path) as serving:
        make(serving)
        shop = Asking(serving)
        shop.rules(one(against=(url, url)))
        for n in range(4):
            rules = [rule_of(f"drop:p{n}-{k} a.com") for k in range(600)]
            shop.rules(
                {"a.com": {rule: Record(10, [1, 2, 3], [(url, url)], holds=True) for rule in rules}}
            )
        assert (tmp_path / "shop" / FILE).stat().st_size <= RULES_BYTES
        answer = shop.rules()
        assert answer is not None
        assert len(answer["a.com"]) == MOST_RULES
        assert answer["a.com"][SID].against == (url, url)
        sites = {f"{n}.com": {REF: Record(10, [1, 2, 3], holds=True)} for n in range(MOST_SITES)}
        answer = shop.rules(sites)
        assert answer is not None
        assert len(answer) <= MOST_SITES
        assert answer["a.com"][SID].against == (url, url)


def test_what_a_crawl_claims_is_weighed(tmp_path):
    """Pairs without end, what a person says, a rule that holds by no evidence: only an admin's word counts."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"crawl {CRAWL}\nadmin {ADMIN}\n")
    tokens.chmod(0o600)
    poison = {
        "a.com": {
            SID: Record(pairs=1_000_000, originals=[1, 2, 3], said="pin", holds=True),
            REF: Record(pairs=FOR - 1, originals=[1, 2, 3], holds=True),
            PAGE: Record(said="forbid"),
        }
    }
    with Serving(tmp_path / "store", "--tokens", tokens, token=ADMIN) as serving:
        make(serving, password=CRAWL)
        crawl, admin = Asking(serving, password=CRAWL), Asking(serving, password=ADMIN)
        answer = crawl.rules(poison)
        assert answer is not None
        known = answer["a.com"]
        assert {record.said for record in known.values()} == {""}
        assert not any(record.holds for record in known.values())
        assert known[SID].pairs == TOLD_PAIRS
        crawl.rules(one(pairs=1_000_000, originals=[1, 2, 3], holds=True))
        fell = ("http://a.com/1", "http://a.com/2")
        answer = crawl.rules(one(pairs=TOLD_PAIRS, against=fell))
        assert answer is not None
        assert not answer["a.com"][SID].holds  # a rule that its checks refute ends everywhere
        answer = admin.rules(poison)
        assert answer is not None
        assert (answer["a.com"][SID].said, answer["a.com"][SID].holds) == ("pin", True)
        assert answer["a.com"][PAGE].said == "forbid"
        answer = crawl.rules(one(pairs=1))
        assert answer is not None
        assert answer["a.com"][SID].said == "pin"
