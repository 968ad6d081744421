"""The two faces of the native core: a page becomes a fingerprint; fingerprints within k are found."""
