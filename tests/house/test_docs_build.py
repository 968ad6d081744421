"""The pages of the documentation build, fit, and can be read by all."""

import subprocess
import sys
from pathlib import Path

import pytest
from browsing import MAY_CRASH, chromium, faults, kept, opened

pytestmark = pytest.mark.long
DOCS = Path(__file__).parents[2] / "docs"


@MAY_CRASH
def test_pages_build(tmp_path):
    """Sphinx builds the pages without a warning, with every page in the contents; they fit; axe finds no fault."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", tmp_path / "doctrees", DOCS, tmp_path / "html"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = {
        f"docs-{Path(name).name}": tmp_path / "html" / f"{name}.html"
        for name in ("index", "use/report", "use/capacity", "explain/tables")
    }
    pages["readme-picture"] = tmp_path / "picture.html"
    picture = f'<meta name="color-scheme" content="light dark"><img src="{DOCS}/pictures/page.svg" width="100%">'
    pages["readme-picture"].write_text(picture)
    with chromium() as started:
        browser = started.browser()
        for width, scheme in ((1280, "light"), (390, "dark")):
            for name, path in pages.items():
                page = opened(browser, path.as_uri(), width, scheme)
                assert page.evaluate("document.documentElement.scrollWidth") == width, name
                kept(page, f"{name}-{width}-{scheme}")
                page.close()
        wrong = {}
        for source in sorted(DOCS.rglob("*.md")):
            path = tmp_path / "html" / source.relative_to(DOCS).with_suffix(".html")
            page = opened(browser, path.as_uri(), 390)
            wrong |= {path.stem: found} if (found := faults(page)) else {}
            page.close()
        assert wrong == {}
