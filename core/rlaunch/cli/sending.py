"""From a plan to its end: submit, wait with progress, detach on Ctrl-C, and sum up."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlaunch import flow
from rlaunch.cli.speak import refuse, status_line
from rlaunch.codes import Code
from rlaunch.errors import RlaunchError
from rlaunch.model import Finding, JobRef, Plan, Status

if TYPE_CHECKING:
    from rlaunch.cli.flags import SendFlags
    from rlaunch.cli.speak import Voice
    from rlaunch.shapes import Summary
    from rlaunch.watching import Job
    from rlaunch.world import World


def send_and_wait(
    voice: Voice, world: World, plan: Plan, flags: SendFlags, options: Mapping[str, Any]
) -> int:
    """Submit the plan and, unless told otherwise, wait for its end. Returns the exit code."""
    try:
        ref = flow.submit(world, plan, skip=frozenset(flags.skip_preflight), **options)
    except KeyboardInterrupt as error:
        run = plan.run.id
        if isinstance(error, flow.Interrupted):
            voice.tell(f"interrupted while submitting: `{plan.run.cluster}` may have taken the job")
            voice.tell(f"  hint: `rlaunch status {run}` asks for it, `rlaunch stop {run}` ends it")
        else:
            voice.tell("interrupted: nothing was sent")
        _document(voice, plan, None, None, None)
        return 130
    except RlaunchError as error:
        if os.environ.get("RLAUNCH_TRACEBACK"):
            raise
        return refuse(error.findings, json=voice.json, said=world.said)
    voice.say(f"submitted {ref}")
    if flags.no_wait:
        voice.say(f"watch it with `rlaunch watch {plan.run.id}`")
        _document(voice, plan, ref, None, None)
        return 0
    import gc

    gc.enable()  # from here on the process stays
    return _wait(voice, world, plan, ref, flags)


def _wait(voice: Voice, world: World, plan: Plan, ref: JobRef, flags: SendFlags) -> int:
    job = flow.job_of(world, plan, ref)
    last: list[Status] = []
    try:
        _follow(voice, world, job, flags, last)
    except KeyboardInterrupt:
        stopped = _interrupted(voice, world, job, flags)
        _document(voice, plan, ref, stopped or (last[-1] if last else None), None)
        return 130 if stopped is None else flow.exit_code([stopped])
    code = flow.exit_code(last)
    if code == 4 and flags.admission_timeout is not None:
        voice.show([overdue(str(ref), flags.admission_timeout)])
        code = 1
    summary = summarise(voice, world, job, plan)
    _document(voice, plan, ref, last[-1] if last else None, summary)
    return code


def _follow(voice: Voice, world: World, job: Job, flags: SendFlags, last: list[Status]) -> None:
    from rlaunch.cli.following import Follower

    with Follower(voice, world, job) as follower:
        for status in flow.watch(
            world, [job], interval=flags.interval, admission_timeout=flags.admission_timeout
        ):
            last[:] = [status]
            follower.now(status)
            voice.say(status_line(status, world.clock.now()))


def _interrupted(voice: Voice, world: World, job: Job, flags: SendFlags) -> Status | None:
    """Detach, or stop the job and return its state then; None where the job goes on, or may do so."""
    name = job.facts.run_id
    if not flags.kill_on_interrupt:
        voice.tell(f"detached: the job goes on; come back with `rlaunch watch {name}`")
        voice.tell(f"  hint: `rlaunch stop {name}` ends it")
        return None
    voice.tell(f"stopping {job.ref}")
    with contextlib.suppress(KeyboardInterrupt):
        seen = flow.stop(world, job)
        voice.say(status_line(seen, world.clock.now()))
        return seen
    voice.tell(f"interrupted while stopping: `rlaunch stop {name}` ends what is left of the job")
    return None


def overdue(job: str, seconds: float) -> Finding:
    """Return the warning for a job that was not admitted in time and is left where it is."""
    return Finding(
        "warning",
        "core.admission-timeout",
        f"`{job}` was not admitted within {seconds:.0f} s and is left waiting",
        "--admission-timeout",
        f"`rlaunch watch {job}` goes on watching it, `rlaunch stop {job}` ends it",
    )


def summarise(voice: Voice, world: World, job: Job, plan: Plan) -> Summary | None:
    """Print what the run has come to; trouble with it never changes how the run ended."""
    from rlaunch.cli import summary

    try:
        found = flow.diagnose(world, job)
    except RlaunchError as error:
        voice.show(f._replace(level="warning") for f in error.findings)
        return None
    made = summary.of(found, plan)
    for line in summary.lines(made, found):
        voice.say(line)
    return made


def _document(
    voice: Voice, plan: Plan, ref: JobRef | None, status: Status | None, summary: Summary | None
) -> None:
    if not voice.json:
        return
    from rlaunch.documents import plain, status_document
    from rlaunch.shapes import LaunchDocument

    ended = status_document(status) if status is not None else None
    run = plan.run
    document = LaunchDocument(
        "rlaunch.launch/1",
        str(ref or ""),
        run.id,
        run.name,
        run.cluster,
        ended,
        summary,
        plan.findings,
    )
    voice.document(plain(document))


CODES = (
    Code(
        "core.admission-timeout",
        "The job was still queued after `--admission-timeout` seconds.\n\n"
        "rlaunch stops waiting and exits 1; the job stays in the queue. Its last reason is the\n"
        "scheduler's own word on what it waits for.",
        "warning",
    ),
)
