"""How good the fingerprints are: precision and recall over labelled pages.

    pages -> fingerprints -> pairs within reach -> labels -> figures -> intervals, mistakes, plot

Invariants:
  - The labels come from outside and never from a fingerprint; a pair they leave open counts neither
    for nor against.
  - What a page's text is to a person (a reference text, its language, its source) only sorts the
    figures; it never reaches the reader.
"""
