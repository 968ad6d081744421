"""What a crawl learns of its sites' URLs, and the requests that this saves (DEDUP_URLS).

rules.py   rules, in the form in which people write them; a URL under rules; what two URLs may teach
known.py   which rules are in force, by the pairs of the crawl; the accepted pages that requests lead to
"""

from dedup.scrapy.urls.known import HeldRule, Known, SiteUrls

__all__ = ["HeldRule", "Known", "SiteUrls"]
