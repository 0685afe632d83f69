"""From a request to a submitted job: prepare (reads, decides, sends nothing) and submit (sends)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rlaunch import naming, needs, recipes, resumption, stale
from rlaunch.choose import Chosen, choose, reopen
from rlaunch.errors import ClusterError, RlaunchError, UnclearSubmitError
from rlaunch.model import (
    Event,
    Finding,
    JobRef,
    Observed,
    Plan,
    Request,
    Run,
    RunFacts,
)
from rlaunch.resolve import resolve

if TYPE_CHECKING:
    from rlaunch.cluster import Cluster
    from rlaunch.world import World

NODE = "rlaunch-node.pyz"
OBSERVE_S = 5.0
_ORDER = {"error": 0, "warning": 1, "note": 2}


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while the scheduler was asked to take a job: it may have it."""


class Prepared(NamedTuple):
    """What a request comes to. `plan` is None where an error kept it from being made."""

    plan: Plan | None
    findings: tuple[Finding, ...]
    chosen: Chosen | None

    @property
    def refused(self) -> bool:
        """True where an error is among the findings, or there is no plan."""
        return self.plan is None or any(f.level == "error" for f in self.findings)

    def also(self, findings: Iterable[Finding]) -> Prepared:
        """Return it with more findings, in the plan too."""
        kept = tidy((*self.findings, *findings))
        plan = self.plan._replace(findings=kept) if self.plan else None
        return self._replace(plan=plan, findings=kept)


def prepare(world: World, request: Request) -> Prepared:
    """Take a request as far as it goes without sending anything. All problems come as findings."""
    findings: list[Finding] = list(world.keyring.findings)
    chosen, plan = None, None
    try:
        recipe = recipes.read(request.rl_config)
        chosen = choose(world, request.cluster, typed=request.settings, flags=request.flags)
        findings.extend(chosen.findings)
        if chosen.layered.profile.ships_workspace:
            stray = recipes.outside(request.rl_config, world.context.workspace.root)
            findings.extend([stray] if stray else [])
        resume, seen = resumption.find(world, request)
        findings.extend(seen)
        asked = request._replace(resume=resume)
        resolution = resolve(recipe, asked, chosen.layered, world.context)
        findings.extend(resolution.findings)
        if resolution.run is not None:
            run = resumption.with_model_facts(resolution.run)
            plan, seen = _plan(world, chosen, run, request)
            findings.extend(seen)
    except RlaunchError as error:
        findings.extend(error.findings)
    kept = waive(tidy(findings), request.allow, chosen)
    if plan is not None:
        plan = plan._replace(findings=kept)
    return Prepared(plan, kept, chosen)


def _plan(
    world: World, chosen: Chosen, run: Run, request: Request
) -> tuple[Plan | None, tuple[Finding, ...]]:
    command = chosen.plugins.command(run)
    if command is None:
        raise RlaunchError(no_trainer(run))
    observed, findings = (Observed(), ()) if request.offline else _observe(chosen.cluster, run)
    plan = chosen.cluster.plan(run, command, observed)
    wanted = {NODE, *command.artifacts}
    artifacts = tuple(a for a in world.context.artifacts if a.path in wanted)
    plan = plan._replace(artifacts=(*artifacts, *plan.artifacts))
    return plan, (*findings, *plan.findings, *chosen.plugins.check(run, plan))


def no_trainer(run: Run) -> Finding:
    """Return the finding for a recipe whose entry point no plugin knows."""
    return Finding(
        "error", "core.no-trainer",
        f"no trainer knows the entry point `{run.recipe.body.get('entrypoint')}`",
        run.recipe.at("entrypoint"), "`rlaunch.smoke`, or a SkyRL entry point",
    )  # fmt: skip


def _observe(cluster: Cluster, run: Run) -> tuple[Observed, tuple[Finding, ...]]:
    """Look at the cluster, for at most five seconds; what cannot be seen is a warning."""
    box: list[Any] = []

    def look() -> None:
        try:
            box.append(cluster.observe(run))
        except BaseException as error:  # noqa: BLE001  # handed to the caller below
            box.append(error)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(OBSERVE_S)
    seen = box[0] if box else None
    if isinstance(seen, Observed):
        return seen, ()
    if isinstance(seen, BaseException) and not isinstance(seen, ClusterError):
        raise seen
    reason = str(seen) if seen else f"no answer in {OBSERVE_S:.0f} s"
    return Observed(), (
        Finding(
            "warning", "core.not-observed", f"`{run.cluster}` could not be looked at: {reason}",
            hint="the profile's values stand in; `--offline` skips the look",
        ),
    )  # fmt: skip


