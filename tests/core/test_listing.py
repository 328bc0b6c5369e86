"""The index of buckets: what is asked, how long marks live, how reads keep to what it lists."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.contract import DAY_MS, NOW_MS, NOW_S, spec_of
from treering.core.bucket import Bucket, BucketWidth, bucket_of, buckets_between
from treering.core.listing import (
    ERA_BUCKETS,
    LIMIT_MIN,
    BucketListing,
    ListedSearch,
    era_of,
    eras_of,
    is_worth_listing,
    keep_listed,
    listing_of,
    mark_life,
)
from treering.core.read_plan import PartitionRead, plan_read
from treering.core.units import DAY_S, TIME_END_S, TIME_MIN_S, Interval
from treering.errors import UsageError

SECONDS = st.integers(TIME_MIN_S, TIME_END_S - 1)
WIDTHS = st.sampled_from(list(BucketWidth))


def some_buckets(days: list[int], width: BucketWidth = BucketWidth.DAY) -> list[Bucket]:
    return [bucket_of(NOW_MS - day * DAY_MS, width) for day in days]


def listing(
    *widths: BucketWidth, days: int = 400, is_newest_first: bool = True, limit: int = LIMIT_MIN
) -> BucketListing:
    return BucketListing(
        series="s",
        start_s=NOW_S - days * DAY_S,
        end_s=NOW_S + DAY_S,
        widths=widths or (BucketWidth.DAY,),
        is_newest_first=is_newest_first,
        limit=limit,
    )


# What is asked


@pytest.mark.parametrize(
    ("choice", "words"), [({"limit": LIMIT_MIN - 1}, "or more"), ({"widths": ()}, "no width")]
)
def test_question_that_could_not_go_on_is_refused(choice: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        replace(listing(), **choice)  # type: ignore[arg-type]


@given(ts_s=SECONDS, length_s=st.integers(1, 10**9), widths=st.sets(WIDTHS, min_size=1))
def test_question_covers_every_bucket_of_the_interval(
    ts_s: int, length_s: int, widths: set[BucketWidth]
) -> None:
    end_s = min(ts_s + length_s, TIME_END_S)
    interval = Interval(ts_s * 1_000, end_s * 1_000)
    asked = listing_of("s", interval, tuple(widths))
    for width in widths:
        for ts in (interval.start, (interval.start + interval.end) // 2, interval.end - 1):
            bucket = bucket_of(ts, width)
            assert asked.start_s <= bucket.start_s < asked.end_s
            assert era_of(bucket.start_s, width) in eras_of(asked)


@given(ts_s=SECONDS, width=WIDTHS)
def test_era_holds_no_more_buckets_than_its_bound(ts_s: int, width: BucketWidth) -> None:
    start_s = bucket_of(ts_s * 1_000, width).start_s
    if width.length_s < 900:
        beyond_s = start_s + ERA_BUCKETS * width.length_s
        assert era_of(start_s, width) != era_of(beyond_s, width)
    else:
        # The narrowest of these takes 28 years to list as many.
        assert era_of(start_s, width) == ""
        assert ERA_BUCKETS * width.length_s > 28 * 365 * DAY_S


def test_newest_era_is_asked_first() -> None:
    minutes = listing(BucketWidth.MINUTE, days=3_000)
    eras = eras_of(minutes)
    assert len(eras) > 2
    assert eras == eras_of(replace(minutes, is_newest_first=False))[::-1]
    assert eras[0] == era_of(minutes.end_s - 1, BucketWidth.MINUTE)
    assert eras_of(listing(BucketWidth.DAY, BucketWidth.MONTH, days=3_000)) == ("",)


# What is answered


@given(
    days=st.sets(st.integers(0, 60), max_size=60),
    widths=st.sets(WIDTHS, min_size=1, max_size=3),
    is_newest_first=st.booleans(),
    cut=st.integers(8, 30),
)
def test_pages_of_answers_make_the_whole_whatever_is_cut_off(
    days: set[int], widths: set[BucketWidth], is_newest_first: bool, cut: int
) -> None:
    # Every width is in the lists, asked for or not, as where a series changed its width.
    there = {b for width in BucketWidth for b in some_buckets(list(days), width)}
    ordered = sorted(there, key=lambda b: (-b.start_s if is_newest_first else b.start_s, b.width))
    asked = listing(*widths, days=80, is_newest_first=is_newest_first)
    wanted = {b for b in there if b.width in widths and b.start_s >= asked.start_s}
    found: set[Bucket] = set()
    for _ in range(2_000):
        rows = [b for b in ordered if asked.start_s <= b.start_s < asked.end_s]
        kept = rows[: cut + 8]
        edges = (kept[-1].start_s,) if len(kept) < len(rows) else ()
        answer = asked.answer(kept, edges)
        assert len(answer.buckets) <= asked.limit
        found.update(answer.buckets)
        if answer.next_s is None:
            break
        asked = asked.after(answer.next_s)
    assert found == wanted


# How long marks live


@given(
    bucket=st.sampled_from([w for w in BucketWidth if w.length_s >= 3_600]),
    ahead_s=st.integers(0, 600),
    later_s=st.integers(0, 40 * DAY_S),
)
def test_mark_outlives_every_reading_that_its_bucket_can_get(
    bucket: BucketWidth, ahead_s: int, later_s: int
) -> None:
    spec = spec_of("t", bucket=bucket.value, rate_hz=0.01)
    assert spec.retention_s is not None
    assert spec.window_s is not None
    start_s = bucket_of(NOW_MS, bucket).start_s
    # The earliest mark there can be is made by a reading from as far ahead as is allowed.
    expires_s = start_s - ahead_s + (mark_life(spec, bucket, start_s - ahead_s).ttl_s or 0)
    last_s = start_s + bucket.length_s - 1
    written_s = min(last_s - ahead_s + later_s, last_s + spec.retention_s - 1)
    remaining_s = min(last_s + spec.retention_s - written_s, spec.retention_s)
    longest_ttl_s = min(remaining_s + spec.window_s, spec.retention_s + spec.future_limit_s)
    visible_until_s = min(written_s + longest_ttl_s, last_s + spec.retention_s)
    assert expires_s >= visible_until_s


def test_of_two_marks_the_one_that_lives_longer_has_the_later_write_time() -> None:
    short, long = (spec_of("t", retention_s=days * DAY_S, bucket="day") for days in (1, 30))
    for_ever = spec_of("t", retention_s=None, bucket="day")
    # Whoever has the shorter idea of the retention writes later.
    later = mark_life(short, BucketWidth.DAY, NOW_S + DAY_S)
    earlier = mark_life(long, BucketWidth.DAY, NOW_S)
    never = mark_life(for_ever, BucketWidth.DAY, NOW_S - DAY_S)
    assert later.write_us < earlier.write_us < never.write_us
    assert never.ttl_s is None


def test_mark_past_the_expiry_cap_never_expires() -> None:
    now_s = int(dt.datetime(2026, 11, 30, tzinfo=dt.UTC).timestamp())
    spec = spec_of("t", retention_s=30 * DAY_S, bucket="day")
    near_cap_s = 2**31 - 2 - 30 * DAY_S - 10
    assert mark_life(spec, BucketWidth.DAY, now_s).ttl_s is not None
    assert mark_life(spec, BucketWidth.DAY, near_cap_s).ttl_s is None


# How reads keep to it


def test_plan_keeps_what_is_listed_and_counts_the_rest() -> None:
    spec = spec_of("t", bucket="day")
    plan = plan_read(
        spec, ["a", "b"], Interval(NOW_MS - 20 * DAY_MS, NOW_MS), now_ts=NOW_MS, order="desc"
    )
    kept = keep_listed(plan, {"a": some_buckets([3, 5, 900]), "b": ()})
    assert [(r.series, r.bucket) for r in kept.reads] == [("a", b) for b in some_buckets([3, 5])]
    assert kept.unlisted == plan.fan_out - 2
    # What the index was not asked about stays.
    assert keep_listed(plan, {"a": ()}).fan_out == plan.fan_out // 2
    wrong_width = some_buckets([3], BucketWidth.HOUR)
    assert keep_listed(plan, {"a": wrong_width, "b": ()}).reads == ()


def test_index_is_asked_for_long_reads_of_tables_that_trust_it() -> None:
    spec = spec_of("t", retention_s=None, bucket="day")
    interval = Interval(NOW_MS - 40 * DAY_MS, NOW_MS)
    plan = plan_read(spec, ["a"], interval, now_ts=NOW_MS)
    assert is_worth_listing(plan, 1)
    assert not is_worth_listing(plan, 32)
    assert not is_worth_listing(replace(plan, spec=replace(spec, index_trusted=False)), 1)
    assert not is_worth_listing(replace(plan, reads=plan.reads[:30]), 1)


@given(
    days=st.sets(st.integers(0, 300), max_size=80),
    wide_days=st.sets(st.integers(0, 300), max_size=10),
    change_day=st.integers(0, 300),
)
def test_search_reads_every_listed_instant_once_and_newest_first(
    days: set[int], wide_days: set[int], change_day: int
) -> None:
    """A series that had months until some day, and days since: the month is clipped there."""
    day, month = BucketWidth.DAY, BucketWidth.MONTH
    change = bucket_of(NOW_MS - change_day * DAY_MS, day).start_s * 1_000
    interval = Interval(NOW_MS - 310 * DAY_MS, NOW_MS + 1)
    there = {*some_buckets(list(days), day), *some_buckets(list(wide_days), month)}

    def reads_of(name: str, inside: Interval) -> list[PartitionRead]:
        parts = []
        for width, part in (
            (month, inside.clipped(interval.start, change)),
            (day, inside.clipped(change, interval.end)),
        ):
            for bucket in buckets_between(part, width):
                whole = bucket.interval(part.precision).clipped(part.start, part.end)
                parts.append(PartitionRead(name, bucket, whole.start, whole.end))
        return parts

    search = ListedSearch(["s"], interval, {"s": (day, month)}, reads_of)
    got: list[PartitionRead] = []
    for _ in range(100):
        asked = search.listings(["s"])
        if not asked:
            break
        got += search.reads({"s": asked[0].answer(there)})
    assert not search.listings(["s"])
    assert [r.start for r in got] == sorted((r.start for r in got), reverse=True)
    wanted = [r for r in reads_of("s", interval) if r.bucket in there]
    instants = {(r.bucket, ts) for r in wanted for ts in (r.start, r.end - 1)}
    covered = [
        (bucket, ts)
        for bucket, ts in instants
        for r in got
        if r.bucket == bucket and r.start <= ts < r.end
    ]
    assert sorted(covered) == sorted(instants)
