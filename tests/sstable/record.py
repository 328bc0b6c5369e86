"""Files of real nodes, with what sstablemetadata printed of them, kept for tests without a node.

``python -m tests.sstable.record nb oa`` writes them anew. A recording is a zip with a folder
``samples`` as a node's data directory has it, ``tool.json`` (texts and the time of each call).
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.cassandra_fixtures import NODES, driver_session
from tests.sstable.craft import as_na, with_pending_repair
from tests.sstable.tables import KEYSPACE, make_tables
from treering.testing import LocalCassandra

FOLDER: Final = Path(__file__).parent / "data"
TOOL: Final = "tool.json"
HALF_YEAR_S: Final = 182 * 86_400
# Which of the suite's nodes each recording is of; one of a version that is not a release.
RECORDINGS: Final = {
    "nb": "5.0",
    "oa": "5.0 oa",
    "da": "5.0 da",
    "nb-4.1": "4.1",
    "nb-4.0": "4.0",
    "me": "3.11",
    "na": "4.0-alpha4",
}
# The tools of 3.11 and of what came before 4.0 end at a file whose least and largest clustering
# differ in length, which an open range deletion makes.
NOT_FOR_OLD_TOOLS: Final = ("deletes", "types")
OLD_SERVERS: Final = ("3.", "4.0-")


@dataclass(frozen=True)
class ToolCall:
    """One call of sstablemetadata over all files.

    Attributes:
        root: What the printed paths begin with.
        text: What it printed.
        gc_grace_s: What was given with ``-g``; negative looks into the future.
        start_s: Before the call, epoch seconds.
        end_s: After it.
    """

    root: str
    text: str
    gc_grace_s: int
    start_s: int
    end_s: int

    @property
    def gc_before_s(self) -> range:
        """When the tool may have looked, less the grace."""
        return range(self.start_s - self.gc_grace_s, self.end_s - self.gc_grace_s + 1)


def call_tool(
    ring: LocalCassandra, root: Path, graces_s: tuple[int, ...] = (0, -HALF_YEAR_S)
) -> list[ToolCall]:
    """Run sstablemetadata over all tables' files, as of now and as of half a year later."""
    left_out = NOT_FOR_OLD_TOOLS if ring.version.startswith(OLD_SERVERS) else ()
    files = [
        path
        for path in sorted(root.glob("*/*-Data.db"))
        if path.parent.name.rpartition("-")[0] not in left_out
    ]
    calls = []
    for gc_grace_s in graces_s:
        start_s = int(time.time())
        text = ring.sstablemetadata(f"--gc_grace_seconds={gc_grace_s}", *files)
        calls.append(
            ToolCall(
                root=str(root),
                text=text,
                gc_grace_s=gc_grace_s,
                start_s=start_s,
                end_s=int(time.time()),
            )
        )
    return calls


def record(name: str) -> None:
    """Write one recording."""
    with (
        LocalCassandra(**NODES.get(RECORDINGS[name], {"version": RECORDINGS[name]})) as ring,
        tempfile.TemporaryDirectory() as scratch,
    ):
        with driver_session(ring, protocol_version=4) as session:
            make_tables(ring, session)
        root = Path(scratch) / KEYSPACE
        shutil.copytree(
            ring.data_folders()[0] / KEYSPACE,
            root,
            ignore=shutil.ignore_patterns("snapshots", "backups"),
        )
        _add_repaired(ring, root)
        if name == "nb":
            _add_crafted(root)
        calls = call_tool(ring, root)
        FOLDER.mkdir(exist_ok=True)
        with zipfile.ZipFile(
            FOLDER / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9
        ) as out:
            out.writestr(TOOL, json.dumps([asdict(call) for call in calls]))
            for path in sorted(root.rglob("*-*-*-*")):
                if path.is_file():
                    out.write(path, path.relative_to(scratch))


def _copy_table(root: Path, table: str, name: str, id_end: str) -> Path:
    (source,) = root.glob(f"{table}-*")
    target = root / f"{name}-{id_end.rjust(32, '0')}"
    shutil.copytree(source, target)
    return target


def _add_repaired(ring: LocalCassandra, root: Path) -> None:
    folder = _copy_table(root, "ttl", "repaired", "1")
    (data,) = folder.glob("*-Data.db")
    ring._run_tool(
        ring._node(0), "SSTableRepairedAtSetter", "--really-set", "--is-repaired", str(data)
    )


def _add_crafted(root: Path) -> None:
    folder = _copy_table(root, "ttl", "pending", "2")
    (statistics,) = folder.glob("*-Statistics.db")
    statistics.write_bytes(with_pending_repair(statistics.read_bytes()))
    folder = _copy_table(root, "ttl", "older", "3")
    (statistics,) = folder.glob("*-Statistics.db")
    statistics.write_bytes(as_na(statistics.read_bytes()))
    for path in folder.iterdir():
        path.rename(path.with_name(path.name.replace("nb-", "na-", 1)))


@contextmanager
def recording(name: str) -> Iterator[tuple[Path, list[ToolCall]]]:
    """Yield the data folder of a recording, unpacked, and the calls of the tool."""
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(FOLDER / f"{name}.zip") as kept:
        kept.extractall(scratch)
        calls = [ToolCall(**call) for call in json.loads(kept.read(TOOL))]
        yield Path(scratch), calls


if __name__ == "__main__":
    for wanted in sys.argv[1:] or RECORDINGS:
        record(wanted)
