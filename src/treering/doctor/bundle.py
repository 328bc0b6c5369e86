"""Bundles: facts of a node in one file, made by Python or by the POSIX script.

Rules of this file: a bundle is text of strangers: bounded, never executed, written to a folder of
ours alone; what the script left out is told; a time is that of the collecting, not of the reading.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import socket
import struct
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final

from treering.doctor.facts import ClusterFacts
from treering.doctor.facts_json import cluster_of_json, cluster_to_json
from treering.doctor.tar import Limits, Member, read_tar
from treering.errors import CorruptDataError, UsageError
from treering.sstable.facts import FileProblem, SSTableFacts
from treering.sstable.names import parse_file_name
from treering.sstable_scan import SSTableScan, scan_sstables

TOP: Final = "treering-bundle"
FORMAT: Final = "1"

_LISTED_MAX: Final = 1_000_000
_SIZE_MAX: Final = 1 << 50
_STATISTICS: Final = "Statistics.db"
_DATA: Final = "-Data.db"
# Contents that the script brings where they are wanted; a file of zeros would look damaged.
_BROUGHT: Final = ("Statistics.db", "TOC.txt", "CompressionInfo.db", "Summary.db", ".log")
_COMPONENTS_MAX: Final = 16
_U32 = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What a bundle holds.

    Attributes:
        node: The node that it was made on.
        made_at_s: When, epoch seconds.
        facts: Facts that were collected by Python; None in a bundle of the script.
        scan: What its files say; None in a bundle of Python.
        nodetool: What nodetool printed, by file name such as ``tablestats.json``.
        schemas: What ``DESCRIBE`` printed, by file name.
        left_out: What the script could not bring, with the reason.
    """

    node: str
    made_at_s: int
    facts: ClusterFacts | None = None
    scan: SSTableScan | None = None
    nodetool: Mapping[str, str] = field(default_factory=dict)
    schemas: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def collect_script() -> str:
    """Return the POSIX script that collects where there is no Python."""
    return resources.files("treering.doctor").joinpath("collect.sh").read_text("utf-8")


def is_bundle(path: Path) -> bool:
    """Return whether a file is an archive, by its first bytes.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(262)
    return head[:2] == b"\x1f\x8b" or head[257:262] == b"ustar"


# --- made by Python


def write_bundle(
    path: Path,
    facts: ClusterFacts,
    *,
    made_at_s: int,
    with_keys: bool,
    overwrite: bool = False,
) -> None:
    """Write facts as a bundle.

    Args:
        path: Where to.
        facts: What was collected.
        made_at_s: When, epoch seconds.
        with_keys: Whether partition keys and clustering values leave too.
        overwrite: Whether a file that is there is replaced, once the new one is whole.

    Raises:
        UsageError: It is there already.
        OSError: It cannot be written.
    """
    manifest = {
        "format": FORMAT,
        "maker": "python",
        "keys": "kept" if with_keys else "left out",
        "made_at_s": str(made_at_s),
        "node": socket.gethostname(),
    }
    text = json.dumps(cluster_to_json(facts, with_keys=with_keys), allow_nan=False)
    members = {
        "manifest": "".join(f"{key}={value}\n" for key, value in manifest.items()),
        "facts.json": text,
    }
    part = path.with_name(f"{path.name}.part")
    if not overwrite:
        _take(path)
    try:
        with tarfile.open(part, "w:gz", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in members.items():
                data = content.encode("utf-8", "replace")
                info = tarfile.TarInfo(f"{TOP}/{name}")
                info.size, info.mtime, info.mode = len(data), made_at_s, 0o600
                archive.addfile(info, io.BytesIO(data))
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        if not overwrite:
            path.unlink(missing_ok=True)
        raise


def _take(path: Path) -> None:
    """Make an empty file, so that nothing is replaced."""
    try:
        path.open("xb").close()
    except FileExistsError as error:
        raise UsageError(
            f"{path} is there already",
            hint="name another file, or have it replaced with overwrite",
            cli_hint="name another file, or say --overwrite",
        ) from error


# --- read


def read_bundle(
    path: Path,
    *,
    keyspace: str | None = None,
    table: str | None = None,
    limits: Limits | None = None,
) -> Bundle:
    """Return what a bundle holds.

    Args:
        path: The file.
        keyspace: Only this keyspace, of its files.
        table: Only this table, of its files.
        limits: What it may hold.

    Raises:
        CorruptDataError: No bundle, of a newer version, or over a limit.
        OSError: It cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="treering-bundle-") as folder:
        return _Reading(path, Path(folder), keyspace, table).run(limits)


