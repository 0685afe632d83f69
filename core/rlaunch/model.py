"""The values that pass between the stages of a launch.

Every class here is frozen. They are `NamedTuple`s and not pydantic models, because a launch makes a
dozen of them before it prints its first line, and a pydantic class costs ten times as much to
define; data that comes from outside (profiles, plan files) is validated by pydantic where it enters.
Mappings and tuples only, never lists: nobody may change a plan after it was shown.

Over 300 lines on purpose: the vocabulary of the program is read in one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, NamedTuple

Level = Literal["error", "warning", "note"]
Place = Literal["run-dir", "job", "submitter"]
EventKind = Literal["submitted", "state", "ended", "stopped"]


class State(StrEnum):
    """Where a run stands, the same words on every cluster.

    WAITING is "queued for admission" (also: preempted and queued again). ABSENT is a positive "not
    there" by the scheduler; UNKNOWN is "could not be asked", and the two are never mixed up.
    """

    PENDING = "PENDING"
    WAITING = "WAITING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    WORKER_FAILED = "WORKER_FAILED"
    UNSCHEDULABLE = "UNSCHEDULABLE"
    ABSENT = "ABSENT"
    UNKNOWN = "UNKNOWN"

    @property
    def ended(self) -> bool:
        """True where nothing follows: the run has ended or does not exist."""
        return self in ENDED


ENDED = frozenset(
    {
        State.SUCCEEDED,
        State.FAILED,
        State.KILLED,
        State.WORKER_FAILED,
        State.UNSCHEDULABLE,
        State.ABSENT,
    }
)


class Finding(NamedTuple):
    """Something to say about a run: `level[code]: message`, at `place`, with a `hint` of what to type."""

    level: Level
    """`error` refuses, `warning` and `note` do not."""
    code: str
    """`owner.slug`; `rlaunch explain CODE` prints its page."""
    message: str
    """What is wrong with the run: lower case, one clause, names in backticks."""
    place: str = ""
    """`file:line:column: key.path`, a flag, or a path; empty where there is none."""
    hint: str = ""
    """What to type."""


class Setting(NamedTuple):
    """One resolved value, and why it is that value."""

    value: Any
    """As it is used."""
    source: str
    """Where it came from: `command line`, `recipe`, `rlaunch.toml`, `profile NAME`, `default`, `derived`."""
    reason: str = ""
    """Why the source gives it this value; empty where it was simply said."""


class Recipe(NamedTuple):
    """A recipe as it was written: nothing derived, nothing dropped.

    `marks` has `(line, column)`, counted from 1, of every key by its dotted path; list items are
    written `a.b[0]`.
    """

    path: str
    """As it was named on the command line."""
    sha256: str
    """Of the file's bytes, hexadecimal."""
    body: Mapping[str, Any]
    """All of the recipe, as YAML reads it."""
    marks: Mapping[str, tuple[int, int]]
    """Dotted key -> line and column."""
    quoted: tuple[str, ...] = ()
    """Paths of texts in quotes that look like a number (`"1e-6"`); a plain `1e-6` is text in YAML 1.1
    and a number for the trainer."""

    def at(self, key: str) -> str:
        """Return the place of a key for a finding: `file:line:column: key`."""
        probe = key
        while probe and probe not in self.marks:
            probe = probe.rpartition(".")[0]
        line, column = self.marks.get(probe, (1, 1))
        return f"{self.path}:{line}:{column}: {key}" if key else f"{self.path}:{line}:{column}"


class Workspace(NamedTuple):
    """The checkout that a run is launched from."""

    root: str
    """Its directory, absolute."""
    commit: str = ""
    """HEAD, 40 hex digits; empty outside git."""
    dirty: tuple[str, ...] = ()
    """Changed and untracked files, relative to `root`."""
    digest: str = ""
    """sha256 over commit and dirty files; compared when a plan file is submitted."""


class Context(NamedTuple):
    """What the core read from the world before planning, so that planning itself reads nothing."""

    user: str
    now: str
    """RFC 3339, UTC."""
    run_id: str
    """Eight random hex digits, appended to the run's name."""
    home: str
    state: str
    """`$XDG_STATE_HOME/rlaunch`, absolute."""
    cwd: str
    python: str
    """The interpreter that runs rlaunch, absolute."""
    version: str
    workspace: Workspace
    present: frozenset[str] = frozenset()
    """Names (never values) of the variables in the operator's shell and secrets file."""
    artifacts: tuple[Artifact, ...] = ()
    """The zipapps that every run may ship: the node agent and the toy trainer."""


class Request(NamedTuple):
    """A launch as it was typed. None means: not given."""

    rl_config: str = ""
    cluster: str = ""
    model_path: str | None = None
    train_data: str | None = None
    val_data: str | None = None
    settings: Mapping[str, Any] = {}
    """Launch settings by name (`nodes`, `cpu`, `max_retries`, …), only those given."""
    flags: Mapping[str, str] = {}
    """setting name -> the flag as the user typed it, for places in findings."""
    overrides: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    resume: str = "never"
    offline: bool = False
    if_exists: str = "fail"


