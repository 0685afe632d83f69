"""The run record, on real files and with real processes.

Over 300 lines: the promises of one file, which share its documents.
"""

import json
import multiprocessing
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from rlaunch import runs
from rlaunch.errors import RlaunchError
from rlaunch.model import JobRef
from rlaunch.runs import Runs

NOW = "2026-01-01T00:00:00.000Z"
LATER = "2026-01-02T00:00:00.000Z"


def make_document(run_id: str = "r-1", name: str = "r", cluster: str = "here") -> dict[str, Any]:
    """A plan document with what the record reads of it."""
    run = {
        "id": run_id, "name": name, "cluster": cluster, "user": "u", "identity": "i" * 64,
        "recipe": {"path": "r.yaml", "sha256": "a" * 64}, "nodes": 2, "allow": ["env.dollar"],
        "workspace": {"commit": "c" * 40, "dirty": ["x é"]}, "profile": {"name": cluster},
    }  # fmt: skip
    return {"schema": "rlaunch.plan/1", "run": run}


@pytest.fixture
def record(tmp_path: Path) -> Runs:
    """An empty record in a directory that does not exist yet."""
    return Runs(str(tmp_path / "state" / "runs.sqlite"))


def test_a_run_is_recorded_from_intent_to_end(record: Runs):
    """What was launched, from what, where, by whom, and how it ended can be read back."""
    record.intend(make_document(), NOW)
    intended = record.find("r")
    assert intended is not None
    assert intended.open
    assert (intended.native, intended.submitted_at) == ("", None)
    record.submitted("r-1", "job-7", LATER)
    record.ended("r-1", "FAILED", 7, LATER)
    row = record.find("r-1")
    assert row is not None
    assert not row.open
    assert row.ref == JobRef("here", "job-7", "r-1")
    assert (row.state, row.exit_code, row.ended_at) == ("FAILED", 7, LATER)
    assert (row.recipe, row.recipe_sha256, row.commit, row.dirty) == (
        "r.yaml",
        "a" * 64,
        "c" * 40,
        ("x é",),
    )
    assert (row.user, row.identity, row.nodes, row.allow) == ("u", "i" * 64, 2, ("env.dollar",))
    assert row.plan["run"]["profile"] == {"name": "here"}
    assert record.findings == []


def test_the_first_end_stands(record: Runs):
    """A terminal state is final, also in the record."""
    record.intend(make_document(), NOW)
    record.ended("r-1", "SUCCEEDED", 0, NOW)
    record.ended("r-1", "ABSENT", None, LATER)
    row = record.find("r-1")
    assert row is not None
    assert (row.state, row.ended_at) == ("SUCCEEDED", NOW)


def test_a_name_means_its_newest_run_and_an_id_means_itself(record: Runs):
    """A run id wins over a name, even a run that is named like another's id."""
    for number, moment in ((1, NOW), (2, LATER)):
        record.intend(make_document(f"r-{number}"), moment)
        record.ended(f"r-{number}", "SUCCEEDED", 0, moment)
    record.intend(make_document("x-1", "r-1"), LATER)
    found = record.find("r"), record.find("r-1"), record.find("none")
    assert [row and row.run_id for row in found] == ["r-2", "r-1", None]
    assert [row.run_id for row in record.of_name("r")] == ["r-2", "r-1"]
    assert [row.run_id for row in record.list(open_only=True)] == ["x-1"]
    assert len(record.list(2)) == 2


def test_a_run_that_was_never_sent_hides_no_other_of_its_name(record: Runs):
    """The name means the newest run that a scheduler had, or may have; else the one that was not sent."""
    record.intend(make_document("r-1"), NOW)
    record.failed("r-1", "refused", NOW)
    assert (found := record.find("r")) is not None
    assert found.run_id == "r-1"
    record.intend(make_document("r-2"), NOW)
    record.submitted("r-2", "job-7", NOW)
    record.ended("r-2", "SUCCEEDED", 0, NOW)
    record.intend(make_document("r-3"), LATER)
    record.failed("r-3", "refused", LATER)
    for name, run_id in (("r", "r-2"), ("r-3", "r-3")):
        row = record.find(name)
        assert row is not None
        assert (row.run_id, row.unsent) == (run_id, run_id == "r-3")


