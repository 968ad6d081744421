"""Says at `import dedup` that PyPI's `dedup`, another project, was installed over crawl-dedup.

Its files replace ours then, so that nothing of ours would run. crawl_dedup.pth imports this module when Python
starts; it looks at the folder when `dedup` is imported, and not before.
"""

import sys

OURS = "_look_for_the_other_dedup"  # stands in our dedup/__init__.py, which says the same where it is in place


class _AtImport:
    """The first finder of modules, until `dedup` is imported. It finds nothing."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):  # noqa: ARG003
        if name == "dedup":
            sys.meta_path.remove(cls)
            _look()


def _look():
    import os
    import warnings

    site = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    try:
        with open(os.path.join(site, "dedup", "__init__.py"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            replaced = OURS not in file.read()
    except (OSError, ValueError):
        return
    if replaced:
        warnings.warn(
            f"the distribution 'dedup', which is another project, was installed over crawl-dedup in {site}/dedup; "
            "run: pip uninstall -y dedup crawl-dedup, then: pip install crawl-dedup",
            RuntimeWarning,
            stacklevel=2,
        )


sys.meta_path.insert(0, _AtImport)
