"""What a ring is made of, without starting one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from treering.errors import UsageError
from treering.testing.config import (
    RingPlan,
    RingSettings,
    daemon_command,
    render_yaml,
    storage_flag,
    tool_command,
)

FOLDER = Path("/ring/node1")
JARS = (Path("/jars/cassandra-all-5.0.8.jar"), Path("/jars/jamm-0.4.0.jar"))


def plan_of(**settings: Any) -> RingPlan:
    chosen = RingSettings(**settings)
    return RingPlan(
        settings=chosen,
        native_port=21_000,
        storage_port=22_000,
        jmx_ports=tuple(range(23_000, 23_000 + chosen.nodes)),
    )


def settings_in(yaml: str) -> dict[str, Any]:
    pairs = (line.split(": ", 1) for line in yaml.splitlines())
    return {key: json.loads(value) for key, value in pairs}


def test_yaml_gives_each_node_its_own_address_and_the_first_as_seed() -> None:
    yaml = settings_in(render_yaml(plan_of(nodes=2), 1, FOLDER))
    assert yaml["listen_address"] == yaml["rpc_address"] == "127.0.0.2"
    assert yaml["native_transport_port"] == 21_000
    assert yaml["seed_provider"][0]["parameters"] == [{"seeds": "127.0.0.1:22000"}]
    assert yaml["data_file_directories"] == ["/ring/node1/data"]


def test_yaml_of_the_caller_wins_and_none_removes_a_setting() -> None:
    plan = plan_of(yaml={"num_tokens": 1, "commitlog_sync_period": None, "cdc_enabled": False})
    yaml = settings_in(render_yaml(plan, 0, FOLDER))
    assert yaml["num_tokens"] == 1
    assert yaml["cdc_enabled"] is False
    assert "commitlog_sync_period" not in yaml


@pytest.mark.parametrize(
    ("sync", "keys"),
    [
        ("periodic", {"commitlog_sync", "commitlog_sync_period"}),
        ("batch", {"commitlog_sync"}),
        ("group", {"commitlog_sync", "commitlog_sync_group_window"}),
    ],
)
def test_yaml_has_the_keys_of_the_chosen_commit_log_and_no_others(
    sync: str, keys: set[str]
) -> None:
    yaml = settings_in(render_yaml(plan_of(commitlog_sync=sync), 0, FOLDER))
    assert {key for key in yaml if key.startswith("commitlog_sync")} == keys
    assert yaml["commitlog_sync"] == sync


@pytest.mark.parametrize(
    ("version", "sync", "said"),
    [
        ("4.1.10", "periodic", {"commitlog_sync_period": "10000ms"}),
        ("4.0.19", "periodic", {"commitlog_sync_period_in_ms": 10_000}),
        ("4.0.19", "group", {"commitlog_sync_group_window_in_ms": 10}),
        ("3.11.19", "batch", {"commitlog_sync_batch_window_in_ms": 2}),
    ],
)
def test_yaml_says_times_of_the_commit_log_as_the_release_reads_them(
    version: str, sync: str, said: dict[str, Any]
) -> None:
    yaml = settings_in(render_yaml(plan_of(version=version, commitlog_sync=sync), 0, FOLDER))
    del yaml["commitlog_sync"]
    times = {key: value for key, value in yaml.items() if key.startswith("commitlog_sync")}
    assert times == said


def test_3_11_takes_no_port_for_a_seed_and_is_told_to_listen() -> None:
    yaml = settings_in(render_yaml(plan_of(version="3.11.19"), 0, FOLDER))
    assert yaml["seed_provider"][0]["parameters"] == [{"seeds": "127.0.0.1"}]
    assert yaml["start_native_transport"] is True


def test_yaml_names_a_storage_mode_only_where_one_was_chosen() -> None:
    assert "storage_compatibility_mode" not in render_yaml(plan_of(), 0, FOLDER)
    chosen = settings_in(render_yaml(plan_of(storage_mode="NONE"), 0, FOLDER))
    assert chosen["storage_compatibility_mode"] == "NONE"


def test_two_rings_on_the_same_addresses_have_different_names() -> None:
    names = {
        RingPlan(
            settings=RingSettings(), native_port=1, storage_port=port, jmx_ports=(2,)
        ).cluster_name
        for port in (22_000, 22_001)
    }
    assert len(names) == 2


def test_only_a_node_of_a_ring_waits_for_the_others() -> None:
    def flags(nodes: int) -> list[str]:
        return daemon_command(
            plan_of(nodes=nodes), 0, java=Path("/java"), jars=JARS, node_folder=FOLDER
        )

    assert "-Dcassandra.consistent.rangemovement=false" in flags(3)
    assert "-Dcassandra.consistent.rangemovement=false" not in flags(1)
    assert "-Dcassandra.ring_delay_ms=2000" in flags(3)


def test_the_daemon_runs_with_its_agent_and_the_callers_flags_last() -> None:
    plan = plan_of(jvm=("-Xmx1G",), heap_mb=512)
    command = daemon_command(plan, 0, java=Path("/java"), jars=JARS, node_folder=FOLDER)
    assert "-javaagent:/jars/jamm-0.4.0.jar" in command
    assert command.index("-Xmx512M") < command.index("-Xmx1G")
    assert "-Dcassandra.jmx.local.port=23000" in command
    assert command[-1] == "org.apache.cassandra.service.CassandraDaemon"


def test_daemon_and_tools_leave_nothing_outside_the_nodes_folder() -> None:
    daemon = daemon_command(plan_of(), 0, java=Path("/java"), jars=JARS, node_folder=FOLDER)
    tool = tool_command(
        plan_of(), ("NodeTool", "status"), java=Path("/java"), jars=JARS, node_folder=FOLDER
    )
    for command in (daemon, tool):
        assert storage_flag(FOLDER) in command
        assert "-Djava.io.tmpdir=/ring/node1/tmp" in command
        assert "-Duser.home=/ring/node1/tmp" in command
        assert "-XX:+PerfDisableSharedMem" in command
    assert tool[-2:] == ["org.apache.cassandra.tools.NodeTool", "status"]


def test_a_plan_survives_json() -> None:
    plan = plan_of(nodes=3, yaml={"num_tokens": 8}, jvm=("-Dx=y",), storage_mode="NONE")
    assert RingPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"nodes": 0}, "1 to 3 nodes, not 0"),
        ({"nodes": 4}, "1 to 3 nodes, not 4"),
        ({"heap_mb": 64}, "heap of 64 MB"),
        ({"version": "2.2.19"}, "Cassandra 2.2.19 cannot be started"),
        ({"version": "5.0"}, "Cassandra 5.0 cannot be started"),
        ({"version": "4.1.10", "storage_mode": "NONE"}, "4.1.10 has no storage_compatibility_mode"),
        ({"version": "3.11.19", "commitlog_sync": "group"}, "3.11.19 knows no group sync"),
    ],
)
def test_a_ring_that_cannot_be_is_refused_by_name(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        RingSettings(**settings)
