"""`stage --data-root DIR NAME…`: brings data sets to this node.

A name that is a directory is used as it is. Anything else is a data set of the Hugging Face hub, fetched with
the job's own `huggingface_hub` into `<data root>/<hash of the name>`, aside first and renamed when whole, so
that a directory that exists is complete.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from .loop import back_off
from .records import now

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
ATTEMPTS = 6
MARK = ".rlaunch-staged.json"


class StageError(Exception):
    """A data set that cannot be staged; the message says which and why."""


def main(words: Sequence[str]) -> int:
    """Stage and print `{"staged": [{"name", "path", "count"}…]}`; returns 0, or 1 with a message."""
    parser = argparse.ArgumentParser("rlaunch-node.pyz stage", allow_abbrev=False)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("names", nargs="+", metavar="NAME")
    asked = parser.parse_args(list(words))
    try:
        staged = [stage(name, asked.data_root) for name in asked.names]
    except StageError as error:
        print(f"stage: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"staged": staged}), flush=True)
    return 0


def locate(name: str, root: str) -> str:
    """Return the directory that a data set goes to; the plan computes the same."""
    return os.path.join(root, hashlib.sha256(name.encode()).hexdigest()[:16])


def stage(name: str, root: str) -> dict[str, Any]:
    """Bring one data set here; raises `StageError`."""
    if os.path.isdir(name):
        return {"name": name, "path": name, "count": count(name)}
    if os.path.isabs(name):
        raise StageError(f"`{name}` is not a directory on this node")
    target = locate(name, root)
    if not os.path.isdir(target):
        fetch = find_fetch()
        place(target, lambda aside: download(name, aside, fetch))
    return {"name": name, "path": target, "count": count(target)}


def place(target: str, fill: Callable[[str], None]) -> None:
    """Fill a directory aside and rename it; where somebody else was first, theirs stands."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    aside = f"{target}.{os.getpid()}.part"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        fill(aside)
        os.rename(aside, target)
    except OSError as error:
        if not os.path.isdir(target):
            raise StageError(f"`{target}`: {error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def find_fetch() -> Callable[..., Any]:
    """Return `huggingface_hub.snapshot_download`, imported with the offline variables cleared.

    The library reads them once, when it is imported.
    """
    for name in OFFLINE:
        os.environ.pop(name, None)
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        text = f"`huggingface_hub` is not in {sys.executable}: it is needed for names of the hub"
        raise StageError(text) from error
    fetch: Callable[..., Any] = snapshot_download
    return fetch


def download(name: str, aside: str, fetch: Callable[..., Any]) -> None:
    """Fetch a data set of the hub, trying six times, and unpack its tasks; raises `StageError`."""
    trouble = ""
    for attempt, pause in zip(range(1, ATTEMPTS + 1), back_off(2.0, 60.0, 2.0), strict=False):
        try:
            fetch(repo_id=name, repo_type="dataset", local_dir=aside)
            break
        except Exception as error:  # the library raises its own and its transport's
            trouble = f"{type(error).__name__}: {error}"
            if type(error).__name__ in ("RepositoryNotFoundError", "GatedRepoError"):
                raise StageError(f"`{name}`: {trouble}") from error
            print(f"stage: `{name}` attempt {attempt}/{ATTEMPTS}: {trouble}", file=sys.stderr)
            if attempt < ATTEMPTS:
                time.sleep(pause)
    else:
        raise StageError(f"`{name}`: {trouble}")
    shutil.rmtree(os.path.join(aside, ".cache"), ignore_errors=True)
    unpack_tasks(aside)
    with open(os.path.join(aside, MARK), "w", encoding="utf-8") as file:
        json.dump({"name": name, "at": now()}, file)


def unpack_tasks(folder: str) -> int:
    """Unpack tables of tasks (columns `path` and `task_binary`, a tar archive); returns how many.

    That is how task data sets of agents lie on the hub; SkyRL's generator wants one directory a task. Other
    tables stay as they are.
    """
    tables = [
        os.path.join(place_, name)
        for place_, _, names in os.walk(folder)
        for name in sorted(names)
        if name.endswith(".parquet")
    ]
    if not tables:
        return 0
    try:
        from pyarrow import parquet  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return 0  # a trainer that reads parquet brings its own reader
    unpacked = 0
    for table in tables:
        file = parquet.ParquetFile(table)
        if not {"path", "task_binary"} <= set(file.schema_arrow.names):
            continue
        for batch in file.iter_batches(batch_size=64, columns=["path", "task_binary"]):
            for row in batch.to_pylist():
                unpack_one(folder, str(row["path"]), row["task_binary"])
                unpacked += 1
        file.close()
        os.unlink(table)
    return unpacked


def unpack_one(folder: str, path: str, data: bytes) -> None:
    """Unpack one task's archive into `folder/path`; refuses a path or member that leaves it."""
    target = os.path.normpath(os.path.join(folder, path))
    if not target.startswith(os.path.join(folder, "")):
        raise StageError(f"task path `{path}` leaves the data set")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        if hasattr(tarfile, "data_filter"):  # not in the first releases of 3.10
            archive.extraction_filter = tarfile.data_filter
        for member in archive.getmembers():
            inside = os.path.normpath(os.path.join(target, member.name))
            if not (inside == target or inside.startswith(os.path.join(target, ""))):
                raise StageError(f"task `{path}` has a file outside itself: `{member.name}`")
            if member.isfile() or member.isdir():
                archive.extract(member, target)


def count(folder: str) -> int:
    """Return how many items a data set has: its directories, or its files where it has none."""
    found = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    folders = sum(1 for entry in found if entry.is_dir())
    if folders:
        return folders
    with contextlib.suppress(OSError):
        return sum(1 for entry in found if entry.is_file())
    return 0
