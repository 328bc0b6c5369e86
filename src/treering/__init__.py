"""treering: time series on Apache Cassandra that age well."""
