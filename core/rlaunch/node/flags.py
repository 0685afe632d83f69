"""The agent's command line. Strict: an unknown flag is an error, and the driver comes after `--`."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from .reasons import BAD_FLAGS, Ending, fail

PORT_NAMES = (
    "gcs",
    "node-manager",
    "object-manager",
    "metrics-export",
    "runtime-env-agent",
    "dashboard-agent-grpc",
    "dashboard-agent-listen",
    "min-worker",
    "max-worker",
    "agent",
)
LONGEST_TEMP = 43
"""Ray's socket path is its temp dir + 64 bytes, and the kernel allows 107."""


class Flags(NamedTuple):
    """What one agent was told. Times in seconds, sizes in bytes."""

    run_id: str
    attempt: int
    rank: int
    nodes: int
    rendezvous: str
    node_ip: str
    work_dir: str
    driver: tuple[str, ...]
    env_file: str = ""
    secrets_file: str = ""
    log_file: str = ""
    ray_temp: str = ""
    spill_dir: str = ""
    ray_auth: str = "token"
    gpus: int | None = None
    cpus: int | None = None
    memory: int | None = None
    object_store_memory: int | None = None
    ports: Mapping[str, int] = MappingProxyType({})
    stage: tuple[str, ...] = ()
    own_checkpoint: str = ""
    """Where the run's own checkpoints lie: directory or `s3://…`."""
    own_words: tuple[str, ...] = ()
    """What the driver gets besides, once there is one."""
    cwd: str = ""
    pythonpath: tuple[str, ...] = ()
    rendezvous_timeout: float = 1800
    join_timeout: float = 1800
    liveness_timeout: float = 9000
    grace: float = 25
    lead: float = 0
    """From SIGUSR1 to the end of the last process; where it is less than the grace, that holds."""
    lifeline_fd: int | None = None


def parse_agent_flags(words: Sequence[str]) -> Flags:
    """Read `agent …`'s flags; raises `Ending` with reason `bad-flags` and one clause of detail."""
    before, driver = split_driver(words)
    given = vars(build_parser().parse_args(before))
    flags = Flags(**{**given, "driver": driver, "pythonpath": tuple(given["pythonpath"] or ())})
    wrong = find_mistake(flags)
    if wrong:
        raise Ending(fail(BAD_FLAGS, wrong))
    return flags


def split_driver(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Split at the first `--`, which must be there and be followed by the driver."""
    if "--" not in words:
        raise Ending(fail(BAD_FLAGS, "the driver must come after `--`"))
    cut = list(words).index("--")
    driver = tuple(words[cut + 1 :])
    if not driver:
        raise Ending(fail(BAD_FLAGS, "there is no driver after `--`"))
    return list(words[:cut]), driver


def find_mistake(flags: Flags) -> str:
    """Return what is wrong with flags that parse, or nothing."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", flags.run_id):
        return f"`--run-id {flags.run_id}` is not a name of letters, digits, `.`, `_` and `-`"
    if flags.attempt < 0:
        return f"`--attempt {flags.attempt}` is negative"
    if flags.nodes < 1 or not 0 <= flags.rank < flags.nodes:
        return f"`--rank {flags.rank}` is not one of `--nodes {flags.nodes}`"
    if flags.node_ip in ("127.0.0.1", "localhost", "0.0.0.0", "::1"):  # noqa: S104  # refused
        return f"`--node-ip {flags.node_ip}` is replaced by Ray; give another address of this node"
    temp = len(flags.ray_temp.encode())
    if temp > LONGEST_TEMP:
        return f"`--ray-temp` has {temp} bytes; Ray's sockets leave room for {LONGEST_TEMP}"
    if flags.grace <= 2:
        return f"`--grace {flags.grace:g}` must be more than 2"
    if flags.lead < 0:
        return f"`--lead {flags.lead:g}` is negative"
    if min(flags.rendezvous_timeout, flags.join_timeout) <= 0 or flags.liveness_timeout < 0:
        return "a timeout is not positive"
    if ("min-worker" in flags.ports) != ("max-worker" in flags.ports):
        return "`--ports` needs both `min-worker` and `max-worker`, or neither"
    return ""


def choose_ray_temp(flags: Flags) -> str:
    """Return where Ray's session goes when nobody says: short, and of this rank alone."""
    text = f"{flags.run_id}/{flags.attempt}/{flags.rank}"
    folder = tempfile.gettempdir()
    if len(folder.encode()) > LONGEST_TEMP - 14:
        folder = "/tmp"  # noqa: S108  # the only short one that is always there
    return f"{folder}/rl-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting with 2, which is an exit code that a driver may have."""

    def error(self, message: str) -> NoReturn:
        raise Ending(fail(BAD_FLAGS, message))


def _read_ports(text: str) -> dict[str, int]:
    ports: dict[str, int] = {}
    for item in text.split(","):
        name, _, value = item.partition("=")
        if name not in PORT_NAMES or name in ports:
            raise argparse.ArgumentTypeError(f"`{item}` is not one port of {', '.join(PORT_NAMES)}")
        if not value.isdigit() or not 0 < int(value) < 65536:
            raise argparse.ArgumentTypeError(f"`{item}` is not a port")
        ports[name] = int(value)
    return ports


def _read_words(text: str) -> tuple[str, ...]:
    try:
        words = json.loads(text)
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise argparse.ArgumentTypeError("not a JSON list of strings")
    return tuple(words)


def build_parser() -> _Parser:
    """Return the parser of everything before `--`; its `format_help` lists the flags."""
    parser = _Parser(prog="rlaunch-node.pyz agent", allow_abbrev=False, add_help=False)
    need = parser.add_argument_group("the gang")
    for name in ("--run-id", "--rendezvous", "--node-ip", "--work-dir"):
        need.add_argument(name, required=True)
    for name in ("--attempt", "--rank", "--nodes"):
        need.add_argument(name, required=True, type=int)
    ray = parser.add_argument_group("Ray")
    for name in ("--gpus", "--cpus", "--memory", "--object-store-memory"):
        ray.add_argument(name, type=int)
    ray.add_argument("--ports", type=_read_ports, default={}, metavar="NAME=PORT,…")
    ray.add_argument("--ray-temp", default="", metavar="DIR")
    ray.add_argument("--spill-dir", default="", metavar="DIR")
    ray.add_argument("--ray-auth", default="token", choices=("token", "disabled"))
    job = parser.add_argument_group("the job")
    for name in ("--env-file", "--secrets-file", "--log-file", "--cwd"):
        job.add_argument(name, default="")
    job.add_argument("--pythonpath", action="append", metavar="DIR")
    job.add_argument("--stage", type=_read_words, default=(), metavar="JSON_LIST")
    job.add_argument("--own-checkpoint", default="", metavar="PLACE")
    job.add_argument("--own-words", type=_read_words, default=(), metavar="JSON_LIST")
    limits = parser.add_argument_group("limits, in seconds")
    for name, seconds in (
        ("--rendezvous-timeout", 1800.0),
        ("--join-timeout", 1800.0),
        ("--liveness-timeout", 9000.0),
        ("--grace", 25.0),
        ("--lead", 0.0),
    ):
        limits.add_argument(name, type=float, default=seconds)
    parser.add_argument("--lifeline-fd", type=int)
    return parser
