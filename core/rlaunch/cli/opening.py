"""The world of one command: this machine, with trouble of the run record told as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlaunch.cli.speak import Voice
    from rlaunch.model import Finding
    from rlaunch.world import World


def world_for(voice: Voice, *, strict: bool = False, **options: Any) -> World:
    """Read this machine; `options` are those of `World.here`. Each trouble is told once.

    `strict` is for commands that ask the run record: one that cannot be read is then an error.
    """
    from rlaunch.world import World

    world = World.here(report=voice.report, **options)
    said: set[Finding] = set()

    def warn(finding: Finding) -> None:
        if finding not in said:
            said.add(finding)
            voice.show([finding])

    def open_runs() -> Any:
        from rlaunch.runs import Runs

        return Runs(f"{world.context.state}/runs.sqlite", warn, strict=strict)

    return world._replace(open_runs=open_runs)
