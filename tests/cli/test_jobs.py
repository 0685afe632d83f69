"""status, watch, logs, diagnose, stop, runs: what is asked about a job that was started."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlaunch import schemas

Rl = Callable[..., Any]
RUN = ("RUNNING", "", 1, None)


def fits(document: Any, name: str) -> None:
    """Validate a document against its published schema."""
    jsonschema.Draft202012Validator(schemas.schema(name)).validate(document)


@pytest.fixture
def job(rl: Rl, scripted: Any, launch: tuple[str, ...]) -> str:
    """The id of a run that was submitted."""
    said = rl(*launch, "--no-wait", "--json", "--job-name", "mine")
    assert said.code == 0, said.err
    return str(said.document["run"])


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("PENDING", 4), ("WAITING", 4), ("STARTING", 4), ("RUNNING", 4), ("STOPPING", 4),
        ("SUCCEEDED", 0), ("FAILED", 1), ("KILLED", 1), ("WORKER_FAILED", 1), ("UNSCHEDULABLE", 1),
        ("ABSENT", 2), ("UNKNOWN", 3),
    ],
)  # fmt: skip
def test_each_state_has_its_exit_code(rl: Rl, scripted: Any, job: str, state: str, code: int):
    """`status` and `watch --once` say the same, with the documented codes."""
    scripted.states((state, "why", 1, None))
    for words in (("status",), ("watch", "--once")):
        said = rl(*words, job)
        assert said.code == code
        assert f"scripted:{job} {state} (why) attempt=1" in said.out
        document = rl(*words, job, "--json").document
        fits(document, "status")
        assert (document["state"], document["run"]) == (state, job)


def test_status_shows_every_rank(rl: Rl, scripted: Any, job: str):
    """Node, phase, the age of its last word, and how it ended."""
    scripted.states(RUN)
    ranks = [[0, "n0", "running", 3.4, None, None], [1, "", "ended", None, 137, 9]]
    (scripted.folder / "ranks.json").write_text(json.dumps(ranks))
    lines = rl("status", job).out.splitlines()
    assert lines[1:] == ["  rank 0 n0 running heard 3 s ago", "  rank 1 ended exit=137 signal=9"]


def test_a_job_is_named_in_three_ways(rl: Rl, scripted: Any, job: str):
    """Name, run id, and `CLUSTER:ID` mean one job; the last works for one that nobody recorded."""
    scripted.states(RUN)
    said = {rl("status", name).out for name in ("mine", job, f"scripted:{job}")}
    assert len(said) == 1
    stranger = rl("status", "scripted:elsewhere", "--json").document
    assert (stranger["job"], stranger["run"]) == ("scripted:elsewhere", "")
    unknown = rl("status", "nobody")
    assert unknown.code == 3
    assert "error[run.unknown]" in unknown.err


@pytest.mark.parametrize("name", ["scripted:", ":x", ":", "scripted"])
def test_what_is_no_reference_is_refused(rl: Rl, scripted: Any, name: str):
    """A half of `CLUSTER:ID` is told by its code, wherever a job is named."""
    for words in (("watch",), ("status",), ("stop",), ("diagnose",), ("logs",)):
        said = rl(*words, name)
        assert (said.code, said.out) == (3, "")
        assert f"error[run.{'reference' if ':' in name else 'unknown'}]" in said.err


def test_several_jobs_are_one_document_and_the_worst_code(rl: Rl, scripted: Any, job: str):
    """Without a job every open run of the record is asked about."""
    scripted.states(("FAILED", "", 1, 1))
    document = rl("status", job, "scripted:other", "--json").document
    fits(document, "statuses")
    assert [one["job"] for one in document["jobs"]] == [f"scripted:{job}", "scripted:other"]
    none = rl("status")
    assert (none.code, none.out) == (0, "")
    assert "no run of the record is open" in none.err


def test_what_is_open_is_always_a_list(rl: Rl, scripted: Any, job: str):
    """Without a name the document is the same kind for none and for one; with one name it is that job's."""
    scripted.states(RUN)
    for words in (("status",), ("watch", "--once")):
        document = rl(*words, "--json").document
        fits(document, "statuses")
        assert [one["run"] for one in document["jobs"]] == [job]
        fits(rl(*words, job, "--json").document, "status")
        fits(rl(*words, job, "mine", "--json").document, "statuses")
    scripted.states(("FAILED", "", 1, 7))
    rl("status")
    for words in (("status",), ("watch", "--once")):
        document = rl(*words, "--json").document
        fits(document, "statuses")
        assert document["jobs"] == []


