"""Pages that several tests of the command line look at."""

import pytest
from command_line import WORDS, html


@pytest.fixture
def pages(tmp_path):
    """A page, a near-duplicate of it, and one with other words."""
    contents = {
        "a.html": html(WORDS),
        "b.html": html([*WORDS[:100], "changed", "words", *WORDS[101:]]),
        "other.html": html([f"other{i}" for i in range(200)]),
        "short.html": "<p>only four words here",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    return tmp_path
