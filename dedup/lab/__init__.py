"""What proves the product, and never runs it.

bench, demo, evaluate: figures of this machine, a crawl that is judged, quality on labelled pages; their
commands are in dedup/cli. Comparisons with other programs are in tests/bench.
"""
