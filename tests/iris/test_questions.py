"""How often the controller is asked about many runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import rlaunch_iris
from rlaunch.errors import ClusterError
from rlaunch.model import JobRef, State
from rlaunch.testing.fakes import FakeClock, FakeShell
from rlaunch.testing.kit import read_profile
from rlaunch_iris.cluster import LOOK_S, Iris
from rlaunch_iris.views import JobView, TaskView


class Controller:
    """Counts what it is asked; all its jobs are gangs of two."""

    def __init__(self, states: dict[str, str]) -> None:
        self.states = states
        self.asked: list[tuple[str, str]] = []

    def job(self, job_id: str) -> JobView | None:
        self.asked.append(("job", job_id))
        return self._view(job_id)

    def jobs(self, beginning: str) -> dict[str, JobView]:
        self.asked.append(("jobs", beginning))
        return {name: self._view(name) for name in self.states if name.startswith(beginning)}

    def tasks(self, job_id: str) -> tuple[TaskView, ...]:
        self.asked.append(("tasks", job_id))
        return tuple(TaskView(rank, self.states[job_id]) for rank in range(2))

    def close(self) -> None:
        """Nothing is open."""

    def _view(self, job_id: str) -> JobView:
        state = self.states[job_id]
        return JobView(job_id, state, counts={state: 2}, tasks=2)


class Asked(Iris):
    """Iris at a controller of the test."""

    there: Controller

    def connect(self) -> Controller:  # type: ignore[override]  # as much of one as is asked
        return self.there


@pytest.fixture
def cluster() -> Asked:
    """A cluster with 50 runs: 40 run, 10 wait."""
    profile = Iris.Profile.model_validate(read_profile(rlaunch_iris.PROFILES["cw-us-east-02a"]))
    made = Asked(profile, FakeShell(), FakeClock())
    made.there = Controller(
        {f"/ada/rl-{n:02}": "running" if n < 40 else "pending" for n in range(50)}
    )
    return made


def refs(cluster: Asked) -> Sequence[JobRef]:
    """Name all its runs."""
    return [JobRef("iris", name) for name in cluster.there.states]


def test_many_runs_are_one_question(cluster: Asked) -> None:
    """One question has the states of 50 runs; their ranks are looked at once, and not again unchanged."""
    seen = cluster.status(refs(cluster))
    assert {s.state for s in seen.values()} == {State.RUNNING, State.PENDING}
    assert [what for what, _ in cluster.there.asked].count("jobs") == 1
    cluster.there.asked.clear()
    assert cluster.status(refs(cluster)) == seen
    assert cluster.there.asked == [("jobs", "/ada/rl-")]


def test_a_run_that_changed_is_looked_at(cluster: Asked) -> None:
    """The ranks of a run are asked for where its own row changed, and only there."""
    cluster.status(refs(cluster))
    cluster.there.asked.clear()
    cluster.there.states["/ada/rl-07"] = "failed"
    cluster.status(refs(cluster))
    assert cluster.there.asked == [("jobs", "/ada/rl-"), ("tasks", "/ada/rl-07")]


def test_what_waits_is_looked_at_now_and_then(cluster: Asked) -> None:
    """Why a gang waits is said by its ranks, so those of one that waits are asked again after a while."""
    cluster.status(refs(cluster))
    cluster.there.asked.clear()
    cluster.clock.sleep(LOOK_S + 1)
    cluster.status(refs(cluster))
    assert [what for what, _ in cluster.there.asked] == ["jobs", *["tasks"] * 10]


def test_a_controller_that_fails_makes_all_unknown(
    cluster: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One failed question makes every run UNKNOWN, with the reason; none is called ABSENT."""

    def fail(beginning: str) -> dict[str, JobView]:
        raise ClusterError.of("iris.unreachable", "nobody answers")

    monkeypatch.setattr(cluster.there, "jobs", fail)
    seen = cluster.status(refs(cluster))
    assert {(s.state, "nobody answers" in s.reason) for s in seen.values()} == {
        (State.UNKNOWN, True)
    }
