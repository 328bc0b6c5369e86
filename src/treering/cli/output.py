"""Where results go: text for people through Rich, one JSON document for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document on standard output."""
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_rich(*parts: RenderableType) -> None:
    """Print for people, as wide as the terminal; in a pipe without colours, 80 columns wide."""
    from rich.console import Console

    console = Console(highlight=False, file=sys.stdout)
    for part in parts:
        console.print(part)


def print_note(text: str) -> None:
    """Print a line beside the result: on standard error."""
    print(text, file=sys.stderr)


def render_table(names: Iterable[str], rows: Iterable[Iterable[str]], *, right: int = 0) -> Any:
    """Return a plain table; columns from the ``right``-th on are aligned right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, name in enumerate(names):
        is_right = bool(right) and place >= right
        table.add_column(name, justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    return table


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)
