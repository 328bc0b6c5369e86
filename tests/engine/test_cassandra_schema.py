"""How a table on the server may differ from its design."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.contract import spec_of
from treering.core.ddl import render_comment
from treering.core.table import TableSpec
from treering.core.units import Precision
from treering.engine.cassandra.schema import column_differences, option_differences, table_id_of


def columns_of(spec: TableSpec) -> list[dict[str, Any]]:
    """Return rows of ``system_schema.columns`` of a table as it should be."""
    ts = "timestamp" if spec.precision is Precision.MS else "bigint"
    rows = [
        ("series", "text", "partition_key", 0, "none"),
        ("bucket", "text", "partition_key", 1, "none"),
        ("ts", ts, "clustering", 0, "desc"),
        *((c.name, str(c.type), "regular", -1, "none") for c in spec.columns),
    ]
    keys = ("column_name", "type", "kind", "position", "clustering_order")
    return [dict(zip(keys, row, strict=True)) for row in rows]


@pytest.mark.parametrize("precision", list(Precision))
def test_table_as_it_was_made_has_no_difference(precision: Precision) -> None:
    spec = spec_of("t", columns="a:double,b:text", precision=precision)
    assert column_differences(spec, columns_of(spec)) == ()


@pytest.mark.parametrize(
    ("column", "change", "said"),
    [
        ("value", {"type": "float"}, "value is float regular, not double regular"),
        ("ts", {"clustering_order": "asc"}, "ts is timestamp clustering 1 asc"),
        ("ts", {"type": "bigint"}, "ts is bigint clustering 1 desc, not timestamp"),
        ("bucket", {"kind": "clustering", "position": 0}, "bucket is text clustering 1"),
        ("value", {"column_name": "v"}, "the column value is missing"),
        ("value", {"column_name": "v"}, "another column, v"),
    ],
)
def test_difference_that_hides_readings_is_named(
    column: str, change: dict[str, Any], said: str
) -> None:
    spec = spec_of("t")
    rows = [row | change if row["column_name"] == column else row for row in columns_of(spec)]
    assert any(said in difference for difference in column_differences(spec, rows))


def options_of(spec: TableSpec, **changes: Any) -> dict[str, Any]:
    """Return a row of ``system_schema.tables`` of a table as it should be."""
    assert spec.design.window is not None
    compaction = {
        "class": "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy",
        "compaction_window_unit": spec.design.window.unit,
        "compaction_window_size": str(spec.design.window.size),
    }
    return {
        "default_time_to_live": spec.design.ttl_s,
        "gc_grace_seconds": spec.design.gc_grace_s,
        "compaction": compaction | changes.pop("compaction", {}),
        "read_repair": "NONE",
        "comment": render_comment(spec.design),
        **changes,
    }


def test_options_as_designed_have_no_difference() -> None:
    spec = spec_of("t")
    assert option_differences(spec, options_of(spec)) == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"default_time_to_live": 0}, "default_time_to_live is 0 on the server, not 2592000"),
        ({"gc_grace_seconds": 1}, "gc_grace_seconds is 1"),
        ({"compaction": {"class": "x.SizeTieredCompactionStrategy"}}, "compaction is SizeTiered"),
        ({"compaction": {"compaction_window_size": "7"}}, "compaction window is 7 DAYS"),
        ({"compaction": {"enabled": "false"}}, "compaction enabled is false"),
        ({"compaction": {"timestamp_resolution": "MILLISECONDS"}}, "timestamp_resolution is MILLI"),
        ({"read_repair": "BLOCKING"}, "read_repair is BLOCKING on the server, not NONE"),
        ({"comment": "mine"}, "comment does not hold its design any more"),
        ({"comment": " treering-design: {"}, "cannot be read"),
        (
            {"comment": render_comment(spec_of("u", bucket="hour").design)},
            "bucket is hour in the table's comment, not day as designed",
        ),
    ],
)
def test_difference_of_options_is_told_with_both_sides(changes: dict[str, Any], said: str) -> None:
    spec = spec_of("t")
    differences = option_differences(spec, options_of(spec, **changes))
    assert said in differences[0]


def test_table_id_is_the_same_for_everyone_and_differs_by_every_part() -> None:
    ids = {
        table_id_of("c", "k", "t", 1),
        table_id_of("c", "k", "t", 1),
        table_id_of("c", "k", "t", 2),
        table_id_of("c", "k", "u", 1),
        table_id_of("c", "l", "t", 1),
        table_id_of("d", "k", "t", 1),
        table_id_of("c", "kt", "", 1),
    }
    assert len(ids) == 6
    assert all(table_id.version == 5 for table_id in ids)
