"""The controller's words become our states, from the tasks and not from the job alone."""

from __future__ import annotations

import pytest

from rlaunch.model import JobRef, State
from rlaunch_iris.states import judge, read_message
from rlaunch_iris.views import JOB_STATES, TASK_STATES, AttemptView, JobView, TaskView

REF = JobRef("iris", "/ada/rl", "rl")
GATE = "SchedulingGated: Scheduling is blocked due to non-empty scheduling gates; "
FULL = (
    GATE + "Kueue workload iris-pg-1-0: queue=cw-use02a-lq; QuotaReserved (Pending): couldn't assign flavors "
    'to pod set main: topology "infiniband" doesn\'t allow to fit any of 1 pod(s). Total nodes: 32; '
    'excluded: resource "cpu": 32'
)  # fmt: skip


def gang(*states: str, message: str = "", attempt: int = 0) -> tuple[TaskView, ...]:
    """Make the ranks of a gang."""
    return tuple(
        TaskView(i, s, attempt=attempt, message=message if s not in ("running", "succeeded") else "")
        for i, s in enumerate(states)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("succeeded", State.SUCCEEDED), ("failed", State.FAILED), ("killed", State.KILLED),
        ("worker_failed", State.WORKER_FAILED), ("unschedulable", State.UNSCHEDULABLE),
    ],
)  # fmt: skip
def test_ends(word: str, state: State) -> None:
    """Each terminal word of the controller is one of our ends."""
    seen = judge(REF, JobView("/ada/rl", word, finished_ms=1_767_323_045_000), ())
    assert seen.state is state
    assert seen.since == "2026-01-02T03:04:05.000Z"


def test_every_word_is_known() -> None:
    """No job or task state of the client's enum makes the judgement fail or end a live job."""
    for job in JOB_STATES.values():
        for task in TASK_STATES.values():
            seen = judge(REF, JobView("/ada/rl", job), gang(task, task))
            assert seen.state is not State.UNKNOWN
            ended = job in ("succeeded", "failed", "killed", "worker_failed", "unschedulable")
            assert seen.state.ended is ended, (job, task)


def test_unknown_word() -> None:
    """A state that a newer controller invents is UNKNOWN, with its number."""
    seen = judge(REF, JobView("/ada/rl", "state-99"), gang("running"))
    assert seen.state is State.UNKNOWN
    assert "state-99" in seen.reason


@pytest.mark.parametrize(
    ("states", "message", "state", "reason"),
    [
        (("running",) * 4, "", State.RUNNING, ""),
        (("running", "building"), "", State.STARTING, "1 of 2 ranks run"),
        (("running", "succeeded"), "", State.RUNNING, ""),
        (("succeeded", "succeeded"), "", State.RUNNING, ""),
        (("building",) * 2, "", State.STARTING, ""),
        (("building",) * 2, FULL, State.WAITING, "kueue: couldn't assign flavors"),
        (("building",) * 2, GATE + "Kueue workload for 'x' not found yet; waiting for Kueue to create or "
         "admit it", State.WAITING, "not queued yet"),
        (("building",) * 2, GATE + "queue=q, clusterQueue=iris-cq; admitted by Kueue; waiting for scheduler "
         "gate removal", State.STARTING, "admitted by kueue"),
        (("building",) * 2, 'ImagePullBackOff: Back-off pulling image "ghcr.io/nope"', State.STARTING,
         "image: ImagePullBackOff"),
        (("building",) * 2, "Unschedulable: 0/4 nodes are available", State.WAITING, "0/4 nodes"),
        (("pending",) * 2, "", State.PENDING, ""),
    ],
)  # fmt: skip
def test_running_is_judged_by_the_ranks(
    states: tuple[str, ...], message: str, state: State, reason: str
) -> None:
    """A job that the controller calls running waits, starts or runs as its ranks do."""
    seen = judge(REF, JobView("/ada/rl", "running", submitted_ms=1), gang(*states, message=message))
    assert seen.state is state
    assert reason in seen.reason
    assert seen.since.startswith("1970-01-01T00:00:00.001") or state is State.RUNNING


