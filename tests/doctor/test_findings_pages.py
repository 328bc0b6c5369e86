"""Every finding that a check can make has a page, and the index lists it."""

from __future__ import annotations

import re
from pathlib import Path

import treering

PAGES = Path(__file__).parents[2] / "docs" / "findings"
CHECKS = Path(treering.__file__).parent / "doctor" / "checks"


def test_every_finding_has_a_page_and_a_line_of_the_index() -> None:
    found = {
        name
        for path in CHECKS.glob("*.py")
        for name in re.findall(r'\bid="([a-z-]+)"', path.read_text())
    }
    assert len(found) >= 12
    listed = re.findall(r"^\| \[([a-z-]+)\]\(\1\.md\)", (PAGES / "README.md").read_text(), re.M)
    assert found <= set(listed)
    assert listed == sorted(listed)
    for name in listed:
        assert (PAGES / f"{name}.md").read_text().startswith(f"# {name}\n")
