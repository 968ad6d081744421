"""`python -m dedup` is the command `dedup`."""

from dedup.cli import main

main(prog_name="dedup")
