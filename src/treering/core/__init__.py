"""The pure core: standard library and numpy; no clock, no I/O, no logging, no driver."""
