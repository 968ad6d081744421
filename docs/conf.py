"""How Sphinx builds the documentation: `make docs`, every warning an error."""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from tools import make_reference

make_reference.main()  # reference/commands.md and python.md

project = "crawl-dedup"
author = "the crawl-dedup authors"
release = metadata.version("crawl-dedup")

extensions = [
    "myst_parser",  # pages are Markdown, readable as they are
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["pictures"]
smartquotes = False  # --html is an option, not a dash

html_theme = "furo"
html_title = f"crawl-dedup {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_copyright = False


def _level_captions(_app, _page, _template, context, _doctree) -> None:  # noqa: ANN001
    """Give the captions of the side bar, which furo calls headings, the level that a heading must have."""
    tree = context["furo_navigation_tree"]
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


def setup(app) -> None:  # noqa: ANN001, D103
    app.connect("html-page-context", _level_captions, priority=900)  # after the theme's
