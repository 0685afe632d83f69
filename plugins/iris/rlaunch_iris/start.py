"""Runs in the job on every node, before the node agent: unpacks the workspace and becomes the agent.

It is sent as a file of its own (`_rlaunch/start.py`), runs on the job's Python (3.10 or newer) and needs nothing
but the standard library. Everything that it does is written in `job.json` beside it.
"""

# Like the node agent it starts processes for a living and prints; pathlib would cost start-up.
# ruff: noqa: E501, N818, PTH100, PTH101, PTH103, PTH105, PTH108, PTH112, PTH113, PTH118, PTH119, PTH120, PTH123, S202, S603, S606, T201

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

FAILED = 79
"""Exit code of what went wrong before the agent; the agent's own are documented with it."""


class Rank(NamedTuple):
    """Which node of the gang this is."""

    rank: int
    nodes: int
    attempt: int


class Trouble(Exception):
    """Why the job cannot start here: one clause."""


def read_rank(env: Mapping[str, str], nodes: int) -> Rank:
    """Read `/user/job/RANK` or `/user/job/RANK:ATTEMPT`: older controllers write no attempt 0."""
    text = env.get("IRIS_TASK_ID", "")
    last = text.rpartition("/")[2]
    rank, colon, attempt = last.partition(":")
    if not rank.isdigit() or (colon and not attempt.isdigit()):
        raise Trouble(f"`IRIS_TASK_ID={text}` does not end in a rank")
    found = Rank(int(rank), nodes, int(attempt or 0))
    told = env.get("IRIS_NUM_TASKS", "")
    if found.rank >= nodes or (told and told != str(nodes)):
        raise Trouble(
            f"rank {rank} of `IRIS_NUM_TASKS={told}` does not fit the {nodes} nodes planned"
        )
    return found


def choose_address(env: Mapping[str, str], network: str, rank: int) -> str:
    """Return this node's address; `network` (`127.x.y`) gives every rank one of its own on loopback."""
    if network:
        return f"{network}.{rank + 1}"
    told = env.get("IRIS_ADVERTISE_HOST", "")
    if told and not told.startswith("127."):
        return told
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(
                ("192.0.2.1", 9)
            )  # sends nothing: asks the kernel which address it would use
        except OSError:
            raise Trouble(
                "this node has no address that others reach: no route, no `IRIS_ADVERTISE_HOST`"
            ) from None
        return str(probe.getsockname()[0])


