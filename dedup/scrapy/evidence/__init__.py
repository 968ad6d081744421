"""What a crawl learns from its own items: pure, no Scrapy, no clock, no file.

difference.py  how two URLs, and two pages, differ: the class of a look-alike
ledger.py      by class: how many brought the same, how many something new; the budget for requests
digest.py      what items are compared by
keeping.py     callbacks whose items hold nothing but the page itself
departures.py  in what two pages differ, as numbers: what is added, and what is replaced
visits.py      what differs between two visits of one page
lists.py       numbers that rows of a list explain
met.py         links, items and requests of the crawl
enough.py      how much is enough
"""
