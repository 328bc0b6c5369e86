"""``python -m treering.testing up|down|status|nodetool``: a ring that outlives the command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from treering.errors import TreeringError, UsageError
from treering.testing.config import NODES_MAX
from treering.testing.cql import check_keyspace
from treering.testing.jars import cache_folder, lock_file
from treering.testing.local import LocalCassandra
from treering.testing.ring_file import read_ring_file

_LOCK_TIMEOUT_S: Final = 300.0
_LOCK: Final = "up.lock"
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

app = typer.Typer(
    help="Real Cassandra nodes on 127.0.0.1, 127.0.0.2 and 127.0.0.3 that outlive the command.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

FolderOption = Annotated[
    Path | None,
    typer.Option(
        help="Where data, logs and the ring's state live; by default in the cache folder."
    ),
]


@app.command()
def up(
    nodes: Annotated[int, typer.Option(min=1, max=NODES_MAX, help="How many nodes.")] = 1,
    folder: FolderOption = None,
    keyspace: Annotated[str, typer.Option(help="Created where it is missing.")] = "treering",
) -> None:
    """Start a ring, create the keyspace, print the URL to use."""
    check_keyspace(keyspace)
    place = _folder_or_default(folder)
    place.mkdir(parents=True, exist_ok=True)
    with lock_file(place / _LOCK, timeout_s=_LOCK_TIMEOUT_S):
        ring = _running_ring(place, nodes) or _new_ring(place, nodes)
        ring.create_keyspace(keyspace)
    print(ring.url(keyspace))


@app.command()
def down(
    folder: FolderOption = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the data too.")] = False,
) -> None:
    """Stop the ring and wait until its processes have gone; its data stays."""
    place = _folder_or_default(folder)
    if read_ring_file(place) is None:
        print(f"no ring was ever started in {place}")
        return
    with lock_file(place / _LOCK, timeout_s=_LOCK_TIMEOUT_S):
        ring = LocalCassandra.attach(place)
        ran = sum(ring.is_running(node) for node in range(ring.nodes))
        ring.stop()
        if delete:
            (place / _LOCK).unlink(missing_ok=True)
            ring.delete()
    print(f"stopped {ran} of {ring.nodes} nodes in {place}" + (", data removed" if delete else ""))


@app.command()
def status(folder: FolderOption = None) -> None:
    """Say per node whether it runs and answers; exit code 1 where one does not."""
    place = _folder_or_default(folder)
    ring = LocalCassandra.attach(place)
    states = [_state_of(ring, node) for node in range(ring.nodes)]
    for node, state in enumerate(states):
        print(f"node {node}  {ring.contact_points[node]}:{ring.port}  {state}")
    if not all(state.startswith("up") for state in states):
        raise typer.Exit(EXIT_FAILED)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def nodetool(
    arguments: Annotated[
        list[str], typer.Argument(metavar="ARGUMENT…", help="What nodetool is told.")
    ],
    folder: FolderOption = None,
    node: Annotated[str, typer.Option(help="A node's number, from 0, or its address.")] = "0",
) -> None:
    """Run nodetool on a node, with arguments as they stand: flush, tablehistograms, repair…"""
    ring = LocalCassandra.attach(_folder_or_default(folder))
    numbers = {str(number): number for number in range(ring.nodes)}
    numbers |= {address: number for number, address in enumerate(ring.contact_points)}
    if node not in numbers:
        raise UsageError(
            f"the ring has no node {node!r}", hint=f"its nodes are {', '.join(numbers)}"
        )
    command = [*ring.nodetool_command(numbers[node]), *arguments]
    # What it prints and how it ends is nodetool's own.
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def _running_ring(place: Path, nodes: int) -> LocalCassandra | None:
    """Return the ring that runs in the folder, its ended nodes started again."""
    if read_ring_file(place) is None:
        return None
    ring = LocalCassandra.attach(place, progress=_say)
    running = [node for node in range(ring.nodes) if ring.is_running(node)]
    if not running:
        return None
    if ring.nodes != nodes:
        raise UsageError(
            f"a ring of {ring.nodes} nodes runs in {place}, not of {nodes}",
            hint="python -m treering.testing down --delete ends it; or take another --folder",
        )
    _say(f"The ring in {place} runs already")
    for node in range(ring.nodes):
        if node not in running:
            _say(f"Starting node {node + 1} of {ring.nodes} again, which had ended")
            ring.restart(node)
    return ring


def _new_ring(place: Path, nodes: int) -> LocalCassandra:
    ring = LocalCassandra(nodes, folder=place, outlives_owner=True, progress=_say)
    ring.start()
    return ring


def _state_of(ring: LocalCassandra, node: int) -> str:
    if not ring.is_running(node):
        return "down"
    if not ring.answers(node):
        return f"process {ring.pid(node)} runs and does not answer"
    return f"up, process {ring.pid(node)}"


def _folder_or_default(folder: Path | None) -> Path:
    return (folder or cache_folder() / "local-ring").expanduser().resolve()


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    try:
        yield
    except TreeringError as error:
        _say(f"error: {error}" + (f"\nhint: {error.hint}" if error.hint else ""))
        raise SystemExit(EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED) from error


def main() -> None:
    """Run the command line; errors become a message, a hint and an exit code."""
    with _errors_as_messages():
        app(prog_name="python -m treering.testing")


if __name__ == "__main__":
    main()
