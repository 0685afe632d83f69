"""What happens from the submit on: refusals, preflight, Ctrl-C, and a record that cannot be used."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlaunch import schemas

Rl = Callable[..., Any]
Launch = tuple[str, ...]
RUN = ("RUNNING", "", 1, None)


def fits(document: Any, name: str) -> None:
    """Validate a document against its published schema."""
    jsonschema.Draft202012Validator(schemas.schema(name)).validate(document)


def test_ctrl_c_detaches(rl: Rl, scripted: Any, launch: Launch):
    """The job goes on, the message says how to come back, exit 130."""
    scripted.states(RUN, ("INTERRUPT", "", 1, None), RUN)
    said = rl(*launch, "--interval", "0.01")
    assert said.code == 130
    assert "detached: the job goes on; come back with `rlaunch watch smoke-" in said.err
    assert not [line for line in scripted.asked if line.startswith("stop")]


def test_ctrl_c_stops_the_job_where_that_was_asked_for(rl: Rl, scripted: Any, launch: Launch):
    """`--kill-on-interrupt` is the opt-in; the job does not go on, so the code is that of its end."""
    scripted.states(RUN, ("INTERRUPT", "", 1, None), RUN)
    said = rl(*launch, "--interval", "0.01", "--kill-on-interrupt")
    assert said.code == 1
    assert "KILLED (terminated)" in said.out
    assert [line.split()[0] for line in scripted.asked] == ["submit", "stop"]


@pytest.mark.parametrize(
    ("flags", "state", "code"),
    [([], "RUNNING", 130), (["--kill-on-interrupt"], "KILLED", 1)],
)
def test_ctrl_c_prints_the_document_too(
    rl: Rl, scripted: Any, launch: Launch, *, flags: list[str], state: str, code: int
):
    """A program that reads stdout learns which job goes on, and its last state."""
    scripted.states(RUN, ("INTERRUPT", "", 1, None), RUN)
    said = rl(*launch, "--json", "--interval", "0.01", *flags)
    assert said.code == code
    fits(said.document, "launch")
    assert said.document["status"]["state"] == state
    assert said.document["job"] == f"scripted:{said.document['run']}"


def test_a_second_ctrl_c_while_stopping_leaves_the_job(
    rl: Rl, scripted: Any, launch: Launch, monkeypatch: pytest.MonkeyPatch
):
    """Nobody knows then whether it goes on, so the code is 130, and the message says how to end it."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlaunch.flow.stop", stop)
    scripted.states(RUN, ("INTERRUPT", "", 1, None), RUN)
    said = rl(*launch, "--interval", "0.01", "--kill-on-interrupt")
    assert said.code == 130
    assert "interrupted while stopping: `rlaunch stop smoke-" in said.err


def test_ctrl_c_while_submitting_says_what_may_be_there(rl: Rl, scripted: Any, launch: Launch):
    """Before anything is sent that is said; afterwards the job may be there, and the hints find it."""
    scripted.switch("early")
    said = rl(*launch, "--no-wait")
    assert (said.code, "interrupted: nothing was sent" in said.err) == (130, True)
    assert "no run is recorded" in rl("runs").err
    (scripted.folder / "early").unlink()
    scripted.switch("sent")
    said = rl(*launch, "--no-wait")
    assert said.code == 130
    assert "interrupted while submitting: `scripted` may have taken the job" in said.err
    (run,) = {w.strip("`,") for w in said.err.split() if w.startswith("smoke-")}
    assert f"`rlaunch status {run}` asks for it, `rlaunch stop {run}` ends it" in said.err
    scripted.states(RUN)
    assert "RUNNING" in rl("status", run).out
    assert rl("stop", run, "--yes").code == 0
    assert scripted.asked[-1].split()[:2] == ["stop", run]


def test_a_job_that_is_not_admitted_is_left(rl: Rl, scripted: Any, launch: Launch):
    """At the admission time-out the launch ends with 1 and says that the job still waits."""
    scripted.states(("WAITING", "quota", None, None))
    said = rl(*launch, "--interval", "0.01", "--admission-timeout", "0.05")
    assert said.code == 1
    assert "warning[core.admission-timeout]" in said.err
    assert len(scripted.asked) == 1


def test_preflight_refuses_and_can_be_skipped(rl: Rl, scripted: Any, launch: Launch):
    """An error of the preflight stops before anything is sent; `--skip-preflight NAME` skips one check."""
    scripted.switch("full")
    said = rl(*launch, "--no-wait")
    assert said.code == 3
    assert "error[scripted.full]: no node is free\n  at preflight\n  hint: wait" in said.err
    assert scripted.asked == []
    assert rl(*launch, "--no-wait", "--skip-preflight", "room").code == 0


