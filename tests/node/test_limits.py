"""Memory: what the cgroup says, and what Ray is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch.node.limits import (
    STORE_CAP,
    STORE_FLOOR,
    parse_limit,
    plan_memory,
    read_cgroup_limit,
    read_host_memory,
    read_oom_kills,
    read_shm_room,
)

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("max", None),
        ("", None),
        ("9223372036854771712", None),
        ("0", None),
        ("1700807049216", 1700807049216),
        (" 42\n", 42),
    ],
)
def test_limit_files_are_read(text: str, limit: int | None) -> None:
    """`max` and version 1's huge number mean: no limit."""
    assert parse_limit(text) == limit


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_smallest_limit_of_version_2_counts(tmp_path: Path) -> None:
    """The limit may stand at the process's own cgroup or anywhere above it."""
    own = tmp_path / "own"
    own.write_text("0::/a/b\n")
    write(tmp_path / "a/b/memory.max", "max\n")
    write(tmp_path / "a/memory.max", "1000\n")
    write(tmp_path / "memory.max", "2000\n")
    assert read_cgroup_limit(str(tmp_path), str(own)) == 1000


def test_limit_of_version_1_counts(tmp_path: Path) -> None:
    """Version 1 has a directory for memory, and a path that the container may not see."""
    own = tmp_path / "own"
    own.write_text("5:cpu,cpuacct:/x\n4:memory:/docker/abc\n1:name=systemd:/y\n")
    write(tmp_path / "memory/memory.limit_in_bytes", "4000\n")
    assert read_cgroup_limit(str(tmp_path), str(own)) == 4000


def test_no_cgroup_is_no_limit(tmp_path: Path) -> None:
    """Without files, or with `max` everywhere, there is no limit."""
    assert read_cgroup_limit(str(tmp_path), str(tmp_path / "none")) is None
    write(tmp_path / "memory.max", "max")
    assert read_cgroup_limit(str(tmp_path), str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("line", "place", "text"),
    [
        (
            "4:memory:/slurm/job_1",
            "memory/slurm/job_1/memory.oom_control",
            "under_oom 0\noom_kill 3",
        ),
        ("0::/slurm/job_1", "slurm/job_1/memory.events", "oom 9\noom_kill 3\noom_group_kill 0"),
        ("0::/not/shown/here", "memory.events", "oom_kill 3"),
    ],
)
def test_kills_are_counted_in_the_own_cgroup(
    tmp_path: Path, line: str, place: str, text: str
) -> None:
    """Both versions of cgroups say how many processes were killed for want of memory."""
    write(tmp_path / "own", line)
    write(tmp_path / "memory" / "memory.oom_control", "oom_kill 99")  # another job's
    write(tmp_path / place, text)
    assert read_oom_kills(str(tmp_path), str(tmp_path / "own")) == 3


def test_nobody_counts_kills_without_a_cgroup(tmp_path: Path) -> None:
    """No file is no count, which is not a count of none."""
    assert read_oom_kills(str(tmp_path), str(tmp_path / "none")) is None


def test_store_is_an_eighth_of_the_limit() -> None:
    """1583 GiB of cgroup give Ray that memory and a store of 96 GiB, 400 GiB one of 50."""
    plan = plan_memory(1583 * GIB, host=2000 * GIB, shm=1000 * GIB, asked=None, store=None)
    assert plan == (1583 * GIB, 96 * GIB)
    plan = plan_memory(400 * GIB, host=2000 * GIB, shm=1000 * GIB, asked=None, store=None)
    assert plan == (400 * GIB, 50 * GIB)


def test_flags_stand_above_the_cgroup() -> None:
    """What was asked for is what Ray is told."""
    plan = plan_memory(400 * GIB, host=None, shm=None, asked=80 * GIB, store=None)
    assert plan == (80 * GIB, 10 * GIB)
    plan = plan_memory(400 * GIB, host=None, shm=None, asked=80 * GIB, store=GIB)
    assert plan == (80 * GIB, GIB)


def test_unlimited_node_leaves_memory_to_ray() -> None:
    """Without a limit the host's memory decides the store only."""
    assert plan_memory(None, host=80 * GIB, shm=None, asked=None, store=None) == (None, 10 * GIB)
    assert plan_memory(None, host=None, shm=None, asked=None, store=None) == (None, None)


sizes = st.none() | st.integers(1, 1 << 50)


@given(sizes, sizes, sizes, sizes, sizes)
def test_store_fits_into_shm_and_is_never_too_small(
    limit: int | None, host: int | None, shm: int | None, asked: int | None, store: int | None
) -> None:
    """The store never exceeds `/dev/shm` but for Ray's own minimum, nor 96 GiB unless asked for."""
    size = plan_memory(limit, host=host, shm=shm, asked=asked, store=store).object_store
    if size is None:
        return
    assert size >= STORE_FLOOR
    assert shm is None or size <= max(shm, STORE_FLOOR)
    assert store is not None or size <= STORE_CAP


def test_this_machine_has_memory_and_shm() -> None:
    """The real files are read."""
    memory, room = read_host_memory(), read_shm_room()
    assert memory is not None
    assert memory > 1 << 28
    assert room is not None
    assert room > 0
    assert read_shm_room("/nowhere") is None
