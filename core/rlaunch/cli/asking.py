"""What was typed, read: values of flags, and the launch as a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from rlaunch.model import Request

if TYPE_CHECKING:
    from rlaunch.cli.flags import PlanFlags


def seconds(text: str | float) -> float:
    """Read a time above 0 in seconds, `0.5`, or `90m`. Raises typer's usage error for anything else."""
    try:
        value = float(text)
    except ValueError:
        from rlaunch.settings import read_duration

        try:
            value = read_duration(text)
        except ValueError:
            value = 0.0
    if not 0 < value < float("inf"):
        raise typer.BadParameter(f"`{text}` is not a time above 0, such as `5` or `30m`")
    return value


def checkpoint(text: str) -> str:
    """Read `--resume`. Raises typer's usage error where it is empty."""
    if not text.strip():
        raise typer.BadParameter("it is empty; `never`, `auto` or the path of a checkpoint")
    return text


_SETTINGS = {
    "num_nodes": "nodes",
    "gpus_per_node": "gpus_per_node",
    "cpu": "cpu",
    "memory": "memory",
    "disk": "disk",
    "max_retries": "max_retries",
    "timeout": "timeout_s",
    "priority": "priority",
    "preemptible": "preemptible",
    "task_image": "task_image",
    "skyrl_ref": "skyrl_ref",
    "rendezvous_dir": "rendezvous_dir",
    "cluster_config": "cluster_config",
    "host": "host",
    "job_name": "name",
}
"""Parameter -> the setting that it is."""


def request(flags: PlanFlags, typed: Mapping[str, str]) -> Request:
    """Return the launch as it was typed. `typed` has each flag's spelling by its parameter.

    Raises typer's usage error for a `--set` without `=`.
    """
    from rlaunch.settings import parse_set

    settings: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for item in flags.set:
        try:
            name, value = parse_set(item)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--set") from None
        settings[name], spelled[name] = value, f"--set {name}"
    for parameter, name in _SETTINGS.items():
        if (value := getattr(flags, parameter)) is not None:
            settings[name], spelled[name] = (
                value,
                typed.get(parameter, f"--{parameter.replace('_', '-')}"),
            )
    return Request(
        rl_config=flags.rl_config,
        cluster=flags.cluster,
        model_path=flags.model_path,
        train_data=flags.train_data,
        val_data=flags.val_data,
        settings=settings,
        flags={
            **spelled,
            **{n: typed[n] for n in ("train_data", "val_data", "model_path") if n in typed},
        },
        overrides=tuple(flags.skyrl_override),
        allow=tuple(flags.allow),
        resume=flags.resume,
        offline=flags.offline,
        if_exists=flags.if_exists,
    )


def spelling(ctx: Any) -> dict[str, str]:
    """Return parameter -> flag as it was typed, of everything that was given on the command line."""
    typed: list[str] = ctx.meta["rlaunch.typed"]
    words = [word.partition("=")[0] for word in typed if word.startswith("--")]
    written = {word.replace("_", "-"): word for word in words}  # of two, the last is what counted
    return {
        str(param.name): written[flag]
        for param in ctx.command.params
        for flag in (*param.opts, *param.secondary_opts)
        if flag in written
    }
