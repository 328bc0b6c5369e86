"""The main job, end to end, with real input: design, write, read, draw, let old data leave.

Rules of this file: what is read back is compared with what was written, and a difference is an
error; nothing is deleted that the demo did not make; what it shows goes to a screen it is given.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from treering.clock import Clock, ManualClock, system_clock
from treering.core.design import Design
from treering.core.render_plan import render_read_plan
from treering.core.times import render_instant
from treering.core.units import render_bytes, render_duration
from treering.engine.protocol import ExpireReport, TableInfo
from treering.errors import CorruptDataError, MissingExtraError, UsageError, missing_extra
from treering.formats.chunk import RefusedLine
from treering.formats.layout import TIME_NAME, FileMapping
from treering.importing import FileFormat, ImportOptions, ImportReport, read_chunks, run_import
from treering.plot import render_plot, write_png
from treering.readings import Readings
from treering.store import Store, open_store
from treering.table import Table

TEMPERATURE: Final = "demo_temperature"
LOAD: Final = "demo_load"
CITY: Final = "seattle"
MACHINE: Final = "this-machine"
YEAR_END: Final = "2011-01-01T07:00Z"
"""When the clock of the data shows its last hour, 23:00 on 31 December 2010 in Seattle."""

_RATE_HZ: Final = 10
_RUNS_MAX: Final = 10_000


class Screen(Protocol):
    """Where the demo shows what it does."""

    def heading(self, text: str) -> None:
        """Start a section."""
        ...

    def text(self, text: str) -> None:
        """Show lines of text as they are."""
        ...

    def design(self, design: Design) -> None:
        """Show a design with its arithmetic."""
        ...

    def readings(self, readings: Readings) -> None:
        """Show readings as a table."""
        ...

    def parts(self, title: str, info: TableInfo) -> None:
        """Show the parts of a table, such as files, under a title."""
        ...

    def expiry(self, report: ExpireReport) -> None:
        """Show what left, or can leave."""
        ...


class DemoClock:
    """The machine's clock, or one that is moved by hand, whichever the demo is about."""

    def __init__(self) -> None:
        self.manual = ManualClock(YEAR_END)
        self.source: Clock = self.manual

    def __call__(self) -> int:
        """Return the present in epoch nanoseconds."""
        return self.source()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """What the steps of the demo share.

    Attributes:
        store: Where the tables are.
        place: The store as people type it.
        folder: Where pictures go.
        clock: The clock of the store.
        screen: Where everything is shown.
    """

    store: Store
    place: str
    folder: Path
    clock: DemoClock
    screen: Screen


def run_demo(*, store: str | None, out: Path, seconds: float, screen: Screen) -> None:
    """Run the demo.

    Args:
        store: A folder or URL; None makes a new folder below ``out``.
        out: Each run gets a folder of its own in it.
        seconds: How long this machine's load is recorded.
        screen: Where everything is shown.

    Raises:
        MissingExtraError: The data set is not installed.
        CorruptDataError: What was read is not what was written.
        TreeringError: As the store raises.
    """
    data = data_path()
    folder = _new_folder(out)
    place = str(folder / "store") if store is None else store
    clock = DemoClock()
    with open_store(place, clock=clock, create=True) as opened:
        demo = Demo(store=opened, place=place, folder=folder, clock=clock, screen=screen)
        temperature, load = _create(demo)
        _import(demo, temperature, data)
        start_ms, end_ms = _record(demo, load, seconds)
        _read(demo, temperature, load, start_ms, end_ms)
        _expire(demo, temperature, load)
        _say_next(demo)


def data_path() -> Path:
    """Return where the data set lies on this machine: CSV, a year of hourly temperatures.

    Raises:
        MissingExtraError: The package that carries it is not installed.
    """
    # Found without importing it: the import would load pandas for nothing.
    spec = importlib.util.find_spec("vega_datasets")
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra("the data set of the demo", "demo")
    return Path(spec.submodule_search_locations[0]) / "_data" / "seattle-temps.csv"


def _new_folder(out: Path) -> Path:
    for number in range(1, _RUNS_MAX):
        folder = out / f"run-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise UsageError(f"{out} holds {_RUNS_MAX - 1:,} runs", hint="name another folder with --out")


