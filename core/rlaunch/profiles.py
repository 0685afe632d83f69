"""Cluster profiles: the facts of one cluster, as YAML, validated.

A profile is data. `--cluster iris` means the plugin's default profile, `--cluster ./my.yaml` one of
your own (which says `name:` and `plugin:`), `--set SETTING=VALUE` changes one field of it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rlaunch.settings import MOST_RETRIES, size_in_bytes


def _read_size(text: str) -> str:
    try:
        size_in_bytes(text)
    except (OverflowError, ValueError):
        raise ValueError("a size such as `512MiB`") from None
    return text


Size = Annotated[str, AfterValidator(_read_size)]
"""A number of bytes, such as `128MiB`."""


class Model(BaseModel):
    """Base of all profile parts: frozen, unknown keys refused."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid",
        frozen=True,
        defer_build=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,  # `--set` reads numbers as numbers, whatever the field
    )


class Rule(Model):
    """One environment rule of a cluster, with its reason."""

    action: Literal["drop", "keep", "set", "refuse"]
    value: str | None = None
    """For `set`."""
    reason: str


class Root(Model):
    """A storage root that a cluster no longer serves."""

    root: str
    reason: str
    since: str = ""


class Proposal(Model):
    """A value that recipes of one cluster usually have, with its reason."""

    value: Any
    reason: str


class Profile(Model):
    """Facts that every cluster has. A plugin subclasses it for its own."""

    name: str
    plugin: str
    """The entry-point name of the plugin that reads this profile."""
    description: str = ""

    gpus_per_node: int = Field(ge=0)
    arch: Literal["x86_64", "aarch64"] | None = None
    cpu: float | None = Field(default=None, gt=0)
    """Cores per node that a run may ask for."""
    memory: Size | Literal["auto"] | None = None
    """Per node, such as `1400GiB`."""
    disk: Size | Literal["auto"] | None = None
    python: str = "{python}"
    """The job's interpreter. Placeholders: see `run_dir`."""
    run_dir: str
    """Placeholders of all paths: `{state}` `{home}` `{user}` `{run}` `{name}` `{python}` `{workspace}`."""
    storage_root: str
    data_root: str
    artifacts_dir: str = "{run_dir}"
    rendezvous_dir: str = "{run_dir}/rendezvous"
    retired_roots: tuple[Root, ...] = ()

    ships_workspace: bool = True
    """True: the job runs the workspace's code, so the recipe must lie inside it."""
    egress: bool = True
    """Compute nodes reach the internet."""
    max_retries: int = Field(default=0, ge=0, le=MOST_RETRIES)
    timeout_s: int | None = Field(default=None, gt=0)
    priority: str | None = None
    preemptible: bool | None = None
    task_image: str | None = None
    running_runs: int | None = None
    """At most so many runs at once."""
    grace_s: float = Field(default=25, gt=2)
    """From SIGTERM to the end of the last process, in seconds."""
    rendezvous_timeout_s: int = Field(default=1800, gt=0)
    join_timeout_s: int = Field(default=1800, gt=0)
    liveness_timeout_s: int = Field(default=9000, gt=0)
    """A driver that prints nothing for so long is killed (a 131k step lasts up to 52 minutes)."""

    env: dict[str, str] = {}
    """Defaults, the lowest of all."""
    env_rules: dict[str, Rule] = {}
    """By name or prefix with `*`."""
    secrets: tuple[str, ...] = ()
    """Names forwarded where present."""
    required_secrets: tuple[str, ...] = ()
    """Names that preflight asks for."""
    unsupported: dict[str, str] = {}
    """Launch settings that mean nothing here -> why."""
    reasons: dict[str, str] = {}
    """setting -> why it has the value it has; printed by `--dry-run` and `rlaunch explain SETTING`."""
    proposals: dict[str, Proposal] = {}
    """Recipe key (`generator.max_num_seqs`, `extra_env.NAME`) -> its usual value here; `rlaunch port`
    proposes it in place of the other cluster's, and a launch never looks at it."""

    def facts(self) -> dict[str, Any]:
        """Return the profile as JSON-able data, the form a plan and the run record keep."""
        return self.model_dump(mode="json")
