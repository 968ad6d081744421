"""Draws the README's badges from what they claim: python docs/pictures/badges.py."""

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LETTER = 6.6  # its width


def facts() -> dict[str, tuple[str, str]]:
    """Return what each badge says: the systems of the workflow, the Pythons of the classifiers, the licence."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8")
    systems = {"ubuntu": "Linux", "macos": "macOS", "windows": "Windows"}
    tested = [shown for name, shown in systems.items() if f"{name}-latest" in workflow]
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    return {
        "tests": ("tests", ", ".join(tested)),
        "python": ("Python", f"{pythons[0]} to {pythons[-1]}"),
        "licence": ("licence", project["license"]),
    }


def badge(name: str, value: str) -> str:
    """Return a badge as SVG."""
    left, right = (round(LETTER * len(text)) + 12 for text in (name, value))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{name}: {value}" font-family="Verdana,sans-serif" font-size="11" fill="#fff" text-anchor="middle">\n'
        f'<rect width="{left + right}" height="20" rx="3" fill="#2f6f9f"/>\n'
        f'<path d="M3 0h{left - 3}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#444"/>\n'
        f'<text x="{left / 2:g}" y="14">{name}</text>\n'
        f'<text x="{left + right / 2:g}" y="14">{value}</text>\n</svg>\n'
    )


def made() -> dict[Path, str]:
    """Return the files."""
    return {HERE / f"badge-{name}.svg": badge(*said) for name, said in facts().items()}


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
