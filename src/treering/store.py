"""A store: where tables are; opened by a folder or a URL."""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakSet

from treering.adopting import adopt, plan_adoption
from treering.clock import Clock, WriteClock, system_clock
from treering.core.adopt import AdoptPlan
from treering.core.bucket import BucketWidth
from treering.core.design import Design, Overrides, Window, Workload, plan_design
from treering.core.schema import check_identifier, parse_columns
from treering.core.table import FUTURE_LIMIT, Finer, TableSpec
from treering.core.units import (
    Precision,
    parse_duration_s,
    parse_rate_hz,
    parse_retention_s,
    parse_whole_s,
)
from treering.core.window import parse_window
from treering.engine.protocol import Engine
from treering.errors import DesignError, StoreClosedError, TableNotFoundError, UsageError
from treering.fanout.permits import Permits
from treering.leases import LeaseTerms, SeriesLease
from treering.metrics import register_collector
from treering.stats import StatsRecorder, StoreStats
from treering.table import Table
from treering.table_context import TableContext
from treering.writer import Writer, close_writers

URL_VARIABLE: Final = "TREERING_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePlan:
    """What creating a table would do.

    Attributes:
        spec: The table, with its design and all verdicts.
        steps: The statements or steps that the engine would run, in order.
    """

    spec: TableSpec
    steps: tuple[str, ...]

    @property
    def design(self) -> Design:
        """The design of the table."""
        return self.spec.design


