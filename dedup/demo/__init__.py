"""A generated news site with known truth, its server, and the crawl of it that `dedup demo` judges.

    words.toml -> stories -> plan -> site -> server <- crawl -> judgement

Everything is drawn from our own word lists by `random.Random(seed)`: the same seed and number of
pages give the same site on every machine.
"""
