"""Planning on this machine: pure, total, the same twice; and the rules about a plan."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch.model import Command, File, Observed
from rlaunch_local import (
    CODES,
    DEFAULT_PROFILE,
    PROFILES,
    checks,
    planning,
    rlaunch_check,
    rlaunch_cluster,
)
from rlaunch_local.cluster import Local

DRIVER = Command(
    ("/py/bin/python", "/run/rlaunch-smoke.pyz", "{attempt}", "a b", "x='$HOME'"),
    stage=("/py/bin/python", "/run/rlaunch-smoke.pyz", "stage", "builtin/sums"),
    pythonpath=("/code", "/more code"),
    files=(File("extra/config.yaml", "job", 0o644, "a: 1\n"),),
)
SEEN = Observed(
    "2026-12-01T10:00:00Z",
    "this machine",
    {
        "network": "127.40.7",
        "blocks": [20096, 20384],
        "rlaunch_python": "/rl/bin/python",
        "gpus": 0,
    },
)


def flag(argv: list[str], name: str) -> str:
    """Return the value of an agent's flag."""
    return argv[argv.index(name) + 1]


def test_the_same_plan_twice(lab: Any) -> None:
    """Planning is a function: the same run, command and observation give the same plan."""
    run = lab.run()
    local = lab.cluster()
    assert local.plan(run, DRIVER, SEEN) == local.plan(run, DRIVER, SEEN)
    assert local.plan(run, DRIVER, Observed()) == local.plan(run, DRIVER, Observed())


def test_the_native_part_is_json(lab: Any) -> None:
    """The native part survives JSON unchanged: it is what the supervisor reads."""
    native = planning.plan_run(lab.run(), DRIVER, SEEN).native
    assert json.loads(json.dumps(native)) == native


def test_the_agents_command_line(lab: Any) -> None:
    """Each rank's command line names its own address, ports, log and the driver as it was given."""
    run = lab.run(secrets=("HF_TOKEN",), python="/py/bin/python")
    native = planning.plan_run(run, DRIVER, SEEN).native
    one = native["ranks"][1]
    argv = one["argv"]
    assert argv[:3] == ["/py/bin/python", f"{run.paths.artifacts}/rlaunch-node.pyz", "agent"]
    assert flag(argv, "--rank") == "1"
    assert flag(argv, "--nodes") == "2"
    assert flag(argv, "--node-ip") == one["ip"] == "127.40.7.2"
    assert flag(argv, "--ports").split(",")[0] == "agent=20384"
    assert flag(argv, "--log-file") == f"{run.paths.run_dir}/logs/{{attempt}}/1.log"
    assert flag(argv, "--object-store-memory") == str(128 * 1024**2)
    assert flag(argv, "--memory") == str(2 * 1024**3)
    assert flag(argv, "--grace") == "4"
    assert json.loads(flag(argv, "--stage")) == list(DRIVER.stage)
    assert [argv[i + 1] for i, w in enumerate(argv) if w == "--pythonpath"] == list(
        DRIVER.pythonpath
    )
    assert tuple(argv[argv.index("--") + 1 :]) == DRIVER.argv
    assert native["supervisor"][0] == "/rl/bin/python"


def test_only_the_agents_own_words_are_filled_in(lab: Any) -> None:
    """`{attempt}` is filled in before the driver's `--` and left alone after it."""
    argv = planning.plan_run(lab.run(), DRIVER, SEEN).native["ranks"][0]["argv"]
    filled = planning.fill(argv, 3, 9)
    assert flag(filled, "--attempt") == "3"
    assert flag(filled, "--lifeline-fd") == "9"
    assert flag(filled, "--log-file").endswith("/logs/3/0.log")
    assert tuple(filled[filled.index("--") + 1 :]) == DRIVER.argv


def test_the_environment_is_a_file(lab: Any) -> None:
    """The job's variables stand in env.json (0600), with every character as it is, and in the plan."""
    env = {"A": "a b", "B": "x,y", "C": "$HOME", "D": "ä\n\"'\\", "E": ""}
    plan = planning.plan_run(lab.run(env=env), DRIVER, SEEN)
    file = plan.files[0]
    assert (file.path, file.place, file.mode) == ("env.json", "run-dir", 0o600)
    assert json.loads(file.content) == env == plan.env
    assert plan.files[1:] == DRIVER.files


def test_secrets_are_names(lab: Any) -> None:
    """A run with secret names gets a file of mode 0600 to be filled in; one without gets none."""
    plan = planning.plan_run(lab.run(secrets=("HF_TOKEN",)), DRIVER, SEEN)
    assert [(s.path, s.mode, s.names) for s in plan.secret_files] == [
        ("secrets.json", 0o600, ("HF_TOKEN",))
    ]
    bare = planning.plan_run(lab.run(), DRIVER, SEEN)
    assert bare.secret_files == ()
    assert "--secrets-file" not in bare.native["ranks"][0]["argv"]


