"""Runs a harness of fuzzing.py under Atheris: fuzz_atheris HARNESS [libFuzzer's options] FOLDER."""

import sys
from inspect import getmembers, isclass, isfunction

import atheris
import fuzzing
import oracle

import dedup.core.fingerprint
import dedup.model.events
import dedup.service.resp.port
import dedup.store.documents
import dedup.store.index
import dedup.store.transfer
import dedup.store.verify
import dedup.worker.adapters

# Whose branches guide it. An editable install has an import hook of its own, which Atheris's does
# not go along with; so the functions are instrumented where they are.
WATCHED = [
    module
    for name, module in sys.modules.items()
    if name.startswith(("dedup.service.", "dedup.store."))
]


def watch(owner: object, name: str) -> None:
    """Instrument the functions that a module or a class defines itself."""
    for _, member in getmembers(owner):
        if getattr(member, "__module__", None) != name:
            continue
        if isclass(member) and member is not owner:
            watch(member, name)
        elif isfunction(member):
            atheris.instrument_func(member)


WATCHED_TOO = (dedup.model.events, dedup.core.fingerprint, dedup.worker.adapters, oracle)
for module in (*WATCHED, *WATCHED_TOO):
    watch(module, module.__name__)
atheris.Setup([sys.argv[0], *sys.argv[2:]], fuzzing.HARNESSES[sys.argv[1]])
atheris.Fuzz()
