"""What a launch and `rlaunch plan` have in common: the world, the plan, and showing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlaunch.cli.flags import PlanFlags
    from rlaunch.cli.speak import Voice
    from rlaunch.launching import Prepared
    from rlaunch.model import Request
    from rlaunch.world import World


def prepare(
    voice: Voice, flags: PlanFlags, asked: Request, *, only_shown: bool
) -> tuple[World, Prepared]:
    """Read this machine and take the request as far as it goes without sending anything.

    What is `only_shown` also says what submit would say of the run's name.
    """
    from rlaunch import flow
    from rlaunch.cli.opening import world_for

    world = world_for(voice, workspace=flags.workspace, secrets_env=flags.secrets_env)
    if not asked.cluster:
        asked = asked._replace(cluster=str(world.user.get("cluster", "")))
    prepared = flow.prepare(world, asked)
    if only_shown and prepared.plan is not None:
        from rlaunch import naming

        run, reuse, series = prepared.plan.run, flags.if_exists, flags.new_series
        prepared = prepared.also(naming.forecast(world, run, if_exists=reuse, new_series=series))
    return world, prepared


def show(voice: Voice, prepared: Prepared) -> int:
    """Print the plan on stdout and its findings on stderr; 3 where it would be refused."""
    from rlaunch.cli.speak import refuse

    if prepared.plan is None:
        return refuse(prepared.findings, json=voice.json)
    if voice.json:
        from rlaunch.documents import plan_to_json

        voice.document(plan_to_json(prepared.plan))
    else:
        from rlaunch import render

        voice.put(render.plan(prepared.plan))
    voice.show(prepared.findings)
    return 3 if prepared.refused else 0
