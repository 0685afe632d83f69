"""The chosen cluster: its plugin module, its hooks, its profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rlaunch import reading, settled
from rlaunch.codes import Code
from rlaunch.errors import PluginError, RlaunchError
from rlaunch.layers import Layered, lay, lay_settled
from rlaunch.model import Finding

if TYPE_CHECKING:
    from rlaunch.cluster import Cluster
    from rlaunch.plugins import Plugins
    from rlaunch.world import World


RECORD = "the run record"


class Chosen(NamedTuple):
    """A cluster that can be asked, and the profile it was made from."""

    name: str
    plugins: Plugins
    cluster: Cluster
    layered: Layered
    findings: tuple[Finding, ...]
    """Plugins that failed to load: warnings."""


def choose(
    world: World,
    name: str,
    *,
    typed: Mapping[str, Any] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Chosen:
    """Load the cluster `name` (an entry point, or the path of a profile) with its settings laid on.

    Raises PluginError or RlaunchError with findings.
    """
    from rlaunch import discovery

    if not name:
        raise RlaunchError.of(
            "core.cluster-missing", "no cluster is given", place="--cluster",
            hint="`rlaunch clusters` lists them; `cluster = \"local\"` in `rlaunch.toml` is a default",
        )  # fmt: skip
    if "/" in name or name.endswith((".yaml", ".yml")):
        base, origin = _read_profile(name), name
        module = discovery.load(str(base.get("plugin", "")))
    else:
        module = discovery.load(name)
        base, origin = _shipped(module, name)
    sections = world.user.get("clusters", {})
    own = _flat(sections.get(name, {})) | _flat(sections.get(str(base.get("name", name)), {}))
    user = {f"env.{k}": v for k, v in world.user.get("env", {}).items()} | own
    chosen = _open(
        world, name, module, (base, origin), user=user, typed=typed or {}, flags=flags or {}
    )
    stray = _stray(sections, {*discovery.names(), str(base.get("name"))})
    return chosen._replace(findings=(*chosen.findings, *stray))


def reopen(world: World, name: str, profile: Mapping[str, Any]) -> Chosen:
    """Load the cluster of a recorded run from the whole profile that was recorded with it."""
    from rlaunch import discovery

    module = discovery.load(str(profile["plugin"]))
    return _open(world, name, module, (profile, RECORD), user={}, typed={}, flags={})


def _open(
    world: World,
    name: str,
    module: Any,
    based: tuple[Mapping[str, Any], str],
    *,
    user: Mapping[str, Any],
    typed: Mapping[str, Any],
    flags: Mapping[str, str],
) -> Chosen:
    from rlaunch import checks, discovery, given, skyrl
    from rlaunch.plugins import Plugins

    others, failures = discovery.always()
    plugins = Plugins((checks, given, skyrl, module, *others))
    kind = plugins.cluster()
    if kind is None:
        raise PluginError.of(
            "core.plugin-no-cluster", f"the plugin `{module.__name__}` has no cluster",
            hint="its module answers the hook `rlaunch_cluster`",
        )  # fmt: skip
    base, origin = based
    document = _settled(module, base, origin) if settled.judged((*user, *typed)) else None
    if document is None:
        layered = lay(kind.Profile, base, origin=origin, user=user, typed=typed, flags=flags)
    else:
        layered = lay_settled(document, user=user, typed=typed, flags=flags)
    cluster = kind(layered.profile, world.shell, world.clock)
    return Chosen(name, plugins, cluster, layered, failures)


def _settled(module: Any, base: Mapping[str, Any], origin: str) -> Mapping[str, Any] | None:
    """Return the profile as it was validated beforehand; None where it must be validated now."""
    path = getattr(module, "FACTS", {}).get(base.get("name"))
    if path is None:
        return None
    document = settled.read(path)
    if origin == RECORD:  # validated when it was launched, if by a version with the same fields
        same = base.keys() == document["facts"].keys()
        return {"facts": base, "written": tuple(base)} if same else None
    return document if origin in getattr(module, "PROFILES", {}).values() else None


def _stray(sections: Mapping[str, Any], known: set[str]) -> Iterator[Finding]:
    """Yield a warning for each section of `rlaunch.toml` that is about no cluster."""
    from difflib import get_close_matches

    for section in sections.keys() - known:
        near = get_close_matches(section, known, 1)
        yield Finding(
            "warning", "core.config-section", f"`[clusters.{section}]` is about no installed cluster",
            "rlaunch.toml", f"did you mean `[clusters.{near[0]}]`?" if near else "see `rlaunch clusters`",
        )  # fmt: skip


def _flat(user: Mapping[str, Any]) -> dict[str, Any]:
    """Spread `env` of a user's settings, so that each variable is a layer entry of its own."""
    flat = {k: v for k, v in user.items() if k != "env"}
    return flat | {f"env.{k}": v for k, v in (user.get("env") or {}).items()}


def _shipped(module: Any, name: str) -> tuple[dict[str, Any], str]:
    profiles: Mapping[str, Any] = getattr(module, "PROFILES", {})
    path = profiles.get(name) or profiles.get(getattr(module, "DEFAULT_PROFILE", ""))
    if path is None:
        raise PluginError.of(
            "core.plugin-no-profile", f"the plugin `{module.__name__}` ships no profile for `{name}`",
            hint="it lists them in `PROFILES` and names the usual one in `DEFAULT_PROFILE`",
        )  # fmt: skip
    return _read_profile(str(path)), str(path)


def _read_profile(path: str) -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(reading.read_text(path), Loader=loader)  # noqa: S506  # a safe loader
    except (reading.NotReadable, yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).replace("\n", " ")
        raise RlaunchError.of(
            "profile.unreadable", f"the profile `{path}` cannot be read: {reason}", place=path,
            hint="a profile is a YAML mapping with `name:` and `plugin:`",
        ) from None  # fmt: skip
    if not isinstance(data, dict) or not {"name", "plugin"} <= data.keys():
        raise RlaunchError.of(
            "profile.incomplete", f"the profile `{path}` does not say `name:` and `plugin:`",
            place=path, hint="`plugin:` is a name that `rlaunch clusters` lists",
        )  # fmt: skip
    return data


CODES = (
    Code(
        "core.config-section",
        "A section of `rlaunch.toml` is about no installed cluster.\n\n"
        "Its settings would be used by nobody. A profile of one's own is named by its `name:`.",
        "warning",
    ),
    Code(
        "core.cluster-missing",
        'No cluster is given.\n\n`--cluster NAME`, or `cluster = "NAME"` in `rlaunch.toml`.',
    ),
    Code(
        "core.plugin-no-cluster",
        "A plugin of the group `rlaunch.clusters` has no cluster.\n\n"
        "Its module must answer the hook `rlaunch_cluster` with a class.",
    ),
    Code(
        "core.plugin-no-profile",
        "A cluster plugin ships no profile for the name.\n\n"
        "A plugin module lists its profiles in `PROFILES` and the usual one in "
        "`DEFAULT_PROFILE`.",
    ),
    Code(
        "profile.unreadable",
        "A profile file cannot be read.\n\nIt is a file of YAML, UTF-8, of at most 1 MiB.",
    ),
    Code(
        "profile.incomplete",
        "A profile of one's own says `name:` and `plugin:`.\n\n"
        "The plugin is the code that reads it; a new SLURM cluster is a profile, not code.",
    ),
)
