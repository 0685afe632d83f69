"""Is the world still the one that a plan file was made in?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rlaunch.model import Finding, Plan, Workspace

if TYPE_CHECKING:
    from rlaunch.world import World


def compare(world: World, plan: Plan) -> Iterable[Finding]:
    """Yield an error for each thing that is not what a plan file was made from."""
    run, here = plan.run, world.context
    if run.version != here.version:
        yield Finding(
            "error", "plan.version",
            f"the plan was made by rlaunch {run.version}, this is {here.version}", "",
            "make it again with `rlaunch plan`",
        )  # fmt: skip
    if run.profile.get("ships_workspace") and run.workspace.digest != here.workspace.digest:
        what = _differs(run.workspace, here.workspace)
        yield Finding(
            "error", "plan.workspace-changed",
            f"the workspace is not the one that the plan was made from: {what}",
            run.workspace.root, "make the plan again, or check that commit out with the same changes",
        )  # fmt: skip
    current = {a.path: a.sha256 for a in here.artifacts}
    for artifact in plan.artifacts:
        if current.get(artifact.path, artifact.sha256) != artifact.sha256:
            yield Finding(
                "error", "plan.artifact-changed", f"`{artifact.path}` is not the one that was planned",
                artifact.path, "make the plan again with `rlaunch plan`",
            )  # fmt: skip


def _differs(then: Workspace, now: Workspace) -> str:
    """Return what tells two states of a workspace apart, as far as their names do."""
    if then.root != now.root:
        return f"that was `{then.root}`"
    if then.commit != now.commit:
        return (
            f"it was at commit {then.commit[:12] or 'none'}, and is at {now.commit[:12] or 'none'}"
        )
    other = sorted(set(then.dirty) ^ set(now.dirty))
    if not other:
        return "the content of a file that was changed already is another"
    more = f" and {len(other) - 3} more" if len(other) > 3 else ""
    return "changed or new since, or no longer: " + ", ".join(f"`{n}`" for n in other[:3]) + more
