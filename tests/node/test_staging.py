"""What staging says, what the agent makes of it, and the staging of data sets."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch.node import datasets
from rlaunch.node.datasets import StageError
from rlaunch.node.reasons import Ending
from rlaunch.node.staging import compare, count_items, guess_names, read_staged

counts = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3))


def test_last_line_is_read() -> None:
    """The staging command's last line says what lies where."""
    staged = read_staged([b'{"staged": [{"name": "d", "path": "/d", "count": 3}, {"name": "e"}]}'])
    assert [item["name"] for item in staged] == ["d", "e"]
    assert count_items(staged) == {"d": 3}


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"done", b'{"staged": 3}', b'{"staged": [3]}'])
def test_anything_else_is_a_staging_failure(line: bytes) -> None:
    """A command that does not say what it staged has failed, whatever its exit code."""
    with pytest.raises(Ending, match="staging-failed"):
        read_staged([line] if line else [])


def test_difference_names_rank_data_set_and_counts() -> None:
    """The message says who has how many of what."""
    assert compare(3, {"d": 95}, {"d": 100}) == "rank 3 staged 95 items of `d`, rank 0 staged 100"
    assert compare(3, {"d": 1}, {}) == "only rank 3 staged `d`"
    assert compare(3, {}, {"d": 1}) == "only rank 0 staged `d`"


@given(counts, counts)
def test_only_equal_counts_agree(one: dict[str, int], other: dict[str, int]) -> None:
    """Ranks agree exactly where they staged the same number of everything."""
    assert (compare(1, one, other) == "") == (one == other)


def test_names_are_found_in_the_command() -> None:
    """The log line names the data sets, not the options."""
    argv = ["python", "x.pyz", "stage", "--data-root", "/d", "--fast=1", "Org/a", "b"]
    assert guess_names(argv) == ["Org/a", "b"]
    assert guess_names(["python", "-c", "x"]) == []


def run(zipapp: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the zipapp's `stage`."""
    return subprocess.run(
        [sys.executable, str(zipapp), "stage", *words],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


HUB = """
import os
assert "HF_HUB_OFFLINE" not in os.environ, "read before it was cleared"
def snapshot_download(repo_id, repo_type, local_dir):
    assert repo_type == "dataset"
    for name in ("one", "two"):
        os.makedirs(os.path.join(local_dir, name))
    open(os.path.join(local_dir, "README.md"), "w").close()
"""


def test_directory_is_used_as_it_is(tmp_path: Path, node_zipapp: Path) -> None:
    """A data set that is a directory already is neither copied nor fetched."""
    (tmp_path / "mine" / "task-1").mkdir(parents=True)
    done = run(node_zipapp, "--data-root", str(tmp_path / "root"), str(tmp_path / "mine"))
    assert done.returncode == 0, done.stderr
    path = str(tmp_path / "mine")
    assert json.loads(done.stdout) == {"staged": [{"name": path, "path": path, "count": 1}]}
    assert not (tmp_path / "root").exists()


def test_name_of_the_hub_is_fetched_once_with_offline_variables_cleared(
    tmp_path: Path, node_zipapp: Path
) -> None:
    """The library of the job's Python fetches it to the hash of its name; a second call finds it."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "huggingface_hub.py").write_text(HUB)
    root = tmp_path / "root"
    env = {"PYTHONPATH": str(tmp_path / "lib"), "HF_HUB_OFFLINE": "1"}
    target = root / hashlib.sha256(b"Org/tasks").hexdigest()[:16]
    for _ in range(2):
        done = run(node_zipapp, "--data-root", str(root), "Org/tasks", **env)
        assert done.returncode == 0, done.stderr
        staged = {"name": "Org/tasks", "path": str(target), "count": 2}
        assert json.loads(done.stdout) == {"staged": [staged]}
        (tmp_path / "lib" / "huggingface_hub.py").write_text("raise ImportError('gone')")
    assert [path.name for path in root.iterdir()] == [target.name]


def test_missing_library_is_named(tmp_path: Path, node_zipapp: Path) -> None:
    """Without the library the message says which interpreter lacks what, in one line."""
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError('none')")
    done = run(node_zipapp, "--data-root", str(tmp_path / "r"), "Org/x", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "`huggingface_hub` is not in" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_missing_directory_is_named(tmp_path: Path) -> None:
    """An absolute path that is not there is not looked up on the hub."""
    with pytest.raises(StageError, match="not a directory"):
        datasets.stage(str(tmp_path / "none"), str(tmp_path))


def test_fetch_is_tried_again_and_leaves_no_half(tmp_path: Path, monkeypatch: Any) -> None:
    """A hub that fails is asked six times; what was half there is removed."""
    monkeypatch.setattr(datasets, "back_off", lambda *_: iter([0.0] * 9))
    tries: list[str] = []

    def fetch(repo_id: str, repo_type: str, local_dir: str) -> None:
        tries.append(repo_id)
        Path(local_dir).mkdir(exist_ok=True, parents=True)
        raise OSError("connection reset")

    monkeypatch.setattr(datasets, "find_fetch", lambda: fetch)
    with pytest.raises(StageError, match="connection reset"):
        datasets.stage("Org/x", str(tmp_path))
    assert len(tries) == 6
    assert list(tmp_path.iterdir()) == []


def archive(**files: str) -> bytes:
    """Return a tar archive of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def test_task_archives_are_unpacked_where_they_belong(tmp_path: Path) -> None:
    """One row of a task table becomes one directory."""
    datasets.unpack_one(str(tmp_path), "task-1", archive(**{"task.toml": "a", "tests/t.py": "b"}))
    assert (tmp_path / "task-1" / "task.toml").read_text() == "a"
    assert (tmp_path / "task-1" / "tests" / "t.py").read_text() == "b"


@pytest.mark.parametrize(
    ("path", "name"), [("../out", "a"), ("t", "../a"), ("t", "/a"), ("t", "x/../../a")]
)
def test_archive_cannot_write_outside_its_task(tmp_path: Path, path: str, name: str) -> None:
    """A hostile path or member is refused, and nothing is written."""
    with pytest.raises(StageError):
        datasets.unpack_one(str(tmp_path / "set"), path, archive(**{name: "x"}))
    assert not [entry for entry in tmp_path.rglob("*") if entry.is_file()]
