"""What is said about a table to adopt, and what follows for its values and their lifetime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from treering.core.bucket import BucketWidth
from treering.core.choices import Choices, exact_row_bytes
from treering.core.design import Design
from treering.core.foreign import ForeignTable
from treering.core.schema import COLUMNS_MAX, Column, ColumnType
from treering.core.table import FUTURE_LIMIT_S, Finer
from treering.core.units import DAY_S
from treering.core.window import Window, plan_window, window_from_length
from treering.core.workload import Strategy, Workload
from treering.errors import UsageError

RATE_DEFAULT_HZ: Final = 1 / 60
"""The rate that reads are estimated by where neither the caller nor the sample says one."""

LOOK_BACK_BUCKETS: Final = 32
"""How many buckets ``latest`` steps back in an adopted table unless it is told."""

_KINDS: Final = frozenset(ColumnType)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptChoices:
    """What the caller says about a table; everything that is None is inferred.

    Attributes:
        series: The columns of the partition key that say which series a reading is of.
        bucket: The column of the bucket; ``none`` where there is none.
        form: How the bucket stands there, as ``BucketForm.from_text`` takes it.
        width: The width of a bucket.
        time: The column of event time.
        time_unit: What a ``bigint`` time counts: s, ms, us or ns.
        values: Column of values by the name it shall have.
        retention_s: How long a reading stays readable; 0 for ever.
        rate_hz: Readings a second of one series.
        look_back_s: How far ``latest`` steps back.
        finer: What becomes of times that are finer than the time column.
        future_limit_s: How far ahead of now a reading may be.
    """

    series: tuple[str, ...] | None = None
    bucket: str | None = None
    form: str | None = None
    width: BucketWidth | None = None
    time: str | None = None
    time_unit: str | None = None
    values: Mapping[str, str] | None = None
    retention_s: int | None = None
    rate_hz: float | None = None
    look_back_s: int | None = None
    finer: Finer = "floor"
    future_limit_s: int = FUTURE_LIMIT_S


def value_columns(
    foreign: ForeignTable, choices: AdoptChoices
) -> tuple[tuple[Column, ...], tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the columns of values, those with another name on the server, and what is left out.

    Raises:
        UsageError: A column that was named cannot be a value, or none is left.
    """
    there = {column.name: column for column in foreign.columns}
    wanted = choices.values
    left_out: list[tuple[str, str]] = []
    if wanted is None:
        wanted = {}
        for column in foreign.of_kind("regular"):
            if column.type not in _KINDS:
                left_out.append((column.name, f"treering does not read {column.type}"))
            else:
                wanted[_free_name(column.name, wanted)] = column.name
        left_out += [(column.name, "it is static") for column in foreign.of_kind("static")]
    for name, source in wanted.items():
        found = there.get(source)
        if found is None or found.kind != "regular" or found.type not in _KINDS:
            raise UsageError(
                f"the column {source!r} of {foreign.full_name} cannot be the value {name!r}: "
                + ("there is none" if found is None else f"it is {found.kind} {found.type}"),
                hint=f"values are columns outside the key of {', '.join(ColumnType)}",
            )
    if choices.values is not None:
        rest = foreign.of_kind("regular") + foreign.of_kind("static")
        left_out += [(c.name, "it was not named") for c in rest if c.name not in wanted.values()]
    if not 1 <= len(wanted) <= COLUMNS_MAX:
        raise UsageError(
            f"the table {foreign.full_name} has {len(wanted)} columns of values that treering "
            f"reads, not 1 to {COLUMNS_MAX}",
            hint=f"it reads {', '.join(ColumnType)}; name the columns wanted with --value",
        )
    columns = tuple(Column(name, ColumnType(there[src].type)) for name, src in wanted.items())
    renamed = tuple((name, source) for name, source in wanted.items() if name != source)
    return columns, renamed, tuple(left_out)


def _free_name(source: str, taken: Mapping[str, str]) -> str:
    """Return a name for a column: its own where treering can, else one that is near to it."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in source.lower())
    plain = (plain if plain[:1].isalpha() else f"c_{plain}")[:40]
    for name in (source, plain, *(f"{plain}_{n}" for n in range(1, COLUMNS_MAX + 2))):
        try:
            Column(name, ColumnType.TEXT)
        except UsageError:
            continue
        if name not in taken:
            return name
    raise UsageError(f"the column {source!r} finds no free name", hint="name it with --value")


def retention_s_of(foreign: ForeignTable, choices: AdoptChoices) -> int | None:
    """Return how long readings stay readable: as said, or the default TTL; None for ever."""
    stated = choices.retention_s
    return (foreign.default_ttl_s if stated is None else stated) or None


def design_of(foreign: ForeignTable, load: Workload, width: BucketWidth, now_s: int) -> Design:
    """Return the design that the table as it is amounts to; refuses nothing."""
    window = _window(foreign, load.retention_s)
    chosen = Choices(
        workload=load,
        now_s=now_s,
        bucket=width,
        row_bytes=exact_row_bytes(load, None if window is None else window.length_s),
        ttl_s=foreign.default_ttl_s or None,
        window=window,
        gc_grace_s=foreign.gc_grace_s,
        strategy=_strategy(foreign),
    )
    return Design.from_choices(chosen)


def _strategy(foreign: ForeignTable) -> Strategy:
    known = (s for s in Strategy if s.class_name == foreign.compaction_class)
    # Any other strategy sorts files by size, not by time: that is all that is asked of it here.
    return next(known, Strategy.STCS)


def _window(foreign: ForeignTable, retention_s: int | None) -> Window | None:
    if retention_s is None:
        return None
    if foreign.window_s is None:
        return plan_window(retention_s)
    return window_from_length(foreign.window_s, retention_s=retention_s)


def look_back_s_of(choices: AdoptChoices, design: Design, width: BucketWidth) -> int:
    """Return how far ``latest`` steps back unless it is told; at most the retention."""
    look_back_s = choices.look_back_s or max(LOOK_BACK_BUCKETS * width.length_s, DAY_S)
    retention_s = design.workload.retention_s
    return look_back_s if retention_s is None else min(look_back_s, retention_s)
