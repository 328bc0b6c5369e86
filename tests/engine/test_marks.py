"""Marks: sent once, known only when durable, and no write is acknowledged before its mark."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from tests.engine.contract import DAY_MS, NOW_MS, spec_of
from treering.core.bucket import Bucket, BucketWidth, bucket_of
from treering.core.table import TableSpec
from treering.engine.marks import Marks
from treering.errors import EngineTimeoutError

SPEC = spec_of("t", bucket="day").with_incarnation(1)
TODAY = bucket_of(NOW_MS, "day")


class Sender:
    """Takes marks and answers when it is told to."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Bucket]] = []
        self.futures: list[Future[None]] = []

    def __call__(self, spec: TableSpec, series: str, bucket: Bucket) -> Future[None]:
        self.sent.append((spec.name, series, bucket))
        self.futures.append(Future())
        return self.futures[-1]


@pytest.fixture
def sender() -> Sender:
    return Sender()


def test_bucket_is_known_only_once_its_mark_is_durable(sender: Sender) -> None:
    marks = Marks(sender)
    first = marks.ensure(SPEC, "s", TODAY)
    assert first is not None
    # A write that meets a mark under way waits for it and sends none of its own.
    assert marks.ensure(SPEC, "s", TODAY) is first
    assert not first.done()
    sender.futures[0].set_result(None)
    assert first.result(0) is None
    assert marks.ensure(SPEC, "s", TODAY) is None
    assert sender.sent == [("t", "s", TODAY)]


def test_mark_that_failed_is_sent_again_by_the_next_write(sender: Sender) -> None:
    marks = Marks(sender)
    first = marks.ensure(SPEC, "s", TODAY)
    assert first is not None
    sender.futures[0].set_exception(EngineTimeoutError("no answer"))
    with pytest.raises(EngineTimeoutError):
        first.result(0)
    second = marks.ensure(SPEC, "s", TODAY)
    assert second is not None
    sender.futures[1].set_result(None)
    assert second.result(0) is None
    assert len(sender.sent) == 2


def test_what_differs_in_any_way_has_a_mark_of_its_own(sender: Sender) -> None:
    marks = Marks(sender)
    asked = [
        (SPEC, "s", TODAY),
        (SPEC, "S", TODAY),
        (SPEC, "s", bucket_of(NOW_MS - DAY_MS, "day")),
        (SPEC, "s", Bucket(TODAY.start_s, TODAY.start_s + 3_600, BucketWidth.HOUR)),
        (SPEC.with_incarnation(2), "s", TODAY),
        (spec_of("u", bucket="day"), "s", TODAY),
        # A longer retention needs a mark that lives longer.
        (spec_of("t", bucket="day", retention_s=10**7).with_incarnation(1), "s", TODAY),
    ]
    for spec, series, bucket in asked:
        assert marks.ensure(spec, series, bucket) is not None
    assert len(sender.sent) == len(asked)


def test_memory_is_bounded_and_the_least_recently_used_go_first(sender: Sender) -> None:
    marks = Marks(sender, most=3)

    def mark(series: str) -> bool:
        future = marks.ensure(SPEC, series, TODAY)
        if future is not None:
            sender.futures[-1].set_result(None)
        return future is not None

    assert [mark(name) for name in ("a", "b", "c")] == [True] * 3
    assert not mark("a")
    assert mark("d")
    assert len(marks) == 3
    assert not mark("a")
    assert mark("b")


def test_after_a_delete_buckets_are_marked_anew(sender: Sender) -> None:
    marks = Marks(sender)
    other = spec_of("u", bucket="day")
    for spec in (SPEC, other):
        marks.ensure(spec, "s", TODAY)
        sender.futures[-1].set_result(None)
    under_way = marks.ensure(SPEC, "late", TODAY)
    marks.forget("t")
    sender.futures[-1].set_result(None)
    assert under_way is not None
    assert under_way.result(0) is None
    assert marks.ensure(other, "s", TODAY) is None
    assert marks.ensure(SPEC, "s", TODAY) is not None
    # A mark that was under way at the delete tells nothing: it may have been deleted too.
    assert marks.ensure(SPEC, "late", TODAY) is not None


def test_many_threads_send_one_mark(sender: Sender) -> None:
    marks = Marks(sender)
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait(30)
        marks.ensure(SPEC, "s", TODAY)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(sender.sent) == 1
