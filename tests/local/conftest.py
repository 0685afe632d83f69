"""Runs, plans and clusters for the local plugin's tests; real processes, a state directory of their own."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from rlaunch import zipapps
from rlaunch.cluster import LogQuery
from rlaunch.model import (
    Command,
    JobRef,
    LogLine,
    OwnCheckpoint,
    Paths,
    Plan,
    Recipe,
    Run,
    Status,
    Workspace,
)
from rlaunch.shell import Shell
from rlaunch.world import SystemClock
from rlaunch_local import PROFILES, proc, statefile
from rlaunch_local.cluster import Local
from rlaunch_local.profile import LocalProfile

NOTHING = Command(("/bin/true",))


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a state directory of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "rlaunch"


@pytest.fixture
def profile() -> LocalProfile:
    """The shipped profile."""
    return LocalProfile(**yaml.safe_load(Path(PROFILES["local"]).read_text(encoding="utf-8")))


class Lab(NamedTuple):
    """Makes runs and drives them, and remembers them so that none outlives its test.

    The texts are what stand-in agents do; see `agents`.
    """

    root: Path
    profile: LocalProfile
    made: list[str]

    WIN = "phase('running'); time.sleep(0.3); done('succeeded', exit_code=0)"
    FOLLOW = "while not (meet / 'ray_head.done').exists(): time.sleep(0.02)"
    STAY = "phase('running'); time.sleep(300)"
    STUBBORN = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); "
        "phase('running'); time.sleep(300)"
    )
    SEVEN = "done('failed', reason='driver-exit', exit_code=7, detail='the driver exited 7'); sys.exit(7)"

    def history(self, run: Run) -> list[tuple[str, int]]:
        """Return state and attempt of every line of a run's history."""
        lines = Path(run.paths.run_dir, "history.jsonl").read_text(encoding="utf-8").splitlines()
        return [(d["state"], d["attempt"]) for d in map(json.loads, lines)]

    def supervisor(self, run: Run) -> proc.Process:
        """Return the identity of a run's supervisor."""
        found = statefile.read(Path(run.paths.run_dir)).supervisor
        assert found is not None
        return found

    def run(self, name: str = "lab", **changes: Any) -> Run:
        """Make a run of two nodes; `changes` are fields of the run or of the profile."""
        run_id = f"{name}-{secrets.token_hex(4)}"
        self.made.append(run_id)
        facts = {
            **self.profile.facts(),
            **{k: v for k, v in changes.items() if k not in Run._fields},
        }
        run_dir = str(self.root / "local" / run_id)
        values: dict[str, Any] = {
            "id": run_id, "name": name, "cluster": "local", "profile": facts, "user": "ann",
            "created": "2026-12-01T10:00:00Z", "version": "0.1.0",
            "recipe": Recipe("smoke.yaml", "0" * 64, {}, {}), "workspace": Workspace(str(self.root)),
            "model_path": "toy/grpo", "train_data": ("builtin/sums",), "val_data": (),
            "nodes": 2, "gpus_per_node": 8, "cpu": 2, "memory": "2GiB", "disk": None, "max_retries": 0,
            "timeout_s": None, "priority": None, "preemptible": None, "task_image": None,
            "skyrl_ref": None, "python": sys.executable,
            "paths": Paths(run_dir, f"{run_dir}/rendezvous", run_dir, str(self.root / "data"), run_dir),
            "resume": "never", "overrides": (), "env": {}, "secrets": (), "allow": (), "identity": "",
            "provenance": {},
        }  # fmt: skip
        run = Run(**values)
        return run._replace(**{k: v for k, v in changes.items() if k in Run._fields})

    def cluster(self) -> Local:
        """Make the cluster, as another process would."""
        return Local(self.profile, Shell(), SystemClock())

    def plan(self, run: Run, command: Command = NOTHING) -> Plan:
        """Plan a run on what this machine has free."""
        local = self.cluster()
        return local.plan(run, command, local.observe(run))

    def agents(self, run: Run, scripts: Sequence[str | Sequence[str]]) -> Plan:
        """Plan a run whose agents are stand-ins: a Python text (or an argv) for each rank.

        They stand in for the node agent where only the supervisor's part is looked at; the text finds
        `run, attempt, rank, meet` and the functions of `AGENT` ready.
        """
        plan = self.plan(run._replace(nodes=len(scripts)))
        ranks = []
        for spec, script in zip(plan.native["ranks"], scripts, strict=True):
            text = f"{AGENT.format(meet=run.paths.rendezvous)}\n{script}"
            argv = [sys.executable, "-c", text, "{attempt}", "{lifeline}", "--"]
            ranks.append({**spec, "argv": argv if isinstance(script, str) else [*script]})
        return plan._replace(native={**plan.native, "ranks": ranks})

    def gang(self, run: Run, *arguments: str, own: OwnCheckpoint | None = None) -> Plan:
        """Plan the toy trainer with real agents: two steps, and whatever the arguments say."""
        data = f"{run.paths.data}/{hashlib.sha256(b'builtin/sums').hexdigest()[:16]}"
        toy = f"{run.paths.artifacts}/{zipapps.SMOKE}"
        storage = run.paths.storage
        argv = (
            run.python, toy, f"data.train_data=['{data}']", "trainer.max_steps=2",
            "trainer.ckpt_interval=1", f"trainer.ckpt_path={storage}/checkpoints",
            "trainer.resume_mode=latest", f"terminal_bench_config.trials_dir={storage}/trials", *arguments,
        )  # fmt: skip
        stage = (run.python, toy, "stage", "--data-root", run.paths.data, "builtin/sums")
        return self.with_archives(
            self.plan(run, Command(argv, stage=stage, artifacts=(zipapps.SMOKE,), own=own))
        )

    def driver(self, run: Run, script: str) -> Plan:
        """Plan a real gang whose driver is a Python text."""
        return self.with_archives(self.plan(run, Command((run.python, "-c", script))))

    def with_archives(self, plan: Plan) -> Plan:
        """Add the zipapps, as the core does after planning."""
        return plan._replace(artifacts=tuple(zipapps.artifact(name) for name in zipapps.NAMES))

    def submit(self, plan: Plan, values: Mapping[str, str] | None = None) -> JobRef:
        """Submit a plan."""
        return self.cluster().submit(plan, values or {}, lambda line: None)

    def status(self, ref: JobRef) -> Status:
        """Ask for a run's state, as another process would."""
        return self.cluster().status([ref])[ref]

    def until(
        self,
        ref: JobRef,
        wanted: Callable[[Status], bool],
        *,
        within: float = 20.0,
        local: Local | None = None,
    ) -> Status:
        """Wait until the status is as wanted; fails with the run's last lines otherwise."""
        local = local or self.cluster()
        deadline = time.monotonic() + within
        while True:
            seen = local.status([ref])[ref]
            if wanted(seen):
                return seen
            if time.monotonic() > deadline or seen.state.ended:
                lines = "\n".join(f"{line.rank}: {line.text}" for line in self.lines(ref)[-60:])
                pytest.fail(f"{seen}\n{lines}")
            time.sleep(0.1)

    def end(self, ref: JobRef, *, within: float = 20.0) -> Status:
        """Wait for the end of a run."""
        return self.until(ref, lambda s: s.state.ended, within=within)

    def lines(self, ref: JobRef, **query: Any) -> list[LogLine]:
        """Read a run's lines."""
        return list(self.cluster().logs(LogQuery(ref, **query)))


