"""Cases from the field: what export and import did to event times elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import treering


def command(folder: Path, *arguments: str, zone: str) -> None:
    """Run treering as a process in another time zone and a locale of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "treering", *arguments, "--store", str(folder / "plant")],
        cwd=folder,
        env={**os.environ, "TZ": zone, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_ts60_export_and_import_keep_milliseconds_and_zone(tmp_path: Path, ending: str) -> None:
    times = ["2019-12-11T04:50:11.661Z", "2019-12-11T04:50:11.662Z"]
    with treering.open(tmp_path / "plant") as store:
        for name in ("one", "two"):
            store.create(name, rate="1/s", retention="forever", bucket="day")
        store.table("one").write("s", times, value=[1.0, 2.0])
    out = f"--{ending}"
    command(
        tmp_path, "export", "one", out, f"e.{ending}", "--start", "2019-12-11", zone="Asia/Kolkata"
    )
    command(tmp_path, "import", "two", f"e.{ending}", zone="America/Los_Angeles")
    if ending == "csv":
        assert times[0] in (tmp_path / "e.csv").read_text()
    with treering.open(tmp_path / "plant") as store:
        back = store.table("two").read("s", "2019-12-11", "2019-12-12")
        assert back.ts.tolist() == [1576039811661, 1576039811662]
        assert back["value"].tolist() == [1.0, 2.0]
