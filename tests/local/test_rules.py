"""Settings that would fail later, or not end at all: each is a finding of the plan."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import ValidationError

from rlaunch.model import Command, Observed
from rlaunch_local import checks, planning, rlaunch_check
from rlaunch_local.profile import LocalProfile

TRUE = Command(("/bin/true",))


def codes(run: Any, seen: Observed | None = None) -> list[str]:
    """Return the errors of a planned run."""
    plan = planning.plan_run(run, TRUE, seen or Observed())
    return [f.code for f in rlaunch_check(run, plan) if f.level == "error"]


@pytest.mark.parametrize("nodes", [134, 200, 99_999_999])
def test_too_many_nodes_are_refused_at_once(lab: Any, nodes: int) -> None:
    """More nodes than there are blocks of ports is an error, and costs nothing however many they are."""
    run = lab.run(nodes=nodes)
    began = time.monotonic()
    assert codes(run) == ["local.too-many-nodes"]
    assert time.monotonic() - began < 2
    plan = planning.plan_run(run, TRUE, Observed())
    assert len(plan.native["ranks"]) == 133
    [found] = checks.nodes_have_ports(run, plan)
    assert "`--num-nodes 133`" in found.hint


def test_as_many_nodes_as_ports(lab: Any) -> None:
    """As many nodes as the range has blocks are planned, each with ports of its own."""
    run = lab.run(nodes=133)
    assert codes(run) == []
    ranks = planning.plan_run(run, TRUE, Observed()).native["ranks"]
    assert len({r["guard"] for r in ranks}) == 133
    assert codes(lab.run(nodes=133, ports_per_node=97)) == ["local.too-many-nodes"]


def test_ports_that_others_have_count(lab: Any) -> None:
    """Where fewer blocks were seen free than nodes want, that is said, and no rank shares a port silently."""
    run = lab.run(nodes=3)
    seen = Observed("t", "this machine", {"blocks": [20000, 20096]})
    assert codes(run, seen) == ["local.too-many-nodes"]
    [found] = checks.nodes_have_ports(run, planning.plan_run(run, TRUE, seen))
    assert "2 of them free" in found.message
    assert codes(run._replace(nodes=2), seen) == []


def test_looking_for_many_nodes_ends(lab: Any) -> None:
    """Looking for free ports tries every block once, however many nodes want one."""
    began = time.monotonic()
    seen = lab.cluster().observe(lab.run(nodes=99_999_999))
    assert time.monotonic() - began < 5
    assert len(seen.facts["blocks"]) <= 133


def moved(run: Any, name: str, path: str) -> Any:
    """Return the run with one of its paths, by the name of its setting."""
    if name == "temp_root":
        return run._replace(profile={**run.profile, "temp_root": path})
    if name == "python":
        return run._replace(python=path)
    field = {"rendezvous_dir": "rendezvous", "storage_root": "storage", "data_root": "data"}
    field |= {"artifacts_dir": "artifacts"}
    return run._replace(paths=run.paths._replace(**{field.get(name, name): path}))


PLACES = ["run_dir", "temp_root", "rendezvous_dir", "storage_root", "data_root", "artifacts_dir"]


@pytest.mark.parametrize("name", [*PLACES, "python"])
def test_relative_paths_are_refused(lab: Any, name: str) -> None:
    """A relative path is an error that names its setting."""
    run = moved(lab.run(), name, "rel/x")
    assert codes(run) == ["local.path-relative"]
    [found] = checks.paths_are_absolute(run, planning.plan_run(run, TRUE, Observed()))
    assert (found.place, "`rel/x`" in found.message) == (name, True)


def test_a_relative_run_directory_is_said_once(lab: Any) -> None:
    """What lies below a relative run directory is not listed beside it."""
    run = lab.run()
    paths = type(run.paths)("rel/x", "rel/x/rendezvous", "rel/x", "/data", "rel/x")
    assert codes(run._replace(paths=paths)) == ["local.path-relative"]


@pytest.mark.parametrize("name", [*PLACES, "python"])
def test_urls_are_refused(lab: Any, name: str) -> None:
    """A URL is an error for every path but the checkpoints', which the trainer reaches by itself."""
    wanted = [] if name == "storage_root" else ["local.path-remote"]
    assert codes(moved(lab.run(), name, "s3://x/y")) == wanted


def test_an_interpreter_from_the_path(lab: Any) -> None:
    """An interpreter without a slash is looked for in PATH, and no error here."""
    assert codes(lab.run(python="python3")) == []


