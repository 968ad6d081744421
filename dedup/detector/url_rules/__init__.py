"""What a crawl learns about the URLs of a site: which differences between them mean nothing.

taken_apart.py  a URL in its parts, and by which of them two URLs differ
rule_set.py     a rule, and a URL under the rules that hold
accepted_page.py whether two pages are the same
site_rules.py   the evidence of one site, the pages that it is checked against, which rules hold
learner.py      all sites of a crawl, bounded
rule_file.py    rules on disk, beside the documents
merged_rules.py what several crawls learned, in one
plugin_rules.py the same as duplicate-url-discarder reads them
"""

from dedup.detector.url_rules.accepted_page import Page, is_same
from dedup.detector.url_rules.learner import Known, Learner
from dedup.detector.url_rules.rule_set import Rule, rule_of
from dedup.detector.url_rules.site_rules import Record, SiteRules
from dedup.detector.url_rules.taken_apart import Atom, differences, take_apart

__all__ = [
    "Atom",
    "Known",
    "Learner",
    "Page",
    "Record",
    "Rule",
    "SiteRules",
    "differences",
    "is_same",
    "rule_of",
    "take_apart",
]