def tidy(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Drop repetitions and sort by level; within a level the order of the stages stays.

    One fault that two stages see is said once, with the place of the first, which knows the recipe's
    lines.
    """
    first: dict[tuple[str, str], Finding] = {}
    for found in findings:
        first.setdefault((found.code, found.message), found)
    return tuple(sorted(first.values(), key=lambda f: _ORDER[f.level]))


def waive(
    findings: tuple[Finding, ...], allow: tuple[str, ...], chosen: Chosen | None
) -> tuple[Finding, ...]:
    """Turn waived errors into warnings; an unknown or unwaivable code is an error of its own."""
    if not allow:
        return findings
    from rlaunch import explain

    known = explain.codes(chosen.plugins.modules if chosen else ())
    kept = []
    for found in findings:
        page = known.get(found.code)
        waived = (
            found.level == "error" and found.code in allow and page is not None and page.waivable
        )
        kept.append(
            found._replace(level="warning", message=f"{found.message} (allowed)")
            if waived
            else found
        )
    for code in allow:
        if code not in known:
            kept.append(_bad_waiver(code, "is no code", "`rlaunch explain CODE` prints its page"))
        elif not known[code].waivable:
            kept.append(_bad_waiver(code, "cannot be waived", f"see `rlaunch explain {code}`"))
    return tidy(kept)


def _bad_waiver(code: str, why: str, hint: str) -> Finding:
    return Finding("error", "core.allow", f"`{code}` {why}", f"--allow {code}", hint)


def facts_of(plan: Plan, ref: JobRef | None = None) -> RunFacts:
    """Return what watching and diagnosing may know of a planned run."""
    run = plan.run
    return RunFacts(
        ref, run.id, run.name, run.nodes, run.gpus_per_node, plan.command.argv, plan.env,
        run.profile, run.paths.storage, run.skyrl_ref,
    )  # fmt: skip


def submit(
    world: World,
    plan: Plan,
    *,
    chosen: Chosen | None = None,
    skip: frozenset[str] = frozenset(),
    if_exists: str = "fail",
    new_series: bool = False,
    from_file: bool = False,
) -> JobRef:
    """Send a plan as it is. Asks every rule again, then preflight, then writes the intent, then sends.

    `from_file` also compares workspace and version with the plan's. Raises RlaunchError with all
    findings that stopped it; warnings are reported. Raises Interrupted for a Ctrl-C after the intent.
    """
    run = plan.run
    chosen = chosen or reopen(world, run.cluster, run.profile)
    findings = list(stale.compare(world, plan)) if from_file else []
    if skip:
        from rlaunch import skipping

        findings += skipping.unknown(skip, chosen)
    findings += waive(chosen.plugins.check(run, plan), run.allow, chosen)
    runs = world.open_runs()
    findings += naming.refusals(world, run, if_exists=if_exists, new_series=new_series)
    _stop_on_error(world, findings)
    world.report("preflight")
    _stop_on_error(world, waive(_preflight(world, plan, chosen, skip), run.allow, chosen))
    secrets = world.keyring.collect(plan.secrets)
    from rlaunch.documents import plan_to_json

    runs.intend(plan_to_json(plan), world.clock.now())
    try:
        ref = chosen.cluster.submit(plan, secrets, world.report)
    except UnclearSubmitError:
        raise  # the row stays open: the job may be there
    except KeyboardInterrupt:
        raise Interrupted(run.id) from None
    except RlaunchError as error:
        runs.failed(run.id, str(error), world.clock.now())
        raise
    runs.submitted(run.id, ref.native, world.clock.now())
    tell(world, chosen, Event("submitted", world.clock.now(), facts_of(plan, ref), plan=plan))
    return ref


def _preflight(
    world: World, plan: Plan, chosen: Chosen, skip: frozenset[str]
) -> tuple[Finding, ...]:
    """Ask for the secrets and the cluster's own checks, but for what is skipped by name or by code."""
    from rlaunch.cluster import PreflightQuery

    present = world.keyring.names & frozenset(plan.secrets)
    seen = [] if "secrets" in skip else list(needs.missing(plan, present))
    collect = partial(world.keyring.collect, plan.secrets)
    seen += chosen.cluster.preflight(PreflightQuery(plan, present, skip, collect))
    return tuple(found for found in seen if found.code not in skip)


def tell(world: World, chosen: Chosen, event: Event) -> None:
    """Tell the observers; one that fails is reported and harms nothing."""
    for finding in chosen.plugins.event(event):
        world.report(f"{finding.level}[{finding.code}]: {finding.message}")


def _stop_on_error(world: World, findings: Iterable[Finding]) -> None:
    found = tidy(findings)
    if any(f.level == "error" for f in found):
        raise RlaunchError(*found)
    for finding in found:
        if finding not in world.said:
            world.said.add(finding)
            world.report(f"{finding.level}[{finding.code}]: {finding.message}")
