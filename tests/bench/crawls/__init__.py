"""Real whole sites, crawled as they are, with the add-on and beside it.

    sites.tsv -> sites (their pages, and what is content of each) -> served (a proxy; noise, if asked)
              -> spider (a crawl in a process) -> judge (what it left, lost and did not ask) -> report

Invariants: no page is part of the repository: sites.tsv names packages and repositories with their versions. All
crawls of a site see the same pages. What is content is said by a person, an XPath a site; the product has no part in it.
"""
