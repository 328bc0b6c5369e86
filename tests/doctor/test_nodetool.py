"""What nodetool prints becomes facts: texts of real nodes of four releases, and hostile ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.doctor.facts import Percentiles
from treering.doctor.nodetool import (
    PARTITION_BYTES_REACH,
    PARTITION_CELLS_REACH,
    parse_listsnapshots,
    parse_tablehistograms,
    parse_tablestats,
)
from treering.errors import CorruptDataError

TEXTS = Path(__file__).parent / "nodetool_texts"
RELEASES = ("5.0", "4.1", "4.0", "3.11")
NOTHING = Percentiles(p50=None, p75=None, p95=None, p98=None, p99=None, min=None, max=None)

SINGLE_SPACES = """\
plant/readings histograms
Percentile SSTables Write Latency Read Latency Partition Size Cell Count
(micros) (micros) (bytes)
50% 1.00 20.00 100.00 1000 50
75% 2.00 21.00 101.00 1001 51
95% 3.00 22.00 102.00 1002 52
98% 4.00 23.00 103.00 1003 53
99% 5.00 24.00 104.00 1004 54
Min 0.00 19.00 99.00 999 49
Max 9799345.00 25.00 105.00 1005 55
"""
OVERFLOWED = """\
{notice}ks/t histograms
Percentile      Read Latency     Write Latency          SSTables    Partition Size        Cell Count
                    (micros)          (micros)                             (bytes)
