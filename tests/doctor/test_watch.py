"""Samples, kept in a store, and what they say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.doctor.made import NOW_S, sstable
from treering.doctor.facts import NodeFacts, TableFacts, TableStats
from treering.doctor.render_watch import render_watch, render_watch_html, watch_to_json
from treering.doctor.sample import Sampled, sample_of, sampled_of, why_no_sample
from treering.doctor.watch import (
    history_of,
    keep_samples,
    open_disk_table,
    parse_sizes_csv,
    predicted_curve,
    read_history,
    watched_of,
)
from treering.errors import UsageError
from treering.sstable.facts import SnapshotFacts
from treering.store import open_store

OURS = Sampled(table="plant.readings")


def node(name: str, *, size: int = 100, files: bool = True, at_s: int = NOW_S) -> NodeFacts:
    snapshot = SnapshotFacts(
        name="s",
        keyspace="plant",
        table="readings",
        table_id="",
        path="/s",
        bytes=9,
        dropped_bytes=7,
        files=1,
        dropped_ids=(),
    )
    if not files:
        return NodeFacts(node=name, collected_at_s=at_s, stats=TableStats(live_bytes=size))
    return NodeFacts(
        node=name,
        collected_at_s=at_s,
        files=(sstable(data_bytes=size), sstable(data_bytes=size, path="/b-Data.db")),
        snapshots=(snapshot,),
    )


def table(*nodes: NodeFacts) -> TableFacts:
    return TableFacts(keyspace="plant", table="readings", schema=None, nodes=nodes)


def test_a_sample_adds_up_the_nodes_and_leaves_snapshots_apart() -> None:
    sample = sample_of(table(node("a"), node("b", size=50)))
    assert sample is not None
    assert (sample.live_bytes, sample.files, sample.snapshot_bytes) == (300, 4, 14)


def test_statistics_serve_where_no_file_was_seen() -> None:
    sample = sample_of(table(node("a", files=False)))
    assert sample is not None
    assert (sample.live_bytes, sample.files) == (100, None)


def test_a_node_that_tells_nothing_makes_no_sample() -> None:
    assert sample_of(table(node("a"), NodeFacts(node="b", collected_at_s=NOW_S))) is None


def at(place: str, one: NodeFacts) -> NodeFacts:
    return dataclasses.replace(one, datacenter=place)


SILENT = NodeFacts(node="c", collected_at_s=NOW_S)


def test_a_datacentre_that_was_not_seen_leaves_a_sample_of_the_other_one_by_name() -> None:
    facts = table(at("north", node("a")), at("north", node("b")), at("south", SILENT))
    sample = sample_of(facts)
    assert sample is not None
    assert (sample.live_bytes, sample.files, sample.snapshot_bytes) == (400, 4, 14)
    assert sample.of == Sampled(table="plant.readings", datacenters=("north",))
    assert sample.of == Sampled.from_series(sample.of.series)
    text = render_watch(watched_of(sample.of, [NOW_S], [400], facts=facts))
    assert text.startswith("plant.readings in north alone: unknown\n")
    assert "no node of the other datacentres was seen" in text
    (document,) = watch_to_json([watched_of(sample.of, [NOW_S], [400])])["tables"]
    assert (document["table"], document["datacenters"]) == ("plant.readings", ["north"])
    # With all of them it is the table itself, and no series of the other's.
    whole = table(at("north", node("a")), at("south", node("c")))
    assert sampled_of(whole) == Sampled.from_series("plant.readings") == OURS


@pytest.mark.parametrize(
    ("nodes", "silent"),
    [
        ((at("north", node("a")), at("north", SILENT)), "c told none"),
        ((at("north", node("a")), at("south", node("b")), at("south", SILENT)), "c told none"),
        ((at("north", node("a")), SILENT), "c told none"),
        ((node("folder"), at("south", SILENT)), "c told none"),
        ((at("south", SILENT),), "c told none"),
    ],
    ids=[
        "a node of a datacentre that was seen",
        "a node of one of two that were seen",
        "a node of a datacentre that nobody knows",
        "a folder that may be the silent node's",
        "all that there is",
    ],
)
def test_a_silent_node_of_what_was_seen_makes_no_sample(
    nodes: tuple[NodeFacts, ...], silent: str
) -> None:
    assert sample_of(table(*nodes)) is None
    assert why_no_sample(table(*nodes)).startswith(silent)


def test_samples_of_one_datacentre_do_not_mix_with_those_of_the_table(tmp_path: Path) -> None:
    seen = (at("north", node("a", size=300)), at("south", SILENT))
    both = (at("north", node("a", size=300)), at("south", node("c", size=500)))
    with open_store(str(tmp_path / "disk"), create=True, clock=lambda: NOW_S * 10**9) as store:
        kept = open_disk_table(store, 3_600)
        for facts in (table(*seen), table(*both)):
            found = sample_of(facts)
            assert found is not None
            keep_samples(kept, [found])
            _, sizes = history_of(read_history(kept, sampled_of(facts)))
            assert sizes.tolist() == [found.live_bytes]
        assert sorted(kept.series()) == ["plant.readings", "plant.readings@north"]


def test_samples_are_kept_and_come_back_each_second_once(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "disk"), create=True, clock=lambda: NOW_S * 10**9) as store:
        kept = open_disk_table(store, 3_600)
        for hour in range(10):
            found = sample_of(table(node("a", size=hour, at_s=NOW_S - 36_000 + hour * 3_600)))
            assert found is not None
            keep_samples(kept, [found, found])
        times, sizes = history_of(read_history(kept, OURS))
        assert sizes.tolist() == [2 * hour for hour in range(10)]
        assert times.tolist()[0] == NOW_S - 36_000
    with open_store(str(tmp_path / "disk"), clock=lambda: NOW_S * 10**9) as store:
        again = open_disk_table(store, 60)
        assert len(history_of(read_history(again, OURS))[0]) == 10
        assert len(history_of(read_history(again, Sampled(table="plant.other")))[0]) == 0


def test_one_sample_is_predicted_from_the_deletion_times_of_the_files() -> None:
    curve = predicted_curve(table(node("a"), node("b")))
    assert curve is not None
    assert curve[0] == (NOW_S, 400)
    assert curve[-1][1] == 0
    assert predicted_curve(table(node("a", files=False))) is None


def test_text_page_and_document_say_the_kind_and_what_leaves() -> None:
    one = watched_of(
        Sampled(table="plant.<b>"), [NOW_S, NOW_S + 60], [400, 300], facts=table(node("a"))
    )
    text = render_watch(one)
    assert "unknown" in text
    assert "leave by themselves" in text
    assert "snapshots alone keep 7 B" in text
    page = render_watch_html([one])
    assert "plant.&lt;b&gt;" in page
    assert page.count("<svg") == 2
    (document,) = watch_to_json([one])["tables"]
    assert document["predicted"][0] == [NOW_S, 200]


def test_sizes_are_read_from_csv_in_any_order_and_unit(tmp_path: Path) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text("node,time,bytes\na,2026-01-01T01:00Z,2kB\nb,1767225600,1000\n\n")
    times, sizes = parse_sizes_csv(path)
    assert times.tolist() == [1_767_225_600, 1_767_229_200]
    assert sizes.tolist() == [1_000, 2_000]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "no columns"),
        ("when,size\n1,2\n", "no columns"),
        ("time,bytes\nyesterday,5\n", "line 2"),
        ("time,bytes\n5\n", "line 2"),
        ("time,bytes\n5,many\n", "line 2"),
    ],
)
def test_a_csv_that_cannot_be_read_is_refused_by_line(
    text: str, wrong: str, tmp_path: Path
) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=wrong):
        parse_sizes_csv(path)
