"""What the driver and the server report, as treering's errors.

Rules of this file: pure but for the types of the driver; every error of the driver has one
meaning here; after a write that may have reached a replica the outcome is unknown, and the error
says so.
"""

from __future__ import annotations

import re
import ssl
from typing import Any, Final

from treering.engine.cassandra.driver import (
    AlreadyExists,
    AuthenticationFailed,
    ConnectionException,
    CoordinationFailure,
    IsBootstrappingErrorMessage,
    NoHostAvailable,
    OperationTimedOut,
    OverloadedErrorMessage,
    ReadFailure,
    RequestValidationException,
    ServerError,
    Timeout,
    Unauthorized,
    Unavailable,
    UnresolvableContactPoints,
)
from treering.errors import (
    EngineError,
    EngineTimeoutError,
    OverloadedError,
    SchemaMismatchError,
    TreeringError,
    UnavailableError,
)

CREDENTIALS_HINT: Final = "set TREERING_USERNAME and TREERING_PASSWORD to a role that may log in"
_TLS_HINT: Final = "ca= names the file of the authority that signed the nodes' certificates"
_TLS_WORDS: Final = re.compile(r"\[SSL: \w+\] (.*?)(?: \(_ssl\.c:\d+\))?\)?$", re.DOTALL)
_UNTRUSTED: Final = "certificate verify failed"
_UNKNOWN_OUTCOME: Final = "the outcome is unknown; sending the same write again is safe"
_TOO_MANY_TOMBSTONES: Final = 0x0001
# Cassandra 4 and earlier say "unconfigured table t", 5 says "table ks.t does not exist".
_TABLE_MISSING: Final = re.compile(r"unconfigured table|table \S+ does not exist")


def engine_error_of(
    error: BaseException, what: str, *, is_write: bool = False, nodes: str = ""
) -> TreeringError:
    """Return the error to raise, ``from`` the driver's, for something that failed.

    Args:
        error: What the driver raised or reported.
        what: What was being done, with its series and bucket: ``the write of pump-7/2025-11-20``.
        is_write: Whether something may have been written.
        nodes: The nodes and what is known of them, for where the driver names none.
    """
    if hasattr(error, "to_exception"):
        # What the server said, as the driver hands it over after it prepared a statement again.
        error = error.to_exception()
    match error:
        case TreeringError():
            return error
        case NoHostAvailable():
            return _no_host(error, what, is_write=is_write, nodes=nodes)
        case OperationTimedOut():
            return _timed_out(f"{what} had no answer in time from {_hosts_of(error)}", is_write)
        case Timeout():
            return _timed_out(
                f"{what} timed out: {error.received_responses} of {error.required_responses} "
                f"replicas answered the coordinator",
                is_write,
            )
        case Unavailable():
            return UnavailableError(
                f"{what} needs {error.required_replicas} replicas, {error.alive_replicas} are up",
                hint="wait until nodes are back, or see nodetool status",
                required=error.required_replicas,
                alive=error.alive_replicas,
            )
        case CoordinationFailure():
            return _failed_on_replicas(error, what, is_write=is_write)
        case OverloadedErrorMessage():
            return OverloadedError(
                f"{what} was turned away: the server is overloaded",
                hint="send less at once; treering slows down by itself",
            )
        case IsBootstrappingErrorMessage():
            return UnavailableError(f"{what} reached a node that is still starting")
        case ConnectionException() if is_write:
            return _timed_out(f"the connection broke during {what}: {error}", is_write)
        case ConnectionException():
            return UnavailableError(f"the connection broke during {what}: {error}")
        case _:
            return _refused(error, what)


def is_table_missing(error: TreeringError) -> bool:
    """Return whether the server refused something because it has no such table."""
    return bool(error.facts.get("is_table_missing", False))


def _timed_out(message: str, is_write: bool) -> EngineTimeoutError:
    hint = _UNKNOWN_OUTCOME if is_write else "read less at once, or raise timeout= in the address"
    return EngineTimeoutError(message, hint=hint)


