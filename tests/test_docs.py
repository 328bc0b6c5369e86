"""The documentation is true: every block runs, every public name and command is described.

Blocks of one page run in order, in one folder and one Python namespace. A ``console`` block holds
commands after ``$ `` and, below each, lines that its output must contain (``…`` stands for
anything). ``<!-- exit: 2 -->`` above a block says how its last command ends; ``<!-- not run: why
-->`` leaves a block out. ``cassandra://127.0.0.1/plant`` stands for a real node.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import treering

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PLANT = "cassandra://127.0.0.1/plant?local_dc=datacenter1"

_FENCE = re.compile(
    r"(?:<!--\s*(?P<note>[^>]*?)\s*-->\s*\n)?^```(?P<kind>\w*)[^\n]*\n(?P<body>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
RUNNABLE = {"python", "pycon", "console", "bash", "sh"}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    kind: str
    body: str
    note: str
    line: int


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    text = page.read_text()
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("body")) + 1
        yield Block(match["kind"], match["body"], match["note"] or "", line)


def needs_node(page: Path) -> bool:
    """Return whether a page talks to Cassandra, or starts nodes."""
    return any(
        PLANT in block.body or "LocalCassandra" in block.body
        for block in blocks_of(page)
        if block.kind in RUNNABLE and not block.note.startswith("not run:")
    )


def run_page(page: Path, folder: Path, url: str | None) -> int:
    """Run every block of a page and return how many there were."""
    namespace: dict[str, Any] = {"__name__": "docs"}
    count = 0
    for block in blocks_of(page):
        if block.kind not in RUNNABLE or block.note.startswith("not run:"):
            continue
        body = block.body if url is None else block.body.replace(PLANT, url)
        count += 1
        if block.kind in ("python", "pycon"):
            # The blank lines put the page's line numbers into a traceback.
            source = "\n" * (block.line - 1) + body
            exec(compile(source, str(page), "exec"), namespace)
        else:
            run_console(page, block, body, folder)
    return count


def run_console(page: Path, block: Block, body: str, folder: Path) -> None:
    """Run the commands of a block and look for the lines that the page shows."""
    commands: list[tuple[str, list[str]]] = []
    for line in body.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif line.strip() and commands:
            commands[-1][1].append(line.strip())
        elif line.strip() and block.kind != "console":
            commands.append((line, []))
    exit_wanted = int(block.note.removeprefix("exit:")) if block.note.startswith("exit:") else 0
    scripts = Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    for number, (command, shown) in enumerate(commands):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        where = f"{page.name}:{block.line}: {command}\n{done.stdout}{done.stderr}"
        wanted = exit_wanted if number == len(commands) - 1 else 0
        assert done.returncode == wanted, f"exit {done.returncode}: {where}"
        output = squeezed(done.stdout + done.stderr)
        for line in shown:
            pattern = ".*".join(re.escape(part) for part in squeezed(line).split("…"))
            assert re.search(pattern, output), f"not printed: {line!r}\n{where}"


def squeezed(text: str) -> str:
    """Return text with runs of blanks as one, line by line."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def page_id(page: Path) -> str:
    """Return the page's place in the project."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if not needs_node(p)], ids=page_id)
def test_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TREERING_URL", raising=False)
    run_page(page, tmp_path, None)


@pytest.mark.parametrize("page", [p for p in PAGES if needs_node(p)], ids=page_id)
def test_blocks_of_a_page_run_on_cassandra(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cassandra_keyspace: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TREERING_URL", raising=False)
    assert run_page(page, tmp_path, cassandra_keyspace) > 0


def test_pages_have_blocks_that_run() -> None:
    runnable = [
        block
        for page in PAGES
        for block in blocks_of(page)
        if block.kind in RUNNABLE and not block.note.startswith("not run:")
    ]
    assert len(runnable) >= 15


def test_every_public_name_is_documented() -> None:
    text = "\n".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    undocumented = [
        name
        for name in treering.__all__
        if f"`{name}" not in text and f"treering.{name}" not in text
    ]
    assert not undocumented


def test_every_command_is_documented() -> None:
    from treering.cli.main import app

    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    names = [
        command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        for command in app.registered_commands
    ]
    assert names
    assert [name for name in names if f"treering {name}" not in text] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert not broken


def test_commands_in_pages_are_well_formed() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            if block.kind == "console":
                for line in block.body.replace("\\\n", " ").splitlines():
                    if line.startswith("$ "):
                        assert shlex.split(line[2:], comments=True)
