"""How much is enough: the two measures that the rules of evidence share."""

FEW = 3  # pages, originals or values, from which on what all of them show is no coincidence
MOST = 0.5  # of a page, in characters, words or links, from which on a part stands for the whole
