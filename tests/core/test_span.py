"""Spans are round, tile a segment, and hold a block's worth of readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.contract import spec_of
from treering.core.segment import segment_length_s
from treering.core.span import SPAN_ROWS_MAX, span_length_s
from treering.core.units import DAY_S, HOUR_S


@pytest.mark.parametrize(
    ("rate_hz", "retention_s", "length_s"),
    [
        (1.0, 90 * DAY_S, 4 * HOUR_S),
        (10.0, 90 * DAY_S, 20 * 60),
        (1_000.0, 90 * DAY_S, 15),
        (1 / 60, 90 * DAY_S, 3 * DAY_S),
        (20_000.0, 90 * DAY_S, 1),
    ],
    ids=["one a second", "ten a second", "a kilohertz", "one a minute", "beyond all"],
)
def test_span_of_a_rate(rate_hz: float, retention_s: int, length_s: int) -> None:
    assert span_length_s(spec_of(rate_hz=rate_hz, retention_s=retention_s)) == length_s


@given(
    rate_hz=st.floats(0.001, 20_000),
    retention_s=st.none() | st.integers(2, 400).map(lambda days: days * DAY_S),
)
def test_spans_tile_a_segment_and_hold_no_more_than_a_block(
    rate_hz: float, retention_s: int | None
) -> None:
    spec = spec_of(rate_hz=rate_hz, retention_s=retention_s)
    length_s = span_length_s(spec)
    assert segment_length_s(spec) % length_s == 0
    assert length_s == 1 or length_s * rate_hz <= 4 * SPAN_ROWS_MAX
