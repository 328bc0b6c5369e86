"""The embedded engine: a folder of SQLite files, one a segment of event time."""

from treering.engine.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
