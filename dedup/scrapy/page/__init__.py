"""The way of a page, in its order.

request.py    who a page is, and whether it is judged
judge.py      a fetched page is accepted, compared or dropped: Session
output.py     what its callback yields passes, or is withheld
in_flight.py  inserted when callback and pipelines are through, else released
"""
