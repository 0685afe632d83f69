"""Staging and reading the builtin datasets."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from rlaunch.smoke.__main__ import main
from rlaunch.smoke.dataset import DataError, load, solve, stage, target

HASH = sha256(b"builtin/sums").hexdigest()[:16]


def test_a_builtin_dataset_is_staged_under_the_hash_of_its_name(tmp_path: Path) -> None:
    """The directory that a plan names before anything runs is the one that staging fills."""
    (staged,) = stage(["builtin/sums"], tmp_path / "data")
    assert (
        Path(staged.path) == tmp_path / "data" / HASH == target(tmp_path / "data", "builtin/sums")
    )
    assert staged.tasks == len(load([staged.path])) == 25


def test_the_command_prints_one_json_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the node agent reads is the one line on stdout."""
    assert main(["stage", "--data-root", str(tmp_path), "builtin/sums"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    place = str(tmp_path / HASH)
    assert json.loads(line) == {"staged": [{"name": "builtin/sums", "path": place, "count": 25}]}


def test_staging_twice_writes_once(tmp_path: Path) -> None:
    """A dataset that is there already is left alone, to the inode."""
    (first,) = stage(["builtin/sums"], tmp_path)
    before = Path(first.path).stat().st_ino
    stage(["builtin/sums"], tmp_path)
    assert Path(first.path).stat().st_ino == before


def test_a_damaged_dataset_is_replaced(tmp_path: Path) -> None:
    """A half-written directory at the target does not survive staging."""
    place = target(tmp_path, "builtin/sums")
    place.mkdir()
    (place / "tasks.jsonl").write_text('{"id": "sum-0-0"')
    stage(["builtin/sums"], tmp_path)
    assert len(load([str(place)])) == 25
    assert [entry.name for entry in tmp_path.iterdir()] == [HASH]


def test_processes_that_stage_at_once_all_succeed(tmp_path: Path) -> None:
    """Several nodes that share a data root stage together, and leave one whole dataset."""
    (tmp_path / HASH).mkdir()
    command = [
        sys.executable, "-m", "rlaunch.smoke", "stage", "--data-root", str(tmp_path), "builtin/sums",
    ]  # fmt: skip
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    lines = {process.communicate(timeout=60)[0] for process in running}
    assert [process.returncode for process in running] == [0] * 6
    assert len(lines) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [HASH]
    assert len(load([str(tmp_path / HASH)])) == 25


def test_the_content_is_the_same_everywhere(tmp_path: Path) -> None:
    """Two nodes that stage for themselves have the same bytes."""
    one, two = stage(["builtin/sums"], tmp_path / "a"), stage(["builtin/sums"], tmp_path / "b")
    for name in ("tasks.jsonl", "task.json"):
        assert (Path(one[0].path) / name).read_bytes() == (Path(two[0].path) / name).read_bytes()


def test_an_unknown_name_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Staging refuses before it writes, says the name, and says what there is."""
    words = ["stage", "--data-root", str(tmp_path / "d"), "builtin/sums", "Org/tasks"]
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "`Org/tasks`" in captured.err
    assert "`builtin/sums`" in captured.err
    assert not (tmp_path / "d").exists()


def test_a_directory_with_tasks_is_used_where_it_lies(tmp_path: Path) -> None:
    """A dataset of one's own is named by its path and not copied."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "tasks.jsonl").write_text('{"id": "x", "prompt": "1 + 2"}\n')
    (staged,) = stage([str(own)], tmp_path / "data")
    assert (staged.path, staged.tasks) == (str(own), 1)
    assert not (tmp_path / "data").exists()


def test_staging_needs_neither_numpy_nor_ray(tmp_path: Path) -> None:
    """Staging starts in the time of the standard library."""
    code = (
        "import sys; from rlaunch.smoke.__main__ import main; "
        f"main(['stage', '--data-root', {str(tmp_path)!r}, 'builtin/sums']); "
        "sys.exit(bool({'ray', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_staging_fails_on_the_ranks_that_a_test_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """RLAUNCH_SMOKE_STAGE_FAIL_RANKS fails staging on those ranks and on no other."""
    words = ["stage", "--data-root", str(tmp_path), "builtin/sums"]
    monkeypatch.setenv("RLAUNCH_SMOKE_STAGE_FAIL_RANKS", "1,3")
    monkeypatch.setenv("RLAUNCH_RANK", "2")
    assert main(words) == 0
    monkeypatch.setenv("RLAUNCH_RANK", "3")
    assert main(words) == 1
    assert "RLAUNCH_SMOKE_STAGE_FAIL_RANKS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no dataset at"),
        ("", "has no tasks"),
        ("nonsense\n", "tasks.jsonl:1` is not a task"),
        ('{"id": "x", "prompt": "1 * 2"}\n', "is not `a \\+ b`"),
        ('{"id": "x", "prompt": "1 + 99"}\n', "above 4"),
    ],
)
def test_data_that_cannot_be_used_is_named(
    tmp_path: Path, content: str | None, message: str
) -> None:
    """A missing or damaged dataset says which and where."""
    if content is not None:
        (tmp_path / "tasks.jsonl").write_text(content)
    with pytest.raises(DataError, match=message):
        load([str(tmp_path)])


def test_answers_are_verified_by_computing() -> None:
    """The right answer of a prompt is its sum."""
    assert [solve(prompt) for prompt in ("0 + 0", "3 + 4", "4 + 1")] == [0, 7, 5]
