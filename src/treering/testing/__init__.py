"""Real Cassandra on loopback: nodes from Maven's jars, for tests and for trying things out."""

from __future__ import annotations

from treering.testing.faults import MissingToolError, NodeError, PortTakenError
from treering.testing.local import LocalCassandra

__all__ = ["LocalCassandra", "MissingToolError", "NodeError", "PortTakenError"]
