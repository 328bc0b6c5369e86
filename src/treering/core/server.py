"""Which Cassandra a design is for: versions, storage modes, and what each of them knows.

Rules of this file: a version without its patch number (``4.1``) means the newest patch of that
line; a version that these rules were not read from is refused, never taken for the nearest one.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from treering.errors import DesignError

_VERSION = re.compile(r"^(\d{1,2})\.(\d{1,2})(?:\.(\d{1,3}))?$")
_NEWEST_PATCH = 999


class StorageMode(enum.StrEnum):
    """``storage_compatibility_mode`` of Cassandra 5; earlier versions behave as CASSANDRA_4."""

    CASSANDRA_4 = "CASSANDRA_4"
    UPGRADING = "UPGRADING"
    NONE = "NONE"


@dataclass(frozen=True, slots=True, order=True)
class ServerVersion:
    """A version of Cassandra; ``patch`` is 999 where only the line, such as 4.1, was named."""

    major: int
    minor: int
    patch: int = _NEWEST_PATCH

    @classmethod
    def from_text(cls, text: str) -> ServerVersion:
        """Return the version that ``5.0``, ``4.1`` or ``3.11.19`` names.

        Raises:
            DesignError: Not a version, or newer than 5.0, whose rules are not known here.
        """
        match = _VERSION.match(str(text).strip())
        if match is None:
            raise DesignError(
                f"{text!r} is not a version of Cassandra",
                hint="use 5.0, 4.1, 4.0, 3.11, or a full version such as 3.11.19",
            )
        major, minor = int(match[1]), int(match[2])
        version = cls(major, minor, int(match[3]) if match[3] else _NEWEST_PATCH)
        if (major, minor) > (5, 0):
            raise DesignError(
                f"Cassandra {version} is newer than the rules that treering knows (3.0.8 to 5.0)",
                hint="design for 5.0 if the server keeps its rules, or use a newer treering",
            )
        return version

    def __str__(self) -> str:
        patch = "" if self.patch == _NEWEST_PATCH else f".{self.patch}"
        return f"{self.major}.{self.minor}{patch}"

    @property
    def has_twcs(self) -> bool:
        """Whether TimeWindowCompactionStrategy exists: from 3.0.8, and from 3.8 on."""
        if (self.major, self.minor) == (3, 0):
            return self.patch >= 8
        return (self.major, self.minor) >= (3, 8)

    @property
    def has_ucs(self) -> bool:
        """Whether UnifiedCompactionStrategy exists: from 5.0 on."""
        return self.major >= 5

    @property
    def has_read_repair_option(self) -> bool:
        """Whether the table option ``read_repair`` replaced the two chances: from 4.0 on."""
        return self.major >= 4

    @property
    def checks_expiry_cap(self) -> bool:
        """Whether an expiry past the cap is refused; before 3.0.16 and 3.11.2 it overflows."""
        if self.major != 3:
            return self.major > 3
        if self.minor == 0:
            return self.patch >= 16
        return self.minor == 11 and self.patch >= 2


def check_has_twcs(version: ServerVersion) -> None:
    """Refuse a server without TimeWindowCompactionStrategy.

    Raises:
        DesignError: Before 3.0.8, and 3.1 to 3.7.
    """
    if not version.has_twcs:
        raise DesignError(
            f"Cassandra {version} has no TimeWindowCompactionStrategy: "
            "it exists from 3.0.8 and from 3.8 on",
            hint="upgrade the server, to 3.11 at least, before creating the table",
        )
