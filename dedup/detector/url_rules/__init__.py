"""What a crawl learns about the URLs of a site: which differences between them mean nothing.

rule_set.py     a URL in its parts and by which of them two differ, a rule, a URL under the rules that hold
rule_records.py what is known of a rule; on disk, merged with what other crawls learned, and as
                duplicate-url-discarder reads it
site_rules.py   the evidence of one site, the pages that it is checked against and whether two are the same,
                which rules hold; all sites of a crawl, bounded
"""

from dedup.detector.url_rules.rule_records import Record
from dedup.detector.url_rules.rule_set import Atom, Rule, differences, rule_of, take_apart
from dedup.detector.url_rules.site_rules import Known, Learner, Page, SiteRules, is_same

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