def unpack(here: str, job: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Unpack the workspace and return where: the planned directory, or `$IRIS_WORKDIR`."""
    wanted = job["workspace"]["to"]
    fits = wanted and os.path.isdir(wanted) and os.access(wanted, os.W_OK)
    place = wanted if fits else env.get("IRIS_WORKDIR") or os.path.dirname(here)
    archive = os.path.join(here, job["workspace"]["archive"])
    check(archive, job["workspace"]["sha256"])
    with tarfile.open(archive, "r:gz", errorlevel=1) as tar:
        trust = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
        tar.extractall(place, **trust)  # type: ignore[arg-type]  # our own archive, checked above
    return place


def check(path: str, sha256: str) -> None:
    """Compare a file with what was planned; an empty digest was not known when planning offline."""
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if sha256 and found != sha256:
        raise Trouble(
            f"`{os.path.basename(path)}` has sha256 {found[:12]}, planned was {sha256[:12]}"
        )


def place_artifacts(here: str, job: Mapping[str, Any]) -> None:
    """Copy the zipapps to where the planned arguments name them; several ranks may share the place."""
    target = job["artifacts"]["to"]
    os.makedirs(target, exist_ok=True)
    for name in job["artifacts"]["names"]:
        aside = os.path.join(target, f".{name}.{os.getpid()}")
        shutil.copyfile(os.path.join(here, name), aside)
        os.replace(aside, os.path.join(target, name))
    for file in job["files"]:
        path = os.path.join(job["run_dir"], file["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        aside = f"{path}.{os.getpid()}"
        with open(aside, "w", encoding="utf-8", errors="surrogateescape") as out:
            out.write(file["content"])
        os.chmod(aside, file["mode"])
        os.replace(aside, path)


def check_out(folder: str, ref: str, say: Any) -> None:
    """Put MarinSkyRL at `ref`, and remove bytecode that would hide the new sources."""
    if not os.path.isdir(os.path.join(folder, ".git")):
        raise Trouble(
            f"`{folder}` of this image is no git checkout, so `{ref}` cannot be checked out"
        )
    git = ["git", "-c", "safe.directory=*", "-C", folder]
    fetched = subprocess.run(
        [*git, "fetch", "--quiet", "--all", "--tags"], capture_output=True, text=True, check=False
    )
    if fetched.returncode != 0:
        say(f"fetching MarinSkyRL failed, going on with what is there: {last_line(fetched.stderr)}")
    done = subprocess.run(
        [*git, "checkout", "--quiet", "--detach", ref], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Trouble(f"`{ref}` cannot be checked out in `{folder}`: {last_line(done.stderr)}")
    removed = purge(folder)
    at = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    say(f"MarinSkyRL now at {at.stdout.strip()} ({removed} stale bytecode files removed)")


def last_line(text: str) -> str:
    """Return the last line of what a program said."""
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def purge(folder: str) -> int:
    """Remove all bytecode below `folder`; returns how many files."""
    count = 0
    for path, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f != ".git"]
        for name in files:
            if name.endswith((".pyc", ".pyo")):
                os.unlink(os.path.join(path, name))
                count += 1
    return count


def gather_secrets(names: list[str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that arrived as files (newer controllers) and are no variables yet."""
    folder = env.get("RIGGING_SECRETS_DIR", "")
    found: dict[str, str] = {}
    for name in names if folder else ():
        path = os.path.join(folder, name)
        if name not in env and os.path.isfile(path):
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                found[name] = file.read()
    return found


def fill(words: list[str], values: Mapping[str, str]) -> list[str]:
    """Fill in those arguments of the agent that are one mark as a whole; the driver's are never looked at."""
    return [values.get(word, word) for word in words]


def prepare(
    here: str, job: Mapping[str, Any], env: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Do all that comes before the agent; returns its command line and environment."""
    me = read_rank(env, job["nodes"])

    def say(text: str) -> None:
        print(f"[rlaunch-node] rank={me.rank}/{me.nodes} attempt={me.attempt} {text}", flush=True)

    address = choose_address(env, job["network"], me.rank)
    say(f"node {env.get('IRIS_NODE_NAME') or socket.gethostname()} at {address}, run {job['run']}")
    place = unpack(here, job, env)
    say(f"workspace unpacked at {place}")
    place_artifacts(here, job)
    if job["skyrl"]["ref"]:
        check_out(job["skyrl"]["dir"], job["skyrl"]["ref"], say)
    work = os.path.join(job["run_dir"], "work", str(me.rank))
    os.makedirs(work, exist_ok=True)
    env_file = os.path.join(work, f"env-{me.attempt}.json")
    with open(env_file, "w", encoding="utf-8", errors="surrogateescape") as out:
        json.dump(job["env"], out)
    values = {
        "{attempt}": str(me.attempt), "{rank}": str(me.rank), "{address}": address, "{work}": work,
        "{workspace}": place, "{env_file}": env_file, "{ray_temp}": f"{job['ray_temp']}/{me.attempt}",
    }  # fmt: skip
    words = fill(job["agent"], values)
    argv = [
        job["python"],
        os.path.join(job["artifacts"]["to"], "rlaunch-node.pyz"),
        *words,
        "--",
        *job["driver"],
    ]
    return argv, {**env, **job["s3"], **gather_secrets(job["secrets"], env)}


def main() -> NoReturn:
    """Become the agent, or exit with 79 and say why."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        with open(os.path.join(here, "job.json"), encoding="utf-8") as file:
            job = json.load(file)
        argv, env = prepare(here, job, os.environ)
        sys.stdout.flush()
        os.execve(argv[0], argv, env)
    except (Trouble, OSError, tarfile.TarError, subprocess.SubprocessError) as error:
        print(f"[rlaunch-node] the job cannot start on this node: {error}", flush=True)
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