def test_whole_reason_is_kept() -> None:
    """Kueue's own words reach the operator uncut, without the gates in front."""
    assert read_message(FULL).reason.endswith('excluded: resource "cpu": 32')


def test_pending_with_a_reason_waits() -> None:
    """A pending job that the scheduler has a reason for waits for admission."""
    job = JobView("/ada/rl", "pending", reason="Scheduler: Coscheduling: need 64 workers")
    seen = judge(REF, job, gang("pending", "pending"))
    assert (seen.state, seen.reason) == (State.WAITING, job.reason)


def test_preemption_is_no_failure() -> None:
    """A gang that was evicted and is queued again waits, says so, and counts its attempt."""
    why = "WorkloadEvictedDueToPreempted: Preempted to accommodate a workload"
    past = AttemptView(0, "preempted", reason=why, finished_ms=5000)
    tasks = (
        TaskView(
            0, "building", attempt=1, message=FULL, attempts=(past, AttemptView(1, "building"))
        ),
        TaskView(1, "building", attempt=1, attempts=(AttemptView(0, "cosched_failed"),)),
    )
    seen = judge(REF, JobView("/ada/rl", "running", submitted_ms=1, preemptions=1), tasks)
    assert seen.state is State.WAITING
    assert seen.attempt == 1
    assert "preempted: WorkloadEvicted" in seen.reason
    assert "kueue:" in seen.reason
    assert seen.since == "1970-01-01T00:00:05.000Z"


def test_lost_node_is_no_failure() -> None:
    """A pod that vanished is told, and the gang that starts again is starting or waiting."""
    past = AttemptView(0, "worker_failed", reason="PodDeleted: pod was deleted")
    tasks = (TaskView(0, "pending", attempt=0, attempts=(past,)),)
    seen = judge(REF, JobView("/ada/rl", "running"), tasks)
    assert seen.state is State.WAITING
    assert "lost its node: PodDeleted" in seen.reason


def test_true_exit_code() -> None:
    """The code is rank 0's where it failed, not the job's own 0 and not a bounced sibling's."""
    tasks = (
        TaskView(0, "failed", exit_code=7),
        TaskView(1, "cosched_failed", exit_code=143),
        TaskView(2, "failed", exit_code=7),
    )
    seen = judge(REF, JobView("/ada/rl", "failed", error="Exit code: 7"), tasks)
    assert (seen.exit_code, seen.signal) == (7, None)
    assert seen.reason == "rank 0 exited 7: Exit code: 7"


def test_signal() -> None:
    """A code above 128 is a signal too."""
    seen = judge(REF, JobView("/ada/rl", "failed"), (TaskView(0, "failed", exit_code=137),))
    assert (seen.exit_code, seen.signal) == (137, 9)


def test_killed_task_of_a_failed_job() -> None:
    """With retries spent the controller kills the task; its exit code is still the driver's."""
    seen = judge(REF, JobView("/ada/rl", "failed"), (TaskView(0, "killed", exit_code=7),))
    assert seen.exit_code == 7


def test_old_error_of_a_success() -> None:
    """A task that failed once and succeeded then keeps its old error; the state decides."""
    task = TaskView(0, "succeeded", exit_code=0, error="Exit code: 7")
    seen = judge(REF, JobView("/ada/rl", "succeeded", error=""), (task,))
    assert (seen.state, seen.exit_code, seen.reason) == (State.SUCCEEDED, 0, "")


def test_counts_stand_in_for_ranks() -> None:
    """Without the ranks the job's own counts tell whether all run."""
    assert judge(REF, JobView("/a/b", "running", counts={"running": 8}), ()).state is State.RUNNING
    some = JobView("/a/b", "running", counts={"running": 5, "building": 3})
    assert judge(REF, some, ()).reason == "5 of 8 ranks run"


def test_ranks_have_no_code_before_their_end() -> None:
    """A rank that runs has no exit code, though the wire says 0."""
    seen = judge(REF, JobView("/a/b", "running"), gang("running", "succeeded"))
    assert [r.exit_code for r in seen.ranks] == [None, 0]
