"""The world of one command: this machine, with trouble of the run record told as it happens."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rlaunch.errors import RlaunchError

if TYPE_CHECKING:
    from rlaunch.cli.speak import Voice
    from rlaunch.model import Finding
    from rlaunch.world import World


def world_for(voice: Voice, *, strict: bool = False, **options: Any) -> World:
    """Read this machine; `options` are those of `World.here`. Each trouble is told once.

    `strict` is for commands that ask the run record: one that cannot be read is then an error. What was
    launched carries its own settings, so a broken `rlaunch.toml` is only a warning to them.
    """
    world = (_without_settings if strict else _here)(voice, **options)
    said: set[Finding] = set()

    def warn(finding: Finding) -> None:
        if finding not in said:
            said.add(finding)
            voice.show([finding])

    def open_runs() -> Any:
        from rlaunch.runs import Runs

        return Runs(f"{world.context.state}/runs.sqlite", warn, strict=strict)

    return world._replace(open_runs=open_runs)


def _here(voice: Voice, **options: Any) -> World:
    from rlaunch.world import World

    return World.here(report=voice.report, **options)


def _without_settings(voice: Voice, **options: Any) -> World:
    """Read this machine; with a broken `rlaunch.toml` as if there were none, which is told."""
    from rlaunch import folders
    from rlaunch.secrets import default_file

    try:
        return _here(voice, **options)
    except RlaunchError as error:
        if any(found.code != "core.config" for found in error.findings):
            raise
        voice.show(found._replace(level="warning") for found in error.findings)
    secrets = options.pop("secrets_env", None) or default_file(os.environ)
    bare = folders.without_config(os.environ)
    return _here(voice, secrets_env=secrets, environ=bare, **options)
