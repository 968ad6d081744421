"""The way of a page, in its order.

request.py    who a page is, and whether it is judged
session.py    what the crawl shares
judge.py      a fetched page is accepted, checked or dropped
output.py     what its callback yields passes, or is withheld
outlinks.py   which of its requests are new
in_flight.py  inserted when callback and pipelines are through, else released
"""
