"""A state machine: several clients of one store beside a model, whatever they do in which order.

The model is a dictionary of readings by series and event time, and the rule of the retention. The
clients have clocks of their own, a few seconds apart, which move on together.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import treering
from tests.engine.contract import DAY_MS, NOW_S, fresh_name
from treering.core.read_plan import Order
from treering.core.segment import segment_length_s, segment_of
from treering.store import Store

RETENTION_S = 10 * 86_400
RETENTION_MS = RETENTION_S * 1_000
SKEWS_S = (-2, 0, 2)
SERIES = ("pump-1", "pump-2", "boiler")
WIDTHS = ("hour", "6h", "day", "week")

OFFSETS_MS = st.one_of(
    st.integers(-9 * DAY_MS, 0),
    st.integers(-12 * DAY_MS, 20 * 60_000),
    st.sampled_from([0, 1, -1, 599_000, 602_001, -RETENTION_MS, -RETENTION_MS + 3_000]),
    # Around the edges of days and hours, where buckets meet.
    st.integers(-9, 0).map(lambda day: day * DAY_MS - DAY_MS // 2),
    st.integers(-9, 0).map(lambda day: day * DAY_MS - DAY_MS // 2 - 1),
)


class StoreMachine(RuleBasedStateMachine):
    """Clients that write, read, expire and change widths; subclasses open the store."""

    def open_client(self, clock: treering.ManualClock) -> Store:
        """Return a client of the one store of this run."""
        raise NotImplementedError

    def close_all(self) -> None:
        """Release what :meth:`open_client` made."""

    @initialize()
    def start(self) -> None:
        """Open the clients and make the table."""
        now = dt.datetime.fromtimestamp(NOW_S, dt.UTC)
        self.clocks = [
            treering.ManualClock(now + dt.timedelta(seconds=skew_s)) for skew_s in SKEWS_S
        ]
        self.stores = [self.open_client(clock) for clock in self.clocks]
        self.name = fresh_name("machine")
        made = self.stores[0].create(
            self.name,
            rate="1/min",
            retention=f"{RETENTION_S}s",
            bucket="day",
            columns="value:double,note:text",
        )
        self.tables = [made, *(store.table(self.name) for store in self.stores[1:])]
        self.model: dict[str, dict[int, dict[str, Any]]] = {}
        self.number = 0

    def now_ms(self, client: int) -> int:
        """Return what a client takes for now."""
        return self.clocks[client]() // 1_000_000

    @rule(
        client=st.integers(0, 2),
        series=st.sampled_from(SERIES),
        offsets=st.lists(OFFSETS_MS, min_size=1, max_size=6, unique=True),
        partly=st.booleans(),
    )
    def write(self, client: int, series: str, offsets: list[int], partly: bool) -> None:
        """Write readings, some with one column only; the model predicts each one's fate."""
        now = self.now_ms(client)
        times = [now + offset for offset in offsets]
        values = [float(self.number + place) for place in range(len(times))]
        notes = [
            None if partly and place % 2 else f"n{self.number + place}"
            for place in range(len(times))
        ]
        self.number += len(times)
        report = self.tables[client].write(series, times, unit="ms", value=values, note=notes)
        taken = [
            place
            for place, ts in enumerate(times)
            if now - RETENTION_MS + 1_000 <= ts <= now + 600_000
        ]
        assert report.accepted == len(taken)
        assert report.refused_count == len(times) - len(taken)
        for place in taken:
            row = self.model.setdefault(series, {}).setdefault(times[place], {})
            row["value"] = values[place]
            if notes[place] is not None:
                row["note"] = notes[place]

    def visible(self, client: int, series: str) -> dict[int, dict[str, Any]]:
        """Return what a client may see of a series."""
        oldest = self.now_ms(client) - RETENTION_MS
        return {ts: row for ts, row in self.model.get(series, {}).items() if ts >= oldest}

    @rule(
        client=st.integers(0, 2),
        series=st.sampled_from(SERIES),
        span=st.tuples(OFFSETS_MS, OFFSETS_MS),
        order=st.sampled_from(["asc", "desc"]),
        limit=st.none() | st.integers(1, 5),
    )
    def read(
        self, client: int, series: str, span: tuple[int, int], order: Order, limit: int | None
    ) -> None:
        """Read an interval with any client and compare with the model."""
        now = self.now_ms(client)
        start, end = now + min(span), now + max(span)
        found = self.tables[client].read(
            series, start, end, unit="ms", order=order, limit=limit, missing_ok=True
        )
        rows = self.visible(client, series)
        wanted = sorted((ts for ts in rows if start <= ts < end), reverse=order == "desc")[:limit]
        self.compare(found, wanted, rows)

    @rule(client=st.integers(0, 2), count=st.integers(1, 4))
    def latest(self, client: int, count: int) -> None:
        """Read the newest of all series at once."""
        found = self.tables[client].latest(SERIES, count, missing_ok=True)
        for series, part in found.split():
            rows = self.visible(client, series)
            self.compare(part, sorted(rows, reverse=True)[:count], rows)

    def compare(self, found: treering.Readings, wanted: list[int], rows: dict[int, Any]) -> None:
        """Check times, values and what is missing."""
        assert found.ts.tolist() == wanted
        assert found["value"].tolist() == [rows[ts]["value"] for ts in wanted]
        notes = found.data["note"].to_list()
        assert notes == [rows[ts].get("note") for ts in wanted]

    @rule(
        client=st.integers(0, 2),
        series=st.sampled_from(SERIES),
        width=st.sampled_from(WIDTHS),
    )
    def change_width(self, client: int, series: str, width: str) -> None:
        """Change how a series cuts time from a date on; no read may notice."""
        if series not in self.model:
            return
        # One change may be pending at a time; then this one is refused and nothing is changed.
        with contextlib.suppress(treering.WidthError):
            self.tables[client].set_bucket(series, width)

    @rule(
        client=st.integers(0, 2),
        series=st.sampled_from(SERIES),
        span=st.tuples(OFFSETS_MS, OFFSETS_MS),
    )
    def delete(self, client: int, series: str, span: tuple[int, int]) -> None:
        """Delete an interval; what was written before is gone, what comes later is not."""
        now = self.now_ms(client)
        start, end = now + min(span), now + max(span)
        if start == end or series not in self.model:
            return
        self.tables[client].delete(series, start, end, unit="ms", allow_on_twcs=True)
        rows = self.model[series]
        # A delete is clipped to the retention, as a read is.
        for ts in [ts for ts in self.visible(client, series) if start <= ts < end]:
            del rows[ts]

    @rule(client=st.integers(0, 2))
    def expire(self, client: int) -> None:
        """Expire with one client's clock; whole segments that are past it are gone for all."""
        self.tables[client].expire()
        limit_s = self.clocks[client]() // 1_000_000_000 - RETENTION_S
        length_s = segment_length_s(self.tables[client].spec)
        for rows in self.model.values():
            for ts in list(rows):
                if segment_of(ts // 1_000, length_s).end_s <= limit_s:
                    self.expired(rows, ts)

    def expired(self, rows: dict[int, dict[str, Any]], ts: int) -> None:
        """Forget a reading that expiry removed; a client whose clock is behind may still ask."""
        del rows[ts]

    @rule(length=st.sampled_from(["1s", "10min", "7h", "1d", "3d"]))
    def time_passes(self, length: str) -> None:
        """Move all clocks on together."""
        for clock in self.clocks:
            clock.advance(length)

    @rule(client=st.integers(0, 2))
    def reopen(self, client: int) -> None:
        """Close a client and open it again."""
        self.stores[client].close()
        self.stores[client] = self.open_client(self.clocks[client])
        self.tables[client] = self.stores[client].table(self.name)

    @invariant()
    def series_are_those_that_were_written(self) -> None:
        """Every series with a reading that was acknowledged is listed by every client."""
        if hasattr(self, "tables"):
            for table in self.tables:
                assert set(table.series()) >= {name for name in self.model if name in SERIES}

    def teardown(self) -> None:
        """Close everything."""
        for store in getattr(self, "stores", []):
            store.close()
        self.close_all()


def opener(where: str) -> Callable[[treering.ManualClock], Store]:
    """Return what opens a client of the store at ``where``."""
    return lambda clock: treering.open(where, clock=clock)
