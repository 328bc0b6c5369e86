"""What can go wrong around a local node."""

from __future__ import annotations

from treering.errors import EngineError, TreeringError


class MissingToolError(TreeringError):
    """A program that a local Cassandra node needs is not installed; ``tool`` names it."""


class NodeError(EngineError):
    """A local node did not start, stop or answer; the message ends with the tail of its log."""


class PortTakenError(NodeError):
    """Another process took a port between the choice and the start; other ports will do."""

    retryable = True