def test_a_run_is_found_by_the_schedulers_id(record: Runs):
    """The cluster's name and its own id lead to the run."""
    record.intend(make_document(), NOW)
    record.submitted("r-1", "/u/job:7", NOW)
    found = record.by_ref(JobRef.parse("here:/u/job:7"))
    assert found is not None
    assert found.run_id == "r-1"
    assert record.by_ref(JobRef("there", "/u/job:7")) is None


def test_a_run_that_was_absent_while_it_was_sent_is_open_again(record: Runs):
    """Whoever asked before the scheduler had the job saw no end of it."""
    record.intend(make_document(), NOW)
    record.ended("r-1", "ABSENT", None, NOW)
    record.submitted("r-1", "7", LATER)
    assert [(row.state, row.native) for row in record.list(open_only=True)] == [(None, "7")]


def test_a_run_id_is_sent_once(record: Runs):
    """A plan that was submitted is refused; one whose submit failed may be sent again."""
    record.intend(make_document(), NOW)
    record.failed("r-1", "no route", NOW)
    record.intend(make_document(), LATER)
    record.submitted("r-1", "7", LATER)
    with pytest.raises(RlaunchError) as refused:
        record.intend(make_document(), LATER)
    assert refused.value.findings[0].code == "plan.submitted"
    assert refused.value.findings[0].place == "here:7"
    record.intend(make_document(), LATER, again=True)


def test_a_live_runs_name_is_refused(record: Runs):
    """While a run has no recorded end, nobody else gets its name."""
    record.intend(make_document("r-1"), NOW)
    with pytest.raises(RlaunchError) as refused:
        record.intend(make_document("r-2"), NOW)
    assert refused.value.findings[0].code == "run.live"
    assert "r-1" in refused.value.findings[0].message
    record.ended("r-1", "KILLED", None, NOW)
    record.intend(make_document("r-2"), NOW)


def _launch(path: str, number: int, barrier: Any, answers: Any) -> None:
    """One rlaunch process of several that start at once."""
    record = Runs(path)
    barrier.wait()
    try:
        record.intend(make_document(f"same-{number}", "same"), NOW)
        answers.put("won")
    except RlaunchError:
        answers.put("refused")
    for turn in range(10):
        run_id = f"own-{number}-{turn}"
        record.intend(make_document(run_id, run_id), NOW)
        record.submitted(run_id, run_id, NOW)
        record.ended(run_id, "SUCCEEDED", 0, NOW)
    answers.put(len(record.findings))


def test_several_processes_at_once_lose_nothing(tmp_path: Path):
    """Five processes make the record and write to it at once: every row is there, one has the name."""
    path = str(tmp_path / "runs.sqlite")
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(5), context.Queue()
    processes = [
        context.Process(target=_launch, args=(path, n, barrier, answers)) for n in range(5)
    ]
    for process in processes:
        process.start()
    said = [answers.get(timeout=60) for _ in range(10)]
    for process in processes:
        process.join(60)
    assert sorted(map(str, said)) == ["0"] * 5 + ["refused"] * 4 + ["won"]
    rows = Runs(path).list(-1)
    assert len(rows) == 51
    assert sum(row.state == "SUCCEEDED" for row in rows) == 50


def _begin(path: str, number: int, barrier: Any, answers: Any) -> None:
    """Make many records at the same moment as others do."""
    found = []
    for turn in range(60):
        record = Runs(f"{path}-{turn}/runs.sqlite")
        barrier.wait()
        record.intend(make_document(f"r-{number}", f"n-{number}"), NOW)
        found += [finding.message for finding in record.findings]
    answers.put(found)


