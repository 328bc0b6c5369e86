"""Facts go through JSON unchanged, without keys, and a strange document is refused."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doctor.made import NOW_S, sstable
from treering.doctor.facts import (
    ClusterFacts,
    ColumnFacts,
    Missing,
    NodeFacts,
    Percentiles,
    SchemaFacts,
    TableFacts,
    TableHistograms,
    TableStats,
)
from treering.doctor.facts_json import cluster_of_json, cluster_to_json
from treering.errors import CorruptDataError
from treering.sstable.facts import FileProblem, SnapshotFacts


def whole() -> ClusterFacts:
    some = Percentiles(p50=1.0, p75=2.0, p95=3.0, p98=None, p99=5.0, min=0.0, max=9.0)
    node = NodeFacts(
        node="10.0.0.1",
        collected_at_s=NOW_S,
        version="5.0.8",
        settings={"compaction_throughput": "64MiB/s"},
        files=(sstable(), sstable(repaired_at_ms=5, first_token=None, max_deletion_s=None)),
        problems=(FileProblem(path="/x", id="7", message="cut short", kind="corrupt"),),
        snapshots=(
            SnapshotFacts(
                name="s",
                keyspace="plant",
                table="readings",
                table_id="",
                path="/s",
                bytes=5,
                dropped_bytes=3,
                files=2,
                dropped_ids=("1",),
            ),
        ),
        histograms=TableHistograms(
            sstables_per_read=some,
            read_latency_us=some,
            write_latency_us=some,
            partition_bytes=some,
            partition_cells=some,
        ),
        stats=TableStats(sstable_count=2, droppable_ratio=0.5),
        disk_free_bytes=10**12,
        is_memtable_known=True,
    )
    schema = SchemaFacts(
        table_id="ab",
        partition_key=(ColumnFacts(name="series", type="text"),),
        clustering=(ColumnFacts(name="ts", type="timestamp", is_descending=True),),
        columns=(ColumnFacts(name="value", type="double"),),
        options={"compaction": {"class": "x"}, "gc_grace_seconds": 3, "speculative_retry": "99p"},
    )
    missing = (Missing(node="10.0.0.2", what="files", why="no answer"),)
    table = TableFacts(
        keyspace="plant", table="readings", schema=schema, nodes=(node,), missing=missing
    )
    return ClusterFacts(target="here", tables=(table,), missing=missing, problems=node.problems)


def through_json(facts: ClusterFacts, **options: Any) -> ClusterFacts:
    text = json.dumps(cluster_to_json(facts, **options), allow_nan=False)
    return cluster_of_json(json.loads(text), path="facts.json")


def test_facts_with_keys_come_back_as_they_were() -> None:
    assert through_json(whole(), with_keys=True) == whole()


def test_without_keys_tokens_stay_and_keys_and_bounds_are_gone() -> None:
    text = json.dumps(cluster_to_json(whole()))
    for secret in (b"pump-1", b"pump-2", b"secret-a", b"secret-z"):
        assert secret.hex() not in text
        assert secret.decode() not in text
    back = through_json(whole()).tables[0].nodes[0].files
    assert back is not None
    assert back[0].first_token == -5
    expected = dataclasses.replace(
        sstable(), first_key=None, last_key=None, clustering_start=None, clustering_end=None
    )
    assert back[0] == expected


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container with a key of it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in list(items):
        yield value, key
        if isinstance(one, (dict, list)):
            yield from places(one)


STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
)


@settings(max_examples=150)
@given(place=st.integers(min_value=0), strange=STRANGE, is_removed=st.booleans())
def test_a_strange_document_is_refused_or_understood(
    place: int, strange: Any, is_removed: bool
) -> None:
    document = copy.deepcopy(cluster_to_json(whole()))
    found = list(places(document))
    container, key = found[place % len(found)]
    if is_removed:
        del container[key]
    else:
        container[key] = strange
    try:
        facts = cluster_of_json(document, path="facts.json")
    except CorruptDataError as error:
        assert "facts.json" in str(error)  # noqa: PT017
    else:
        assert isinstance(facts, ClusterFacts)


@pytest.mark.parametrize("document", [None, 3, [], {}, {"facts": {}}, {"format": 2, "facts": {}}])
def test_no_document_of_facts(document: Any) -> None:
    with pytest.raises(CorruptDataError, match=r"facts\.json does not hold facts"):
        cluster_of_json(document, path="facts.json")
