"""Runs a harness of fuzzing.py under Atheris: fuzz_atheris.py HARNESS [libFuzzer's options] FOLDER."""

import sys

import atheris

WATCHED = ["dedup.store", "dedup.fingerprint", "oracle"]  # whose branches guide it

with atheris.instrument_imports(include=WATCHED):
    import fuzzing

atheris.Setup([sys.argv[0], *sys.argv[2:]], fuzzing.HARNESSES[sys.argv[1]])
atheris.Fuzz()