def _no_host(error: Any, what: str, *, is_write: bool, nodes: str) -> TreeringError:
    reasons = list(_causes_of(error))
    for _, cause in reasons:
        if isinstance(cause, (AuthenticationFailed, Unauthorized)):
            return engine_error_of(cause, what, is_write=is_write)
    for host, cause in reasons:
        if reason := _tls_reason(cause):
            return _tls_error(reason, what, host)
    shown = "; ".join(f"{host}: {_reason_of(cause)}" for host, cause in reasons)
    shown = shown or nodes or str(error)
    # A request that was sent before its connection broke may have been carried out.
    was_sent = any(
        isinstance(cause, (OperationTimedOut, ConnectionException)) for _, cause in reasons
    )
    if is_write and was_sent:
        return _timed_out(f"{what} found no node that answers ({shown})", is_write)
    return UnavailableError(
        f"{what} found no node that answers ({shown})",
        hint="is Cassandra up, are host and port those of its native transport (CQL), and does it "
        "want TLS (tls=true)?",
    )


def _tls_error(reason: str, what: str, host: str) -> EngineError:
    if _UNTRUSTED not in reason:
        return EngineError(
            f"{what} found no way to talk TLS with {host}: {reason}",
            hint="does the node speak TLS on that port, and does it ask for a certificate of the "
            "client (cert=, key=)?",
        )
    hint = _TLS_HINT
    if "mismatch" in reason or "not valid for" in reason:
        hint = "verify=ca trusts the authority alone, where certificates do not name addresses"
    why = reason.partition(_UNTRUSTED)[2].lstrip(": ")
    return EngineError(f"{what} does not trust the certificate of {host}: {why}", hint=hint)


def _tls_reason(cause: BaseException) -> str:
    """Return what went wrong in TLS; empty where something else did."""
    # The driver hands on most of it as the words of another OSError.
    found = _TLS_WORDS.search(str(cause))
    if found is not None:
        return found[1]
    return str(cause) if isinstance(cause, ssl.SSLError) else ""


def _causes_of(error: Any) -> list[tuple[str, BaseException]]:
    errors = getattr(error, "errors", None) or {}
    if not isinstance(errors, dict):
        return []
    return [(_host_text(host), cause) for host, cause in errors.items()]


def _host_text(host: Any) -> str:
    return str(getattr(host, "endpoint", host))


def _reason_of(cause: Any) -> str:
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__


def _hosts_of(error: Any) -> str:
    errors = getattr(error, "errors", None) or {}
    hosts = sorted({_host_text(host) for host in errors} if isinstance(errors, dict) else set())
    last = getattr(error, "last_host", None)
    return ", ".join(hosts) or (_host_text(last) if last is not None else "any node")


def _failed_on_replicas(error: Any, what: str, *, is_write: bool) -> EngineError:
    codes = set((getattr(error, "error_code_map", None) or {}).values())
    message = f"{what} failed on {error.failures} replicas"
    if codes:
        message += f" (codes {', '.join(f'0x{code:04x}' for code in sorted(codes))})"
    if isinstance(error, ReadFailure) and _TOO_MANY_TOMBSTONES in codes:
        return EngineError(
            f"{message}: too many tombstones",
            hint="something deletes or writes null in this table; compact it, or read less at once",
        )
    return _timed_out(message, is_write)


_SERVER_MESSAGE: Final = re.compile(r'message="(.*)"', re.DOTALL)


def _said_by(error: BaseException) -> str:
    # The driver wraps what the server said in the name and the number of the error.
    said = _SERVER_MESSAGE.search(str(error))
    return said[1] if said is not None else str(error)


def _refused(error: BaseException, what: str) -> TreeringError:
    match error:
        case AuthenticationFailed():
            return EngineError(f"{what} could not log in: {error}", hint=CREDENTIALS_HINT)
        case Unauthorized():
            return EngineError(
                f"the role may not do this: {what} was refused: {error}",
                hint="have GRANT SELECT, MODIFY (and CREATE to make tables) given on the keyspace",
            )
        case UnresolvableContactPoints():
            return UnavailableError(
                f"{what}: no host name could be resolved",
                hint="check the host names in the address of the store",
            )
        case AlreadyExists():
            return SchemaMismatchError(f"{what}: it is there already: {error}")
        case RequestValidationException():
            return EngineError(
                f"the server refused {what}: {_said_by(error)}",
                hint="if the words of the server do not say what to do, see its log",
                is_table_missing=bool(_TABLE_MISSING.search(str(error))),
            )
        case ServerError():
            return EngineError(f"the server failed in {what}: {error}")
        case _:
            return EngineError(f"{what} failed: {type(error).__name__}: {error}")
