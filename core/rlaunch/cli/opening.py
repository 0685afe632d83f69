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
    from rlaunch import folders, reading
    from rlaunch.world import World

    path = f"{folders.config(options.get('environ'))}/rlaunch.toml"
    try:
        reading.read(path)  # an endless one is not begun with
    except reading.NotReadable as error:
        if not error.missing:
            raise _broken(path, str(error)) from None
    world = World.here(report=voice.report, **options)
    if not isinstance(cluster := world.user.get("cluster", ""), str):
        raise _broken(path, f"`cluster` is `{cluster}`, and it takes a name in quotes")
    return world


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


def _broken(path: str, reason: str) -> RlaunchError:
    return RlaunchError.of(
        "core.config", f"`rlaunch.toml` cannot be used: {reason}", place=path,
        hint="`[clusters.NAME]` has settings, `[env]` has variables, `cluster` is the default one",
    )  # fmt: skip
