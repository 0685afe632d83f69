"""Looking at this machine: what is seen before planning, and what preflight finds."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.core.scripted import make_world

from rlaunch import flow
from rlaunch.cluster import PreflightQuery
from rlaunch.errors import RlaunchError
from rlaunch.model import Command, Finding
from rlaunch_local import observe, planning

TOY = Command((sys.executable, "x"), artifacts=("rlaunch-smoke.pyz",))


def preflight(lab: Any, plan: Any, **query: Any) -> list[Finding]:
    """Ask preflight, as submit does."""
    return list(lab.cluster().preflight(PreflightQuery(plan, **query)))


def codes(findings: list[Finding]) -> list[str]:
    """Return the codes of findings."""
    return [f.code for f in findings]


def test_what_is_seen(lab: Any) -> None:
    """The observation names free ports, a loopback network, room, memory and what the interpreter has."""
    run = lab.run()
    seen = lab.cluster().observe(run)
    facts = seen.facts
    assert seen.source == "this machine"
    assert facts["network"].startswith("127.")
    assert len(set(facts["blocks"])) == 2
    assert facts["cpus"] == os.cpu_count()
    assert facts["memory_available"] > 0
    assert facts["disk_free"] > 0
    assert facts["python"]["ray"]
    assert facts["python"]["numpy"]
    assert facts["rlaunch_python"] == sys.executable


def test_looking_is_cheap(lab: Any) -> None:
    """Looking takes a small part of a dry run: under 50 ms even on a busy machine (best of five)."""
    run, local = lab.run(), lab.cluster()
    local.observe(run)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        local.observe(run)
        times.append(time.perf_counter() - began)
    assert min(times) < 0.05


def test_looking_imports_nothing_heavy(lab: Any) -> None:
    """Neither looking nor planning imports Ray or NumPy."""
    done = lab.cluster().shell.run(
        [
            sys.executable, "-c",
            "import sys, rlaunch_local.cluster, rlaunch_local.observe, rlaunch_local.planning\n"
            "print([m for m in ('ray', 'numpy', 'subprocess', 'asyncio') if m in sys.modules])",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.out == "['subprocess']\n", done.err  # of the core's shell


@pytest.mark.parametrize(
    ("address", "offset", "family"),
    [
        ("127.9.9.9", 50, socket.AF_INET),
        ("0.0.0.0", 0, socket.AF_INET),  # noqa: S104  # what Ray's metrics do
        ("::1", 95, socket.AF_INET6),
    ],
)
def test_a_busy_block_is_passed_over(lab: Any, address: str, offset: int, family: int) -> None:
    """A block of ports in which anything listens, on any address, is not taken."""
    run = lab.run()
    first = observe.free_blocks(run, observe.sockets())[0]
    with socket.create_server((address, first + offset), family=family):
        assert first not in observe.free_blocks(run, observe.sockets())
    assert observe.free_blocks(run, observe.sockets())[0] == first


def test_a_port_that_is_bound_and_silent_is_passed_over(lab: Any) -> None:
    """A named port that somebody has bound without listening is not taken either."""
    run = lab.run()
    first = observe.free_blocks(run, observe.sockets())[0]
    with socket.socket() as silent:
        silent.bind(("127.9.9.9", first + 3))
        assert first not in observe.free_blocks(run, observe.sockets())


def test_a_busy_network_is_passed_over(lab: Any) -> None:
    """A loopback network in which somebody listens is not taken."""
    run = lab.run()
    net = observe.free_network(run, observe.sockets())
    with socket.create_server((f"{net}.1", 0)):
        assert observe.free_network(run, observe.sockets()) != net


def test_nothing_to_say(lab: Any) -> None:
    """A plan that can work here has no finding."""
    assert preflight(lab, lab.plan(lab.run(), TOY)) == []


def test_a_busy_port(lab: Any) -> None:
    """A planned port that somebody has taken is an error that names rank and port."""
    plan = lab.plan(lab.run(), TOY)
    port = plan.native["ranks"][1]["ports"]["gcs"]
    with socket.create_server(("127.0.0.1", port)):
        found = preflight(lab, plan)
    assert codes(found) == ["local.port-busy"]
    assert f"gcs {port}" in found[0].message
    assert found[0].place == "ranks[1].ports"


def test_an_address_that_is_not_ours(lab: Any) -> None:
    """A planned address that this machine does not have is an error."""
    plan = lab.plan(lab.run(), TOY)
    ranks = [{**r, "ip": "192.0.2.1"} if r["rank"] == 0 else r for r in plan.native["ranks"]]
    found = preflight(lab, plan._replace(native={**plan.native, "ranks": ranks}))
    assert codes(found) == ["local.port-busy"]
    assert "192.0.2.1" in found[0].message


def test_an_interpreter_that_does_not_exist(lab: Any) -> None:
    """A missing interpreter is an error that names it."""
    found = preflight(lab, lab.plan(lab.run(python="/no/such/python"), TOY))
    assert codes(found) == ["local.no-python"]


def test_an_interpreter_without_ray(lab: Any, tmp_path: Path) -> None:
    """An interpreter that lacks Ray or NumPy is an error for each; NumPy only where the toy needs it."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" -I -S "$@"\n')
    bare.chmod(0o755)
    found = preflight(lab, lab.plan(lab.run(python=str(bare)), TOY))
    assert codes(found) == ["local.no-ray", "local.no-ray"]
    assert ["`ray`" in f.message for f in found] == [True, False]
    other = preflight(lab, lab.plan(lab.run(python=str(bare)), Command(("x",))))
    assert codes(other) == ["local.no-ray"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"min_disk": "900TiB"}, "local.no-disk"),
        ({"node_needs": "900GiB"}, "local.no-memory"),
        ({"object_store": "900GiB"}, "local.small-shm"),
    ],
)
def test_too_little_room(lab: Any, change: dict[str, str], code: str) -> None:
    """Too little disk, memory or shared memory is a finding; skipped by name, it is not said."""
    plan = lab.plan(lab.run(**change), TOY)
    assert set(codes(preflight(lab, plan))) == {code}
    assert preflight(lab, plan, skip=frozenset({code})) == []
    assert preflight(lab, plan, skip=frozenset({code.partition(".")[2]})) == []