def test_a_check_that_is_skipped_must_exist(rl: Rl, scripted: Any, launch: Launch):
    """A misspelt code would skip nothing: it is refused with a suggestion before anything is sent."""
    for code in ("scripted.fulll", "core.secret-mising", ""):
        said = rl(*launch, "--no-wait", "--skip-preflight", code)
        assert said.code == 3
        assert f"error[core.code-unknown]: there is no code `{code}`" in said.err
    assert "did you mean `scripted.full`?" in rl(*launch, "--skip-preflight", "scripted.fulll").err
    said = rl(*launch, "--no-wait", "--skip-preflight", "rom")
    assert said.code == 3
    assert "error[core.check-unknown]: `scripted` has no preflight check `rom`" in said.err
    assert "did you mean `room`? its checks: `secrets`, `room`;" in " ".join(said.err.split())
    assert scripted.asked == []
    scripted.switch("full")
    assert rl(*launch, "--no-wait", "--skip-preflight", "scripted.full").code == 0


def test_a_refusal_says_each_finding_once(
    rl: Rl, scripted: Any, launch: Launch, monkeypatch: pytest.MonkeyPatch
):
    """What was shown with the plan is not shown again with the refusal; the document has all of it."""
    scripted.states(RUN)
    named = (
        *launch,
        "--no-wait",
        "--job-name",
        "mine",
        "--set",
        "env.A=$HOME",
        "--allow",
        "env.dollar",
    )
    assert rl(*named).code == 0
    said = rl(*named)
    assert said.code == 3
    heads = [
        line for line in said.err.splitlines() if line.startswith(("error[", "warning[", "note["))
    ]
    assert any(head.startswith("error[run.live]") for head in heads)
    assert any(head.startswith("warning[env.dollar]") for head in heads)
    assert len(heads) == len(set(heads)), said.err
    codes = [f["code"] for f in rl(*named, "--json").document["findings"]]
    assert {"run.live", "env.dollar"} <= set(codes)


def test_a_scheduler_that_is_down_is_refused_and_may_be_tried_again(
    rl: Rl, scripted: Any, launch: Launch
):
    """A failed submit is told, recorded as not sent for good, and leaves its name free."""
    scripted.switch("down")
    named = (*launch, "--no-wait", "--job-name", "mine")
    assert "error[scripted.down]" in rl(*named).err
    scripted.states(RUN)  # what the scheduler would say if it were asked
    said = rl("status", "mine")
    assert (said.code, "ABSENT (not sent: " in said.out) == (2, True)
    assert "not sent" in rl("runs").out
    assert rl("stop", "mine", "--yes").code == 0
    assert "error[run.unsent]" in rl("logs", "mine").err
    assert [line.split()[0] for line in scripted.asked] == ["submit"]
    (scripted.folder / "down").unlink()
    assert rl(*named).code == 0


def test_a_live_runs_name_is_refused(rl: Rl, scripted: Any, launch: Launch):
    """Two runs of one name at once could not be told apart."""
    scripted.states(RUN)
    assert rl(*launch, "--no-wait", "--job-name", "mine").code == 0
    said = rl(*launch, "--no-wait", "--job-name", "mine")
    assert said.code == 3
    assert "error[run.live]" in said.err
    assert len(scripted.asked) == 1


@pytest.mark.parametrize("shown", [("--dry-run",), ("--dry-run", "--json"), ("plan",)])
def test_a_name_that_is_taken_is_said_without_sending(
    rl: Rl, scripted: Any, launch: Launch, shown: tuple[str, ...], tmp_path: Path
):
    """A dry run and `rlaunch plan` refuse what the launch would refuse, and no such plan is written."""
    scripted.states(RUN)
    named = (*launch, "--job-name", "mine")
    assert rl(*named, "--no-wait").code == 0
    words = (*shown, *named) if shown == ("plan",) else (*named, *shown)
    said = rl(*words)
    assert said.code == 3
    assert "error[run.live]: a run named `mine` has no recorded end: `mine-" in said.err
    if "--json" in shown:
        assert "run.live" in [f["code"] for f in said.document["findings"]]
    if shown == ("plan",):
        assert rl(*words, "-o", str(tmp_path / "p.json")).code == 3
        assert not (tmp_path / "p.json").exists()
    assert rl(*words, "--if-exists", "new").code == 0
    assert len(scripted.asked) == 1


def test_a_record_that_cannot_be_used_never_stops_a_launch(
    rl: Rl, scripted: Any, launch: Launch, home: Path
):
    """Corrupt: moved aside. Not to be opened at all: the run is waited for all the same. One warning each."""
    state = home / ".local" / "state" / "rlaunch"
    state.mkdir(parents=True)
    (state / "runs.sqlite").write_bytes(b"not a database" * 100)
    said = rl(*launch, "--no-wait")
    assert said.code == 0, said.err
    assert said.err.count("warning[core.run-record-corrupt]") == 1
    (state / "runs.sqlite").unlink()
    (state / "runs.sqlite").mkdir()
    scripted.states(RUN, ("SUCCEEDED", "", 1, 0))
    said = rl(*launch, "--interval", "0.01")
    assert said.code == 0, said.err
    assert said.err.count("warning[core.run-record-unusable]") == 2
    assert said.err.count("the run record cannot be read: ") == 1
    assert said.err.count("the run record cannot be written, so this is not recorded: ") == 1
    assert "SUCCEEDED" in said.out