def test_watch_prints_one_line_for_each_change(rl: Rl, scripted: Any, job: str):
    """Time, job, state, reason and attempt, and nothing for a poll without a change."""
    scripted.states(
        ("PENDING", "", None, None), *[("PENDING", "quota", None, None)] * 2, RUN, RUN,
        ("WAITING", "preempted", 1, None), ("RUNNING", "", 2, None), ("FAILED", "driver-exit", 2, 7),
    )  # fmt: skip
    said = rl("watch", job, "--interval", "0.1")
    assert said.code == 1
    lines = [
        line.partition(" ")[2].replace(f"scripted:{job} ", "") for line in said.out.splitlines()
    ]
    assert lines == [
        "PENDING", "PENDING (quota)", "RUNNING attempt=1", "WAITING (preempted) attempt=1",
        "RUNNING attempt=2", "FAILED (driver-exit) attempt=2 exit=7",
    ]  # fmt: skip
    assert all(line[:2] == "20" and line.split()[0].endswith("Z") for line in said.out.splitlines())


def test_watch_as_json_is_a_document_a_line(rl: Rl, scripted: Any, job: str):
    """A stream can be read line by line while it goes on."""
    scripted.states(RUN, ("SUCCEEDED", "", 1, 0))
    said = rl("watch", job, "--interval", "0.1", "--json")
    documents = [json.loads(line) for line in said.out.splitlines()]
    assert [one["state"] for one in documents] == ["RUNNING", "SUCCEEDED"]
    for document in documents:
        fits(document, "status")


def test_ctrl_c_ends_the_watching_only(rl: Rl, scripted: Any, job: str):
    """The job goes on; exit 130."""
    scripted.states(RUN, ("INTERRUPT", "", 1, None), RUN)
    said = rl("watch", job, "--interval", "0.1")
    assert said.code == 130
    assert "the job goes on" in said.err
    assert len(scripted.asked) == 1


def test_watching_ends_at_the_admission_timeout(rl: Rl, scripted: Any, job: str):
    """A job that is not admitted is left, and named."""
    scripted.states(("WAITING", "quota", None, None))
    said = rl("watch", job, "--interval", "0.1", "--admission-timeout", "0.1")
    assert said.code == 1
    assert f"`scripted:{job}` was not admitted" in said.err


LINES = (("head up", 0, 1), ("worker up", 1, 1), ("no rank", None, 2), ("again", 0, 2))


def test_logs_are_all_of_it_with_ranks(rl: Rl, scripted: Any, job: str):
    """Every line, exactly as it was, with its rank before it."""
    scripted.lines(*LINES)
    said = rl("logs", job)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == ["0 | head up", "1 | worker up", "no rank", "0 | again"]


def test_logs_of_one_rank_are_bare(rl: Rl, scripted: Any, job: str):
    """One rank's output can be piped on as it was written."""
    scripted.lines(*LINES)
    assert rl("logs", job, "--rank", "0").out == "head up\nagain\n"
    assert rl("logs", job, "--rank", "0", "--attempt", "2").out == "again\n"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--rank", "7"], "rank 7: its ranks are 0 to 1"),
        (["--rank", "-1"], "rank -1: its ranks are 0 to 1"),
        (["--attempt", "9"], "attempt 9: its last one is 2"),
        (["--attempt", "0"], "attempt 0: nothing was printed in it"),
        (["--attempt", "-1"], "attempt -1: its last one is 2"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_run_does_not_have_is_not_silence(
    rl: Rl, scripted: Any, job: str, words: list[str], what: str
):
    """A rank or attempt that is not there is told, also as a document; one without output yet is not."""
    scripted.lines(*LINES)
    scripted.states(("RUNNING", "", 2, None))
    said = rl("logs", job, *words)
    assert (said.code, said.out) == (3, "")
    code = f"core.no-such-{words[0][2:]}"
    assert f"error[{code}]: `{job}` has no {what}" in said.err
    assert f'"{code}"' in rl("logs", job, *words, "--json").out
    scripted.lines()
    assert rl("logs", job, "--rank", "1").code == 0


def test_logs_as_json_are_a_document_a_line(rl: Rl, scripted: Any, job: str):
    """Text, rank, attempt and time of each line."""
    scripted.lines(*LINES)
    first = json.loads(rl("logs", job, "--json").out.splitlines()[0])
    assert first == {"text": "head up", "rank": 0, "attempt": 1, "at": "2026-01-01T00:00:01Z"}


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z"),
        ("2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00.000Z"),
        ("2026-01-01", "2026-01-01T00:00:00.000Z"),
        ("15m", "2026-01-01T11:45:00.000Z"),
        ("1h30m", "2026-01-01T10:30:00.000Z"),
    ],
)
def test_since_takes_a_moment_or_a_time_ago(text: str, moment: str):
    """Both become RFC 3339 in UTC; a moment without a zone is UTC."""
    from rlaunch.cli.logs import since_when

    assert since_when(text, "2026-01-01T12:00:00.000Z") == moment


