"""Whether a run's name may be used: what the record knows, and what the cluster says of it at submit."""

from pathlib import Path
from typing import Any

import pytest
from tests.core.scripted import Scripted, install, make_world, planned, refusal, transient

from rlaunch import flow, naming
from rlaunch.errors import RlaunchError
from rlaunch.model import State, Status


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The scripted cluster, and what observers were told."""
    return install(monkeypatch, tmp_path)


def test_names_of_live_and_ended_runs(events: list[Any], tmp_path: Path):
    """A live run's name is refused; an ended one's needs the choice, and another science a second one."""
    first = make_world(tmp_path)
    flow.submit(first, planned(tmp_path, first))
    Scripted.submitted.clear()
    ref = Status(None, State.RUNNING)  # type: ignore[arg-type]  # the scripted cluster fills in the job
    Scripted.states["*"] = [ref]
    second = make_world(tmp_path, "89abcdef")
    plan = planned(tmp_path, second)
    assert refusal(second, plan, if_exists="new") == ["run.live"]
    Scripted.states["*"] = [ref._replace(state=State.FAILED)]
    assert refusal(second, plan) == ["run.taken"]
    other = planned(tmp_path, second, model_path="other/model")
    assert refusal(second, other, if_exists="new") == ["run.series"]
    flow.submit(second, other, if_exists="new", new_series=True)
    assert len(Scripted.submitted) == 1


def test_a_dry_run_says_what_submit_would_say_of_the_name(events: list[Any], tmp_path: Path):
    """Live, ended and of another science: the record alone is asked, never the cluster."""
    first = make_world(tmp_path)
    plan = planned(tmp_path, first)

    def said(**how: Any) -> list[tuple[str, str]]:
        usual = {"if_exists": "fail", "new_series": False}
        second = make_world(tmp_path, "89abcdef")
        run = planned(tmp_path, second, **how.pop("asked", {})).run
        return [(f.level, f.code) for f in naming.forecast(second, run, **{**usual, **how})]

    assert said() == []
    assert not (tmp_path / "state").exists()
    ref = flow.submit(first, plan)
    assert said() == [("error", "run.live")]
    assert said(if_exists="new") == [("warning", "run.live")]
    first.open_runs().ended(ref.run_id, "FAILED", 1, first.clock.now())
    assert said() == [("error", "run.taken")]
    assert said(if_exists="new") == []
    other = {"model_path": "other/model"}
    assert said(if_exists="new", asked=other) == [("error", "run.series")]
    assert said(if_exists="new", new_series=True, asked=other) == []
    assert Scripted.asked == []


def test_a_run_that_was_never_sent_leaves_its_name_free(events: list[Any], tmp_path: Path):
    """After a refused submit the name is used again at once, also by another experiment; nobody is asked."""
    world = make_world(tmp_path)
    Scripted.fails = [transient("down")]
    assert refusal(world, planned(tmp_path, world)) == ["scripted.down"]
    Scripted.fails = []
    second = make_world(tmp_path, "89abcdef")
    plan = planned(tmp_path, second, model_path="other/model")
    assert list(naming.forecast(second, plan.run, if_exists="fail", new_series=False)) == []
    flow.submit(second, plan)
    assert len(Scripted.submitted) == 1
    assert Scripted.asked == []


def test_a_refused_launch_does_not_free_the_name_of_an_older_run(events: list[Any], tmp_path: Path):
    """Behind a run that was never sent the newest one that was counts: live, or ended."""
    first = make_world(tmp_path)
    ref = flow.submit(first, planned(tmp_path, first))
    first.open_runs().ended(ref.run_id, "FAILED", 1, first.clock.now())
    second = make_world(tmp_path, "89abcdef")
    Scripted.fails = [transient("down")]
    with pytest.raises(RlaunchError, match=r"scripted\.down"):
        flow.submit(second, planned(tmp_path, second), if_exists="new")
    third = make_world(tmp_path, "11111111")
    Scripted.submitted.clear()
    assert refusal(third, planned(tmp_path, third)) == ["run.taken"]


def test_a_run_that_was_never_sent_is_never_asked_about(events: list[Any], tmp_path: Path):
    """Status says that it was not sent and why, stop agrees, the log is refused, and the row stays."""
    world = make_world(tmp_path)
    Scripted.fails = [transient("down")]
    assert refusal(world, planned(tmp_path, world)) == ["scripted.down"]
    job = flow.find(world, "my-run")
    for _ in range(2):
        seen = flow.status(world, [job])[job.ref]
        assert seen.state is State.ABSENT
        assert seen.reason.startswith("not sent: ")
        assert "down" in seen.reason
    assert flow.stop(world, job) == seen
    with pytest.raises(RlaunchError, match=r"run\.unsent"):
        list(flow.logs(world, job))
    assert flow.diagnose(world, job).evidence.states == (seen,)
    assert (Scripted.asked, Scripted.stopped) == ([], [])
    row = world.open_runs().find("my-run")
    assert row is not None
    assert (row.unsent, row.ended_at, row.state) == (True, None, None)
