# No `from __future__ import annotations`: typer reads these annotations as they are.
"""The flags that several commands share, each declared once, and what becomes of them."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import typer

from rlaunch.cli.asking import checkpoint, seconds


def flag(
    group: str,
    help: str,
    *names: str,
    metavar: str | None = None,
    complete: Any = None,
    parser: Any = None,
) -> Any:
    """Declare one flag; `group` is its heading on the help page."""
    return typer.Option(
        *names,
        help=help,
        metavar=metavar,
        rich_help_panel=group,
        autocompletion=complete,
        parser=parser,
    )


def clusters(incomplete: str) -> list[str]:
    """Complete a cluster's name; imports no plugin."""
    from rlaunch.discovery import names

    return [name for name in names() if name.startswith(incomplete)]


WHAT = "What to run"
WHERE = "Where and on what"
HOW = "How to launch"
SEND = "Sending and waiting"
_NONE: list[str] = []

Cluster = Annotated[
    str,
    flag(
        WHERE,
        "Cluster name, or a profile file.",
        "--cluster",
        metavar="NAME|FILE",
        complete=clusters,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")
]
Workspace = Annotated[
    str | None,
    flag(HOW, "The checkout that is shipped. [the git top level]", "--workspace", metavar="DIR"),
]
Secrets = Annotated[
    str | None,
    flag(HOW, "File of NAME=value lines; parsed, never run.", "--secrets-env", metavar="FILE"),
]
IfExists = Annotated[
    Literal["fail", "new"],
    flag(HOW, "An ended run has this name: fail, or a new one.", "--if-exists"),
]
NewSeries = Annotated[bool, flag(HOW, "The name may become another experiment's.", "--new-series")]


class PlanFlags(NamedTuple):
    """Everything that shapes a plan: the same for a launch and for `rlaunch plan`."""

    rl_config: Annotated[str, flag(WHAT, "The recipe.", "--rl-config", metavar="FILE")]
    model_path: Annotated[
        str | None,
        flag(WHAT, "Model: a Hugging Face name or a path.", "--model-path", metavar="MODEL"),
    ] = None
    train_data: Annotated[
        str | None,
        flag(WHAT, "Training data: a JSON list of names.", "--train-data", metavar="JSON"),
    ] = None
    val_data: Annotated[
        str | None,
        flag(WHAT, "Validation data: a JSON list of names.", "--val-data", metavar="JSON"),
    ] = None
    skyrl_override: Annotated[
        list[str],
        flag(
            WHAT,
            "A Hydra override; repeatable, the last wins.",
            "--skyrl-override",
            metavar="KEY=VALUE",
        ),
    ] = _NONE
    skyrl_ref: Annotated[
        str | None, flag(WHAT, "Commit of MarinSkyRL to check out.", "--skyrl-ref", metavar="REF")
    ] = None
    resume: Annotated[
        str,
        flag(
            WHAT,
            "Start from a checkpoint: never, auto or a path.",
            "--resume",
            metavar="HOW",
            parser=checkpoint,
        ),
    ] = "never"
    cluster: Cluster = ""
    cluster_config: Annotated[
        str | None,
        flag(WHERE, "The scheduler's own configuration file.", "--cluster-config", metavar="FILE"),
    ] = None
    host: Annotated[
        str | None,
        flag(WHERE, "Login node, reached by ssh.", "--host", metavar="USER@HOST"),
    ] = None
    num_nodes: Annotated[
        int | None,
        flag(
            WHERE, "Nodes; must be what the recipe comes to. [computed]", "--num-nodes", metavar="N"
        ),
    ] = None
    gpus_per_node: Annotated[
        int | None, flag(WHERE, "GPUs of one node.", "--gpus-per-node", metavar="N")
    ] = None
    cpu: Annotated[str | None, flag(WHERE, "Cores per node.", "--cpu", metavar="CORES")] = None
    memory: Annotated[
        str | None, flag(WHERE, "Memory per node, such as 512GiB.", "--memory", metavar="SIZE")
    ] = None
    disk: Annotated[
        str | None, flag(WHERE, "Node-local disk per node.", "--disk", metavar="SIZE")
    ] = None
    task_image: Annotated[
        str | None,
        flag(
            WHERE, "Container image, by digest.", "--task-image", "--docker-image", metavar="IMAGE"
        ),
    ] = None
    rendezvous_dir: Annotated[
        str | None,
        flag(WHERE, "Directory that the nodes meet in.", "--rendezvous-dir", metavar="DIR"),
    ] = None
    priority: Annotated[
        Literal["production", "interactive", "batch"] | None,
        flag(WHERE, "Priority band.", "--priority"),
    ] = None
    preemptible: Annotated[
        bool | None, flag(WHERE, "May be preempted, or not.", "--preemptible/--no-preemptible")
    ] = None
    max_retries: Annotated[
        int | None, flag(WHERE, "New attempts after a failure.", "--max-retries", metavar="N")
    ] = None
    timeout: Annotated[
        str | None,
        flag(
            WHERE,
            "Limit of the whole run: 3600, 90m, 11:59:00.",
            "--timeout",
            "--time-limit",
            metavar="TIME",
        ),
    ] = None
    set: Annotated[
        list[str],
        flag(WHERE, "Any setting of the profile; repeatable.", "--set", metavar="SETTING=VALUE"),
    ] = _NONE
    job_name: Annotated[
        str | None,
        flag(HOW, "Name of the run. [made from the recipe]", "--job-name", metavar="NAME"),
    ] = None
    workspace: Workspace = None
    secrets_env: Secrets = None
    allow: Annotated[
        list[str],
        flag(HOW, "Let one waivable code pass; repeatable, recorded.", "--allow", metavar="CODE"),
    ] = _NONE
    if_exists: IfExists = "fail"
    new_series: NewSeries = False
    offline: Annotated[bool, flag(HOW, "Plan without looking at the cluster.", "--offline")] = False


class SendFlags(NamedTuple):
    """What happens from the submit on: the same for a launch and for `rlaunch submit`."""

    no_wait: Annotated[bool, flag(SEND, "Submit and return.", "--no-wait")] = False
    interval: Annotated[
        float,
        flag(
            SEND,
            "Seconds between two looks at the state.",
            "--interval",
            metavar="S",
            parser=seconds,
        ),
    ] = 5.0
    admission_timeout: Annotated[
        float | None,
        flag(
            SEND,
            "Stop waiting for admission after S seconds; the job is left.",
            "--admission-timeout",
            metavar="S",
            parser=seconds,
        ),
    ] = None
    kill_on_interrupt: Annotated[
        bool, flag(SEND, "Ctrl-C stops the job instead of detaching.", "--kill-on-interrupt")
    ] = False
    skip_preflight: Annotated[
        list[str],
        flag(
            SEND,
            "Skip a check, `secrets` or a code; repeatable.",
            "--skip-preflight",
            metavar="NAME",
        ),
    ] = _NONE


def taking(*groups: type[Any]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the flags of `groups`; it gets each group as one value, in that order, first."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in list(inspect.signature(command).parameters.values())[len(groups) :]
        ]
        shared = [p for group in groups for p in _parameters(group)]

        @functools.wraps(command)
        def wrapper(**values: Any) -> int:
            packed = [
                group(**{name: values.pop(name) for name in group._fields}) for group in groups
            ]
            return command(*packed, **values)

        wrapper.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]  # functions take attributes
        wrapper.__annotations__ = {}
        return wrapper

    return decorate


def _parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = group.__annotations__  # real objects, for this module does not postpone them
    kind = inspect.Parameter.KEYWORD_ONLY
    empty = inspect.Parameter.empty
    return [
        inspect.Parameter(n, kind, default=group._field_defaults.get(n, empty), annotation=hints[n])
        for n in group._fields
    ]
