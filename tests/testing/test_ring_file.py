"""What a ring's folder remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from treering.errors import CorruptDataError
from treering.testing.config import RingPlan, RingSettings
from treering.testing.ring_file import RingFile, read_ring_file, remove_ring_file

PLAN = RingPlan(
    settings=RingSettings(nodes=2), native_port=21_000, storage_port=22_000, jmx_ports=(1, 2)
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    ring = RingFile(plan=PLAN, pids=(4_711, None))
    ring.write(tmp_path)
    assert read_ring_file(tmp_path) == ring
    assert [path.name for path in tmp_path.iterdir()] == ["ring.json"]


def test_a_folder_without_a_ring_is_no_error(tmp_path: Path) -> None:
    assert read_ring_file(tmp_path) is None
    assert read_ring_file(tmp_path / "missing") is None


def test_a_forgotten_ring_is_not_there(tmp_path: Path) -> None:
    RingFile(plan=PLAN, pids=(1, 2)).write(tmp_path)
    remove_ring_file(tmp_path)
    assert read_ring_file(tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1, "plan": {}}']
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "ring.json").write_text(text)
    with pytest.raises(CorruptDataError, match=r"ring\.json does not describe a ring"):
        read_ring_file(tmp_path)