50%                     0.00             88.15              0.00               NaN               NaN
75%                     0.00            105.78              0.00               NaN               NaN
95%                     0.00            454.83              0.00               NaN               NaN
98%                     0.00            785.94              0.00               NaN               NaN
99%                     0.00            785.94              0.00               NaN               NaN
Min                     0.00             61.22              0.00               447                18
Max                     0.00            785.94              0.009223372036854776000{cells:>18}
"""


def text_of(name: str) -> str:
    return (TEXTS / f"{name}.txt").read_text()


@pytest.mark.parametrize("release", RELEASES)
def test_histograms_of_a_table_that_was_written_and_read(release: str) -> None:
    (name, found), *rest = parse_tablehistograms(text_of(f"{release}-tablehistograms")).items()
    assert name == ("k", "t")
    assert not rest
    assert (found.partition_bytes.min, found.partition_bytes.max) == (447, 535)
    assert (found.partition_cells.p50, found.partition_cells.max) == (20, 20)
    assert found.sstables_per_read.max == 1.0
    # Every write takes longer than a read takes files: a parser by position swaps them.
    assert found.write_latency_us.min is not None
    assert found.write_latency_us.min > 20
    assert found.read_latency_us.min is not None
    assert found.read_latency_us.min > 20


@pytest.mark.parametrize("release", RELEASES)
def test_histograms_of_an_empty_table_are_unknown_and_not_zero(release: str) -> None:
    text = text_of(f"{release}-tablehistograms-empty")
    assert "No SSTables exists" in text
    found = parse_tablehistograms(text)["k", "empty"]
    assert found.partition_bytes == found.partition_cells == NOTHING
    assert found.write_latency_us.max == 0.0


def test_columns_are_found_by_the_words_of_the_header() -> None:
    found = parse_tablehistograms(SINGLE_SPACES)["plant", "readings"]
    assert found.sstables_per_read.max == 9_799_345.0
    assert found.write_latency_us.p50 == 20.0
    assert found.read_latency_us.p50 == 100.0
    assert found.partition_bytes.p99 == 1004
    assert found.partition_cells.min == 49


@pytest.mark.parametrize(
    ("notice", "largest"),
    [
        (
            "Row sizes are larger than 3520571548412, unable to calculate percentiles\n",
            3520571548412,
        ),
        ("", PARTITION_BYTES_REACH),
    ],
    ids=["the notice says how large", "a lost notice leaves what the histogram reaches"],
)
def test_an_overflowed_histogram_says_what_it_is_above(notice: str, largest: int) -> None:
    found = parse_tablehistograms(OVERFLOWED.format(notice=notice, cells=20))["ks", "t"]
    assert found.partition_bytes.p99 is None
    assert found.partition_bytes.max == largest
    assert found.partition_cells.max == 20


def test_overflowed_cells_are_told_from_overflowed_sizes() -> None:
    text = OVERFLOWED.format(notice="", cells="9223372036854776000")
    notice = "Column counts are larger than 4139110981, unable to calculate percentiles\n"
    found = parse_tablehistograms(notice + text)["ks", "t"]
    assert found.partition_cells.max == 4_139_110_981
    assert parse_tablehistograms(text)["ks", "t"].partition_cells.max == PARTITION_CELLS_REACH


def test_tables_of_one_text_are_kept_apart() -> None:
    notice = "Row sizes are larger than 3520571548412, unable to calculate percentiles\n"
    text = OVERFLOWED.format(notice=notice, cells=20) + "\n\n" + SINGLE_SPACES
    found = parse_tablehistograms(text)
    assert set(found) == {("ks", "t"), ("plant", "readings")}
    assert found["plant", "readings"].partition_bytes.max == 1005


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("SSTables", "Bananas"), "columns"),
        (("Cell Count", ""), "columns"),
        (("(micros)", "(millis)"), "millis"),
        (("75% 2.00", "75%"), "has 5 columns, not 6"),
        (("21.00", "2l.00"), "not a number"),
        (("Max 9799345.00 25.00 105.00 1005 55\n", ""), "without the rows max"),
        (("plant/readings histograms", "plant"), "not what nodetool tablehistograms prints"),
    ],
)
def test_histograms_that_are_not_understood_are_refused(change: tuple[str, str], said: str) -> None:
    with pytest.raises(CorruptDataError, match=said):
        parse_tablehistograms(SINGLE_SPACES.replace(*change))


def test_a_decimal_comma_is_a_decimal_point() -> None:
    found = parse_tablehistograms(SINGLE_SPACES.replace(".", ","))["plant", "readings"]
    assert found.write_latency_us.p50 == 20.0


@pytest.mark.parametrize("release", RELEASES)
def test_statistics_of_every_release(release: str) -> None:
    found = parse_tablestats(text_of(f"{release}-tablestats"))
    table, empty = found["k", "t"], found["k", "empty"]
    assert (table.sstable_count, table.partitions, table.writes, table.reads) == (1, 1, 20, 20)
    assert table.live_bytes == table.total_bytes
    assert table.live_bytes is not None
    assert table.live_bytes > 1_000
    assert (table.partition_bytes_max, table.partition_bytes_mean) == (535, 535)
    assert table.live_cells_per_slice_max == 20.0
    assert table.droppable_ratio == (None if release == "3.11" else 0.0)
    assert empty.sstable_count == 0
    assert empty.live_cells_per_slice_mean is None


def test_statistics_stand_behind_banners_and_shell_noise() -> None:
    text = "Welcome to {host}\n* nodetool {\n" + text_of("5.0-tablestats") + "bye\n"
    assert parse_tablestats(text)["k", "t"].writes == 20


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a": 1}',
        "Total number of tables: 3",
    ],
)
def test_what_holds_no_statistics_is_refused(text: str) -> None:
    with pytest.raises(CorruptDataError):
        parse_tablestats(text)


def test_values_that_are_no_numbers_are_unknown() -> None:
    values = '{"sstable_count": "NaN", "space_used_live": -1, "droppable_tombstone_ratio": NaN}'
    text = f'{{"total_number_of_tables": 1, "k": {{"tables": {{"t": {values}}}, "x": []}}}}'
    found = parse_tablestats(text)["k", "t"]
    assert (found.sstable_count, found.live_bytes, found.droppable_ratio) == (None, None, None)
    assert parse_tablestats('{"total_number_of_tables": 0, "k": {"tables": [1]}}') == {}


@pytest.mark.parametrize("release", RELEASES)
def test_snapshots_of_every_release(release: str) -> None:
    found = {one.table: one for one in parse_listsnapshots(text_of(f"{release}-listsnapshots"))}
    assert set(found) == {"t", "empty", "plain"}
    assert {one.name for one in found.values()} == {"today"}
    assert found["t"].bytes > 5_000 > found["t"].dropped_bytes


def test_no_snapshots_are_none_and_nonsense_is_refused() -> None:
    assert parse_listsnapshots("Snapshot Details: \nThere are no snapshots\n") == ()
    with pytest.raises(CorruptDataError, match="not what nodetool listsnapshots prints"):
        parse_listsnapshots("Permission denied\n")
    with pytest.raises(CorruptDataError, match="printed nothing"):
        parse_listsnapshots("")


def test_a_snapshot_may_have_blanks_in_its_name() -> None:
    text = (
        "Snapshot name  Keyspace name Column family name True size Size on disk\n"
        "before the day k             t                  1.5 MiB   2 GiB       \n"
        "\nTotal TrueDiskSpaceUsed: 1.5 MiB\n"
    )
    (found,) = parse_listsnapshots(text)
    assert (found.name, found.keyspace, found.table) == ("before the day", "k", "t")
    assert (found.dropped_bytes, found.bytes) == (1_572_864, 2_147_483_648)


def said_of(text: str) -> list[str]:
    """Return what the parsers say against a text; what they raise beyond that goes up."""
    said = []
    for parse in (parse_tablehistograms, parse_tablestats, parse_listsnapshots):
        try:
            parse(text)
        except CorruptDataError as refused:
            said.append(str(refused))
    return said


@given(st.text(), st.sampled_from(RELEASES), st.integers(0, 8_000))
def test_any_text_is_read_or_refused_in_few_words(text: str, release: str, end: int) -> None:
    for hostile in (text, text_of(f"{release}-tablestats")[:end] + text):
        assert all(len(line) < 500 for line in said_of(hostile))


@given(st.integers(0, len(SINGLE_SPACES)), st.text(max_size=20))
def test_a_damaged_histogram_is_read_or_refused(at: int, noise: str) -> None:
    damaged = SINGLE_SPACES[:at] + noise + SINGLE_SPACES[at + len(noise) :]
    assert len(said_of(damaged)) in (2, 3)