def test_diagnose_gives_ladder_and_verdict(rl: Rl, scripted: Any, job: str):
    """As text with the literal lines, and as a document that fits its schema."""
    scripted.states(RUN)
    scripted.lines(("All 2 Ray node(s) joined.", 0, 1))
    said = rl("diagnose", job)
    assert said.code == 0
    assert said.out.startswith("verdict: ")
    assert "All 2 Ray node(s) joined." in said.out
    document = rl("diagnose", job, "--json").document
    fits(document, "diagnosis")
    assert any("All 2 Ray node(s) joined." in rung["evidence"] for rung in document["rungs"])


def test_stop_needs_a_yes_where_nobody_can_be_asked(
    rl: Rl, scripted: Any, job: str, monkeypatch: pytest.MonkeyPatch
):
    """Without a terminal and without `--yes` it refuses; with it, it stops that job."""
    scripted.states(RUN)
    with Path("/dev/null").open() as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        said = rl("stop", job)
    assert said.code == 3
    assert "error[core.stop-unconfirmed]" in said.err
    assert f"rlaunch stop scripted:{job} --yes" in said.err
    assert len(scripted.asked) == 1
    stopped = rl("stop", "mine", "--yes")
    assert stopped.code == 0
    assert "KILLED (terminated)" in stopped.out
    assert scripted.asked[-1] == f"stop {job}"


@pytest.mark.parametrize("state", ["SUCCEEDED", "ABSENT", "KILLED"])
def test_stopping_what_has_ended_is_no_error(rl: Rl, scripted: Any, job: str, state: str):
    """Nobody is asked and nothing is done; exit 0."""
    scripted.states((state, "", None, None))
    said = rl("stop", job)
    assert said.code == 0
    assert state in said.out
    assert len(scripted.asked) == 1


def test_runs_lists_what_was_launched(rl: Rl, scripted: Any, job: str):
    """Newest first, as a table and as a document with commit, recipe hash, user and end."""
    scripted.states(("FAILED", "", 1, 7))
    rl("status", job)
    said = rl("runs")
    assert said.code == 0
    assert said.out.splitlines()[1].split()[:3] == [job, "scripted", "2"]
    document = rl("runs", "mine", "--json").document
    fits(document, "runs")
    (run,) = document["runs"]
    assert (run["run"], run["state"], run["exit_code"], run["user"]) == (job, "FAILED", 7, "tester")
    assert run["job"] == f"scripted:{job}"
    assert len(run["recipe_sha256"]) == 64
    assert rl("runs", "nobody").out == ""


def test_a_record_that_cannot_be_read_is_not_an_empty_one(rl: Rl, scripted: Any, home: Path):
    """Who lists runs or names one is told, with 3; a job named in full is still asked about."""
    record = home / ".local" / "state" / "rlaunch" / "runs.sqlite"
    record.mkdir(parents=True)
    scripted.states(RUN)
    for words in (["runs"], ["status"], ["status", "mine"], ["watch"], ["stop", "mine", "--yes"]):
        said = rl(*words)
        assert (said.code, said.out) == (3, ""), words
        assert "error[core.run-record-unusable]: the run record cannot be read: " in said.err
        document = rl(*words, "--json").document
        fits(document, "findings")
        assert [f["code"] for f in document["findings"]] == ["core.run-record-unusable"]
    said = rl("status", "scripted:7")
    assert (said.code, "RUNNING" in said.out) == (4, True)
    assert "warning[core.run-record-unusable]" in said.err
