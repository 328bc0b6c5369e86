"""Bounded in-flight requests: what to send next, as state machines, and the loop that runs them.

Rules of this package: the state machines read no clock and do no I/O, they are told the time;
every queue has a bound; a failed request is retried alone, with the same content; cancelled,
timed out and empty are three different outcomes; the order of results never depends on the order
in which answers come.
"""
