"""How much is enough: the measures that the rules of evidence share."""

FEW = 3  # pages, from which on what all of them have in common is no coincidence
MANY = 10  # pages or requests, from which on something is worth a fetch, or proven
MOST = 0.5  # of a page, in characters or words, from which on a part stands for the whole
