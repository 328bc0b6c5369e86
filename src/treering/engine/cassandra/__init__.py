"""The Cassandra engine: the only package that imports the driver, and only once it is used.

``CassandraEngine`` is loaded when it is first asked for, so that addresses can be parsed, and
treering imported, where the driver is not installed or does not load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.engine.cassandra.engine import CassandraEngine

__all__ = ["CassandraEngine"]


def __getattr__(name: str) -> Any:
    if name == "CassandraEngine":
        from treering.engine.cassandra.engine import CassandraEngine

        return CassandraEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
