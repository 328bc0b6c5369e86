"""Where readings are kept: memory, SQLite files, Cassandra; all behind one protocol."""
