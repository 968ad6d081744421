"""How Sphinx builds the documentation: `make docs`, every warning an error."""

import re
from importlib import metadata
from itertools import groupby

project = "crawl-dedup"
author = "the crawl-dedup authors"
release = metadata.version("crawl-dedup")

extensions = [
    "myst_parser",  # pages are Markdown, readable as they are
    "sphinx.ext.autodoc",  # the Python API, from its docstrings
    "sphinx_click",  # the command line, from its help
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
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

# In docstrings, names stand in a column of their own, two spaces or more before what they mean:
#
#     key     the document key
#     domain  the registrable domain, "" if
#             there is none
#
# and words in `such quotes` are code.
_ROW = re.compile(r"(\S+(?:, \S+)*) {2,}(\S.*)")


def _rows(lines: list[str]) -> list[str]:
    """Return a paragraph of such rows as a definition list, any other as it is."""
    if not lines or not _ROW.fullmatch(lines[0]):
        return [*lines, ""]
    found = []
    for line in lines:
        row = _ROW.fullmatch(line)
        found += [f"``{row[1]}``", f"    {row[2]}"] if row else [f"    {line.strip()}"]
    return [*found, ""]


def _read_docstring(_app, _what, _name, _object, _options, lines: list[str]) -> None:  # noqa: ANN001
    paragraphs = [list(group) for filled, group in groupby(lines, bool) if filled]
    text = "\n".join(line for paragraph in paragraphs for line in _rows(paragraph))
    lines[:] = _as_code(text).splitlines()


def _as_code(text: str) -> str:
    return re.sub(r"(?<!`)`([^`\n]+)`(?!`)", r"``\1``", text)


def _read_help(_app, _context, lines: list[str]) -> None:  # noqa: ANN001
    lines[:] = [_as_code(line) for line in lines]


def _read_epilog(_app, _context, lines: list[str]) -> None:  # noqa: ANN001
    """Commands of an epilog, "Examples: dedup a; dedup b", are code."""
    lines[:] = [re.sub(r"\bdedup [^;]+", lambda found: f"``{found[0]}``", line) for line in lines]


def _level_captions(_app, _page, _template, context, _doctree) -> None:  # noqa: ANN001
    """Give the captions of the side bar, which furo calls headings, the level that a heading must have."""
    tree = context["furo_navigation_tree"]
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


def setup(app) -> None:  # noqa: ANN001, D103
    app.connect("autodoc-process-docstring", _read_docstring)
    app.connect("sphinx-click-process-description", _read_help)
    app.connect("sphinx-click-process-options", _read_help)
    app.connect("sphinx-click-process-epilog", _read_epilog)
    app.connect("html-page-context", _level_captions, priority=900)  # after the theme's
