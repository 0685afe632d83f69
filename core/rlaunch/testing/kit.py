"""A plugin, brought up on a bench: its cluster, a run that fits it, plans, and jobs of the probe."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from rlaunch import documents
from rlaunch.cluster import Cluster, LogQuery
from rlaunch.layers import lay
from rlaunch.model import (
    Command,
    Context,
    JobRef,
    LogLine,
    Observed,
    Paths,
    Plan,
    Recipe,
    Request,
    Run,
    State,
    Status,
    Workspace,
)
from rlaunch.plugins import Plugins
from rlaunch.resolve import resolve
from rlaunch.testing import probe
from rlaunch.testing.bench import Bench

CANARY = "kit-canary-5f1c"
"""The value of every secret in the kit; wherever it turns up, a secret has leaked."""

ENV: Mapping[str, str] = {
    "KIT_COMMA": "mlx5_0:1,mlx5_1:1",
    "KIT_BLANK": " a  b ",
    "KIT_QUOTES": """it's "q" \\ \\n `id`""",
    "KIT_LINES": "l1\nl2\n",
    "KIT_UNICODE": "naïve-李明-🚀",
    "KIT_PARENS": "64(x2)",
    "KIT_DOLLAR": "$HOME/$(id)/${X:-y}",
    "KIT_PERCENT": "%s %j 100%",
    "KIT_BRACES": "{attempt} {lifeline} {{x}}",
    "KIT_EQUALS": "--a=b=c",
    "KIT_TAB": "a\tb",
    "KIT_EMPTY": "",
    "KIT_HASH": "# not a comment",
    "KIT_JSON": '{"a": [1, null]}',
    "KIT_LONG": "x" * 4096,
}
"""Values that shells, schedulers and templates have lost, split or expanded."""

WORDS = (
    *ENV.values(),
    "--",
    "-c",
    "~",
    "*",
    "a;b",
    "++trainer.x='[1, 2]'",
    "--attempt",
    "|",
    "<x>",
)
"""Arguments of the same kind."""


class Ended(NamedTuple):
    """A job of the probe, as it was when it had ended."""

    plan: Plan
    ref: JobRef
    status: Status
    lines: tuple[LogLine, ...]
    said: tuple[str, ...]
    """What submit reported."""