def test_auto_memory_is_left_to_ray(lab: Any) -> None:
    """`auto` and no memory at all leave the number to the agent."""
    for memory in ("auto", None):
        argv = planning.plan_run(lab.run(memory=memory), DRIVER, SEEN).native["ranks"][0]["argv"]
        assert "--memory" not in argv


@given(st.text(min_size=1, max_size=30), st.integers(0, 600), st.integers(0, 2000))
def test_addresses_are_loopback_and_distinct(run_id: str, turn: int, rank: int) -> None:
    """Every rank of every run has a valid loopback address outside of 127.0 to 127.15."""
    net = planning.network(run_id, turn)
    parts = [int(p) for p in planning.address(net, rank).split(".")]
    assert parts[0] == 127
    assert 16 <= parts[1] <= 254
    assert 0 <= parts[2] <= 255
    assert 1 <= parts[3] <= 254
    assert planning.address(net, rank) != planning.address(net, rank + 1)


@given(st.text(min_size=1, max_size=30), st.integers(0, 400), st.sampled_from([32, 96, 512]))
def test_blocks_of_ports_do_not_overlap(run_id: str, turn: int, size: int) -> None:
    """Blocks lie between the first port and the ephemeral ones, and those of one run are all different."""
    count = planning.blocks(20000, size)
    starts = [planning.block(run_id, turn + i, 20000, size) for i in range(count)]
    assert len(set(starts)) == count
    assert all((s - 20000) % size == 0 and s >= 20000 and s + size - 1 <= 32767 for s in starts)


def test_ports_of_a_node_are_distinct() -> None:
    """No port of a node is used twice; the guard is none of them."""
    ports = planning.ports(20000, 96)
    single = [p for n, p in ports.items() if not n.endswith("-worker")]
    workers = range(ports["min-worker"], ports["max-worker"] + 1)
    assert len(set(single)) == len(single) == 8
    assert not set(single) & set(workers)
    assert 20000 + 95 not in {*single, *workers}
    assert len(workers) == 87


def test_a_long_temp_root_is_refused(lab: Any) -> None:
    """A temporary directory that leaves no room for Ray's sockets is an error; the shipped one is not."""
    fine = planning.plan_run(lab.run(), DRIVER, SEEN)
    assert not list(checks.sockets_fit(fine.run, fine))
    long = planning.plan_run(lab.run(temp_root="/tmp/" + "x" * 40), DRIVER, SEEN)
    found = list(checks.sockets_fit(long.run, long))
    assert [f.code for f in found] == ["local.long-path"]
    assert "too many" in found[0].message


@pytest.mark.parametrize(("temp", "fits"), [(24, True), (30, True), (31, False)])
def test_the_socket_limit_is_exact(lab: Any, temp: int, fits: bool) -> None:
    """The agent takes 43 bytes of temporary directory: `/rl-`, 8 digits and the attempt are 14 of them."""
    run = lab.run(temp_root="/" + "x" * (temp - 2))
    plan = planning.plan_run(run, DRIVER, SEEN)
    argv = planning.fill(plan.native["ranks"][0]["argv"], 1, 3)
    assert (len(flag(argv, "--ray-temp")) <= 43) is fits
    assert (not list(checks.sockets_fit(run, plan))) is fits


def test_pretended_gpus_are_noted(lab: Any) -> None:
    """GPUs that the machine was not seen to have are a note; none asked for, or real ones, are not."""
    run = lab.run()
    notes = [f.code for f in rlaunch_check(run, planning.plan_run(run, DRIVER, SEEN))]
    assert notes == ["local.pretended-gpus"]
    bare = lab.run(gpus_per_node=0)
    assert not list(rlaunch_check(bare, planning.plan_run(bare, DRIVER, SEEN)))
    real = SEEN._replace(facts={**SEEN.facts, "gpus": 8})
    assert not list(rlaunch_check(run, planning.plan_run(run, DRIVER, real)))


def test_the_table_of_contents() -> None:
    """The plugin names its cluster, its profile and its codes, each with a page of more than a line."""
    assert rlaunch_cluster() is Local
    assert DEFAULT_PROFILE in PROFILES
    names = [c.code for c in CODES]
    assert len(set(names)) == len(names)
    assert all("\n" in c.page for c in CODES)


def test_every_number_of_the_profile_has_a_reason(profile: Any) -> None:
    """Each number and size that the shipped profile sets says why it is that one."""
    numbers = {
        name
        for name in profile.model_fields_set
        if isinstance(value := getattr(profile, name), int | float) and not isinstance(value, bool)
    }
    assert numbers | {"memory", "object_store", "node_needs", "min_disk"} <= set(profile.reasons)
    assert {f"env.{name}" for name in profile.env} <= set(profile.reasons)
    assert profile.inherit == ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TMPDIR", "TZ")