@dataclass(slots=True)
class _Reading:
    path: Path
    folder: Path
    keyspace: str | None
    table: str | None
    texts: dict[tuple[str, ...], str] = field(default_factory=dict)
    facts: object = None
    mtimes: dict[Path, int] = field(default_factory=dict)
    listings: list[Path] = field(default_factory=list)

    def run(self, limits: Limits | None) -> Bundle:
        for member in read_tar(self.path, limits):
            if member.parts[0] != TOP:
                raise self._refused(f"{'/'.join(member.parts)[:80]!r} is not of a bundle")
            self._take(dataclasses.replace(member, parts=member.parts[1:]))
        manifest = self._manifest()
        facts = None
        if self.facts is not None:
            facts = cluster_of_json(self.facts, path=str(self.path))
        return Bundle(
            node=manifest.get("node") or self.path.name,
            made_at_s=int(manifest["made_at_s"]),
            facts=facts,
            scan=None if facts is not None else self._scan(manifest.get("keys") == "kept"),
            nodetool=self._texts_of("nodetool"),
            schemas=self._texts_of("schema"),
            left_out=tuple(
                ": ".join(line.split("\t", 1))
                for line in self.texts.get(("left-out",), "").splitlines()
            ),
        )

    def _take(self, member: Member) -> None:
        match member.parts:
            case ("facts.json",):
                try:
                    self.facts = json.loads(member.data)
                except (ValueError, RecursionError) as error:
                    raise self._refused("facts.json is no JSON") from error
            case ("data", number, keyspace, table, *rest) if number.isdecimal() and rest:
                self._write(self.folder / number / keyspace / table, tuple(rest), member)
            case parts if len(parts) <= 2:
                self.texts[parts] = member.data.decode("utf-8", "replace")
            case _:
                raise self._refused(f"{'/'.join(member.parts)[:80]!r} is not of a bundle")

    def _write(self, table: Path, rest: tuple[str, ...], member: Member) -> None:
        to = table.joinpath(*rest)
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(member.data)
        except OSError as error:
            raise self._refused(f"{'/'.join(member.parts)[:80]!r} cannot be written") from error
        self.mtimes[to] = member.mtime_s
        if rest == ("listing",):
            self.listings.append(to)

    def _manifest(self) -> dict[str, str]:
        lines = self.texts.get(("manifest",), "").splitlines()
        manifest = {key: value for key, _, value in (line.partition("=") for line in lines)}
        if manifest.get("format") != FORMAT:
            found = manifest.get("format", "none")[:20]
            raise self._refused(f"its format is {found!r}, not {FORMAT!r}")
        made_at = manifest.get("made_at_s", "")
        if not made_at.isdecimal() or len(made_at) > 12:
            raise self._refused("it does not say when it was made")
        return manifest

    def _texts_of(self, folder: str) -> dict[str, str]:
        return {parts[1]: text for parts, text in self.texts.items() if parts[:-1] == (folder,)}

    def _scan(self, has_keys: bool) -> SSTableScan:
        """Return what the files say, under the paths that they have on their node."""
        if not has_keys:
            for path in self.mtimes:
                if path.name.endswith(f"-{_STATISTICS}"):
                    _mend_checksums(path)
        left = _LISTED_MAX
        for listing in self.listings:
            left -= self._restore(listing, left)
        folders = sorted(self.folder.iterdir())
        scans = [self._scan_folder(folder, has_keys) for folder in folders]
        return SSTableScan(
            facts=tuple(one for scan in scans for one in scan.facts),
            problems=tuple(one for scan in scans for one in scan.problems),
            snapshots=tuple(one for scan in scans for one in scan.snapshots),
            tables=tuple(dict.fromkeys(one for scan in scans for one in scan.tables)),
        )

    def _scan_folder(self, folder: Path, has_keys: bool) -> SSTableScan:
        original = self.texts.get(("data", f"{folder.name}.folder"), "").strip() or "/"
        scan = scan_sstables([folder], keyspace=self.keyspace, table=self.table)
        here = os.path.realpath(folder)

        def moved(path: str) -> str:
            # The script's own folder may be a keyspace's or a table's.
            inside = Path(path).relative_to(here).parts if path.startswith(here) else (path,)
            overlap = _overlap(Path(original).parts, inside)
            return os.path.join(original, *inside[overlap:])

        return dataclasses.replace(
            scan,
            facts=tuple(_without_keys(one, has_keys, moved(one.path)) for one in scan.facts),
            problems=tuple(
                FileProblem(path=moved(one.path), id=one.id, message=one.message, kind=one.kind)
                for one in scan.problems
            ),
            snapshots=tuple(
                dataclasses.replace(one, path=moved(one.path)) for one in scan.snapshots
            ),
        )

    def _restore(self, listing: Path, left: int) -> int:
        """Give a table's folder files of the sizes that were listed, which take no space."""
        entries = dict(self._listed(listing, left))
        table = listing.parent
        listing.unlink()
        for name, size in entries.items():
            to = table / name
            parsed = parse_file_name(to.name)
            is_copy = "/" in name and not name.startswith(".")
            if parsed is None and not is_copy:
                continue
            if not is_copy and parsed is not None:
                beside = to.with_name(f"{parsed[0].stem}-{_STATISTICS}")
                was_left_out = not beside.exists() and str(beside.relative_to(table)) in entries
                if was_left_out or (name.endswith(_BROUGHT) and not self._has(to)):
                    continue
            if to not in self.mtimes or to.name.endswith(_DATA):
                self._grow(to, size)
        return len(entries)

    def _has(self, path: Path) -> bool:
        return path.exists() or path.with_name(f"{path.name}.head").exists()

    def _listed(self, listing: Path, left: int) -> Iterator[tuple[str, int]]:
        for line in listing.read_text("utf-8", "replace").splitlines():
            left -= 1
            size, _, name = line.partition("\t")
            parts = name.split("/")
            is_plain = size.isdecimal() and len(size) < 17 and len(name) < 1_000
            if left < 0 or not is_plain or int(size) > _SIZE_MAX or len(parts) > 4:
                raise self._refused("a listing of files cannot be read, or is too long")
            if {"", ".", ".."} & set(parts) or "\0" in name:
                raise self._refused(f"{name[:80]!r} would land outside of the folder")
            yield name, int(size)

    def _grow(self, path: Path, size: int) -> None:
        head, tail = path.with_name(f"{path.name}.head"), path.with_name(f"{path.name}.tail")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if head.exists() and tail.exists():
                path.write_bytes(head.read_bytes())
                with path.open("r+b") as file:
                    file.seek(max(size - tail.stat().st_size, 0))
                    file.write(tail.read_bytes())
                head.unlink()
                tail.unlink()
            with path.open("ab") as file:
                file.truncate(size)
            mtime_s = self.mtimes.get(path, 0)
            os.utime(path, (mtime_s, mtime_s))
        except OSError as error:
            raise self._refused(f"a listing names {path.name[:80]!r} of {size:,} bytes") from error

    def _refused(self, why: str) -> CorruptDataError:
        return CorruptDataError(
            f"{self.path} is no bundle that can be read: {why}",
            hint="collect it again with treering doctor collect",
            path=str(self.path),
        )


