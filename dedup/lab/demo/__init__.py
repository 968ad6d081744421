"""A generated news site with known truth, and the server that shows it: what `dedup demo` crawls.

    words -> articles -> pages -> plan -> frames -> shells -> site -> server

Everything is drawn from our own word lists by `random.Random(seed)`: the same seed and number of
pages give the same site on every machine.
"""
