"""The versions of Cassandra's file formats: what each one holds, and which are read here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from treering.errors import FormatError
from treering.sstable.facts import TableFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatVersion:
    """What the files of one version hold.

    Mirrors the flags of ``BigFormat.BigVersion`` and ``BtiFormat.BtiVersion``, Cassandra 5.0.

    Attributes:
        name: Two letters.
        format: ``big`` or ``bti``.
        written_by: The releases of Cassandra that write it.
        has_checksums: Statistics.db carries CRCs, pending repair and the transient flag, and
            CompressionInfo.db the longest compressed length.
        has_host_id: Statistics.db names the node that flushed.
        is_wide: Deletion times are unsigned; covered slice, key range and the flag for deleted
            partitions are there.
    """

    name: str
    format: TableFormat
    written_by: str
    has_checksums: bool
    has_host_id: bool
    is_wide: bool

    @property
    def keys_in_summary(self) -> bool:
        """Whether first and last key must be looked for in Summary.db."""
        return not self.is_wide


def _version(
    name: str, written_by: str, format: TableFormat = "big", *, has_host_id: bool = True
) -> FormatVersion:
    return FormatVersion(
        name=name,
        format=format,
        written_by=written_by,
        has_checksums=name >= "na" or format == "bti",
        has_host_id=has_host_id,
        is_wide=name >= "oa" or format == "bti",
    )


VERSIONS: Final = (
    _version("me", "Cassandra 3.0.25 and 3.11.11 or later"),
    _version("na", "Cassandra 4.0 before its release", has_host_id=False),
    _version("nb", "Cassandra 4.0 and 4.1, and 5.0 in its default storage mode"),
    _version("oa", "Cassandra 5.0 in storage mode UPGRADING or NONE"),
    _version("da", "Cassandra 5.0 with the bti format", "bti"),
)

OLD_VERSIONS: Final = {
    "ic": "Cassandra 1.2",
    "ja": "Cassandra 2.0",
    "jb": "Cassandra 2.0",
    "ka": "Cassandra 2.1",
    "la": "Cassandra 2.2",
    "lb": "Cassandra 2.2",
    "ma": "Cassandra 3.0",
    "mb": "Cassandra 3.0 and 3.11",
    "mc": "Cassandra 3.0 and 3.11",
    "md": "Cassandra 3.0.18 to 3.0.24 and 3.11.4 to 3.11.10",
}
"""Versions that are known by name and not read."""

_BY_NAME: Final[dict[tuple[str, str], FormatVersion]] = {
    (version.name, version.format): version for version in VERSIONS
}


def version_of(name: str, format: str) -> FormatVersion:
    """Return what a version's files hold.

    Args:
        name: As the file's name has it, such as ``nb``.
        format: ``big`` or ``bti``.

    Raises:
        FormatError: Too old, or unknown.
    """
    known = _BY_NAME.get((name, format))
    if known is not None:
        return known
    readable = ", ".join(version.name for version in VERSIONS)
    if name in OLD_VERSIONS and format != "bti":
        raise FormatError(
            f"format {name} of {OLD_VERSIONS[name]} is older than what is read here ({readable})",
            hint="nodetool upgradesstables rewrites old files in the format of the running node",
            version=name,
            format=format,
        )
    raise FormatError(
        f"format {name}-{format} is unknown here; {readable} are read",
        hint="another product, or a newer Cassandra than 5.0, wrote it",
        version=name,
        format=format,
    )