def _create(demo: Demo) -> tuple[Table, Table]:
    demo.screen.heading("1. Design: two tables, from what their readings are like")
    demo.clock.source = demo.clock.manual
    temperature = demo.store.plan_create(
        TEMPERATURE, rate="1/h", retention="365d", columns="temp:double"
    )
    demo.clock.source = system_clock
    load = demo.store.plan_create(
        LOAD, rate="10/s", retention="7d", columns="load:double,busy:double"
    )
    for plan in (temperature, load):
        demo.screen.text(f"table {plan.spec.name}")
        demo.screen.design(plan.design)
    if "://" not in demo.place:
        demo.screen.text(
            "A folder refuses no lifetime, so its tables are planned as for Cassandra 5.0 in\n"
            "storage mode NONE, which stores expiry until 2106. treering design plans for the\n"
            "mode that a server has by default, CASSANDRA_4, whose expiry ends in 2038, unless it\n"
            "is told --storage-mode NONE.\n"
        )
    return demo.store.create_from(temperature), demo.store.create_from(load)


def _mapping() -> FileMapping:
    return FileMapping(
        time="date",
        series_name=CITY,
        columns={"temp": "temp"},
        time_format="%Y/%m/%d %H:%M",
        tz="America/Los_Angeles",
    )


def _import(demo: Demo, table: Table, data: Path) -> None:
    screen = demo.screen
    screen.heading("2. Import: a year of hourly temperatures in Seattle, degrees Fahrenheit")
    demo.clock.source = demo.clock.manual
    refused: list[RefusedLine] = []
    options = ImportOptions(mapping=_mapping(), on_refused=lambda line, _: refused.append(line))
    began_s = time.perf_counter()
    with data.open("rb") as stream:
        report = run_import(table, stream, FileFormat.CSV, options, path=data.name)
    took_s = time.perf_counter() - began_s
    screen.text(
        f"{data.name}: {report.lines:,} lines, {report.accepted:,} readings written in "
        f"{took_s:.2f} s, {report.refused} refused; the store's clock shows {YEAR_END}"
    )
    for line in refused:
        screen.text(f"  refused, {line}")
    screen.text(
        "The times are Seattle's, without a zone, so the import was told the zone. In March its\n"
        "clock skips an hour: a time in it names no instant, and is refused and not guessed. In\n"
        "November it shows 01:00 to 02:00 twice: the file has that hour once, taken as the first."
    )
    _check_import(table, data, report, [line.line for line in refused])


def _check_import(table: Table, data: Path, report: ImportReport, refused: list[int]) -> None:
    with data.open("rb") as stream:
        options = ImportOptions(mapping=_mapping())
        chunks = list(read_chunks(stream, FileFormat.CSV, options, table.spec, path=data.name))
    taken = [np.isin(chunk.lines, refused, invert=True) for chunk in chunks]
    times = [np.asarray(c.frame[TIME_NAME])[kept] for c, kept in zip(chunks, taken, strict=True)]
    values = [np.asarray(c.frame["temp"])[kept] for c, kept in zip(chunks, taken, strict=True)]
    ts = np.concatenate(times).astype("datetime64[ms]").astype(np.int64)
    order = np.argsort(ts)
    _check_same(
        table.read(CITY, "2010-01-01", "2011-01-02"),
        ts[order],
        {"temp": np.concatenate(values).astype(np.float64)[order]},
        report.accepted,
    )


def _check_same(
    readings: Readings,
    ts: npt.NDArray[np.int64],
    columns: dict[str, npt.NDArray[np.float64]],
    count: int,
) -> None:
    same = len(readings) == count and np.array_equal(readings.ts, ts)
    for name, values in columns.items():
        same = same and np.array_equal(np.asarray(readings[name]), values)
    if not same:
        raise CorruptDataError(
            f"{count:,} readings were written and {len(readings):,} read, and they differ",
            hint="this must not happen: please report it with the store",
        )


def _record(demo: Demo, table: Table, seconds: float) -> tuple[int, int]:
    screen = demo.screen
    count = int(seconds * _RATE_HZ)
    screen.heading(f"3. Write: this machine's load, {_RATE_HZ} readings a second for {seconds:g} s")
    demo.clock.source = system_clock
    busy_of = BusyShare()
    times = np.empty(count, dtype=np.int64)
    load, busy = np.empty(count), np.empty(count)
    began_s = time.monotonic()
    slowest_s = 0.0
    for place in range(count):
        time.sleep(max(0.0, began_s + (place + 1) / _RATE_HZ - time.monotonic()))
        times[place] = time.time_ns() // 1_000_000
        load[place], busy[place] = os.getloadavg()[0], busy_of.next()
        sent_s = time.monotonic()
        table.write(MACHINE, int(times[place]), unit="ms", load=load[place], busy=busy[place])
        slowest_s = max(slowest_s, time.monotonic() - sent_s)
    start, end = int(times[0]), int(times[-1]) + 1
    _check_same(
        table.read(MACHINE, start, end, unit="ms"), times, {"load": load, "busy": busy}, count
    )
    screen.text(
        f"{count} readings written one by one, each durable before the next; the slowest write "
        f"took {slowest_s * 1_000:.1f} ms"
    )
    return start, end


