"""What a crawl learns from its own items: pure, no Scrapy, no clock, no file.

patterns.py     what near-duplicates of a pattern brought, and so which may be dropped
link_budget.py  how many new requests may lead to nothing new
items.py        what items are compared by
page_text.py    what pages are, whose items hold the page
lists.py        rows of lists
callbacks.py    callbacks whose items are the page
seen.py         links, items and requests of the crawl
enough.py       how much is enough
"""
