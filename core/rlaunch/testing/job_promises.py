"""Promises about jobs: tried with real processes, wherever the bench really runs them."""

from __future__ import annotations

import pytest

from rlaunch.cluster import LogQuery
from rlaunch.model import JobRef, State
from rlaunch.testing import probe
from rlaunch.testing.kit import CANARY, ENV, WORDS, Ended, Kit

gang = pytest.mark.gang
"""On each method: a mark on the class would be inherited by the author's whole class."""


class JobPromises:
    """What was planned is what runs, and its end is told as it was.

    The fixtures `failed` (a probe that exits 7, on `Bench.nodes` nodes), `succeeded` and `stopped` are
    made once for a class, on the bench of `job_kit`, since a real gang takes many seconds.
    """

    @gang
    def test_reference_reads_back(self, failed: Ended) -> None:
        """A submitted job has a reference that parses back from its own text."""
        read = JobRef.parse(str(failed.ref))
        assert read == failed.ref._replace(run_id=""), "the reference reads back as another"
        assert failed.ref.run_id == failed.plan.run.id, "the reference does not know its run"

    @gang
    def test_arguments_arrive(self, failed: Ended) -> None:
        """The driver's process has the arguments that were planned, byte for byte."""
        assert _told(failed).argv == tuple(map(probe.digest, WORDS)), "other arguments arrived"

    @gang
    def test_environment_arrives_once(self, failed: Ended) -> None:
        """Every variable stands in the driver's environment exactly once, byte for byte."""
        told = _told(failed)
        for name, value in ENV.items():
            assert told.env[name] == (probe.digest(value),), f"`{name}` arrived otherwise"

    @gang
    def test_secret_arrives_and_is_seen_nowhere(self, job_kit: Kit, failed: Ended) -> None:
        """A secret's value reaches the process, and no log, status, plan or progress line has it."""
        assert _told(failed).env["KIT_CANARY"] == (probe.digest(CANARY),), "the secret is lost"
        shown = "\n".join([*(line.text for line in failed.lines), *failed.said])
        assert CANARY not in shown, "the log or the progress shows a secret's value"
        assert CANARY not in repr(failed.status) + repr(failed.plan), "a document shows it"
        calls: list[object] = getattr(job_kit.bench.shell, "calls", [])
        assert CANARY not in repr(calls), "a command line shows it"

    @gang
    def test_failure_is_told(self, failed: Ended) -> None:
        """A driver that exits 7 makes a `FAILED` run with exit code 7."""
        seen = failed.status
        assert (seen.state, seen.exit_code) == (State.FAILED, 7), f"exit 7 became {seen}"

    @gang
    def test_success_is_told(self, succeeded: Ended) -> None:
        """A driver that exits 0 makes a `SUCCEEDED` run."""
        seen = succeeded.status
        assert (seen.state, seen.exit_code) == (State.SUCCEEDED, 0), f"exit 0 became {seen}"

    @gang
    def test_lines_know_their_rank(self, job_kit: Kit, failed: Ended) -> None:
        """A line of the driver says which rank wrote it, and a rank's lines can be had alone."""
        spoken = [line for line in failed.lines if probe.MARK in line.text]
        assert spoken, "the driver's line is not in the log"
        assert [line.rank for line in spoken] == [0], f"rank 0 spoke, and the log says {spoken}"
        alone = list(job_kit.cluster.logs(LogQuery(failed.ref, rank=0)))
        assert [a.text for a in alone] == [b.text for b in failed.lines if b.rank == 0], (
            "one rank's lines are others than among all"
        )

    @gang
    def test_stop_ends_the_job(self, job_kit: Kit, stopped: JobRef) -> None:
        """A job that was stopped is `KILLED`, and nothing of it is left."""
        seen = job_kit.wait(stopped, lambda status: status.state.ended)
        assert seen.state is State.KILLED, f"a stopped job is {seen.state}"
        left = list(job_kit.bench.leftovers(stopped))
        assert not left, f"left behind: {left}"

    @gang
    def test_stop_twice_is_once(self, job_kit: Kit, stopped: JobRef) -> None:
        """Stopping again changes nothing."""
        before = job_kit.wait(stopped, lambda seen: seen.state.ended)
        job_kit.cluster.stop(stopped)
        after = job_kit.status(stopped)
        assert after == before, "stopping again changed the job"

    @gang
    def test_stop_spares_others(self, job_kit: Kit, stopped: JobRef, failed: Ended) -> None:
        """Stopping one job leaves another as it was."""
        job_kit.cluster.stop(stopped)
        seen = job_kit.status(failed.ref).state
        assert seen is failed.status.state, f"another job became {seen}"


def _told(job: Ended) -> probe.Told:
    told = probe.read(line.text for line in job.lines)
    tail = "\n".join(line.text for line in job.lines[-20:])
    assert len(told) == 1, f"the probe spoke {len(told)} times; the log ends with:\n{tail}"
    return told[0]