class Paths(NamedTuple):
    """Where a run keeps things, as the job sees it."""

    run_dir: str
    """What belongs to this run alone: plan, logs, environment."""
    rendezvous: str
    """Directory through which the agents of a run find one another."""
    storage: str
    """`<storage root>/<run id>`: checkpoints and exports, shared by the attempts of a run."""
    data: str
    """Root of staged data; a dataset's directory is `<data>/<hash of its name>`."""
    artifacts: str
    """Directory that the zipapps are placed in."""


class Run(NamedTuple):
    """A run with everything decided."""

    id: str
    """`<name>-<8 hexadecimal digits>`, unique."""
    name: str
    """Given with `--job-name`, or made of recipe and model."""
    cluster: str
    """The name that `--cluster` takes."""
    profile: Mapping[str, Any]
    """The cluster's profile with every change laid over it."""
    user: str
    """Who launches."""
    created: str
    """RFC 3339, UTC."""
    version: str
    """Of the rlaunch that resolved it."""
    recipe: Recipe
    """The recipe as it was read."""
    workspace: Workspace
    """The checkout that it is launched from."""
    model_path: str
    """A model's name or a directory, as it was given."""
    train_data: tuple[str, ...]
    """Names of datasets, in order."""
    val_data: tuple[str, ...]
    """Names of datasets for evaluation; may be empty."""
    nodes: int
    """Size of the gang."""
    gpus_per_node: int
    """0 where no GPUs are asked for."""
    cpu: float | None
    """Cores per node; None lets the cluster decide."""
    memory: str | None
    """Per node, such as `512GiB`; None lets the cluster decide."""
    disk: str | None
    """Per node, such as `1TiB`; None lets the cluster decide."""
    max_retries: int
    """How often a failed attempt is started anew."""
    timeout_s: int | None
    """Limit of the whole run; None is no limit."""
    priority: str | None
    """The cluster's own word; None is its default."""
    preemptible: bool | None
    """Whether the scheduler may take the nodes away; None is the cluster's default."""
    task_image: str | None
    """Container image of the job; None is the profile's, or none."""
    skyrl_ref: str | None
    """Revision of SkyRL to run; None takes the image's own."""
    python: str
    """The job's interpreter (it brings ray)."""
    paths: Paths
    """Where it keeps things."""
    resume: str
    """`never`, `auto` or a checkpoint path."""
    overrides: tuple[str, ...]
    """`--skyrl_override`, as they were typed, in order."""
    env: Mapping[str, str]
    """The job's variables; no secret is among them."""
    secrets: tuple[str, ...]
    """Names that are forwarded where present."""
    allow: tuple[str, ...]
    """Codes of findings that `--allow` waived."""
    identity: str
    """Hash of what the experiment is (science keys, model, data, overrides), not of how it is run."""
    provenance: Mapping[str, Setting]
    """Setting -> its value, source and reason."""


class Command(NamedTuple):
    """How the trainer starts inside the job."""

    argv: tuple[str, ...]
    """Program and arguments, one element each, as the process will get them."""
    stage: tuple[str, ...] = ()
    """Run on every node before Ray, with the job's Python; prints one JSON line `{"staged": [{"name",
    "path", "count"}…]}` and exits 0. Empty: nothing to stage."""
    cwd: str = ""
    """Directory that the driver starts in; empty leaves it to the agent."""
    pythonpath: tuple[str, ...] = ()
    """Directories that come first on the driver's module path."""
    artifacts: tuple[str, ...] = ()
    """Names of the zipapps that it needs (`rlaunch-smoke.pyz`)."""
    files: tuple[File, ...] = ()
    """Configuration files that travel with the run."""
    ledger: tuple[Entry, ...] = ()
    """What became of every leaf of the recipe."""
    own: OwnCheckpoint | None = None
    """How a later attempt goes on from what the run itself has saved, where `argv` starts from elsewhere."""


class OwnCheckpoint(NamedTuple):
    """The checkpoints of the run itself, and what the driver is told once there is one."""

    place: str
    """Directory or URL; `latest_ckpt_global_step.txt` in it names the newest."""
    words: tuple[str, ...]
    """Behind the other arguments, of which they correct some."""


class Entry(NamedTuple):
    """What became of one leaf of the recipe."""

    key: str
    """The recipe's dotted key."""
    fate: Literal["argument", "environment", "setting", "derived", "dropped", "error"]
    """How it reaches the job, or that it does not."""
    detail: str = ""
    """The argument as it is sent, the setting's name, or the rule that dropped it."""


class File(NamedTuple):
    """A text that the launcher writes. `path` is relative to the root of its place."""

    path: str
    """Below its place."""
    place: Place
    """Which directory `path` is below."""
    mode: int
    """Permission bits, as a number."""
    content: str
    """The whole text, UTF-8."""


