"""The facts of a SLURM cluster, beside those that every cluster has. A new cluster is a file of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rlaunch.profiles import Model, Profile, Size
from rlaunch_slurm_jupiter import nodelist
from rlaunch_slurm_jupiter.directives import owned


def _untrue(message: str) -> PydanticCustomError:
    """Return the fault of a fact that cannot be; the message is shown as it is."""
    return PydanticCustomError("fact", "{message}", {"message": message})


def _read_nodes(text: str) -> str:
    """Refuse a node list that SLURM would not read either."""
    try:
        names = nodelist.expand(text)
    except ValueError as error:
        raise _untrue(f"is no node list: {error}") from None
    if not names or any(char.isspace() for name in names for char in name):
        raise _untrue(f"is no node list: `{text[:80]}`")
    return text


def _read_option(text: str) -> str:
    """Refuse what is no option of sbatch, or one that rlaunch finds, ends or fits its jobs by."""
    if not text.startswith("-") or not text.isprintable():
        raise _untrue(f"is no option of sbatch: `{text[:80]!r}`")
    if name := owned(text):
        raise _untrue(f"`{name}` is rlaunch's own: it finds and ends the run's jobs by it")
    return text


Word = Annotated[str, Field(pattern=r"^[!-~]+$")]
"""One printable word without blanks."""
Option = Annotated[str, AfterValidator(_read_option)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class BadNodes(Model):
    """Nodes that jobs stay away from (`--exclude`)."""

    nodes: Annotated[str, AfterValidator(_read_nodes)]
    """A node list as SLURM writes it: `n[001-003,010]`."""
    reason: str
    since: Annotated[str, BeforeValidator(str)] = ""
    """A date; YAML reads an unquoted one as a date of its own."""


class WallLimit(Model):
    """The longest wall time of jobs with up to so many nodes."""

    nodes: int = Field(ge=1)
    seconds: int = Field(gt=0)


class Tunnel(Model):
    """How compute nodes without internet reach it: a SOCKS5 proxy, by `ssh -D` or one that stands."""

    login: str | None = None
    """The host that `ssh -D` goes to from the batch node; absent: `proxy` is there already."""
    identity: str | None = None
    """The key for it; absent: what ssh finds by itself."""
    options: tuple[str, ...] = ()
    """More options of ssh, one word each: `-p`, `2222`, `-o`, `ProxyJump=gate`."""
    proxy: Annotated[str, Field(pattern=r"^[^\s:]+:\d+$")] | None = None
    """`host:port` of a standing SOCKS5 proxy."""
    port: int = Field(default=7003, ge=1024, le=65535)
    """The port that `ssh -D` listens on."""
    wrapper: tuple[str, ...] = ()
    """A program that sends connections through the proxy, put before the container; it is given
    `-f FILE`, a proxychains configuration that the job writes."""
    local: tuple[Annotated[str, Field(pattern=r"^[\d.]+/[\d.]+$")], ...] = ()
    """More networks that are reached without the wrapper, as `198.18.0.0/255.254.0.0`; private ones and those
    that the batch node is attached to always are."""
    probe: str = Field(default="huggingface.co:443", pattern=r"^[^\s:]+:\d+$")
    """`host:port` that must answer with a TLS certificate that verifies, before Ray starts."""
    timeout_s: float = Field(default=30, gt=0)

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Self:
        if not self.login and not self.proxy:
            raise _untrue(
                "needs `login`, the host that `ssh -D` goes to, or `proxy`, one that stands"
            )
        if self.login and self.proxy:
            raise _untrue("has both `login` and `proxy`: only one of them can be the way out")
        return self


class Trap(Model):
    """A known way to lose a job at this site: one variable or setting, and the values that do it."""

    name: str
    """`env.NAME`, or a launch setting such as `nodes`."""
    above: float | None = None
    below: float | None = None
    equals: str | None = None
    level: Literal["error", "warning"] = "warning"
    reason: str
    hint: str = ""


class SlurmProfile(Profile):
    """One SLURM cluster. Absent means: not said to SLURM, so its own default holds."""

    host: str | None = None
    """`user@login` or a name of your ssh configuration: SLURM is spoken to from there."""

    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    reservation: Word | None = None
    constraint: Word | None = None
    licenses: Word | None = None
    exclusive: bool = False
    gpu_request: Literal["gres", "gres-typed", "gpus-per-node", "none"] = "gres"
    """`--gres=gpu:N`, `--gres=gpu:TYPE:N`, `--gpus-per-node=N`, or nothing (whole nodes)."""
    gpu_type: Word | None = None
    sbatch: tuple[Option, ...] = ()
    """More options, each one `#SBATCH` line; none of those by which rlaunch finds and ends its jobs."""
    srun: tuple[str, ...] = ()
    """More options of the one `srun`."""
    cpu_bind: Word | None = None
    gpu_bind: Word | None = None
    bad_nodes: tuple[BadNodes, ...] = ()

    max_time_s: int | None = Field(default=None, gt=0)
    time_by_nodes: tuple[WallLimit, ...] = ()
    """Ascending; beyond the last entry `max_time_s` holds."""
    restart: Literal["chain", "requeue"] = "chain"
    """How retries are made: jobs that wait for one another (`afterany`), or one job requeued."""
    save_lead_s: int = Field(default=0, ge=0, le=65535)
    """So long before the wall limit the driver is asked to save and end (`--signal`), and so long it may
    take, less what teardown needs (`grace_s`, 10 s at most); never less than `grace_s`. 0: not asked."""
    kill_wait_s: float = Field(default=30, gt=2, validate_default=True)
    """SLURM's KillWait: from SIGTERM to SIGKILL."""

    modules: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    """Shell lines that the batch script runs before everything else, for what modules cannot do."""
    unset: tuple[Variable, ...] = ()
    """Variables of the login environment that the job must not see."""

    sif: str | None = None
    """The image when the recipe has no `container.sif`; absent: the job runs on the host."""
    binds: tuple[str, ...] = ()
    """`dir` or `src:dst[:ro]`, in containers."""
    overlays: tuple[str, ...] = ()
    pydeps: str = ""
    """Colon-separated directories, first on PYTHONPATH."""
    apptainer: str = "apptainer"
    pythonpath: tuple[str, ...] = (".",)
    """Directories behind `pydeps`; relative ones lie in the shipped workspace."""
    gpu_flag: Literal["--nv", "--rocm", ""] = "--nv"

    interfaces: tuple[str, ...] = ()
    """Interface names, `*` allowed, in order of preference; their IPv4 address is the node's. Empty: the
    address of the node's name."""
    ip_variables: tuple[Variable, ...] = ()
    """Variables that are set to the node's address on every node."""
    temp_root: str = "/tmp"  # noqa: S108  # a private directory is made in it
    """Node-local; Ray's session of a run lies in a directory of its own in here; it must be short."""
    object_store: Size = "40GiB"
    """Cap of Ray's object store per node; it is an eighth of the node's memory where that is less."""
    memory_reserve: Size = "32GiB"
    """What Ray leaves of the node's memory to others, or a twentieth where that is more."""

    tunnel: Tunnel | None = None
    hf_home: str | None = None
    """Where models lie on the shared file system (`HF_HOME`)."""
    min_disk: Size = "20GiB"
    min_inodes: int = Field(default=10000, ge=0)
    """Preflight wants so much free in the run directory's file system."""
    traps: tuple[Trap, ...] = ()

    @field_validator("time_by_nodes")
    @classmethod
    def _ascends(cls, limits: tuple[WallLimit, ...]) -> tuple[WallLimit, ...]:
        counts = [limit.nodes for limit in limits]
        if counts != sorted(set(counts)):
            raise _untrue(f"the numbers of nodes must ascend, and are {str(counts)[1:-1]}")
        return limits

    @field_validator("save_lead_s")
    @classmethod
    def _comes_after_the_start(cls, lead: int, info: ValidationInfo) -> int:
        longest = info.data.get("max_time_s")
        if longest is not None and lead >= longest:
            raise _untrue(
                f"{lead} s before the wall limit lie before the job's start: `max_time_s` is {longest}"
            )
        return lead

    @field_validator("kill_wait_s")
    @classmethod
    def _outlasts_the_grace(cls, wait: float, info: ValidationInfo) -> float:
        grace = info.data.get("grace_s")
        if grace is not None and grace > wait:
            raise _untrue(
                f"{wait:g} s after its SIGTERM SLURM kills, sooner than `grace_s`, {grace:g} s, is over"
            )
        return wait


def schema() -> dict[str, Any]:
    """Return the JSON schema of a profile file."""
    found = SlurmProfile.model_json_schema()
    found["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return found
