"""Transaction logs say which files are live, whole, cut off or wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.sstable.transactions import dead_stems, parse_transaction_log, record_checksum


def record(kind: str, path: str = "", time_ms: int = 0, files: int = 0) -> str:
    """Return a line as Cassandra writes it."""
    return f"{kind}:[{path},{time_ms},{files}][{record_checksum(kind, path, time_ms, files)}]"


FOLDER = "/tmp/plant/node0/data/plant/r-11d15dd0ecdc11f1b391e7268b8596a1"
OF_A_NODE = f"""ADD:[{FOLDER}/nb-4-big-,0,8][1640672049]
REMOVE:[{FOLDER}/nb-3-big-,1796056561763,8][1215084202]
REMOVE:[{FOLDER}/nb-2-big-,1796056552433,8][2593603858]
REMOVE:[{FOLDER}/nb-1-big-,1796056546197,8][3661448474]
COMMIT:[,0,0][2613697770]
"""
ADD = record("ADD", "/data/ks/t/nb-3-big-", 0, 8)
REMOVE = record("REMOVE", "/data/ks/t/nb-1-big-", 1_764_000_000_000, 8)
COMMIT = record("COMMIT", "", 1_764_000_000_500, 0)
ABORT = record("ABORT", "", 1_764_000_000_500, 0)


def dead(*lines: str) -> frozenset[str]:
    """Return what a log of these lines calls dead."""
    return parse_transaction_log("\n".join(lines).encode()).dead


def test_the_log_of_a_nodes_compaction_is_read() -> None:
    log = parse_transaction_log(OF_A_NODE.encode())
    assert log.is_committed
    assert log.broken_lines == 0
    assert log.added == {"nb-4-big"}
    assert log.removed == {"nb-3-big", "nb-2-big", "nb-1-big"}


def test_until_it_is_committed_what_it_adds_does_not_count() -> None:
    assert dead(ADD, REMOVE) == {"nb-3-big"}
    assert dead(ADD, REMOVE, ABORT) == {"nb-3-big"}


def test_once_committed_what_it_removes_does_not_count() -> None:
    assert dead(ADD, REMOVE, COMMIT) == {"nb-1-big"}
    assert dead(ADD, REMOVE, COMMIT, "") == {"nb-1-big"}


def test_a_commit_that_is_cut_off_is_none() -> None:
    assert dead(ADD, REMOVE, COMMIT[:-4]) == {"nb-3-big"}


def test_a_line_with_a_wrong_checksum_is_counted() -> None:
    log = parse_transaction_log("\n".join((ADD.replace("nb-3", "nb-4"), REMOVE, COMMIT)).encode())
    assert log.broken_lines == 1
    assert log.dead == {"nb-1-big"}
    assert parse_transaction_log(f"{ADD}\n{REMOVE[:20]}".encode()).broken_lines == 0


def test_ids_of_time_and_the_bti_format_are_read() -> None:
    line = record("ADD", "/data/ks/t/da-3fw2_0tj4_46w3k2cpidnirvjy7k-bti-", 0, 8)
    assert dead(line) == {"da-3fw2_0tj4_46w3k2cpidnirvjy7k-bti"}


def test_several_logs_add_up() -> None:
    logs = [parse_transaction_log(text.encode()) for text in (ADD, f"{REMOVE}\n{COMMIT}")]
    assert dead_stems(logs) == {"nb-1-big", "nb-3-big"}


@given(st.binary(max_size=500))
def test_any_bytes_are_answered(data: bytes) -> None:
    assert parse_transaction_log(data).is_committed is False


@given(st.data())
def test_a_changed_log_never_kills_what_it_does_not_name(data: st.DataObject) -> None:
    text = bytearray("\n".join((ADD, REMOVE, COMMIT)).encode())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] = data.draw(st.integers(0, 255))
    assert parse_transaction_log(bytes(text)).dead <= {"nb-1-big", "nb-3-big"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_do_not_matter(end: str) -> None:
    assert dead(*end.join((ADD, REMOVE, COMMIT)).split("\n")) == {"nb-1-big"}