class Kit:
    """A plugin's cluster on a bench. `run` is a run that fits the plugin's profile."""

    def __init__(self, plugin: ModuleType, bench: Bench) -> None:
        self.plugin, self.bench = plugin, bench
        self.hooks = Plugins((plugin,))
        kind = self.hooks.cluster()
        assert kind is not None, f"`{plugin.__name__}` answers no `rlaunch_cluster`"
        self.kind: type[Cluster] = kind
        name = bench.profile or plugin.DEFAULT_PROFILE
        self.base = read_profile(plugin.PROFILES[name])
        layered = lay(
            kind.Profile, self.base, origin=name, user={}, typed=bench.settings(), flags={}
        )
        self.profile = layered.profile
        self.cluster = kind(layered.profile, bench.shell, bench.clock)
        request = Request(cluster=name, model_path="kit/model", settings={})
        recipe = Recipe("kit.yaml", "0" * 64, {"entrypoint": "rlaunch.smoke"}, {})
        layered = layered._replace(
            launch={"nodes": 1, "name": "kit"}, sources={"nodes": "kit", "name": "kit"}
        )
        resolved = resolve(recipe, request, layered, context(bench.tmp))
        assert resolved.run is not None, f"no run fits the profile: {resolved.findings}"
        self.run = as_written(resolved.run)

    @property
    def owner(self) -> str:
        """The name that the plugin's codes begin with."""
        return self.profile.plugin

    def with_canary(self, run: Run) -> Run:
        """Add a secret to a run; its value is `CANARY`."""
        return run._replace(secrets=(*run.secrets, "KIT_CANARY"))

    def plan(self, run: Run, command: Command, observed: Observed | None = None) -> Plan:
        """Plan as the core does, with the artifacts that every job ships."""
        plan = self.cluster.plan(run, command, observed or Observed())
        return plan._replace(artifacts=(*artifacts(), *plan.artifacts))

    def job(self, mode: str, *, nodes: int = 1) -> Plan:
        """Plan a job of the probe: `mode` is an exit code, or `hang`."""
        run = self.with_canary(renamed(self.run))
        run = run._replace(nodes=nodes, env={**run.env, **ENV})
        names = [*run.env, "KIT_CANARY"]
        command = Command(argv=probe.command(run.python, mode, names, WORDS))
        seen = self.cluster.observe(run)
        return through_json(self.plan(run, command, seen))

    def submit(self, plan: Plan, report: Callable[[str], None] = lambda line: None) -> JobRef:
        """Submit with the canary for each secret of the plan."""
        return self.cluster.submit(plan, dict.fromkeys(plan.secrets, CANARY), report)

    def status(self, ref: JobRef) -> Status:
        """Ask for one job."""
        return self.cluster.status([ref])[ref]

    def wait(self, ref: JobRef, enough: Callable[[Status], bool]) -> Status:
        """Ask until a status is enough; AssertionError when the bench's patience is over."""
        clock = self.bench.clock
        end = clock.monotonic() + self.bench.patience_s
        while not enough(seen := self.status(ref)):
            assert clock.monotonic() < end, f"still {seen} after {self.bench.patience_s} s"
            clock.sleep(self.bench.poll_s)
        return seen

    def run_to_end(self, plan: Plan) -> Ended:
        """Submit a job and wait for its end."""
        said: list[str] = []
        ref = self.submit(plan, said.append)
        seen = self.wait(ref, lambda status: status.state.ended)
        lines = tuple(self.cluster.logs(LogQuery(ref)))
        return Ended(plan, ref, seen, lines, tuple(said))

    def run_until_heard(self, plan: Plan) -> JobRef:
        """Submit a job that hangs, and wait until its driver runs."""
        ref = self.submit(plan)
        self.wait(ref, lambda status: status.state is State.RUNNING or status.state.ended)
        return ref

    def codes(self) -> Mapping[str, str]:
        """Return the pages of the plugin's and the core's codes, by code."""
        from rlaunch import explain

        return {name: code.page for name, code in explain.codes((self.plugin,)).items()}


def renamed(run: Run) -> Run:
    """Return the run under an id of its own: two jobs of one id are two submits of one run."""
    fresh = f"{run.name}-{secrets.token_hex(4)}"
    paths = Paths(*(path.replace(run.id, fresh) for path in run.paths))
    return run._replace(id=fresh, paths=paths)


def as_written(run: Run) -> Run:
    """Return the run with provenance as JSON has it: whether a value was a tuple is not kept."""
    settings = {k: s._replace(value=documents.plain(s.value)) for k, s in run.provenance.items()}
    return run._replace(provenance=settings)


def artifacts() -> tuple[Any, ...]:
    """Return the node agent's zipapp, as a launch would ship it."""
    from rlaunch import zipapps

    return tuple(zipapps.artifact(name) for name in zipapps.NAMES if "node" in name)


def context(tmp: Path) -> Context:
    """Return what the core would have read from a quiet machine."""
    import sys

    root = str(tmp / "workspace")
    return Context(
        user="kit",
        now="2026-01-02T03:04:05.000Z",
        run_id="0a1b2c3d",
        home=str(tmp / "home"),
        state=str(tmp / "state"),
        cwd=root,
        python=sys.executable,
        version="0",
        workspace=Workspace(root),
    )


def read_profile(path: object) -> Mapping[str, Any]:
    """Return a shipped profile as it is written."""
    import yaml

    data = yaml.safe_load(Path(str(path)).read_text(encoding="utf-8"))
    assert isinstance(data, dict), f"`{path}` is not a mapping"
    return data


def through_json(plan: Plan) -> Plan:
    """Return the plan as another process reads it out of a plan file."""
    text = json.dumps(documents.plan_to_json(plan), ensure_ascii=False)
    return documents.plan_from_json(json.loads(text))