def _overlap(above: tuple[str, ...], below: tuple[str, ...]) -> int:
    """Return how many of the first parts of ``below`` are the last of ``above``."""
    return next((n for n in (2, 1) if n <= len(below) and above[-n:] == below[:n]), 0)


def _without_keys(facts: SSTableFacts, has_keys: bool, path: str) -> SSTableFacts:
    if has_keys:
        return dataclasses.replace(facts, path=path)
    # What stands there are zeros.
    return dataclasses.replace(
        facts,
        path=path,
        first_key=None,
        last_key=None,
        first_token=None,
        last_token=None,
        clustering_start=None,
        clustering_end=None,
    )


def _mend_checksums(path: Path) -> None:
    """Write the checksums anew of a Statistics.db in which the script overwrote keys.

    The blanked bytes are inside of one component. Bytes that are no Statistics.db stay as they
    are, for the reader to name. A bundle of a damaged file shows its damage no more by checksum,
    only by its content.
    """
    data = bytearray(path.read_bytes())
    parsed = parse_file_name(path.name)
    if parsed is None or parsed[0].version.startswith("m") or len(data) < 8:
        return
    count = _U32.unpack_from(data, 0)[0]
    if not 0 < count <= _COMPONENTS_MAX or len(data) < 12 + 8 * count:
        return
    starts = [_U32.unpack_from(data, 12 + 8 * number)[0] for number in range(count)]
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        if not 0 < start <= end - 4 <= len(data) - 4:
            return
        _U32.pack_into(data, end - 4, zlib.crc32(data[start : end - 4]))
    path.write_bytes(data)