def test_several_processes_that_make_the_record_at_once_all_record(tmp_path: Path):
    """The first launches of a machine may be at the same moment: none is told that the file is locked."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(4), context.Queue()
    arguments = [(str(tmp_path / "state"), number, barrier, answers) for number in range(4)]
    processes = [context.Process(target=_begin, args=words) for words in arguments]
    for process in processes:
        process.start()
    assert [answers.get(timeout=60) for _ in processes] == [[]] * 4
    for process in processes:
        process.join(60)


def test_a_newer_record_is_left_alone(record: Runs):
    """A record of a later rlaunch is neither changed nor moved."""
    record.intend(make_document(), NOW)
    with sqlite3.connect(record.path) as base:
        base.execute(f"PRAGMA user_version = {runs.VERSION + 1}")
    base.close()
    assert record.list() == ()
    assert "newer" in record.findings[0].message
    assert not list(record.path.parent.glob("*.corrupt*"))


def test_reading_makes_no_file(tmp_path: Path):
    """Looking into a record that does not exist leaves the directory as it was."""
    record = Runs(str(tmp_path / "state" / "runs.sqlite"))
    assert record.find("r") is None
    assert record.list() == ()
    assert list(tmp_path.iterdir()) == []


def test_the_journal_fits_the_file_system(
    record: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """WAL on a local disk; a rollback journal on a network file system, where WAL does not work."""
    record.intend(make_document(), NOW)
    monkeypatch.setattr(runs, "file_system", lambda path: "nfs4")
    remote = Runs(str(tmp_path / "remote" / "runs.sqlite"))
    remote.intend(make_document(), NOW)
    modes = [
        sqlite3.connect(r.path).execute("PRAGMA journal_mode").fetchone()[0]
        for r in (record, remote)
    ]
    assert modes == ["wal", "delete"]


def test_the_file_system_is_that_of_the_deepest_mount(tmp_path: Path):
    """The longest mount point that holds the path decides; an unreadable table decides nothing."""
    mounts = tmp_path / "mounts"
    inner = tmp_path.resolve() / "my dir"
    inner.mkdir()
    escaped = str(inner).replace(" ", "\\040")
    mounts.write_text(
        f"/dev/a / ext4 rw 0 0\nsrv:/x {escaped} nfs4 rw 0 0\nb {inner.parent}/my lustre rw 0 0\n"
    )
    assert runs.file_system(str(inner / "below"), str(mounts)) == "nfs4"
    assert runs.file_system("/", str(mounts)) == "ext4"
    assert runs.file_system("/", str(tmp_path / "none")) == ""


def test_a_wrong_statement_is_a_bug_and_not_a_corrupt_file(record: Runs):
    """Our own mistakes are raised; no record is moved aside for them."""
    record.intend(make_document(), NOW)
    with pytest.raises(sqlite3.IntegrityError):
        record._do(lambda base: base.execute("INSERT INTO runs (run_id) VALUES (NULL)"), None)
    assert not list(record.path.parent.glob("*.corrupt*"))


def test_the_record_has_no_secret_and_is_plain_json(record: Runs):
    """The plan is kept as the document that was made, readable by other programs."""
    document = make_document()
    record.intend(document, NOW)
    base = sqlite3.connect(record.path)
    (text,) = base.execute("SELECT plan FROM runs").fetchone()
    base.close()
    assert json.loads(text) == document
    assert stat.S_ISREG(record.path.stat().st_mode)


@pytest.mark.parametrize("kind", ["directory", "garbage", "newer"])
def test_who_asks_the_record_is_told_that_it_cannot_be_read(record: Runs, kind: str):
    """A strict record that cannot be read is an error and not an empty record; writes stay warnings."""
    if kind == "directory":
        record.path.mkdir(parents=True)
    elif kind == "garbage":
        record.path.parent.mkdir()
        record.path.write_bytes(b"not a database" * 100)
    else:
        record.intend(make_document(), NOW)
        with sqlite3.connect(record.path) as base:
            base.execute(f"PRAGMA user_version = {runs.VERSION + 1}")
        base.close()
    strict = Runs(str(record.path), strict=True)
    with pytest.raises(RlaunchError) as refused:
        strict.list()
    assert {f.level for f in refused.value.findings} == {"error"}
    assert "recorded" not in refused.value.findings[0].message
    if kind != "garbage":  # which is moved aside, so the next one is sound
        for ask in (lambda: strict.find("r-1"), lambda: strict.of_name("r")):
            with pytest.raises(RlaunchError, match="cannot be read"):
                ask()
        assert strict.by_ref(JobRef("here", "7")) is None  # a job named in full needs no record
        strict.failed("r-1", "no", NOW)
        assert "written, so this is not recorded" in strict.findings[-1].message


def test_what_names_a_job_in_full_is_not_looked_up(tmp_path: Path):
    """`CLUSTER:ID` is neither a name nor a run id, so it works without the record."""
    (tmp_path / "runs.sqlite").mkdir()
    strict = Runs(str(tmp_path / "runs.sqlite"), strict=True)
    assert strict.find("here:7") is None
    assert strict.findings == []


def test_a_record_is_read_while_another_writes(record: Runs, monkeypatch: pytest.MonkeyPatch):
    """A long transaction of another process hinders no reader."""
    monkeypatch.setattr(runs, "BUSY_S", 0.2)
    record.intend(make_document(), NOW)
    other = sqlite3.connect(record.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert record.find("r-1") is not None
    finally:
        other.close()
    assert record.findings == []
