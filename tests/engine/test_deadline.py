"""The time that is left of a call bounds what it asks for on its way."""

from __future__ import annotations

import threading

import pytest

from treering.engine.deadline import deadline_in, time_left_s


def test_without_a_call_a_request_has_its_own_bound() -> None:
    assert time_left_s(10.0) == 10.0


def test_inside_a_call_no_more_than_what_is_left_and_never_nothing() -> None:
    with deadline_in(5.0):
        assert 4.0 < time_left_s(10.0) <= 5.0
        assert time_left_s(1.0) == 1.0
    with deadline_in(-1.0):
        assert 0 < time_left_s(10.0) < 0.01
    assert time_left_s(10.0) == 10.0


def test_an_earlier_deadline_around_stays_in_force() -> None:
    with deadline_in(1.0), deadline_in(100.0):
        assert time_left_s(50.0) <= 1.0


def test_deadline_of_one_thread_is_not_that_of_another() -> None:
    found: list[float] = []
    with deadline_in(1.0):
        thread = threading.Thread(target=lambda: found.append(time_left_s(10.0)))
        thread.start()
        thread.join()
    assert found == [10.0]


def test_deadline_ends_with_what_fails_inside() -> None:
    with pytest.raises(ZeroDivisionError), deadline_in(1.0):
        1 / 0  # noqa: B018
    assert time_left_s(10.0) == 10.0
