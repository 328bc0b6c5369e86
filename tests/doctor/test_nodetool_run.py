"""Commands for nodetool: nothing is injected, nothing hangs, nothing secret is told."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from treering.doctor.nodetool_run import NodetoolCommand
from treering.errors import EngineError, EngineTimeoutError, UsageError


def command(*words: str) -> NodetoolCommand:
    return NodetoolCommand(words=words)


def python(script: str) -> NodetoolCommand:
    return command(sys.executable, "-c", script, "{node}")


def test_the_node_stands_in_its_place_and_the_arguments_come_last() -> None:
    show = python("import sys; print(sys.argv[1:])")
    printed = show.run("10.0.0.5", "tablestats", "-F", "json", "plant", timeout_s=30)
    assert printed.strip() == "['10.0.0.5', 'tablestats', '-F', 'json', 'plant']"


def test_a_text_is_split_as_a_shell_would_and_no_shell_runs_it(tmp_path: Path) -> None:
    parsed = NodetoolCommand.from_text("kubectl exec {node} -- sh -c 'nodetool \"$@\"' ; rm x")
    assert parsed.words[2:7] == ("{node}", "--", "sh", "-c", 'nodetool "$@"')
    assert parsed.words[7:] == (";", "rm", "x")
    assert parsed.names_node
    assert not NodetoolCommand.from_text("nodetool").names_node


@pytest.mark.parametrize("text", ["", "   ", "ssh '{node}"])
def test_a_text_that_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        NodetoolCommand.from_text(text)


@pytest.mark.parametrize("node", ["-oProxyCommand=touch x", "a;b", "$(x)", "", "a b", "x" * 300])
def test_a_node_that_would_mean_more_than_an_address_is_refused(node: str) -> None:
    with pytest.raises(UsageError, match="no address of a node"):
        python("").run(node, "tablestats", timeout_s=30)


@pytest.mark.parametrize("name", ["a;b", "--help", "$(x)", "a b", "", "ä"])
def test_an_argument_that_would_mean_more_than_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no plain name"):
        python("").run("10.0.0.5", "tablehistograms", name, "t", timeout_s=30)


def test_a_node_may_go_by_another_name() -> None:
    named = NodetoolCommand(
        words=(sys.executable, "-c", "import sys; print(sys.argv[1])", "{node}"),
        names={"10.0.0.5": "cassandra-0"},
    )
    assert named.run("10.0.0.5", timeout_s=30).strip() == "cassandra-0"
    assert named.run("10.0.0.6", timeout_s=30).strip() == "10.0.0.6"


def test_what_goes_to_the_error_stream_comes_first() -> None:
    both = python("import sys; print('printed'); print('said', file=sys.stderr)")
    assert both.run("n", timeout_s=30).split() == ["said", "printed"]


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    child = f"import time, pathlib; time.sleep(3); pathlib.Path({str(alive)!r}).touch()"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    started = time.monotonic()
    with pytest.raises(EngineTimeoutError, match="did not end within 1 s"):
        python(script).run("n", "tablestats", timeout_s=1.0)
    assert time.monotonic() - started < 2.9
    time.sleep(max(started + 5 - time.monotonic(), 0))
    assert not alive.exists()


def test_a_grandchild_that_keeps_the_output_open_holds_nobody_up() -> None:
    script = (
        "import subprocess, sys; print('done');"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'],"
        " start_new_session=True)"
    )
    started = time.monotonic()
    assert python(script).run("n", timeout_s=30).strip() == "done"
    assert time.monotonic() - started < 15


def test_a_command_that_prints_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.doctor.nodetool_run.PRINTED_BYTES_MAX", 100_000)
    with pytest.raises(EngineError, match="printed more than 100000 bytes"):
        python("while True: print('x' * 1000)").run("n", timeout_s=60)


def test_a_command_that_fails_is_quoted_by_its_line_that_says_why() -> None:
    script = "import sys; sys.exit('error: no such host\\n-- StackTrace --\\n  at a.b.C(D.java)')"
    with pytest.raises(EngineError, match=r"ended with exit code 1: error: no such host$"):
        python(script).run("n", "tablestats", timeout_s=30)


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(
        EngineError, match="through /bin/nosuchtool cannot be started: No such file"
    ):
        command("/bin/nosuchtool", "{node}").run("n", "tablestats", timeout_s=30)


def test_a_password_in_the_command_is_told_to_nobody() -> None:
    script = "import sys; sys.exit('error: ' + ' '.join(sys.argv))"
    secret = command(sys.executable, "-c", script, "-u", "ada", "-pw", "hunter2", "{node}")
    with pytest.raises(EngineError, match="exit code 1") as failed:
        secret.run("n", "tablestats", timeout_s=30)
    assert "hunter2" not in str(failed.value)
    assert "hunter2" not in repr(secret)
