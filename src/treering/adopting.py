"""Adopting tables that others made: from what people say to a plan, and finding series."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from treering.core.adopt import AdoptPlan, plan_adopt
from treering.core.adopt_values import AdoptChoices
from treering.core.bucket import BucketWidth
from treering.core.schema import check_identifier
from treering.core.table import FUTURE_LIMIT, Finer, TableSpec
from treering.core.units import parse_rate_hz, parse_retention_s, parse_whole_s
from treering.engine.protocol import Adopter, AdoptingEngine, Engine, SeriesScan
from treering.errors import UsageError

SCAN_PARTITIONS_MAX: Final = 100_000
"""After how many partitions a scan for series stops unless it is told otherwise."""


def plan_adoption(
    engine: Engine,
    table: str,
    *,
    now_s: int,
    name: str | None = None,
    series: str | Sequence[str] | None = None,
    bucket: str | None = None,
    bucket_form: str | None = None,
    width: str | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    values: Mapping[str, str] | Sequence[str] | None = None,
    retention: str | dt.timedelta | None = None,
    rate: str | float | None = None,
    look_back: str | dt.timedelta | None = None,
    finer: Finer = "floor",
    future_limit: str | dt.timedelta = FUTURE_LIMIT,
) -> AdoptPlan:
    """Plan the adoption of a table; see ``Store.plan_adopt``."""
    adopter = _adopter(engine)
    keyspace, dot, plain = table.rpartition(".")
    foreign = adopter.read_foreign(keyspace if dot else adopter.keyspace, plain)
    chosen = AdoptChoices(
        series=_names(series),
        bucket=bucket,
        form=bucket_form,
        width=None if width is None else BucketWidth.from_text(width),
        time=time,
        time_unit=time_unit,
        values=_values(values),
        retention_s=_retention_s(retention),
        rate_hz=None if rate is None else parse_rate_hz(rate),
        look_back_s=None if look_back is None else parse_whole_s(look_back),
        finer=finer,
        future_limit_s=parse_whole_s(future_limit),
    )
    plan = plan_adopt(
        foreign,
        adopter.read_sample(foreign),
        _name(name, plain),
        chosen,
        now_s=now_s,
        keyspace=adopter.keyspace,
        server=engine.workload_defaults(),
    )
    return replace(plan, steps=adopter.plan_adopt(plan.spec))


def adopt(engine: Engine, plan: AdoptPlan) -> TableSpec:
    """Enter the table of a plan into the catalog."""
    return _adopter(engine).adopt_table(plan.spec)


def scan_into_catalog(
    engine: Engine, spec: TableSpec, token: int | None, partitions_max: int
) -> SeriesScan:
    """Find series of an adopted table and list them; see ``Table.scan_series``."""
    if not spec.is_adopted:
        raise UsageError(
            f"the table {spec.name!r} is treering's own: all its series are listed",
            hint="list them with series()",
        )
    if partitions_max < 1:
        raise UsageError(f"a scan goes through at least 1 partition, not {partitions_max}")
    scan = _adopter(engine).scan_series(spec, token=token, partitions_max=partitions_max)
    if scan.series:
        engine.add_series(spec, scan.series)
    return scan


def _adopter(engine: Engine) -> Adopter:
    if isinstance(engine, AdoptingEngine):
        return engine.adopter
    raise UsageError(
        f"a store of the {engine.name} engine has no tables of others to adopt",
        hint="open a store on Cassandra: cassandra://host/keyspace",
    )


def _name(name: str | None, table: str) -> str:
    if name is not None:
        return name
    try:
        return check_identifier(table, "table")
    except UsageError as error:
        raise UsageError(
            f"{table!r} cannot be the table's name in treering",
            hint="say what to call it: --name, such as readings",
        ) from error


def _names(series: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if series is None:
        return None
    return (series,) if isinstance(series, str) else tuple(series)


def _values(values: Mapping[str, str] | Sequence[str] | None) -> Mapping[str, str] | None:
    if values is None or isinstance(values, Mapping):
        return values
    names = [values] if isinstance(values, str) else list(values)
    return dict(zip(names, names, strict=True))


def _retention_s(retention: Any) -> int | None:
    if retention is None:
        return None
    return parse_retention_s(retention) or 0
