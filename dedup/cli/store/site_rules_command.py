"""`dedup store rules`: what the crawls of a store learned of its sites' URLs.

Invariants: without --pin, --forbid and --leave nothing is changed; with them the store is locked.
"""

from pathlib import Path
from typing import Any

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import json_option
from dedup.cli.store.folders import Seen, each, store_folders
from dedup.core.files import FolderLock
from dedup.model.errors import UsageError


@click.command(epilog="Example: dedup store rules .scrapy/dedup --pin 'drop:ref example.com'")
@click.argument("path", type=click.Path())
@click.option("--all", "every", is_flag=True, help="Also list rules that do not hold (any more).")
@click.option("--pin", "pins", multiple=True, metavar="RULE", help="Always apply this rule.")
@click.option("--forbid", "forbids", multiple=True, metavar="RULE", help="Never apply this rule.")
@click.option("--leave", "leaves", multiple=True, metavar="RULE", help="Undo --pin or --forbid.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "duplicate-url-discarder"]),
    default="table",
    help="Print a table, or a rule file for that Scrapy plugin (DUD_LOAD_RULE_PATHS).",
)
@json_option()
def rules(
    path: str,
    every: bool,
    pins: tuple[str, ...],
    forbids: tuple[str, ...],
    leaves: tuple[str, ...],
    format_: str,
    as_json: bool,
) -> None:
    """Show the rules about URLs that crawls learned.

    A rule says which difference between URLs means nothing. Write a RULE as it is listed:
    "drop:sid example.com" (the parameter may be absent), "value:id example.com/news" (its value means
    nothing there), "part:/print example.com", "host:www.a.com=a.com".
    """
    said = {"pin": pins, "forbid": forbids, "": leaves}
    if any(said.values()):
        folders = store_folders(path)
        if len(folders) > 1:
            raise UsageError(f"{path} holds {len(folders)} stores: give the folder of one")
        _say(folders[0], said)
    stores, failed = each(path, _look(every))
    if format_ != "table":
        _write_plugin_rules(stores)
    elif as_json:
        terminal.out_json({"path": path, "stores": stores})
    else:
        _show(stores)
    if failed:
        click.get_current_context().exit(1)


def _say(folder: Path, said: dict[str, tuple[str, ...]]) -> None:
    from dedup.detector.url_rules.learner import Learner
    from dedup.detector.url_rules.rule_file import encode_rules, load_rules, save_rules
    from dedup.detector.url_rules.rule_set import rule_of
    from dedup.model.names import registrable_domain

    lock = FolderLock(folder / "lock")
    try:
        records = load_rules(folder)
        learner = Learner()
        for what, texts in said.items():
            for text in texts:
                rule = rule_of(text)
                host = rule.scope.partition("/")[0] or rule.atom.name.partition("=")[2]
                site = registrable_domain(f"http://{host}/")
                learner.take({site: records.pop(site, {})})
                learner.say(site, rule, what)  # type: ignore[arg-type]  # the keys are what may be said
        save_rules(folder, encode_rules(records | learner.records()))
    finally:
        lock.close()


def _look(every: bool) -> Any:
    def look(folder: Path) -> Seen:
        from dedup.detector.url_rules.rule_file import load_rules

        found: list[Seen] = []
        for site, known in sorted(load_rules(folder).items()):
            for rule, record in sorted(known.items()):
                if every or record.holds:
                    state = record.said or ("fell" if record.against else "")
                    found.append(
                        {
                            "site": site,
                            "rule": str(rule),
                            "state": state or ("holds" if record.holds else "open"),
                            **msgspec.to_builtins(record),
                        }
                    )
        found.sort(key=lambda each: (each["site"], -each.get("pairs", 0), each["rule"]))
        return {"path": str(folder), "namespace": folder.name, "rules": found}

    return look


def _show(stores: list[Seen]) -> None:
    lines = []
    for store in stores:
        for rule in store.get("rules", ()):
            example = rule.get("against") or next(iter(rule.get("examples", ())), ("", ""))
            shown = (
                " = ".join(example) if rule["state"] != "fell" else " differs from ".join(example)
            )
            lines.append(
                (store["namespace"], rule["rule"], rule["state"], rule.get("pairs", 0), shown)
            )
    if lines:
        terminal.out(terminal.table(("namespace", "rule", "state", "pairs", "example"), lines))
    elif any("error" not in store for store in stores):
        terminal.out("no rule holds; --all also lists what fell, and what lacks evidence")


def _write_plugin_rules(stores: list[Seen]) -> None:
    from dedup.detector.url_rules.plugin_rules import plugin_rules
    from dedup.detector.url_rules.rule_set import rule_of

    held = {
        rule_of(rule["rule"])
        for store in stores
        for rule in store.get("rules", ())
        if rule.get("holds")
    }
    written, left_out = plugin_rules(held)
    terminal.out_json(written)
    for rule in left_out:
        terminal.error(f"left out, duplicate-url-discarder has no words for it: {rule}")
