"""Every failure of the driver has one meaning, and a write's unknown outcome is said to be so."""

from __future__ import annotations

import pickle
import re
import ssl
from typing import Any

import pytest

from treering.errors import (
    EngineError,
    EngineTimeoutError,
    OverloadedError,
    SchemaMismatchError,
    StoreClosedError,
    TreeringError,
    UnavailableError,
)

pytest.importorskip("cassandra", reason="cassandra-driver is not installed")

import cassandra
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown
from cassandra.protocol import (
    InvalidRequestException,
    IsBootstrappingErrorMessage,
    OverloadedErrorMessage,
    ServerError,
)

from treering.engine.cassandra.faults import engine_error_of

WHAT = "the write of pump-7/2025-11-20 to readings"
REFUSED = ConnectionRefusedError(111, "Connection refused")


def untrusted(message: str) -> OSError:
    """Return how the driver hands on that a certificate was not accepted."""
    return OSError(
        1,
        "Tried connecting to [('10.0.0.5', 9042)]. Last error: [SSL: CERTIFICATE_VERIFY_FAILED] "
        f"certificate verify failed: {message} (_ssl.c:1006)",
    )


BROKEN = ConnectionShutdown("Connection to 10.0.0.5 was closed")


@pytest.mark.parametrize(
    ("error", "kind", "is_retryable", "words"),
    [
        (NoHostAvailable("none", {"10.0.0.5:9042": REFUSED}), UnavailableError, True, "10.0.0.5"),
        (NoHostAvailable("none", {"10.0.0.5": BROKEN}), EngineTimeoutError, True, "10.0.0.5"),
        (
            NoHostAvailable("none", {"a": cassandra.AuthenticationFailed("bad role")}),
            EngineError,
            False,
            "log in",
        ),
        (NoHostAvailable("Unable", []), UnavailableError, True, "Unable"),
        (cassandra.OperationTimedOut({"10.0.0.5:9042": "x"}), EngineTimeoutError, True, "10.0.0.5"),
        (
            cassandra.WriteTimeout("w", required_responses=2, received_responses=1, write_type=0),
            EngineTimeoutError,
            True,
            "1 of 2",
        ),
        (
            cassandra.ReadTimeout("r", required_responses=2, received_responses=0),
            EngineTimeoutError,
            True,
            "0 of 2",
        ),
        (
            cassandra.Unavailable("u", required_replicas=2, alive_replicas=1),
            UnavailableError,
            True,
            "needs 2 replicas, 1",
        ),
        (
            cassandra.WriteFailure("w", failures=1, error_code_map={"10.0.0.6": 0}),
            EngineTimeoutError,
            True,
            "failed on 1",
        ),
        (
            cassandra.ReadFailure("r", failures=1, error_code_map={"10.0.0.6": 1}),
            EngineError,
            False,
            "tombstones",
        ),
        (OverloadedErrorMessage(0x1001, "busy", None), OverloadedError, True, "overloaded"),
        (IsBootstrappingErrorMessage(0x1002, "b", None), UnavailableError, True, "starting"),
        (BROKEN, EngineTimeoutError, True, "broke"),
        (cassandra.InvalidRequest("bad query"), EngineError, False, "bad query"),
        (InvalidRequestException(0x2200, "bad query", None), EngineError, False, "bad query"),
        (cassandra.Unauthorized("no MODIFY"), EngineError, False, "no MODIFY"),
        (cassandra.AuthenticationFailed("bad role"), EngineError, False, "log in"),
        (cassandra.AlreadyExists("ks", "t"), SchemaMismatchError, False, "already"),
        (cassandra.UnresolvableContactPoints({}), UnavailableError, True, "resolved"),
        (ServerError(0, "bug", None), EngineError, False, "bug"),
        (RuntimeError("odd"), EngineError, False, "RuntimeError: odd"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_failure_of_a_write_names_the_partition_and_what_happened(
    error: Exception, kind: type[EngineError], is_retryable: bool, words: str
) -> None:
    raised = engine_error_of(error, WHAT, is_write=True)
    assert type(raised) is kind
    assert isinstance(raised, EngineError)
    assert raised.retryable is is_retryable
    assert words in str(raised)
    assert "pump-7/2025-11-20" in str(raised)
    assert str(pickle.loads(pickle.dumps(raised))) == str(raised)


@pytest.mark.parametrize(
    "error",
    [
        cassandra.OperationTimedOut({"a": "x"}),
        cassandra.WriteTimeout("w", required_responses=2, received_responses=1, write_type=0),
        BROKEN,
        NoHostAvailable("none", {"a": REFUSED, "b": BROKEN}),
    ],
)
def test_write_that_may_have_been_carried_out_says_that_its_outcome_is_unknown(
    error: Exception,
) -> None:
    raised = engine_error_of(error, WHAT, is_write=True)
    assert isinstance(raised, EngineTimeoutError)
    assert "unknown" in raised.hint


def test_broken_connection_of_a_read_is_unavailable() -> None:
    assert type(engine_error_of(BROKEN, "the read")) is UnavailableError


@pytest.mark.parametrize(
    ("text", "is_missing"),
    [
        ("unconfigured table readings", True),
        ("table plant.readings does not exist", True),
        ("Undefined column name nope in table plant.readings", False),
    ],
)
def test_table_that_is_gone_is_told_from_other_refusals(text: str, is_missing: bool) -> None:
    raised = engine_error_of(cassandra.InvalidRequest(text), WHAT)
    assert raised.is_table_missing is is_missing


@pytest.mark.parametrize("error", [StoreClosedError("closed"), TreeringError("x")])
def test_errors_of_treering_stay_what_they_are(error: Any) -> None:
    assert engine_error_of(error, WHAT) is error


def test_nodes_are_named_where_the_driver_names_none() -> None:
    error = NoHostAvailable("Unable to complete the operation against any hosts", {})
    raised = engine_error_of(error, WHAT, is_write=True, nodes="10.0.0.5:9042: is down")
    assert isinstance(raised, UnavailableError)
    assert "10.0.0.5:9042: is down" in str(raised)


@pytest.mark.parametrize(
    ("error", "said", "hint"),
    [
        (
            untrusted("self-signed certificate"),
            "does not trust .*: self-signed certificate$",
            "ca=",
        ),
        (untrusted("IP address mismatch, certificate is not valid for"), "mismatch", "verify=ca"),
        (ssl.SSLError(1, "wrong version number"), "no way to talk TLS", "speak TLS"),
    ],
    ids=["unknown authority", "other address", "no TLS"],
)
def test_tls_that_fails_is_told_apart_and_not_worth_repeating(
    error: OSError, said: str, hint: str
) -> None:
    raised = engine_error_of(NoHostAvailable("none", {"10.0.0.5:9042": error}), WHAT)
    assert re.search(said, str(raised))
    assert "10.0.0.5:9042" in str(raised)
    assert hint in raised.hint
    assert not raised.retryable
