"""Forms of buckets in keys: what stands there, and which widths they tell apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.bucket import Bucket, BucketWidth, bucket_of
from treering.core.bucket_form import PATTERN_OF, BucketForm, render_pattern
from treering.core.units import TIME_END_S, TIME_MIN_S
from treering.errors import UsageError, WidthError

SECONDS = st.integers(TIME_MIN_S, TIME_END_S - 1)
WIDTHS = st.sampled_from(list(BucketWidth))
FORMS = st.sampled_from(
    [
        *map(BucketForm.from_text, ["{bucket}", "date", "%Y%m%d", "%G%V", "%Y%m", "%Y-%m-%d %H"]),
        *(BucketForm.from_text(f"epoch-{unit}") for unit in ("ns", "ms", "s", "min", "h", "d")),
    ]
)


def bucket_at(second: int, width: BucketWidth) -> Bucket:
    """Return the bucket of a second."""
    return bucket_of(second * 1_000, width)


@given(SECONDS, WIDTHS)
def test_pattern_of_a_width_is_its_own_text(second: int, width: BucketWidth) -> None:
    bucket = bucket_at(second, width)
    assert render_pattern(PATTERN_OF[width], bucket.start_s, width) == bucket.text
    assert BucketForm.from_text("{bucket}").value_of(bucket, "s") == bucket.text


@given(SECONDS, st.integers(-40 * 86_400, 40 * 86_400), WIDTHS, FORMS)
def test_form_that_fits_a_width_names_two_buckets_differently(
    second: int, step: int, width: BucketWidth, form: BucketForm
) -> None:
    other = min(max(second + step, TIME_MIN_S), TIME_END_S - 1)
    one, two = bucket_at(second, width), bucket_at(other, width)
    if form.tells_apart(width):
        assert (form.value_of(one, "s") == form.value_of(two, "s")) == (one == two)


@given(SECONDS, WIDTHS, st.text(min_size=1, max_size=12))
def test_series_in_a_text_comes_back(second: int, width: BucketWidth, series: str) -> None:
    for text in ("{series}:{bucket}", "{bucket}#{series}", "x{series}{bucket}", "{series}%Y%%%m"):
        form = BucketForm.from_text(text)
        value = form.value_of(bucket_at(second, width), series)
        assert isinstance(value, str)
        assert form.series_of(value, width) == series


def test_forms_of_the_popular_texts() -> None:
    bucket = bucket_of(1_763_643_600_000, "day")
    assert BucketForm.from_text("{series}:{bucket}").value_of(bucket, "sensor_42") == (
        "sensor_42:2025-11-20"
    )
    assert BucketForm.from_text("date").value_of(bucket, "") == 20_412
    assert BucketForm.from_text("%d.%m.%Y").value_of(bucket, "") == "20.11.2025"
    month = bucket_of(1_763_643_600_000, "month")
    assert BucketForm.from_text("epoch-ms").value_of(month, "") == 1_761_955_200_000
    assert BucketForm.from_text("epoch-d").value_of(bucket_of(-1, "day"), "") == -1


@pytest.mark.parametrize(
    ("text", "width"),
    [("%Y-%m-%d", "hour"), ("date", "6h"), ("epoch-d", "hour"), ("%Y%m", "day"), ("%G%V", "day")],
)
def test_form_too_coarse_for_a_width_is_refused(text: str, width: str) -> None:
    with pytest.raises(WidthError, match="does not tell buckets"):
        BucketForm.from_text(text).check_width(BucketWidth(width))


@pytest.mark.parametrize(
    "text",
    ["epoch-fortnight", "day", "%m-%d", "%Y-%d", "%H", "%y%m%d", "{series}", "{bucket}{bucket}"],
)
def test_text_that_is_no_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        BucketForm.from_text(text)


@given(FORMS)
def test_form_comes_back_from_its_text(form: BucketForm) -> None:
    assert BucketForm.from_text(form.text) == form