class BusyShare:
    """The share of time that the processors were busy since the last call, 0 to 1."""

    def __init__(self) -> None:
        self._last = _processor_ticks()

    def next(self) -> float:
        """Return the share; NaN where the system does not tell, or no tick has passed."""
        last, self._last = self._last, _processor_ticks()
        total = self._last[1] - last[1]
        return (self._last[0] - last[0]) / total if total > 0 else float("nan")


def _processor_ticks() -> tuple[int, int]:
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0, 0
    ticks = [int(field) for field in fields]
    # The fourth and fifth are idle and waiting for a disk.
    return sum(ticks) - sum(ticks[3:5]), sum(ticks)


def _read(demo: Demo, temperature: Table, load: Table, start_ms: int, end_ms: int) -> None:
    screen = demo.screen
    screen.heading("4. Read: plan, range, newest")
    demo.clock.source = demo.clock.manual
    screen.text(render_read_plan(temperature.explain(CITY, "2010-06-01", "2010-09-01")))
    year = temperature.read(CITY, "2010-01-01", "2011-01-02")
    screen.text("\nthe newest temperatures:")
    screen.readings(temperature.latest(CITY, 3))
    demo.clock.source = system_clock
    recorded = load.read(MACHINE, start_ms, end_ms, unit="ms")
    screen.text(
        f"read equals written, bit for bit: {len(year):,} temperatures and "
        f"{len(recorded):,} readings of this machine"
    )
    screen.heading("5. Draw")
    _draw(demo, year, "temperature in Seattle, 2010, °F", "temperature.png")
    _draw(demo, recorded, "load of this machine", "load.png")


def _draw(demo: Demo, readings: Readings, title: str, name: str) -> None:
    path = demo.folder / name
    demo.screen.text(render_plot(readings, title=title, width=96, height=12))
    _try(demo, lambda: write_png(readings, path, title=title), f"the same as a picture: {path}")


def _try(demo: Demo, draw: Callable[[], Any], done: str) -> None:
    try:
        draw()
    except MissingExtraError as error:
        demo.screen.text(f"{error.message}: {error.hint}")
    else:
        demo.screen.text(done)


def _expire(demo: Demo, table: Table, load: Table) -> None:
    screen = demo.screen
    screen.heading("6. Let old data leave: the clock moves on by half a year")
    demo.clock.source = demo.clock.manual
    before = table.info()
    if before.parts:
        screen.parts(f"before, {demo.clock.manual.text[:10]}", before)
    demo.clock.manual.advance("182d")
    now_s = demo.clock() // 1_000_000_000
    screen.text(f"the clock shows {render_instant(now_s)}; readings are kept for 365 days")
    report = table.expire()
    screen.expiry(report)
    after = table.info()
    if report.is_removed and before.disk_bytes is not None and after.disk_bytes is not None:
        screen.text(
            f"whole files left: {len(before.parts)} files of {render_bytes(before.disk_bytes)} "
            f"became {len(after.parts)} of {render_bytes(after.disk_bytes)}, and none was "
            "rewritten for it"
        )
    else:
        screen.text(_server_drops(load))
    left = table.read(CITY, "2010-01-01", "2011-01-02")
    screen.text(f"{len(left):,} readings are inside the retention now, and a read returns those")


def _server_drops(table: Table) -> str:
    spec = table.spec
    ttl_s, grace_s = spec.default_ttl_s or 0, spec.design.gc_grace_s
    from_s = system_clock() // 1_000_000_000 + ttl_s + grace_s
    return (
        "The clock of a server cannot be moved: it counts from the moment of the write. The file "
        f"with\nthe readings of {table.name} written just now can go after {render_duration(ttl_s)}"
        f" of lifetime and {render_duration(grace_s)} of\ngc grace, from "
        f"{render_instant(from_s)} on, once its window of {render_duration(spec.window_s or 0)} "
        "is over and no older file holds it back."
    )


def command_line() -> str:
    """Return how this program was called, so that what is shown can be typed."""
    called = Path(sys.argv[0])
    if shutil.which("treering") is not None:
        return "treering"
    if called.name == "treering" and called.exists():
        return shlex.quote(os.path.relpath(called))
    return f"{shlex.quote(sys.executable)} -m treering"


def _say_next(demo: Demo) -> None:
    place, command = shlex.quote(demo.place), command_line()
    demo.screen.heading("Next")
    demo.screen.text(
        f"{command} info --store {place}\n"
        f"{command} read {LOAD} {MACHINE} --start -10m --format csv --store {place}\n"
        f"{command} read {TEMPERATURE} {CITY} --start 2010-12-01 --now {YEAR_END} --plot "
        f"--store {place}\n"
        f"{command} design --rate 10/s --retention 90d --columns value:double\n"
        f"{command} create --help"
    )
