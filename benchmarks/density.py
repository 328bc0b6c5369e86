"""How many bytes does a reading take on disk, its time included?

    python -m benchmarks density

Ten series of a day each, one reading a second, from a seed: a gauge with two decimals, a counter,
the gauge with times that jitter by 5 ms, and full-precision noise; each database is closed before
its files are counted. VictoriaMetrics and Prometheus are measured, after merging, where their
programs are installed (Debian's packages ``victoria-metrics`` and ``prometheus``); elsewhere stands
what they took for thirty such series (VictoriaMetrics 1.79, a block of Prometheus 2).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.block_codec import VICTORIA_METRICS, series_of
from benchmarks.embedded import Opener, Series, check, installed, ours
from benchmarks.measure import Result
from treering.testing.process import free_ports, wait_for

KINDS: Final = ("gauge", "counter", "jitter", "noise")
PROMETHEUS: Final = {"gauge": 6.6, "counter": 1.8, "jitter": 8.4, "noise": 7.1}
LEFT_OUT: Final = "SQLite, a row a reading"
"""It is in the benchmark ``embedded``: the numbers that a row holds do not change its size."""
HOST: Final = "127.0.0.1"
_TIMEOUT_S: Final = 120.0


def run(*, series: int = 10, rows: int = 86_400) -> list[Result]:
    """Have everybody write every kind of data, and count bytes."""
    results = []
    for kind in KINDS:
        data = [(f"s{n}", ts, v) for n, (ts, v) in enumerate(series_of(kind, series, rows))]
        total = sum(len(ts) for _, ts, _ in data)
        mine = total / closed_bytes(ours, data)
        for peer_name, theirs in densities(kind, data, total).items():
            results.append(
                Result(
                    name=f"density: {kind}",
                    ours=1_000 * mine,
                    peer=1_000 * theirs,
                    peer_name=peer_name,
                    unit="readings/kB",
                )
            )
    return results


def densities(kind: str, data: Sequence[Series], total: int) -> dict[str, float]:
    """Return the readings a byte of every peer."""
    found = {
        name: total / closed_bytes(opener, data)
        for name, opener in installed().items()
        if name != LEFT_OUT
    }
    programs: tuple[tuple[str, str, Callable[[str, Sequence[Series]], int], float], ...] = (
        ("VictoriaMetrics", "victoria-metrics", victoria_metrics_bytes, VICTORIA_METRICS[kind]),
        ("Prometheus", "promtool", prometheus_bytes, PROMETHEUS[kind]),
    )
    for name, program, measure, before in programs:
        path = shutil.which(program)
        if path is None:
            found[f"{name}, as measured before"] = 1 / before
        else:
            found[name] = total / measure(path, data)
    return found


def closed_bytes(opener: Opener, data: Sequence[Series]) -> int:
    """Return what an embedded database takes once it is closed; every reading was checked."""
    with tempfile.TemporaryDirectory() as folder:
        with opener(Path(folder)) as place:
            for one in data:
                place.write(one)
            place.settle()
            check(place, data)
        return bytes_in(Path(folder))


def bytes_in(folder: Path) -> int:
    """Return the size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def victoria_metrics_bytes(program: str, data: Sequence[Series]) -> int:
    """Return what VictoriaMetrics' parts take, merged, without its index of names."""
    lines = (
        json.dumps({"metric": {"__name__": name}, "values": v.tolist(), "timestamps": ts.tolist()})
        for name, ts, v in data
    )
    with tempfile.TemporaryDirectory() as folder:
        with victoria_metrics(program, Path(folder)) as url:
            _ask(f"{url}/api/v1/import", "\n".join(lines).encode())
            _ask(f"{url}/internal/force_flush")
            _ask(f"{url}/internal/force_merge")
            assert wait_for(
                lambda: "vm_active_force_merges 0" in _ask(f"{url}/metrics"), timeout_s=_TIMEOUT_S
            )
            name, ts, _ = data[0]
            exported = _ask(f"{url}/api/v1/export?match[]=%7B__name__=%22{name}%22%7D")
            found = [json.loads(line) for line in exported.splitlines()]
            assert sum(len(part["values"]) for part in found) == len(ts)
        return bytes_in(Path(folder) / "data")


@contextmanager
def victoria_metrics(program: str, folder: Path) -> Iterator[str]:
    """Run a server and give its address; it has written everything when it has ended."""
    (port,) = free_ports(1, [HOST])
    url = f"{HOST}:{port}"
    command = [program, f"-storageDataPath={folder}", f"-httpListenAddr={url}"]
    server = subprocess.Popen([*command, "-retentionPeriod=100y", "-loggerLevel=ERROR"])
    try:
        assert wait_for(lambda: _answers(f"http://{url}/health"), timeout_s=_TIMEOUT_S)
        yield f"http://{url}"
    finally:
        server.terminate()
        server.wait(_TIMEOUT_S)


def _answers(url: str) -> bool:
    try:
        return _ask(url) == "OK"
    except OSError:
        return False


def _ask(url: str, body: bytes | None = None) -> str:
    with urllib.request.urlopen(url, body, timeout=_TIMEOUT_S) as answer:
        text: str = answer.read().decode()
        return text


def prometheus_bytes(program: str, data: Sequence[Series]) -> int:
    """Return what blocks of Prometheus take, their indexes included."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "readings.txt"
        with source.open("w") as text:
            for name, ts, values in data:
                text.write(f"# TYPE {name} gauge\n")
                text.writelines(
                    f"{name} {value!r} {at / 1_000:.3f}\n"
                    for at, value in zip(ts.tolist(), values.tolist(), strict=True)
                )
            text.write("# EOF\n")
        blocks = Path(folder) / "blocks"
        subprocess.run(
            [program, "tsdb", "create-blocks-from", "openmetrics", str(source), str(blocks)],
            check=True,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
        return bytes_in(blocks)
