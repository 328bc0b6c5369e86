"""Without a usable driver everything else works, and what is missing is named with its fix."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path


def run(code: str, *path: Path) -> str:
    """Run code in a fresh interpreter, with folders in front of its path; return its output."""
    lines = "".join(f"sys.path.insert(0, {str(folder)!r})\n" for folder in path)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{lines}{textwrap.dedent(code)}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CONNECT = """
    import treering
    try:
        treering.open("cassandra://127.0.0.1/plant")
    except treering.MissingExtraError as error:
        print(error, "|", error.hint)
"""


def test_importing_treering_and_the_embedded_engine_does_not_import_the_driver(
    tmp_path: Path,
) -> None:
    code = f"""
        import treering
        import treering.engine.cassandra.url
        treering.open({str(tmp_path / "store")!r}).close()
        print([name for name in sys.modules if name.split(".")[0] == "cassandra"])
    """
    assert run(code).strip() == "[]"


def test_driver_that_is_not_installed_names_the_extra() -> None:
    out = run("sys.modules['cassandra'] = None\n" + textwrap.dedent(CONNECT))
    assert "treering[cassandra]" in out


def test_driver_that_finds_no_event_loop_names_the_fix(tmp_path: Path) -> None:
    package = tmp_path / "cassandra"
    package.mkdir()
    (package / "__init__.py").write_text(
        "class DependencyException(Exception):\n    pass\n"
        "raise DependencyException('Unable to load a default connection class')\n"
    )
    out = run(CONNECT, tmp_path)
    assert "Unable to load a default connection class" in out
    assert "libev" in out
