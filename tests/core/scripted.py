"""A cluster that says what a test tells it to, behind the real discovery seam."""

import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from rlaunch import Cluster, flow, hookimpl
from rlaunch.cluster import LogQuery, PreflightQuery, Report
from rlaunch.codes import Code
from rlaunch.errors import ClusterError, RlaunchError
from rlaunch.model import (
    Command,
    Context,
    Event,
    Finding,
    JobRef,
    LogLine,
    Observed,
    Plan,
    Request,
    Run,
    State,
    Status,
    Workspace,
)
from rlaunch.profiles import Profile
from rlaunch.runs import Runs
from rlaunch.secrets import Keyring
from rlaunch.shell import Shell
from rlaunch.testing.fakes import FakeClock
from rlaunch.world import World

RECIPE = """
entrypoint: rlaunch.smoke
trainer: {placement: {colocate_all: true}}
generator: {inference_engine_tensor_parallel_size: 1}
"""


class Scripted(Cluster):
    """Answers from class attributes, which `install` makes new for every test."""

    Profile = Profile
    preflights: ClassVar[list[Finding]]
    states: ClassVar[dict[str, list[Status | Exception]]]
    submitted: ClassVar[list[tuple[Plan, dict[str, str]]]]
    stopped: ClassVar[list[str]]
    lines: ClassVar[list[LogLine]]
    fails: ClassVar[list[BaseException]]
    asked: ClassVar[list[int]]
    sees: ClassVar[Any]

    def observe(self, run: Run) -> Observed:
        if isinstance(self.sees, Exception):
            raise self.sees
        return Observed("t", "scripted", self.sees)

    def plan(self, run: Run, command: Command, observed: Observed) -> Plan:
        return Plan(
            run, command, dict(run.env), run.secrets, (), (), (), {"name": run.name}, observed
        )

    def preflight(self, query: PreflightQuery) -> Iterable[Finding]:
        return [f for f in self.preflights if f.code not in query.skip]

    def submit(self, plan: Plan, secrets: Mapping[str, str], report: Report) -> JobRef:
        for error in self.fails:
            raise error
        self.submitted.append((plan, dict(secrets)))
        return JobRef("scripted", plan.run.id, plan.run.id)

    def status(self, refs: Sequence[JobRef]) -> Mapping[JobRef, Status]:
        self.asked.append(len(refs))
        return {ref: self._next(ref) for ref in refs}

    def _next(self, ref: JobRef) -> Status:
        script = self.states.get(ref.native) or self.states.get("*") or [Status(ref, State.ABSENT)]
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, Exception):
            raise answer
        return answer._replace(job=ref)

    def logs(self, query: LogQuery) -> Iterator[LogLine]:
        yield from self.lines

    def stop(self, ref: JobRef) -> None:
        self.stopped.append(ref.native)


def install(monkeypatch: Any, tmp_path: Path, **profile: Any) -> list[Event]:
    """Make `scripted` the only cluster; returns the list that collects events."""
    events: list[Event] = []
    path = tmp_path / "scripted.yaml"
    facts = {
        "name": "scripted", "plugin": "scripted", "gpus_per_node": 8, "run_dir": "/r/{run}",
        "storage_root": "/s", "data_root": "/d", "secrets": ["HF_TOKEN"], **profile,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(facts), encoding="utf-8")
    module: Any = types.ModuleType("scripted")
    module.PROFILES, module.DEFAULT_PROFILE = {"scripted": str(path)}, "scripted"
    module.CODES = (Code("scripted.full", "No room.\n\nA test says so."),)
    module.rlaunch_cluster = hookimpl(_cluster)

    def rlaunch_event(event: Event) -> None:
        events.append(event)

    module.rlaunch_event = hookimpl(rlaunch_event)
    monkeypatch.setattr("rlaunch.discovery.load", lambda name: module)
    monkeypatch.setattr("rlaunch.discovery.always", lambda: ((), ()))
    for name in ("preflights", "submitted", "stopped", "lines", "fails", "asked"):
        setattr(Scripted, name, [])
    Scripted.states, Scripted.sees = {}, {"free": 1}
    return events


def rlaunch_cluster() -> type[Cluster]:
    """Answer the hook."""
    return Scripted


_cluster = rlaunch_cluster


def make_world(tmp_path: Path, run_id: str = "0123abcd", **more: Any) -> World:
    """A world in a temporary directory, with a clock of its own."""
    clock = FakeClock()
    workspace = Workspace(str(tmp_path), "c" * 40, (), more.pop("digest", "d"))
    context = Context(
        "u", clock.now(), run_id, str(tmp_path), str(tmp_path / "state"), str(tmp_path), "/py",
        more.pop("version", "0.1.0"), workspace,
    )  # fmt: skip
    said: list[str] = more.pop("said", [])
    keyring = Keyring("", more.pop("environ", {}))
    runs = lambda: Runs(str(tmp_path / "state" / "runs.sqlite"))  # noqa: E731  # a one-line opener
    return World(Shell(), clock, context, keyring, {}, said.append, runs, set())


def write_recipe(tmp_path: Path, text: str = RECIPE) -> str:
    """Write a recipe into the workspace."""
    path = tmp_path / "smoke.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def transient(text: str = "the queue does not answer") -> ClusterError:
    """A failure to ask."""
    return ClusterError(Finding("error", "scripted.down", text), transient=True)


def ask(tmp_path: Path, **fields: Any) -> Request:
    """A launch of the small recipe."""
    if "rl_config" not in fields:
        fields["rl_config"] = write_recipe(tmp_path)
    usual = {
        "cluster": "scripted", "model_path": "toy/grpo",
        "train_data": '["d"]', "settings": {"nodes": 1, "name": "my-run"},
    }  # fmt: skip
    return Request(**{**usual, **fields})


def planned(tmp_path: Path, world: flow.World | None = None, **fields: Any) -> Plan:
    """The plan of a launch that is in order."""
    prepared = flow.prepare(world or make_world(tmp_path), ask(tmp_path, **fields))
    assert not prepared.refused, prepared.findings
    assert prepared.plan is not None
    return prepared.plan


def refusal(world: flow.World, plan: Plan, **how: Any) -> list[str]:
    """The codes of the errors with which submit refuses."""
    with pytest.raises(RlaunchError) as caught:
        flow.submit(world, plan, **how)
    assert Scripted.submitted == []
    return [f.code for f in caught.value.findings if f.level == "error"]
