"""Facts about SSTables from their bytes: pure, without a JVM and without a node."""
