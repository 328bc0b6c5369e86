"""Errors: what they are, and that they survive the way between processes."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator

import pytest

from treering import errors
from treering.errors import (
    EngineError,
    EngineTimeoutError,
    MissingExtraError,
    TreeringError,
    UnavailableError,
    UsageError,
    missing_extra,
)


def every_error() -> Iterator[type[TreeringError]]:
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, TreeringError):
            yield kind


KINDS = list(every_error())


def test_the_tree_is_looked_at_as_a_whole() -> None:
    assert len(KINDS) >= 20
    assert UnavailableError in KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_error_survives_pickling_and_copying_with_hint_and_facts(kind: type[TreeringError]) -> None:
    error = kind("3 of 5 failed", hint="try again", partitions=3, missing=("a", "b"))
    for other in (
        pickle.loads(pickle.dumps(error)),
        copy.copy(error),
        copy.deepcopy(error),
    ):
        assert type(other) is kind
        assert str(other) == other.message == "3 of 5 failed"
        assert other.hint == "try again"
        assert (other.partitions, other.missing) == (3, ("a", "b"))
        assert other.facts == error.facts
        assert other.args == error.args


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_fact_is_an_attribute_error_and_hint_is_text(kind: type[TreeringError]) -> None:
    error = kind("message")
    assert error.hint == ""
    assert not hasattr(error, "nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        _ = error.nonsense


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        ("UsageError", ValueError),
        ("DesignError", ValueError),
        ("SeriesNotFoundError", LookupError),
        ("TableNotFoundError", LookupError),
        ("UnavailableError", ConnectionError),
        ("EngineTimeoutError", TimeoutError),
        ("MissingExtraError", ImportError),
    ],
)
def test_error_is_also_what_python_calls_it(kind: str, builtin: type[Exception]) -> None:
    with pytest.raises(builtin) as caught:
        raise getattr(errors, kind)("what happened")
    assert isinstance(caught.value, TreeringError)
    assert str(caught.value) == "what happened"


def test_mistakes_of_the_caller_and_failures_of_the_engine_are_told_apart() -> None:
    for kind in KINDS:
        assert not (issubclass(kind, UsageError) and issubclass(kind, EngineError))


def test_only_what_may_pass_by_itself_is_retryable() -> None:
    retryable = {kind.__name__ for kind in KINDS if getattr(kind, "retryable", False)}
    assert retryable == {
        "UnavailableError",
        "EngineTimeoutError",
        "OverloadedError",
        "StoreBusyError",
        "WriterFullError",
    }
    assert EngineTimeoutError.retryable


def test_missing_extra_says_what_to_install() -> None:
    error = missing_extra("Readings.to_pandas", "pandas")
    assert isinstance(error, MissingExtraError)
    assert "Readings.to_pandas needs the extra 'pandas'" in str(error)
    assert error.hint == "pip install 'treering[pandas]'"
    assert error.extra == "pandas"