@pytest.mark.parametrize(("size", "fits"), [("1KiB", False), ("74MiB", False), ("75MiB", True)])
def test_an_object_store_that_ray_refuses(lab: Any, size: str, fits: bool) -> None:
    """Less than Ray's minimum of 75 MiB is an error."""
    assert codes(lab.run(object_store=size)) == ([] if fits else ["local.small-store"])


@pytest.mark.parametrize("name", ["grace_s", "settle_s", "farewell_s"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_no_time_is_infinite(profile: LocalProfile, name: str, value: float) -> None:
    """A time that is infinite, or no number, is refused with the profile."""
    with pytest.raises(ValidationError, match=name):
        LocalProfile.model_validate({**profile.facts(), name: value})


@pytest.mark.parametrize("name", ["object_store", "node_needs", "min_disk"])
@pytest.mark.parametrize("value", ["banana", "-1MiB", "", "9" * 400])
def test_sizes_are_sizes(profile: LocalProfile, name: str, value: str) -> None:
    """A text that is no size is refused with the profile, before anything computes with it."""
    with pytest.raises(ValidationError, match=name):
        LocalProfile.model_validate({**profile.facts(), name: value})


def test_planning_is_total(lab: Any) -> None:
    """An infinite time in a plan file's profile is planned like any other: nothing here raises."""
    run = lab.run(grace_s=float("inf"), rendezvous_timeout_s=3_000_000)
    argv = planning.plan_run(run, TRUE, Observed()).native["ranks"][0]["argv"]
    assert argv[argv.index("--grace") + 1] == "inf"
    assert argv[argv.index("--rendezvous-timeout") + 1] == "3000000"


MACHINE = Observed("t", "this machine", {"memory_total": 24 * 1024**3, "cpus": 2})


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"memory": "99TiB"}, True, "this machine has 24.0 GiB"),
        ({"cpu": 1e9}, True, "this machine has 2"),
        ({"cpu": 87}, True, "ports for 86"),
        ({"cpu": 600}, True, "ports for 86"),
        ({"object_store": "99TiB"}, True, "object_store"),
        ({"cpu": 86}, False, "this machine has 2"),
        ({"memory": "512GiB"}, False, "this machine has 24.0 GiB"),
    ],
)
def test_more_than_there_is(lab: Any, given: dict[str, Any], error: bool, words: str) -> None:
    """What Ray cannot start is an error of the plan; what the machine merely lacks is a warning."""
    fields = {k: v for k, v in given.items() if k != "object_store"}
    run = lab.run(**{k: v for k, v in given.items() if k == "object_store"})._replace(**fields)
    plan = planning.plan_run(run, TRUE, MACHINE)
    (found,) = [f for f in rlaunch_check(run, plan) if f.code.startswith("local.beyond-")]
    assert (found.level, found.place) == ("error" if error else "warning", next(iter(given)))
    assert words in found.message
    assert codes(run) == (["local.beyond-ray"] if error else [])


@pytest.mark.parametrize(
    ("cpu", "hint", "ports"),
    [
        (87, "`--cpu 86` at most, or `--set ports_per_node=97`", 97),
        (86.5, "`--cpu 86` at most, or `--set ports_per_node=97`", 97),
        (502, "`--cpu 86` at most, or `--set ports_per_node=512`", 512),
        (503, "`--cpu 86` at most, or 502 with `--set ports_per_node=512`", 512),
        (600, "`--cpu 86` at most, or 502 with `--set ports_per_node=512`", 512),
    ],
)
def test_what_gives_a_node_more_cores(
    lab: Any, profile: LocalProfile, cpu: float, hint: str, ports: int
) -> None:
    """The hint names ports that the profile takes; what is typed after it is no error, if there is any."""
    run = lab.run()._replace(cpu=cpu)
    (found,) = checks.ray_takes_the_amounts(run, planning.plan_run(run, TRUE, Observed()))
    assert found.hint == hint
    facts = {**profile.facts(), "ports_per_node": ports}
    LocalProfile.model_validate(facts)
    more = lab.run(ports_per_node=ports)._replace(cpu=cpu)
    assert codes(more) == (["local.beyond-ray"] if cpu > 502 else [])
    with pytest.raises(ValidationError, match="ports_per_node"):
        LocalProfile.model_validate({**facts, "ports_per_node": checks.MOST_PORTS + 1})


def test_the_shipped_amounts_fit_the_smallest_machine(lab: Any) -> None:
    """The profile's own cores are no warning on a machine with one."""
    run = lab.run()
    small = Observed("t", "this machine", {"memory_total": 4 * 1024**3, "cpus": 1})
    found = rlaunch_check(run, planning.plan_run(run, TRUE, small))
    assert not [f for f in found if f.code.startswith("local.beyond-")]
