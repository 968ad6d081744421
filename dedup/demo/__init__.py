"""A sample site (site.py, served by loopback.py), crawled with and without the add-on (crawl.py, report.py)."""
