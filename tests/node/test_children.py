"""Finding what a node has started, whatever it has done to its own environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from rlaunch.node.children import find_marked, find_titled

MARKS = {"RLAUNCH_RUN_ID": f"t-{os.getpid()}", "RLAUNCH_ATTEMPT": "1", "RLAUNCH_RANK": "0"}


@pytest.fixture
def titled() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has lost two of its marks, in a session of its own."""
    process = subprocess.Popen(
        ["sleep", "60"],
        env={"RLAUNCH_RUN_ID": MARKS["RLAUNCH_RUN_ID"], "PATH": os.environ["PATH"]},
        start_new_session=True,
    )
    yield process
    process.kill()
    process.wait()


def test_a_title_hides_nobody_in_the_nodes_sessions(titled: subprocess.Popen[bytes]) -> None:
    """A process whose title lies over some of its marks is found by its session."""
    assert find_marked(MARKS) == []
    assert find_titled(MARKS, {titled.pid}) == [titled.pid]
    assert find_titled(MARKS, ()) == []


def test_a_number_that_is_somebody_elses_now_is_spared(titled: subprocess.Popen[bytes]) -> None:
    """A session's number may be given again: without any mark of the node it is not the node's."""
    others = {**MARKS, "RLAUNCH_RUN_ID": "another"}
    assert find_titled(others, {titled.pid}) == []
