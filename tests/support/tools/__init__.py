"""Programs that a person or make runs: `python tests/support` lists them."""
