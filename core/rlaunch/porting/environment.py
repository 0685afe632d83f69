"""The environment and the container block of a recipe for another cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from rlaunch import env as environment
from rlaunch.porting import here, places
from rlaunch.porting.changes import Draft
from rlaunch.skyrl.tree import look, removed

INTERFACES = ("*_SOCKET_IFNAME", "*_SOCKET_FAMILY", "NCCL_IB_HCA")
"""Names and families of network interfaces: facts of the cluster that they were written on."""
OFFLINE = ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Variables that keep libraries from looking for what nodes without internet cannot reach."""
INSIDE = "/.singularity.d/"
"""Where Apptainer puts the host's libraries inside a container."""
TWIN = "APPTAINERENV_"
DROPPED: Any = object()
_INNER = "container.extra_env"
_KEEPS = frozenset({"env.not-mapping", "env.not-scalar", "env.twins-differ", "env.refused-here"})
"""Findings that a port must not hide by rewriting what they speak of."""


def translate(draft: Draft) -> None:
    """Lay out container block and variables as the target takes them."""
    gathered = environment.gather(
        draft.recipe, typed={}, user={}, profile={}, rules=draft.target.get("env_rules") or {},
        cluster=draft.here,
    )  # fmt: skip
    draft.findings.extend(f for f in gathered.findings if f.code in _KEEPS)
    if any(found.code == "env.not-mapping" for found in gathered.findings):
        return
    if here.takes_container(draft.target):
        _container_of_another(draft)
    else:
        _lift(draft)
    for section in (_INNER, "extra_env"):
        _judge(draft, section)
    _add(draft)


def _variables(draft: Draft, section: str) -> Mapping[str, Any]:
    value = draft.value(section)
    return value if isinstance(value, Mapping) else {}


def _verdict(draft: Draft, name: str, value: Any) -> tuple[Any, str]:
    """Return a variable's value on the target and the reason of its change, none where it stays.

    The value DROPPED means that the variable has no place there.
    """
    rule = environment.rule_for(name, draft.target.get("env_rules") or {}) or {}
    theirs = environment.rule_for(name, (draft.source or {}).get("env_rules") or {}) or {}
    was_offline = (draft.source or {}).get("egress") is False
    if rule.get("action") == "drop":
        return DROPPED, str(rule["reason"])
    if rule.get("action") == "set":
        return str(rule["value"]), str(rule["reason"])
    if (
        isinstance(value, str)
        and value.startswith(INSIDE)
        and not here.takes_container(draft.target)
    ):
        return DROPPED, "the directory exists inside an Apptainer container only"
    if name in OFFLINE and was_offline and draft.target.get("egress") is True:
        return DROPPED, f"the nodes of `{draft.here}` reach the internet"
    if draft.elsewhere and theirs.get("action") == "set" and theirs.get("value") == value:
        return DROPPED, f"a fact of `{draft.there}`: {theirs['reason']}"
    if draft.elsewhere and any(fnmatchcase(name, pattern) for pattern in INTERFACES):
        return DROPPED, f"it names the network of `{draft.there}`"
    wish = here.relocated(name, value, draft.target)
    return (wish.value, wish.reason) if wish else (value, "")


def _lift(draft: Draft) -> None:
    """Take the container block away; its variables move to the top level, which every cluster reads."""
    if "container" not in draft.body:
        return
    container = draft.value("container")
    why = here.no_container(draft.target)
    for key in container if isinstance(container, Mapping) else ():
        if key != "extra_env":
            draft.remove(f"container.{key}", why)
    for name in _variables(draft, _INNER):
        _raise(draft, name)
    if not any(f.code == "port.needs-accept" for f in draft.findings):
        draft.body = {key: value for key, value in draft.body.items() if key != "container"}


def _raise(draft: Draft, name: str) -> None:
    key, plain = f"{_INNER}.{name}", name.removeprefix(TWIN)
    top = _variables(draft, "extra_env")
    value, reason = _verdict(draft, plain, _text(draft.value(key)))
    if name != plain and plain in {*_variables(draft, _INNER), *top}:
        draft.remove(key, f"folded into `{plain}`: the launcher carries it into the job")
    elif value is DROPPED:
        draft.remove(key, reason)
    elif plain in top:
        draft.remove(key, f"`extra_env.{plain}` stands at the top level and wins", "mechanical")
    else:
        draft.move(
            key, f"extra_env.{plain}", value, reason or "variables stand at the top level, as text"
        )


def _text(value: Any) -> Any:
    try:
        return environment.coerce(value)
    except TypeError:
        return value


def _container_of_another(draft: Draft) -> None:
    """Replace the image and mounts of another cluster by the target's own, where its profile has any."""
    profile, container = draft.target, draft.value("container")
    if not draft.elsewhere:
        return
    for key in ("sif", "binds", "overlays", "pydeps"):
        written = container.get(key) if isinstance(container, Mapping) else None
        own = profile.get(key) or None
        own = list(own) if isinstance(own, tuple) else own
        if own and (written or profile.get("sif")):
            draft.set(f"container.{key}", own, f"as `{draft.here}` has it")
        elif written:
            draft.remove(f"container.{key}", f"it lies on `{draft.there}`")
    if not profile.get("sif"):
        draft.say(
            "note", "port.no-image",
            f"no image is known on `{draft.here}`, so the run starts on the nodes' own Python", "container",
            "`container.sif: PATH` in the recipe, or `--set sif=PATH` at the launch",
        )  # fmt: skip


def _judge(draft: Draft, section: str) -> None:
    for name in _variables(draft, section):
        if "." not in name:  # no name of a variable, and another rule's business
            _one(draft, section, name, name.removeprefix(TWIN))
    if draft.value(section) == {} and look(draft.recipe.body, section) not in (None, {}):
        draft.body = removed(draft.body, section)
        if draft.value("container") == {}:
            draft.body = removed(draft.body, "container")


def _one(draft: Draft, section: str, name: str, plain: str) -> None:
    key = f"{section}.{name}"
    inside = here.takes_container(draft.target)  # twins do no harm there
    written = _text(draft.value(key))
    value, reason = _verdict(draft, plain, written)
    if name != plain and plain in _variables(draft, section) and not inside:
        draft.remove(key, f"folded into `{plain}`: the launcher carries it into the job")
    elif value is DROPPED:
        draft.remove(key, reason)
    elif name != plain and not inside:
        draft.move(key, f"{section}.{plain}", value, reason or "the launcher makes the twin itself")
    elif reason and value != written:
        draft.set(key, value, reason)
    elif (
        places.absolute(value)
        and places.foreign(value, draft.target)
        and not (inside and value.startswith(INSIDE))
    ):
        warn(draft, key, value)


def warn(draft: Draft, key: str, path: str) -> None:
    """Say that a path is kept which nothing says exists on the target."""
    draft.say(
        "warning", "port.foreign-path",
        f"`{path}` stays as it is, and nothing says that it exists on `{draft.here}`", key,
        "put the file into the workspace and write its relative path",
    )  # fmt: skip


def _add(draft: Draft) -> None:
    """Write what the target's profile sets beside the recipe's own variables, where it has any."""
    if not draft.elsewhere:
        return
    present = {**_variables(draft, _INNER), **_variables(draft, "extra_env")}
    if not _variables(draft, "extra_env"):
        return
    for name, rule in (draft.target.get("env_rules") or {}).items():
        if rule["action"] == "set" and name not in present:
            draft.set(f"extra_env.{name}", str(rule["value"]), str(rule["reason"]))
