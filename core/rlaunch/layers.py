"""The layers under a run's settings: profile, `rlaunch.toml`, command line. Pure but for pydantic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rlaunch import env as environment
from rlaunch import given
from rlaunch.codes import Code
from rlaunch.errors import RlaunchError
from rlaunch.model import Finding
from rlaunch.settings import SETTINGS
from rlaunch.settled import Settled
from rlaunch.texts import troubles

if TYPE_CHECKING:
    from rlaunch.profiles import Profile

LAUNCH_ONLY = frozenset({"nodes", "name", "skyrl_ref"})
"""Settings that are no field of a profile."""


class Layered(NamedTuple):
    """A validated profile with where each field came from."""

    profile: Profile | Settled
    sources: Mapping[str, str]
    """field -> source; fields that are not named come from the profile file or its defaults."""
    launch: Mapping[str, Any]
    """Launch settings that no profile has: nodes, name, …"""


def _read(name: str, value: Any, place: str) -> Any:
    if name == "plugin":
        raise RlaunchError.of(
            "core.setting-invalid", "`plugin` says which code reads the profile and cannot be set",
            place=place, hint="`--cluster` chooses another cluster",
        )  # fmt: skip
    if name.startswith("env."):
        if value is None:
            raise RlaunchError.of(
                "core.setting-invalid", f"`null` is no value of `{name}`", place=place,
                hint="a variable is taken out in the recipe, with `NAME: null`",
            )  # fmt: skip
        try:
            return environment.coerce(value)
        except TypeError as error:
            raise RlaunchError.of(
                "env.not-scalar", f"`{name[4:]}` is a {error}, and a variable is one string",
                place=place, hint="write the value as one quoted string",
            ) from None  # fmt: skip
    spec = SETTINGS.get(name)
    if spec is None:
        return value
    try:
        return spec.read(value)
    except ValueError as error:
        raise RlaunchError.of(
            "core.setting-invalid",
            f"`{str(value)[:80]}` is no value of `{name}`: it takes {error}",
            place=place,
            hint=f"`{name}`: {spec.about}",
        ) from None


def lay(
    model: type[Profile],
    base: Mapping[str, Any],
    *,
    origin: str,
    user: Mapping[str, Any],
    typed: Mapping[str, Any],
    flags: Mapping[str, str],
) -> Layered:
    """Lay `user` and `typed` settings on the profile `base` and validate the result.

    `origin` names the profile's file. A dotted name (`env.NAME`) reaches into a mapping. Raises
    RlaunchError with one finding per fault: `core.setting-unknown`, `core.setting-invalid`,
    `core.flag-unsupported`, `core.not-text`, `profile.invalid`.
    """
    if bad := tuple(given.fault(name, why, origin) for name, _, why in troubles(base)):
        raise RlaunchError(*bad)
    data, sources, launch = _overlay(model.model_fields, base, user, typed, flags)
    return Layered(_validate(model, data, origin, sources, flags), sources, launch)


def lay_settled(
    document: Mapping[str, Any],
    *,
    user: Mapping[str, Any],
    typed: Mapping[str, Any],
    flags: Mapping[str, str],
) -> Layered:
    """Lay settings on a profile that was validated beforehand (`settled.read`).

    Only for settings that `settled.judged` accepts. Raises as `lay` does.
    """
    facts = document["facts"]
    data, sources, launch = _overlay(facts, facts, user, typed, flags)
    return Layered(Settled(data, document["written"]), sources, launch)


def _overlay(
    fields: Iterable[str],
    base: Mapping[str, Any],
    user: Mapping[str, Any],
    typed: Mapping[str, Any],
    flags: Mapping[str, str],
) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """Return the fields, their sources and the launch settings, or raise with every fault."""
    data: dict[str, Any] = dict(base)
    sources: dict[str, str] = {}
    launch: dict[str, Any] = {}
    faults: list[Finding] = []
    known = {*fields, *LAUNCH_ONLY}
    unsupported = base.get("unsupported") or {}
    for source, layer in (("rlaunch.toml", user), ("command line", typed)):
        for name, raw in layer.items():
            place = flags.get(name, f"--set {name}") if source == "command line" else source
            top = name.partition(".")[0]
            if bad := [given.fault(key, why, place) for key, _, why in troubles({name: raw})]:
                faults.extend(bad)
            elif source == "command line" and top in unsupported:
                faults.append(_unsupported(place, top, unsupported[top], data["name"]))
            elif top in SETTINGS and top not in known:
                faults.append(_unsupported(place, top, "it has no such setting", data["name"]))
            elif top not in known:
                faults.append(_unknown(name, known, place))
            else:
                try:
                    value = _read(name, raw, place)
                except RlaunchError as error:
                    faults.extend(error.findings)
                    continue
                _place(launch if top in LAUNCH_ONLY else data, name, value)
                sources[name] = source
    if faults:
        raise RlaunchError(*faults)
    return data, sources, launch


def _place(data: dict[str, Any], name: str, value: Any) -> None:
    *parents, last = name.split(".", 1) if name.startswith("env.") else name.split(".")
    for parent in parents:
        inner = data.get(parent)
        data[parent] = dict(inner) if isinstance(inner, Mapping) else {}
        data = data[parent]
    data[last] = value


def _unknown(name: str, known: set[str], place: str) -> Finding:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    hint = f"did you mean `{near[0]}`?" if near else "`rlaunch explain` lists the settings"
    return Finding("error", "core.setting-unknown", f"there is no setting `{name}`", place, hint)


def _unsupported(flag: str, name: str, reason: str, profile: str) -> Finding:
    return Finding(
        "error",
        "core.flag-unsupported",
        f"`{flag}` means nothing on `{profile}`: {reason}",
        flag,
        f"leave `{flag}` out",
    )


def _validate(
    model: type[Profile],
    data: Mapping[str, Any],
    origin: str,
    sources: Mapping[str, str],
    flags: Mapping[str, str],
) -> Profile:
    from pydantic import ValidationError

    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise RlaunchError(
            *(_fault(model, e, origin, sources, flags, data=data) for e in error.errors())
        ) from None


def _fault(
    model: type[Profile],
    error: Any,
    origin: str,
    sources: Mapping[str, str],
    flags: Mapping[str, str],
    *,
    data: Mapping[str, Any],
) -> Finding:
    path = ".".join(str(part) for part in error["loc"])
    source = sources.get(path, sources.get(path.partition(".")[0], ""))
    place = flags.get(path, f"--set {path}") if source == "command line" else source or origin
    top, about = path.partition(".")[0], f"--cluster {data.get('plugin') or origin}`"
    hint = f"`rlaunch explain {top} {about} says what it is"
    if error["type"] == "missing" and top == path:
        hint = f"write `{top}:`; {hint}"
    if error["type"] == "extra_forbidden":
        from difflib import get_close_matches

        near = get_close_matches(path, model.model_fields, 1)
        hint = (
            f"did you mean `{near[0]}`?" if near else f"`rlaunch explain {about} lists the fields"
        )
    message = f"`{path}`: {str(error['msg'])[:1].lower()}{str(error['msg'])[1:]}"
    return Finding("error", "profile.invalid", message, place, hint)


CODES = (
    Code(
        "core.setting-unknown",
        "There is no setting of that name.\n\n"
        "`--set SETTING=VALUE` reaches every field of the cluster's profile; `rlaunch "
        "explain` lists them.",
    ),
    Code(
        "core.setting-invalid",
        "A setting has a value that it cannot take.\n\nThe message says what it takes.",
    ),
    Code(
        "core.flag-unsupported",
        "A flag that means nothing on the chosen cluster.\n\n"
        "A flag that is taken and ignored is a decision lost; the profile says why the "
        "cluster has no use for it.",
    ),
    Code(
        "profile.invalid",
        "A cluster profile does not fit its schema.\n\n"
        "Unknown keys are refused, so that a typo is not a default. `rlaunch explain --cluster NAME` lists "
        "the fields\nand what each is, `rlaunch explain FIELD --cluster NAME` one of them with the shipped "
        "profile's value;\nNAME is what the profile says as its `plugin:`.",
    ),
)
