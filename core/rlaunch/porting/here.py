"""What a recipe needs to run on the cluster at hand, whatever it was written for. Pure.

These changes follow from the target's profile alone, so that a launch makes them by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rlaunch.env import Environment
from rlaunch.model import Setting
from rlaunch.porting import places
from rlaunch.skyrl.entrypoints import TOY
from rlaunch.skyrl.tree import look

OUTPUTS = ("terminal_bench.trials_dir", "trainer.ckpt_path", "trainer.export_path")
"""Keys of a run's outputs; null is a directory of the run's own under the cluster's storage root."""
LOGGER = "trainer.logger"
DUMPS = (
    "NCCL_DEBUG_FILE", "TORCHINDUCTOR_CACHE_DIR", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT",
)  # fmt: skip
"""Variables with the path of a dump or cache, which any directory of the node can take."""
_OFFLINE = {"offline", "disabled", "dryrun"}


def takes_container(profile: Mapping[str, Any]) -> bool:
    """Tell whether a cluster starts runs in an image of the recipe's: its profile has the field `sif`."""
    return "sif" in profile


def no_container(profile: Mapping[str, Any]) -> str:
    """Return why a recipe's `container` block is not used here; empty where it is, or nobody knows."""
    if not profile or takes_container(profile):
        return ""
    why = (profile.get("unsupported") or {}).get("container")
    return str(why or f"`{profile.get('name', '')}` runs no container of the recipe's")


class Wish(NamedTuple):
    """A key and the value that it has to have here."""

    key: str
    value: Any
    reason: str


def wishes(body: Mapping[str, Any], profile: Mapping[str, Any]) -> Iterator[Wish]:
    """Yield what has to change in the trainer's sections."""
    name = profile.get("name", "")
    for key in OUTPUTS:
        value = look(body, key)
        if isinstance(value, str) and (why := lost(value, profile)):
            yield Wish(key, None, f"{why}; null is a directory of the run's own")
    if (
        profile.get("egress") is False
        and look(body, "entrypoint") != TOY
        and not _logs_offline(body)
    ):
        logger = without_wandb(look(body, LOGGER))
        if logger is not None and isinstance(body.get("trainer"), Mapping):
            yield Wish(LOGGER, logger, f"the nodes of `{name}` have no internet")


def lost(path: str, profile: Mapping[str, Any]) -> str:
    """Return why an output cannot be written to a path here; empty where it can."""
    name = profile.get("name", "")
    if places.remote(path):
        if "storage_root" in profile and not places.stores_remotely(profile):
            return f"runs on `{name}` keep their outputs in a file system, not in an object store"
        return ""
    if places.absolute(path) and places.stores_remotely(profile) and places.foreign(path, profile):
        return f"nothing says that the directory exists on `{name}`"
    return ""


def without_wandb(logger: Any) -> Any:
    """Return a logger that needs no internet, None where it needs none already."""
    if logger in (None, "wandb"):
        return "console"
    if isinstance(logger, list) and "wandb" in logger:
        rest = [item for item in logger if item != "wandb"]
        return rest if "console" in rest else [("console" if i == "wandb" else i) for i in logger]
    return None


def _logs_offline(body: Mapping[str, Any]) -> bool:
    """Tell whether the recipe itself keeps wandb offline."""
    modes = (look(body, f"{part}.WANDB_MODE") for part in ("extra_env", "container.extra_env"))
    return any(mode in _OFFLINE for mode in modes)


def relocated(name: str, value: Any, profile: Mapping[str, Any]) -> Wish | None:
    """Return the node-local path of a dump whose directory does not exist here; None where it stays."""
    if name not in DUMPS or not places.absolute(value) or not places.foreign(value, profile):
        return None
    path = f"/tmp/{value.rstrip('/').rpartition('/')[2]}"  # noqa: S108  # a path in the job
    where = profile.get("name", "")
    return Wish(
        name, path, f"its directory is no place of `{where}`; node-local, so lost with the node"
    )


def at_home(env: Environment, profile: Mapping[str, Any]) -> Environment:
    """Return a job's environment with every dump in a directory that exists here."""
    values, provenance = dict(env.values), dict(env.provenance)
    for name in DUMPS:
        if wish := relocated(name, values.get(name), profile):
            values[name] = wish.value
            source = provenance[f"env.{name}"].source
            reason = f"instead of `{env.values[name]}`: {wish.reason}"
            provenance[f"env.{name}"] = Setting(wish.value, source, reason)
    return env._replace(values=values, provenance=provenance)
