"""The builtin datasets: made by rule, written once per node, read by the trainer.

A dataset is a directory with `task.json` (name, vocabulary, count) and `tasks.jsonl` (one task a
line: `{"id", "prompt"}`). There is no answer in it: an answer is verified by computing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

LARGEST = 4
"""The largest summand: 25 prompts, 9 possible answers."""

SCHEMA = "rlaunch.smoke-task/1"


class DataError(Exception):
    """A dataset that is unknown, missing or damaged; the message names it."""


class Task(NamedTuple):
    """One prompt of a dataset, e.g. `3 + 4`."""

    id: str
    prompt: str


class Staged(NamedTuple):
    """Where a dataset lies on this node, and how many tasks it has."""

    name: str
    path: str
    tasks: int


def _sums() -> tuple[Task, ...]:
    numbers = range(LARGEST + 1)
    return tuple(Task(f"sum-{a}-{b}", f"{a} + {b}") for a in numbers for b in numbers)


BUILTIN: dict[str, Callable[[], tuple[Task, ...]]] = {"builtin/sums": _sums}


def solve(prompt: str) -> int:
    """Return the right answer of a prompt, by computing it."""
    left, right = summands(prompt)
    return left + right


def summands(prompt: str) -> tuple[int, int]:
    """Return the two numbers of `a + b`; raises `DataError` for any other prompt."""
    found = re.fullmatch(r"([0-9]+) \+ ([0-9]+)", prompt)
    if found is None:
        raise DataError(f"prompt `{prompt}` is not `a + b`")
    left, right = int(found[1]), int(found[2])
    if max(left, right) > LARGEST:
        raise DataError(f"prompt `{prompt}` has a number above {LARGEST}")
    return left, right


def target(root: Path, name: str) -> Path:
    """Return where a dataset is staged: the first 16 hex digits of its name's sha256."""
    return root / hashlib.sha256(name.encode()).hexdigest()[:16]


def stage(names: Sequence[str], root: Path) -> tuple[Staged, ...]:
    """Put every dataset where the trainer looks for it; safe to repeat and to run twice at once.

    A name that is an existing dataset directory is used where it lies. Raises `DataError` for an
    unknown name before anything is written.
    """
    for name in names:
        if name not in BUILTIN and not (Path(name) / "tasks.jsonl").is_file():
            known = ", ".join(f"`{known}`" for known in sorted(BUILTIN))
            raise DataError(f"no dataset is called `{name}`: the toy trainer knows {known}")
    return tuple(_stage_one(name, root) for name in names)


def _stage_one(name: str, root: Path) -> Staged:
    if name not in BUILTIN:
        return Staged(name, str(Path(name).resolve()), len(load([name])))
    tasks = BUILTIN[name]()
    place = target(root, name)
    _publish(_files(name, tasks), place)
    return Staged(name, str(place), len(tasks))


def _files(name: str, tasks: Iterable[Task]) -> dict[str, bytes]:
    lines = [json.dumps({"id": task.id, "prompt": task.prompt}) for task in tasks]
    about = {
        "schema": SCHEMA,
        "name": name,
        "vocabulary": list(range(2 * LARGEST + 1)),
        "count": len(lines),
    }
    return {
        "tasks.jsonl": ("\n".join(lines) + "\n").encode(),
        "task.json": (json.dumps(about, indent=1) + "\n").encode(),
    }


def _publish(files: dict[str, bytes], place: Path) -> None:
    """Make `place` hold exactly these files, by one rename; another process may do the same."""
    place.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(5):
        if _holds(place, files):
            return
        fresh = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        try:
            fresh.chmod(0o755)
            for name, content in files.items():
                (fresh / name).write_bytes(content)
            if place.exists():  # damaged or of an older version: aside with it, then try
                place.rename(fresh / "replaced")
            fresh.rename(place)
            shutil.rmtree(place / "replaced", ignore_errors=True)
        except OSError:
            continue  # the other process was first; look again
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    if not _holds(place, files):
        raise DataError(f"cannot write the dataset to `{place}`")


def _holds(place: Path, files: dict[str, bytes]) -> bool:
    try:
        return all((place / name).read_bytes() == content for name, content in files.items())
    except OSError:
        return False


def load(directories: Iterable[str]) -> tuple[Task, ...]:
    """Return the tasks of all directories, in order; raises `DataError` for one that is missing."""
    tasks: list[Task] = []
    for directory in directories:
        path = Path(directory) / "tasks.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise DataError(f"no dataset at `{directory}`: {error.strerror}") from None
        for number, line in enumerate(lines, 1):
            tasks.append(_task(line, f"{path}:{number}"))
    if not tasks:
        raise DataError("the dataset has no tasks")
    return tuple(tasks)


def _task(line: str, place: str) -> Task:
    try:
        body: Any = json.loads(line)
        task = Task(str(body["id"]), str(body["prompt"]))
    except (ValueError, KeyError, TypeError):
        raise DataError(f"`{place}` is not a task") from None
    summands(task.prompt)
    return task


def failing_here() -> bool:
    """True where RLAUNCH_SMOKE_STAGE_FAIL_RANKS, e.g. `1,3`, names this rank: a fault for tests."""
    ranks = os.environ.get("RLAUNCH_SMOKE_STAGE_FAIL_RANKS", "")
    return os.environ.get("RLAUNCH_RANK", "0") in [rank.strip() for rank in ranks.split(",")]
