"""What proves the product, and never runs it.

bench, demo, evaluate: measured, shown, judged; their commands are in commands/. capacity: how many
machines a crawl takes (docs/scale.md). permuted: the paper's own tables, the reference beside
dedup.Table.
"""
