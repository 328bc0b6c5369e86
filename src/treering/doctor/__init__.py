"""The doctor: four checks on any Cassandra time-series table, with the cause and the cure.

Facts are collected (from files, a cluster or a bundle), pure checks turn them into findings, and
a report ranks them. Nothing here writes to a cluster, needs a node stopped, or needs a JVM.
"""
