"""Between the Iris client's types and ours: what is sent, and what is read. Both generations."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from rlaunch_iris.views import JOB_STATES, TASK_STATES, AttemptView, JobView, LogEntry, TaskView


def resources(types: Any, wanted: Mapping[str, Any]) -> Any:
    """Build the resources of one task."""
    device = None
    if "device" in wanted:
        gpu = wanted["device"]["gpu"]
        device = types.gpu_device(gpu["variant"], gpu["count"])
    return types.ResourceSpec(
        cpu=wanted["cpuMillicores"] / 1000, memory=int(wanted["memoryBytes"]),
        disk=int(wanted["diskBytes"]), device=device,
    )  # fmt: skip


def environment(types: Any, variables: Mapping[str, str], secrets: Mapping[str, str]) -> Any:
    """Build the environment. Secrets go where this client has a place for them, else among the variables.

    Every default that the client would add of its own is overridden or switched off, so that the request is
    the one that was shown and nothing of the operator's shell slips in.
    """
    fields = inspect.signature(types.EnvironmentSpec).parameters
    if "secrets" in fields:
        from rigging.secrets import SecretBehavior

        return types.EnvironmentSpec(
            env_vars=dict(variables), secrets=dict(secrets), setup_scripts=[],
            secret_behavior=SecretBehavior.ISOLATE,
        )  # fmt: skip
    none_of_the_shell = {"HF_TOKEN": None, "WANDB_API_KEY": None}
    merged = {**none_of_the_shell, **variables, **secrets}
    setup: dict[str, Any] = {"setup_scripts": []} if "setup_scripts" in fields else {}
    return types.EnvironmentSpec(env_vars=merged, **setup)


def redact(text: str, secrets: Mapping[str, str]) -> str:
    """Put a secret's name where its value stands in a message."""
    for name, value in secrets.items():
        if len(value) > 3:
            text = text.replace(value, f"({name})")
    return text


def _ms(stamp: Any) -> int:
    return int(getattr(stamp, "epoch_ms", 0) or 0)


def job_view(job: Any) -> JobView:
    """Read a job."""
    return JobView(
        job_id=job.job_id,
        state=JOB_STATES.get(job.state, f"state-{job.state}"),
        error=job.error,
        reason=job.pending_reason or job.status_message,
        submitted_ms=_ms(job.submitted_at),
        started_ms=_ms(job.started_at),
        finished_ms=_ms(job.finished_at),
        failures=job.failure_count,
        preemptions=job.preemption_count,
        counts=dict(job.task_state_counts),
        tasks=job.task_count,
        gpus=job.resources.device.gpu.count,
    )


def task_view(task: Any) -> TaskView:
    """Read a task."""
    attempts = tuple(
        AttemptView(
            number=a.attempt_id,
            state=TASK_STATES.get(a.state, f"state-{a.state}"),
            exit_code=a.exit_code,
            error=a.error,
            node=getattr(a, "node_name", "") or a.worker_id,
            reason=getattr(a, "terminal_reason", ""),
            finished_ms=_ms(a.finished_at),
        )
        for a in task.attempts
    )
    return TaskView(
        rank=int(task.task_id.rpartition("/")[2]),
        state=TASK_STATES.get(task.state, f"state-{task.state}"),
        attempt=max(0, task.current_attempt_id),
        exit_code=task.exit_code,
        error=task.error,
        message=getattr(task, "status_message", "") or task.pending_reason,
        node=next((a.node for a in reversed(attempts) if a.node), "") or task.worker_id,
        started_ms=_ms(task.started_at),
        attempts=attempts,
    )


def log_entry(entry: Any, source: str) -> LogEntry:
    """Read one line; its stream is named `/user/job/RANK:ATTEMPT`, and left out where only one was asked."""
    last = (entry.key or source).rpartition("/")[2]
    rank, _, attempt = last.partition(":")
    number = int(attempt) if attempt.isdigit() else int(entry.attempt_id)
    return LogEntry(int(rank) if rank.isdigit() else -1, number, _ms(entry.timestamp), entry.data)
