"""What a crawl learns about the URLs of a site: which differences between them mean nothing.

taken_apart.py  a URL in its parts, and by which of them two URLs differ
rule_set.py     a rule, and a URL under the rules that hold
site_rules.py   the evidence of one site, the pages that it is checked against and whether two are the same,
                which rules hold
learner.py      all sites of a crawl, bounded
rule_file.py    rules on disk, beside the documents; and as duplicate-url-discarder reads them
merged_rules.py what several crawls learned, in one
"""

from dedup.detector.url_rules.learner import Known, Learner
from dedup.detector.url_rules.rule_set import Rule, rule_of
from dedup.detector.url_rules.site_rules import Page, Record, SiteRules, is_same
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
