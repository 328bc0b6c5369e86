"""What a table takes on disk at one moment, of which of its datacentres. Pure.

Rules of this file: a sum without a node or a file that is there were a fall that never happened,
so it is no sample; datacentres of which nobody told anything are left out whole, and what is left
is a sample of the others by name, never one of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from treering.core.units import render_count
from treering.doctor.checks.seen import listed, why_files_hide
from treering.doctor.facts import NodeFacts, TableFacts

_AT: Final = "@"  # In no name of a keyspace or table.


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Of what samples are: they compare with one another only where all of it is the same.

    Attributes:
        table: Keyspace and table.
        datacenters: The datacentres whose nodes are in it, where others were not seen; empty
            for all nodes.
    """

    table: str
    datacenters: tuple[str, ...] = ()

    @classmethod
    def from_series(cls, series: str) -> Sampled:
        """Return of what the samples of a kept series are."""
        table, _, places = series.partition(_AT)
        return cls(table=table, datacenters=tuple(filter(None, places.split(_AT))))

    @property
    def series(self) -> str:
        """The series that its samples are kept as."""
        return _AT.join((self.table, *self.datacenters))

    @property
    def name(self) -> str:
        """What it is, for people."""
        where = " and ".join(self.datacenters)
        return f"{self.table} in {where} alone" if where else self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSample:
    """What a table takes on the nodes that were seen.

    Attributes:
        of: The table, and which datacentres of it.
        time_s: When, epoch seconds.
        live_bytes: Of live files.
        files: How many; None where nobody said.
        snapshot_bytes: What snapshots alone keep; None where nobody looked.
    """

    of: Sampled
    time_s: int
    live_bytes: int
    files: int | None
    snapshot_bytes: int | None


def sample_of(facts: TableFacts) -> DiskSample | None:
    """Return what a table takes; None where it cannot be told, see :func:`why_no_sample`."""
    if why_no_sample(facts):
        return None
    nodes = _covered(facts).nodes
    sizes = [_live_bytes(node) for node in nodes]
    known = [size for size in sizes if size is not None]
    counts = [_file_count(node) for node in nodes]
    held = [
        sum(one.dropped_bytes for one in node.snapshots)
        for node in nodes
        if node.snapshots is not None
    ]
    return DiskSample(
        of=sampled_of(facts),
        time_s=max(node.collected_at_s for node in nodes),
        live_bytes=sum(known),
        files=None if None in counts else sum(count or 0 for count in counts),
        snapshot_bytes=sum(held) if held else None,
    )


def sampled_of(facts: TableFacts) -> Sampled:
    """Return of what a sample of these facts is."""
    covered = _covered(facts)
    if len(covered.nodes) == len(facts.nodes):
        return Sampled(table=facts.name)
    places = sorted({node.datacenter for node in covered.nodes})
    return Sampled(table=facts.name, datacenters=tuple(places))


def why_no_sample(facts: TableFacts) -> str:
    """Return why nobody can tell what a table takes; empty where one can.

    A file that was not read is missing from the sum, and a sample without it were a fall that
    never happened.
    """
    if reasons := why_files_hide(facts, "would make the sum too small"):
        return "; ".join(reasons)
    silent = [node.node for node in _covered(facts).nodes if _live_bytes(node) is None]
    if silent or not facts.nodes:
        return f"{listed(silent)} told none: name its data folder, or its datacentre's address"
    sizeless = sum(one.data_bytes is None for node in facts.nodes for one in node.files or ())
    return f"the size of {render_count(sizeless, 'file')} is not known" if sizeless else ""


def _covered(facts: TableFacts) -> TableFacts:
    """Return a table without the datacentres of which no node told a size.

    It stays whole where it cannot be told in which datacentre a node is that did tell: it may be
    one of those that are silent.
    """
    telling = {node.datacenter for node in facts.nodes if _live_bytes(node) is not None}
    if not telling or "" in telling:
        return facts
    # Where a node is that said nothing matters as well.
    kept = tuple(node for node in facts.nodes if node.datacenter in {*telling, ""})
    return replace(facts, nodes=kept)


def _live_bytes(node: NodeFacts) -> int | None:
    if node.files is not None:
        return sum(file.data_bytes or 0 for file in node.files)
    if node.stats is None:
        return None
    # What the virtual tables say includes files that are about to be deleted.
    return node.stats.total_bytes if node.stats.live_bytes is None else node.stats.live_bytes


def _file_count(node: NodeFacts) -> int | None:
    if node.files is not None:
        return len(node.files)
    return None if node.stats is None else node.stats.sstable_count