class Artifact(NamedTuple):
    """An archive or zipapp that travels with the run."""

    path: str
    """Below its place."""
    place: Place
    """Which directory `path` is below."""
    sha256: str
    """Of its bytes, hexadecimal."""
    size: int
    """In bytes."""


class SecretFile(NamedTuple):
    """A file filled in at submit and removed when the last attempt has ended."""

    path: str
    """Below its place."""
    place: Place
    """Which directory `path` is below."""
    mode: int
    """Permission bits, as a number."""
    names: tuple[str, ...]
    """Secrets whose values it will hold."""


class Observed(NamedTuple):
    """What a cluster saw before planning (ports, free memory, versions), with time and source."""

    at: str = ""
    """RFC 3339, UTC; empty where nothing was looked at."""
    source: str = ""
    """Who was asked."""
    facts: Mapping[str, Any] = {}
    """What was seen, in the cluster's own words."""


class Plan(NamedTuple):
    """Everything that will be sent. Survives JSON; `submit` decides nothing."""

    run: Run
    command: Command
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    files: tuple[File, ...]
    artifacts: tuple[Artifact, ...]
    secret_files: tuple[SecretFile, ...]
    native: Mapping[str, Any]
    """What the scheduler is sent."""
    observed: Observed
    findings: tuple[Finding, ...] = ()


class JobRef(NamedTuple):
    """The name of a submitted job: the cluster's name and the scheduler's own id."""

    cluster: str
    native: str
    run_id: str = ""
    """Empty for a job that rlaunch did not start."""

    def __str__(self) -> str:
        return f"{self.cluster}:{self.native}"

    @classmethod
    def parse(cls, text: str) -> JobRef:
        """Read `cluster:native`; raises ValueError without a colon."""
        cluster, colon, native = text.partition(":")
        if not (cluster and colon and native):
            raise ValueError(f"`{text}` is not `cluster:id`")
        return cls(cluster, native)


class Rank(NamedTuple):
    """One node of a gang."""

    rank: int
    """From 0, which is the head."""
    node: str = ""
    """Name of its machine; empty where it is not known."""
    phase: str = ""
    """Where its agent stands: `staging`, `joining`, `ready`, `running`, …; empty where it is not known."""
    heartbeat_age_s: float | None = None
    """Seconds since its agent last said so; None where nobody can tell."""
    exit_code: int | None = None
    """Of its agent; None while it runs."""
    signal: int | None = None
    """That ended it; None where none did."""


class Status(NamedTuple):
    """The authoritative state of a job at one moment."""

    job: JobRef
    state: State
    reason: str = ""
    """A named reason (`driver-exit`, `supervisor-lost`, …) or the scheduler's own words."""
    since: str = ""
    attempt: int | None = None
    exit_code: int | None = None
    """The driver's, as it was; never translated."""
    signal: int | None = None
    ranks: tuple[Rank, ...] = ()
    native: Mapping[str, Any] = {}


class LogLine(NamedTuple):
    """One line of a job's output."""

    text: str
    rank: int | None = None
    attempt: int | None = None
    at: str = ""
    """RFC 3339 where the cluster knows it."""


class RunFacts(NamedTuple):
    """What is known of a run when it is watched; a job that rlaunch did not start has few of these."""

    ref: JobRef | None = None
    run_id: str = ""
    name: str = ""
    nodes: int | None = None
    gpus_per_node: int | None = None
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    profile: Mapping[str, Any] = {}
    storage: str = ""
    skyrl_ref: str | None = None
    """The revision of SkyRL that the run asked for; None where it asked for none, or nobody knows."""


class Milestone(NamedTuple):
    """One rung of the ladder."""

    rung: int
    name: str
    proves: str
    patterns: tuple[str, ...]
    """Regular expressions; a line that matches any of them is evidence."""
    every_rank: bool = False
    """True: one line per rank is needed."""
    absence: str = ""
    """What it means when the line never comes."""
    when: bool = True
    """False: the rung does not apply to this run."""
    by_trials: bool = False
    """True: completed trials (`Evidence.trials`) are evidence too."""
    phases: tuple[str, ...] = ()
    """Phases of the node agent that lead to it: a rank that ended in one of them is told so."""


class Evidence(NamedTuple):
    """All that a diagnosis may look at."""

    facts: RunFacts
    states: tuple[Status, ...]
    """Oldest first."""
    lines: Sequence[LogLine]
    """All of them, in order; a very long log is packed, so take them as they come and hold few."""
    now: str
    trials: int | None = None
    """Completed trials (`result.json` files); None where nobody could count."""
    missing: tuple[str, ...] = ()
    """What could not be obtained, and why."""


class Event(NamedTuple):
    """Something that happened to a run, for observers."""

    kind: EventKind
    at: str
    facts: RunFacts
    status: Status | None = None
    plan: Plan | None = None