AGENT = """
import json, os, pathlib, signal, sys, time
run, attempt, rank = os.environ["RLAUNCH_RUN_ID"], int(sys.argv[1]), int(os.environ["RLAUNCH_RANK"])
meet = pathlib.Path({meet!r})
def put(path, **fields):
    path = meet / path
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{{path.name}}.{{os.getpid()}}")
    fresh.write_text(json.dumps(dict(run=run, attempt=attempt, **fields)))
    fresh.replace(path)
def phase(name, **fields):
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    put(f"ranks/{{attempt}}/{{rank}}.json", rank=rank, phase=name, at=at, **fields)
def done(outcome, **fields):
    put("ray_head.done", outcome=outcome, **fields)
"""


@pytest.fixture
def lab(state_home: Path, profile: LocalProfile) -> Iterator[Lab]:
    """A lab whose runs are all gone, processes and temporary files, when the test is over."""
    made = Lab(state_home, profile, [])
    yield made
    left = {run_id: traces_after(run_id) for run_id in made.made}
    for run_id in made.made:
        made.cluster().stop(JobRef("local", run_id))
        proc.sweep(run_id)
        shutil.rmtree(
            f"{made.profile.temp_root}/rl-{run_id.rpartition('-')[2]}", ignore_errors=True
        )
    assert not any(left.values()), left


def traces_after(run_id: str) -> list[str]:
    """Return what is left of a run once its supervisor, whose last word was the end, had 2 s to go."""
    deadline = time.monotonic() + 2
    while (left := traces(run_id)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def traces(run_id: str) -> list[str]:
    """Return what is left of a run outside of its directory: its temporary files, and every process that
    has its id in the environment, the command line, the working directory or an open file."""
    mark = run_id.rpartition("-")[2]
    found = [str(p) for p in Path("/tmp").glob(f"rl-{mark}*")]
    for pid in proc.table():
        if pid == os.getpid():
            continue
        told = b"\0".join(proc.environ(pid)).decode("utf-8", "replace")
        with contextlib.suppress(OSError):
            told += Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
            told += str(Path(f"/proc/{pid}/cwd").readlink())
            told += " ".join(str(p.readlink()) for p in Path(f"/proc/{pid}/fd").iterdir())
        if mark in told:
            found.append(f"{pid} {Path(f'/proc/{pid}/cmdline').read_text(errors='replace')[:80]}")
    return found
