"""Every finding has a page and a line, and no page is of a finding that nothing produces."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import treering.doctor

ROOT = Path(__file__).parent.parent.parent
PAGES = ROOT / "docs" / "findings"
SOURCES = sorted((Path(treering.doctor.__file__).parent / "checks").glob("*.py"))
KEBAB = re.compile(r"[a-z]+(-[a-z]+)*")


def produced() -> set[str]:
    """Return the ids that the checks give to findings."""
    return {
        keyword.value.value
        for path in SOURCES
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "id"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
    }


def described() -> set[str]:
    """Return the ids that have a page."""
    return {page.stem for page in PAGES.glob("*.md")} - {"README"}


def test_every_finding_has_a_page_and_every_page_a_finding() -> None:
    assert len(produced()) >= 20
    assert produced() == described()


def test_ids_are_in_kebab_case() -> None:
    assert all(KEBAB.fullmatch(one) for one in produced())


def test_every_page_has_a_line_in_alphabetical_order() -> None:
    text = (PAGES / "README.md").read_text()
    listed = re.findall(r"^\| \[([a-z-]+)\]\(\1\.md\) \| \S", text, re.MULTILINE)
    assert listed == sorted(described())


def test_pages_are_short_and_begin_with_their_id() -> None:
    for page in sorted(PAGES.glob("*.md")):
        lines = page.read_text().splitlines()
        if page.stem != "README":
            assert lines[0] == f"# {page.stem}"
            assert 15 <= len(lines) <= 45, f"{page.stem} has {len(lines)} lines"
            for title in ("How to see it", "Mechanism", "What to do", "Cost", "Prevention"):
                assert f"## {title}" in lines, f"{page.stem} lacks {title}"
