"""``treering spool``: what waits, and writing it."""

from __future__ import annotations

from pathlib import Path

import pytest

import treering
from tests.cli.conftest import Run, document
from treering.spool import Spool


@pytest.fixture
def spool(run: Run, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a spool with two readings of a table that has got none of them, one too old by now."""
    folder = str(tmp_path / "spool")
    run("create", "readings", "--rate", "1/s", "--retention", "90d")
    with treering.open(store) as place, monkeypatch.context() as patched:
        # The process ends before anything is sent.
        patched.setattr(Spool, "first", lambda self: (_ for _ in ()).throw(OSError("it died")))
        writer = place.table("readings").writer(spool=folder, linger="1h")
        writer.append("pump-7", value=1.0)
        writer.append("pump-7", value=2.0, ts="2020-01-01T00:00Z")
        with pytest.raises(treering.TreeringError, match="stay in the spool"):
            writer.close()
    return folder


def test_status_says_what_waits(run: Run, spool: str) -> None:
    text = run("spool", "status", spool).stdout
    assert "the spool keeps 2 readings for the table readings" in text
    assert "no process uses it" in text
    found = document(run("spool", "status", spool, "--json"))
    assert (found["rows"], found["batches"], found["table"]) == (2, 1, "readings")
    assert found["oldest_us"] > 0


def test_replay_writes_what_waits_and_says_what_was_refused(run: Run, spool: str) -> None:
    text = run("spool", "replay", spool, exit_code=3).stdout
    assert "1 reading written, 2 found in the spool, 1 refused" in text
    assert "reading 1 of pump-7 at 2020-01-01" in text
    assert document(run("read", "readings", "pump-7", "--start", "-1d", "--json"))
    again = document(run("spool", "replay", spool, "--json"))
    assert (again["recovered"], again["accepted"], again["pending"]) == (0, 0, 0)
    assert document(run("spool", "status", spool, "--json"))["rows"] == 0


def test_folder_without_a_spool_is_wrong_usage(run: Run, store: str) -> None:
    for verb in ("status", "replay"):
        result = run("spool", verb, "nowhere", exit_code=2)
        assert "error: there is no spool in" in result.stderr
        assert "hint:" in result.stderr
    error = run("spool", "status", "nowhere", "--json", exit_code=2).stderr
    assert '"kind": "UsageError"' in error


def test_spool_in_use_is_named_and_nothing_is_done(run: Run, spool: str, store: str) -> None:
    with treering.open(store) as place, place.table("readings").writer(spool=spool):
        result = run("spool", "replay", spool, exit_code=1)
    assert "has the spool" in result.stderr
