"""Layers: who may import whom, read from the sources."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import treering

SOURCE = Path(treering.__file__).parent
# cli → {doctor, simulate, migrate, store} → {engine, fanout, sstable} → core → errors
LAYERS: dict[str, int] = {
    "errors": 0,
    "core": 1,
    "engine": 2,
    "fanout": 2,
    "sstable": 2,
    "sstable_files": 2,
    "sstable_scan": 2,
    "clock": 2,
    "readings": 2,
    "intake": 2,
    "formats": 2,
    "write_report": 2,
    "stats": 2,
    "metrics": 2,
    "outbox": 2,
    "gather": 2,
    "turn": 2,
    "spool": 2,
    "writer_report": 2,
    "writer_options": 2,
    "writer": 3,
    "testing": 2,
    "aio": 3,
    "leases": 3,
    "table_series": 3,
    "adopting": 3,
    "table_adopted": 3,
    "table": 3,
    "table_removal": 3,
    "table_count": 3,
    "table_write": 3,
    "newest": 3,
    "reading": 3,
    "aggregating": 3,
    "scanning": 3,
    "table_scan": 3,
    "table_retention": 3,
    "table_context": 3,
    "store": 3,
    "doctor": 3,
    "simulate": 3,
    "migrate": 3,
    "plot": 3,
    "importing": 3,
    "exporting": 3,
    "__init__": 4,
    "cli": 5,
    "demo": 5,
    "__main__": 6,
}
PURE = {"numpy", "treering"}
# Blocks are packed by codecs that know bytes alone.
CODECS = {"pcodec", "zstandard"}
IMPURE_STDLIB = {
    "asyncio",
    "concurrent",
    "http",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "queue",
    "random",
    "shutil",
    "socket",
    "sqlite3",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib",
}


def modules() -> list[Path]:
    """Return all source files of the package."""
    return sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    """Return the first name under the package: a folder or a module."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[str]:
    """Return the dotted names that a file imports, anywhere in it."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module or "")
            if node.module == "treering":
                names += [f"treering.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    own = part_of(path)
    assert own in LAYERS, f"{own} has no layer: add it to the table above"
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "treering" and len(parts) > 1 and parts[1] != own:
            target = parts[1]
            assert target in LAYERS, f"{path} imports {name}, which has no layer"
            assert LAYERS[target] <= LAYERS[own], f"{path} imports {name} from above"


PURE_MODULES = sorted(path for part in ("core", "sstable") for path in (SOURCE / part).glob("*.py"))


@pytest.mark.parametrize("path", PURE_MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_core_and_sstable_are_pure(path: Path) -> None:
    for name in imports_of(path):
        root = name.split(".")[0]
        assert root not in IMPURE_STDLIB, f"{path.name} imports {name}"
        if root not in PURE and not (root in CODECS and path.stem.startswith("block")):
            assert root in __import__("sys").stdlib_module_names, f"{path.name} imports {name}"


def test_only_the_cassandra_engine_and_testing_import_the_driver() -> None:
    users = {
        str(path.relative_to(SOURCE).parent)
        for path in modules()
        if any(name.split(".")[0] == "cassandra" for name in imports_of(path))
    }
    assert users <= {"engine/cassandra", "testing"}


def test_modules_stay_small() -> None:
    long = {
        str(path.relative_to(SOURCE)): lines
        for path in modules()
        if (lines := len(path.read_text().splitlines())) > 600
    }
    assert not long