def test_a_file_where_a_directory_should_be(lab: Any, tmp_path: Path) -> None:
    """A run directory below a file cannot be made, which preflight says."""
    (tmp_path / "file").touch()
    run = lab.run()
    run = run._replace(paths=run.paths._replace(run_dir=str(tmp_path / "file" / "run")))
    found = preflight(lab, lab.plan(run, TOY))
    assert codes(found) == ["local.not-writable"]
    assert found[0].place == "run_dir"


def resuming(lab: Any, path: str, *, by: str = "--resume") -> list[Finding]:
    """What preflight says of a run that goes on from a path, by the flag or by an argument alone."""
    words = ("trainer.resume_mode=from_path", f"++trainer.resume_path='{path}'")
    run = lab.run(resume=path if by == "--resume" else "never")
    return preflight(lab, lab.plan(run, TOY._replace(argv=(*TOY.argv, *words))))


@pytest.mark.parametrize("by", ["--resume", "trainer.resume_path"])
def test_a_checkpoint_to_go_on_from_must_be_there(lab: Any, tmp_path: Path, by: str) -> None:
    """A path that is missing, a file, relative, or no checkpoint is an error with the newest one near it."""
    folder = tmp_path / "check points"
    step = folder / "global_step_8"
    (step / "policy").mkdir(parents=True)
    (folder / "global_step_12" / "policy").mkdir(parents=True)
    (folder / "a file").touch()
    assert resuming(lab, str(step), by=by) == []
    assert resuming(lab, "s3://bucket/global_step_8", by=by) == []
    near = f"the newest one there: `--resume {folder}/global_step_12`"
    for path, what, hint in (
        (folder / "global_step_9", "does not exist on this machine", near),
        (folder / "a file", "is no directory", near),
        (folder, "there is no checkpoint in", near),
        (step / "policy", "there is no checkpoint in", "the path of a directory `global_step_N`"),
        ("checkpoints/global_step_8", "where the driver starts", "give its absolute path"),
    ):
        (found,) = resuming(lab, str(path), by=by)
        assert (found.code, found.place) == ("local.no-checkpoint", by)
        assert what in found.message
        assert hint in found.hint


def test_a_checkpoint_of_another_trainer(lab: Any, tmp_path: Path) -> None:
    """Of a trainer that rlaunch does not know only the place is looked at."""
    run = lab.run(resume=str(tmp_path / "theirs"))
    assert codes(preflight(lab, lab.plan(run, TOY))) == ["local.no-checkpoint"]
    (tmp_path / "theirs").mkdir()
    assert codes(preflight(lab, lab.plan(run, TOY))) == ["local.no-checkpoint"]
    (tmp_path / "theirs" / "anything").touch()
    assert preflight(lab, lab.plan(run, TOY)) == []


def test_a_run_directory_that_is_taken(lab: Any) -> None:
    """A run directory with something in it is an error."""
    run = lab.run()
    Path(run.paths.run_dir).mkdir(parents=True)
    assert preflight(lab, lab.plan(run, TOY)) == []
    Path(run.paths.run_dir, "state.json").touch()
    assert codes(preflight(lab, lab.plan(run, TOY))) == ["local.run-exists"]


def test_offline_plans_can_be_submitted(lab: Any) -> None:
    """A plan that was made without a look has ports and addresses of its own, which preflight tries."""
    plan = lab.cluster().plan(lab.run(), TOY, planning.Observed())
    assert plan.native["ranks"][0]["ip"] != plan.native["ranks"][1]["ip"]
    assert plan.native["ranks"][0]["guard"] != plan.native["ranks"][1]["guard"]
    assert set(codes(preflight(lab, plan))) <= {"local.port-busy"}


def test_a_required_secret_that_is_missing(lab: Any, tmp_path: Path) -> None:
    """A launch without a secret that the profile requires is refused before anything is written."""
    plan = lab.plan(lab.run(required_secrets=("HF_TOKEN",), secrets=("HF_TOKEN",)), TOY)
    world = make_world(tmp_path)
    with pytest.raises(RlaunchError) as caught:
        flow.submit(world, plan)
    (found,) = (f for f in caught.value.findings if f.level == "error")
    assert (found.code, found.place) == ("core.secret-missing", "secrets.HF_TOKEN")
    assert world.open_runs().find(plan.run.id) is None
    assert not Path(plan.run.paths.run_dir).exists()
