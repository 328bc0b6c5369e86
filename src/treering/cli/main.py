"""The command line as a whole: its commands, and what becomes of errors."""

from __future__ import annotations

import io
import signal
import sys
from typing import Any, Final

import typer

from treering.cli.add_series import add_series
from treering.cli.adopt import adopt
from treering.cli.count import count
from treering.cli.create import create
from treering.cli.delete import delete, drop_series
from treering.cli.demo import demo
from treering.cli.design import design
from treering.cli.doctor import doctor
from treering.cli.drop import drop
from treering.cli.expire import expire
from treering.cli.explain import explain
from treering.cli.export import export
from treering.cli.failures import Commands
from treering.cli.grants import grants
from treering.cli.import_ import import_
from treering.cli.info import info
from treering.cli.latest import latest
from treering.cli.read import read
from treering.cli.seal import seal
from treering.cli.series import series
from treering.cli.set_bucket import set_bucket
from treering.cli.set_retention import set_retention
from treering.cli.spool import spool

_EPILOG: Final = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 incomplete, 4 findings of the doctor, "
    "130 interrupted, 141 whoever read the output went away. "
    "The store is a folder or cassandra://host/keyspace: --store, or TREERING_URL."
)

app = typer.Typer(
    cls=Commands,
    name="treering",
    help="Time series on Apache Cassandra, or in a folder, that age well.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        print(f"treering {version('treering')}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


_COMMANDS: Final[tuple[tuple[str, Any], ...]] = (
    ("design", design),
    ("create", create),
    ("adopt", adopt),
    ("import", import_),
    ("export", export),
    ("read", read),
    ("latest", latest),
    ("count", count),
    ("explain", explain),
    ("series", series),
    ("add-series", add_series),
    ("set-bucket", set_bucket),
    ("info", info),
    ("expire", expire),
    ("seal", seal),
    ("set-retention", set_retention),
    ("delete", delete),
    ("drop-series", drop_series),
    ("drop", drop),
    ("grants", grants),
    ("demo", demo),
)
for _name, _command in _COMMANDS:
    app.command(_name)(_command)
app.add_typer(spool, name="spool")
app.add_typer(doctor, name="doctor")


def _write_whole() -> None:
    # Unbuffered (python -u), Python hands text to the system once, and what the system did not
    # take is lost without an error: a reader that went away would look like success.
    out: Any = sys.stdout
    if isinstance(getattr(out, "buffer", None), io.RawIOBase):
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(out.detach()), line_buffering=True)


def run() -> None:
    """Run the command of ``sys.argv``; the entry of the console script."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _write_whole()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What is exported must not depend on the locale of the machine.
            stream.reconfigure(encoding="utf-8")
    sys.exit(app())
