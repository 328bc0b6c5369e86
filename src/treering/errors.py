"""The errors that treering raises.

Rules of this file: every error says what happened to which thing, with numbers; ``hint`` says
what to do about it; facts travel as attributes; every error can be pickled (worker processes
hand them back), so constructors take keyword facts that ``__reduce__`` restores.
"""

from __future__ import annotations

from typing import Any


class TreeringError(Exception):
    """Base of every error that treering raises on purpose.

    Args:
        message: What happened to which thing, with numbers.
        hint: What the caller can do about it; empty when there is nothing.
        facts: Numbers and names of the case, readable as attributes.
    """

    retryable = False
    """Whether doing the same again may succeed, without anything being changed first."""

    def __init__(self, message: str, *, hint: str = "", **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        # Only reached when normal lookup fails; __dict__ guards against recursion in unpickling.
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.facts))


def _rebuild(kind: type[TreeringError], message: str, hint: str, facts: dict[str, Any]) -> Any:
    return kind(message, hint=hint, **facts)


class UsageError(TreeringError, ValueError):
    """The caller can fix it; nothing was sent."""


class DesignError(UsageError):
    """A design that Cassandra would refuse, or that is refused for what it would do."""


class WidthError(UsageError):
    """An unknown bucket width, or a width that the table does not have."""


class FanOutTooWideError(UsageError):
    """A read that would touch more partitions, or more rows, than its limit."""


class SeriesNotFoundError(UsageError, LookupError):
    """A series that the table does not have."""


class TableNotFoundError(UsageError, LookupError):
    """A table that the store does not have."""


class RefusedReadingsError(UsageError):
    """Some readings of a strict write were refused; ``report`` lists them; nothing was sent."""


class EngineError(TreeringError):
    """The engine could not do what it was asked to do."""


class UnavailableError(EngineError, ConnectionError):
    """No server answers, or too few replicas are up; nothing was written."""

    retryable = True


class EngineTimeoutError(EngineError, TimeoutError):
    """No answer within the bound; the outcome of a write is unknown, repeating it is safe."""

    retryable = True


class OverloadedError(EngineError):
    """The server said that it is overloaded."""

    retryable = True


class StoreBusyError(EngineError):
    """Another writer held the lock for longer than the bounded wait."""

    retryable = True


class WriterFullError(EngineError):
    """A writer was full for as long as the append waits; the reading was not taken."""

    retryable = True


class StoreClosedError(EngineError):
    """The store was closed; a read that was under way is cancelled, not empty."""


class SchemaMismatchError(EngineError):
    """What the server has differs from what the catalog says."""


class PartialReadError(EngineError):
    """Some partitions of a read failed; ``missing`` names them, ``causes`` say why."""


class CorruptDataError(TreeringError):
    """A file or a stored value that cannot be what it should be."""


class FormatError(TreeringError):
    """A file in a format, or a version of one, that is not read here."""


class MigrationError(TreeringError):
    """A migration cannot go on."""


class CheckpointMismatchError(MigrationError):
    """A checkpoint that belongs to another plan."""


class VerifyMismatchError(MigrationError):
    """Source and target differ."""


class MissingExtraError(TreeringError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


def missing_extra(what: str, extra: str) -> MissingExtraError:
    """Return the error for a feature whose optional dependency is not installed."""
    return MissingExtraError(
        f"{what} needs the extra '{extra}', which is not installed",
        hint=f"pip install 'treering[{extra}]'",
        cli_hint=f"pip install 'treering[{extra}]', or in a copy of the sources "
        f".venv/bin/pip install -e '.[{extra}]'",
        extra=extra,
    )
