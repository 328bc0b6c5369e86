"""The four checks: pure rules from the facts of a table to findings.

Rules of this package: a check looks at facts and returns what it found; it reads no clock, no file
and no server. A healthy table gets no finding, not even a notice.
"""