class Store:
    """A set of tables in one folder or keyspace. Safe to use from any thread; close it once."""

    def __init__(
        self, engine: Engine, *, clock: Clock = system_clock, terms: LeaseTerms | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._closed = threading.Event()
        self._permits = Permits(engine.in_flight_max)
        self._write_clock = WriteClock()
        self._stats = StatsRecorder()
        self._at_close: list[Callable[[], None]] = []
        self._writers: WeakSet[Writer] = WeakSet()
        self._terms = terms or LeaseTerms()
        # What is known of a table's series serves all its openings; dropped ones go with the name.
        self._leases: dict[str, tuple[int, SeriesLease]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._closed.is_set() else ""
        return f"<treering store of the {self.engine_name} engine{closed}>"

    @property
    def engine_name(self) -> str:
        """``memory``, ``sqlite`` or ``cassandra``."""
        return self._engine.name

    def create(self, name: str, *, force: bool = False, **choices: Any) -> Table:
        """Create a table from what its readings are like; returns the one that is there if equal.

        Args:
            name: Lower-case identifier.
            force: Create the table although a verdict of its design is an error.
            **choices: As :meth:`plan_create`.

        Raises:
            DesignError: The design is refused, or a verdict is an error; says what would fit.
            SchemaMismatchError: A table of that name with another design is there.
        """
        plan = self.plan_create(name, **choices)
        return self.create_from(plan, force=force)

    def create_from(self, plan: CreatePlan, *, force: bool = False) -> Table:
        """Create the table of a plan that was looked at before; raises as :meth:`create`."""
        self._check_open()
        errors = [verdict for verdict in plan.design.verdicts if verdict.severity == "error"]
        if errors and not force:
            raise DesignError(
                f"the design of {plan.spec.name!r} has an error: "
                + "; ".join(verdict.why for verdict in errors),
                hint="leave out the choice that it names, or create with force (--force)",
                verdicts=tuple(errors),
            )
        return self._table(self._engine.create_table(plan.spec))

    def plan_create(
        self,
        name: str,
        *,
        rate: str | float,
        retention: str | dt.timedelta | None,
        columns: str | Mapping[str, str] = "value:double",
        precision: str = "ms",
        bucket: str | None = None,
        window: str | Window | None = None,
        gc_grace: str | dt.timedelta | None = None,
        finer: Finer = "floor",
        future_limit: str | dt.timedelta = FUTURE_LIMIT,
        workload: Mapping[str, Any] | None = None,
    ) -> CreatePlan:
        """Plan a table without making it: its design, and the statements that would run.

        Args:
            name: Lower-case identifier.
            rate: Readings a second of one series: ``1/s``, ``10/min``, ``0.1``.
            retention: How long a reading must stay readable: ``90d``; None or ``forever``. Like
                every length of time it is text with a unit, or a ``timedelta``.
            columns: ``value:double,quality:int`` or a mapping of name to type.
            precision: ms, us or ns.
            bucket: A bucket width instead of the one that the design would choose.
            window: A TWCS window instead of the chosen one, such as ``1 DAYS`` or ``6h``.
            gc_grace: A grace instead of the chosen one, such as ``3h``.
            finer: What becomes of times finer than the precision: ``floor`` or ``refuse``.
            future_limit: How far ahead of now a reading may be.
            workload: Further fields of :class:`~treering.Workload`, such as ``peak_rate_hz``.

        Raises:
            UsageError: A text that is not what it should be.
            DesignError: The design is refused.
        """
        self._check_open()
        retention_s = parse_retention_s(retention)
        stated = _workload(
            rate_hz=parse_rate_hz(rate),
            columns=parse_columns(columns),
            retention_s=retention_s,
            precision=Precision.from_text(precision),
            more={**self._engine.workload_defaults(), **(workload or {})},
        )
        overrides = Overrides(
            bucket=None if bucket is None else BucketWidth.from_text(bucket),
            window=_window(window, retention_s),
            gc_grace_s=None if gc_grace is None else parse_whole_s(gc_grace),
        )
        design = plan_design(stated, now_s=self._clock() // 1_000_000_000, overrides=overrides)
        return self.plan_from(name, design, finer=finer, future_limit=future_limit)

    def plan_from(
        self,
        name: str,
        design: Design,
        *,
        finer: Finer = "floor",
        future_limit: str | dt.timedelta = FUTURE_LIMIT,
    ) -> CreatePlan:
        """Plan a table from a design that was made before."""
        spec = TableSpec(
            name=check_identifier(name, "table"),
            design=design,
            finer=finer,
            future_limit_s=parse_whole_s(future_limit),
        )
        return CreatePlan(spec=spec, steps=self._engine.plan_create(spec))

    def plan_adopt(self, table: str, **choices: Any) -> AdoptPlan:
        """Plan the adoption of a table that others made, and change nothing.

        What is not said is inferred from the schema and a bounded sample of the rows, and what is
        said is checked against them.

        Args:
            table: ``keyspace.table``, or a table of the store's keyspace.
            **choices: ``name`` (what it is called here), ``series`` (columns of the partition
                key), ``bucket`` (a column, or ``none``), ``bucket_form`` (``{series}:{bucket}``,
                ``%Y%m%d``, ``date``, ``epoch-ms``), ``width``, ``time``, ``time_unit``,
                ``values`` (columns, or column by name), ``retention``, ``rate``, ``look_back``,
                ``finer``, ``future_limit``.

        Raises:
            UsageError: No such table, a schema that does not fit, or more has to be said.
            SchemaMismatchError: A sampled row contradicts what was said; names it.
        """
        self._check_open()
        now_s = self._clock() // 1_000_000_000
        return plan_adoption(self._engine, table, now_s=now_s, **choices)

    def adopt(self, table: str | AdoptPlan, **choices: Any) -> Table:
        """Enter a table that others made into the catalog; the table itself is left as it is.

        Args:
            table: As :meth:`plan_adopt`, or the plan that it returned.
            **choices: As :meth:`plan_adopt`.

        Raises:
            UsageError, SchemaMismatchError: As :meth:`plan_adopt`; or the name is taken.
        """
        self._check_open()
        plan = self.plan_adopt(table, **choices) if isinstance(table, str) else table
        return self._table(adopt(self._engine, plan))

    def table(self, name: str) -> Table:
        """Return the table of that name.

        Raises:
            TableNotFoundError: There is none.
            SchemaMismatchError: What is there differs from the catalog.
        """
        self._check_open()
        spec = self._engine.load_table(check_identifier(name, "table"))
        if spec is None:
            names = self._engine.table_names()
            raise TableNotFoundError(
                f"the store has no table {name!r}",
                hint=f"it has {', '.join(names)}" if names else "it has none: create one first",
                table=name,
            )
        return self._table(spec)

    def tables(self) -> tuple[str, ...]:
        """Return the names of all tables, sorted."""
        self._check_open()
        return self._engine.table_names()

    def drop(self, name: str) -> None:
        """Remove a table with all its readings; of an adopted one only the catalog's entry.

        Raises:
            TableNotFoundError: There is none.
        """
        self._engine.drop_table(self.table(name).spec)
        self._leases.pop(name, None)

    def stats(self) -> StoreStats:
        """Return what the store did so far: requests, rows, refusals, latencies.

        Cost:
            Nothing is sent; a copy of some hundred counters for each verb.
        """
        return self._stats.stats(self._permits)

    def register_metrics(self, registry: Any, *, prefix: str = "treering") -> None:
        """Have a Prometheus registry scrape :meth:`stats` until the store is closed.

        Args:
            registry: A ``CollectorRegistry`` of prometheus-client.
            prefix: What the metrics' names start with; one of its own for each store.

        Raises:
            MissingExtraError: prometheus-client is not installed.
            UsageError: The registry has metrics of that prefix.
        """
        self._check_open()
        self._at_close.append(register_collector(registry, self.stats, prefix))

    def close(self) -> None:
        """Release everything; reads under way raise ``StoreClosedError``. Twice is fine.

        Writers that are open write what they hold first.

        Raises:
            EngineError: A writer could not; says how many readings were not written.
        """
        if self._closed.is_set():
            return
        try:
            close_writers(self._writers)
        finally:
            self._closed.set()
            self._permits.wake()
            while self._at_close:
                self._at_close.pop()()
            self._engine.close()

    def _table(self, spec: TableSpec) -> Table:
        context = TableContext(
            engine=self._engine,
            clock=self._clock,
            write_clock=self._write_clock,
            permits=self._permits,
            is_closed=self._closed.is_set,
            stats=self._stats,
            writers=self._writers,
        )
        return Table(spec, context, self._lease_of(spec))

    def _lease_of(self, spec: TableSpec) -> SeriesLease:
        incarnation, lease = self._leases.get(spec.name, (0, None))
        if lease is None or incarnation != spec.incarnation:
            lease = SeriesLease(spec, self._engine, self._terms)
            self._leases[spec.name] = (spec.incarnation, lease)
        return lease

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise StoreClosedError("the store is closed", hint="open it again")


_STATED: Final = frozenset({"rate_hz", "columns", "retention_s", "precision"})


def _workload(*, more: Mapping[str, Any], **stated: Any) -> Workload:
    known = {field.name for field in fields(Workload)} - _STATED
    unknown = sorted(set(more) - known)
    if unknown:
        raise UsageError(
            f"workload= has no field {', '.join(unknown)}",
            hint=f"it has {', '.join(sorted(known))}",
        )
    return Workload(**stated, **more)


def _window(window: str | Window | None, retention_s: int | None) -> Window | None:
    if window is None or isinstance(window, Window):
        return window
    if retention_s is None:
        raise UsageError(
            "a window was named for readings that are kept for ever",
            hint="leave the window out, or state a retention",
        )
    return parse_window(window, retention_s)


def open_store(
    where: str | os.PathLike[str] | None = None,
    *,
    clock: Clock = system_clock,
    create: bool = True,
    session: Any = None,
    **options: Any,
) -> Store:
    """Open a store.

    Args:
        where: A folder for the embedded engine, ``cassandra://host[:port][,host…]/keyspace``
            with ``?local_dc=…&consistency=…&timeout=…``, or ``memory://``. By default the
            environment's ``TREERING_URL``. What the address does not say comes from the
            environment, else from cqlsh's file.
        clock: The present in epoch nanoseconds; a :class:`~treering.ManualClock` moves by hand.
        create: Whether to make the folder of an embedded store that does not exist.
        session: A session of the driver, in place of ``where``: the store opens one of its own on
            the same cluster, with ``keyspace=``, ``consistency=``, ``timeout=`` and ``catalog=``
            as options. The cluster stays the caller's to shut down.
        **options: Passed to the engine.

    Raises:
        UsageError: Not a folder or URL that treering knows.
        UnavailableError: No server answers.
        MissingExtraError: The engine's driver is not installed.

    Cost:
        Cassandra: a connection to every node of the local datacentre.
    """
    if session is not None:
        if where is not None:
            raise UsageError(
                "a store is opened by its place or on a session, not both",
                hint="leave the place out, and name the keyspace: keyspace=",
            )
        return Store(_engine_on(session, **options), clock=clock)
    if where is not None and not isinstance(where, (str, os.PathLike)):
        raise UsageError(
            f"a store is named by a folder or a URL, not by {where!r}",
            hint="pass text, such as ./plant or cassandra://host/keyspace",
        )
    place = os.environ.get(URL_VARIABLE, "") if where is None else os.fspath(where)
    if not place:
        raise UsageError(
            "no store was named",
            hint=f"pass a folder or cassandra://host/keyspace, or set {URL_VARIABLE}",
        )
    return Store(_engine(place, create=create, **options), clock=clock)


def _engine_on(
    session: Any,
    *,
    keyspace: str | None = None,
    timeout: str | dt.timedelta | None = None,
    **options: Any,
) -> Engine:
    keyspace = keyspace or getattr(session, "keyspace", None)
    if not keyspace:
        raise UsageError("the session has no keyspace", hint="name one: keyspace=")
    if timeout is not None:
        options["timeout_s"] = parse_duration_s(timeout)
    cassandra = importlib.import_module("treering.engine.cassandra")
    engine: Engine = cassandra.CassandraEngine.from_session(session, keyspace, **options)
    return engine


def _check_options(maker: Callable[..., Any], options: Mapping[str, Any], kind: str) -> None:
    taken = inspect.signature(maker).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken):
        return
    known = [one.name for one in taken if one.kind is inspect.Parameter.KEYWORD_ONLY]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UsageError(
            f"a store in {kind} has no option {', '.join(unknown)}".replace("in Cass", "on Cass"),
            hint=f"it has {', '.join(known)}" if known else "it has none",
        )


def _engine(place: str, *, create: bool, **options: Any) -> Engine:
    scheme, colon, _ = place.partition("://")
    if not colon:
        sqlite = importlib.import_module("treering.engine.sqlite")
        _check_options(sqlite.SqliteEngine, options, "a folder")
        engine: Engine = sqlite.SqliteEngine(Path(place), create=create, **options)
        return engine
    match scheme.lower():
        case "memory":
            memory = importlib.import_module("treering.engine.memory")
            _check_options(memory.MemoryEngine, options, "memory")
            engine = memory.MemoryEngine(**options)
        case "cassandra":
            cassandra = importlib.import_module("treering.engine.cassandra")
            _check_options(cassandra.CassandraEngine.connect, options, "Cassandra")
            engine = cassandra.CassandraEngine.connect(place, **options)
        case _:
            raise UsageError(
                f"{scheme!r} is not a kind of store",
                hint="use a folder, cassandra://host[:port]/keyspace, or memory://",
            )
    return engine
