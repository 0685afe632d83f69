"""What SLURM is asked, and how its text is read: pairs of a command and its parser. Pure.

Text with a header, never `--json` (its shape changes by version) and never `--noheader`: a login node
that cannot fork answers nothing at all, with exit code 0, and the header tells the two apart. Times are
asked for in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlaunch_slurm_jupiter.states import Link

CLEAN = (
    "env",
    "-u",
    "SQUEUE_FORMAT",
    "-u",
    "SQUEUE_FORMAT2",
    "-u",
    "SACCT_FORMAT",
    "-u",
    "SLURM_TIME_FORMAT",
)
UTC = (*CLEAN, "TZ=UTC", "LC_ALL=C")
QUEUE_FORMAT = "%A|%T|%r|%S|%N|%j|%Z"
QUEUE_HEADER = "JOBID|STATE|REASON|START_TIME|NODELIST|NAME|WORK_DIR"
ACCOUNT_FIELDS = "JobIDRaw,State,ExitCode,Start,End,NodeList,JobName,WorkDir"
ACCOUNT_HEADER = ACCOUNT_FIELDS.replace(",", "|")
BACK_DAYS = 30
"""So far back the accounting is searched by name; asked by job id it needs no limit."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\Z")
_FIELD = re.compile(r"(?:^|\s)(\w+)=(.*?)(?=\s+\w[\w:/]*=|\s*$)")
_JOB = re.compile(r"\d+\Z")


class NotAnswered(ValueError):  # noqa: N818  # says what it is
    """The text is not what the tool prints; whatever it is, it says nothing about jobs."""


def ask_queue(jobs: Iterable[str]) -> tuple[str, ...]:
    """Return the command that describes jobs the controller remembers."""
    return (*UTC, "squeue", "--states=all", f"--format={QUEUE_FORMAT}", f"--jobs={','.join(jobs)}")


def read_queue(text: str) -> dict[str, Link]:
    """Read `squeue`'s table: job id -> job. Raises NotAnswered without the header or for a broken row."""
    rows = _rows(text, QUEUE_HEADER, 7)
    return {
        job: Link(job, state, reason, time_of(start), nodes=nodes, name=name, work_dir=folder)
        for job, state, reason, start, nodes, name, folder in rows
        if _JOB.match(job)
    }


def is_unknown_job(text: str) -> bool:
    """Tell whether `squeue`'s complaint is the positive "not there" for the one job it was asked about."""
    return "Invalid job id specified" in text


def ask_accounting(jobs: Iterable[str]) -> tuple[str, ...]:
    """Return the command that describes jobs from the accounting, steps included."""
    return (
        *UTC, "sacct", "--parsable2", f"--format={ACCOUNT_FIELDS}", f"--jobs={','.join(jobs)}",
    )  # fmt: skip


def read_accounting(text: str) -> dict[str, Link]:
    """Read `sacct`'s table: job id -> job with the states of its steps. Raises NotAnswered."""
    found: dict[str, Link] = {}
    steps: dict[str, list[str]] = {}
    for job, state, code, start, end, nodes, name, folder in _rows(text, ACCOUNT_HEADER, 8):
        root, dot, _ = job.partition(".")
        if not _JOB.match(root):
            continue
        if dot:
            steps.setdefault(root, []).append(state)
            continue
        exit_code, number = exit_of(code)
        found[root] = Link(
            root, state, "", time_of(start), time_of(end), exit_code, number, nodes, name, folder
        )
    return {job: link._replace(steps=tuple(steps.get(job, ()))) for job, link in found.items()}


def is_no_accounting(text: str) -> bool:
    """Tell whether this cluster keeps no accounting at all (which is not a failure to answer)."""
    return "accounting storage is disabled" in text


def ask_job(job: str) -> tuple[str, ...]:
    """Return the command that describes one job, for what accounting has not written yet."""
    return (*UTC, "scontrol", "--oneliner", "show", "job", job)


def read_job(text: str) -> Link | None:
    """Read `scontrol show job`; None for anything else."""
    fields = dict(_FIELD.findall(text.strip()))
    if not _JOB.match(fields.get("JobId", "")) or "JobState" not in fields:
        return None
    code, number = exit_of(fields.get("ExitCode", ""))
    nodes = "" if fields.get("NodeList") in (None, "(null)") else fields["NodeList"]
    return Link(
        fields["JobId"], fields["JobState"], fields.get("Reason", ""), time_of(fields.get("StartTime", "")),
        time_of(fields.get("EndTime", "")), code, number, nodes, fields.get("JobName", ""),
        fields.get("WorkDir", ""),
    )  # fmt: skip


def ask_named(names: Iterable[str]) -> tuple[str, ...]:
    """Return the command that finds the user's own jobs by name: a run's name is its id."""
    return (
        *UTC, "squeue", "--me", "--states=all", f"--format={QUEUE_FORMAT}",
        f"--name={','.join(names)}",
    )  # fmt: skip


def ask_named_accounting(names: Iterable[str]) -> tuple[str, ...]:
    """Return the command that finds jobs by name in the accounting, which of itself shows today's only."""
    return (
        *UTC, "sacct", "--parsable2", f"--format={ACCOUNT_FIELDS}", f"--starttime=now-{BACK_DAYS}days",
        f"--name={','.join(names)}",
    )  # fmt: skip


def ask_running() -> tuple[str, ...]:
    """Return the command that lists the names of the user's jobs that rlaunch submitted."""
    return (*UTC, "squeue", "--me", "--states=all", "--format=%T|%k|%j")


def read_running(text: str) -> tuple[str, ...]:
    """Return the names of runs that have a job which runs or is to run. Raises NotAnswered."""
    from rlaunch_slurm_jupiter.states import meaning

    names = []
    for state, comment, name in _rows(text, "STATE|COMMENT|NAME", 3):
        if comment == "rlaunch" and not meaning(state).ended:
            names.append(name)
    return tuple(dict.fromkeys(names))


def ask_nodes(partition: str | None) -> tuple[str, ...]:
    """Return the command that lists the nodes of a partition with their GPUs and states."""
    words = (*UTC, "sinfo", "--Node", "--format=%N|%G|%T")
    return (*words, f"--partition={partition}") if partition else words


def read_nodes(text: str) -> dict[str, tuple[int, str]]:
    """Return node -> (GPUs, state). Raises NotAnswered."""
    found = {}
    for node, gres, state in _rows(text, "NODELIST|GRES|STATE", 3):
        found[node] = (gpus_of(gres), state.rstrip("*~#!%$@^+-"))
    return found


def gpus_of(gres: str) -> int:
    """Count the GPUs of a GRES text: `gpu:4`, `gpu:gh200:4(S:0-3)`, `gpu:a:2,gpu:b:2`, `(null)`."""
    counts = re.findall(r"(?:^|,)gpu(?::[^,:()]+)??(?::(\d+))?(?=\(|,|$)", gres)
    return sum(int(count or 1) for count in counts)


def read_submitted(text: str) -> str | None:
    """Return the job id that `sbatch --parsable` printed, `123` or `123;cluster`, among other lines.

    None without one, and with several: a site's greeting may have numbers too.
    """
    words = (row.strip().partition(";")[0] for row in text.splitlines())
    jobs = [word for word in words if _JOB.match(word)]
    return jobs[0] if len(jobs) == 1 else None


def exit_of(text: str) -> tuple[int | None, int | None]:
    """Read `code:signal`. A code above 128 is a shell's word for a signal, and is kept as both."""
    code, colon, number = text.strip().partition(":")
    if not (colon and code.isdecimal() and number.isdecimal()):
        return None, None
    signal = int(number) or (int(code) - 128 if 128 < int(code) <= 192 else 0)
    return int(code), signal or None


def time_of(text: str) -> str:
    """Return RFC 3339 in UTC of a time that SLURM printed in UTC; empty for `N/A` and `Unknown`."""
    return f"{text}Z" if _TIME.match(text) else ""


def _rows(text: str, header: str, width: int) -> list[list[str]]:
    lines = text.split("\n")
    begin = next((n for n, line in enumerate(lines, 1) if line.strip() == header), None)
    if begin is None:
        raise NotAnswered(f"no table: `{text.strip()[:80]}`")
    rows = []
    for line in lines[begin:]:
        if line.strip():
            fields = line.split("|", width - 1)
            if len(fields) != width:
                raise NotAnswered(f"a broken row: `{line[:80]}`")
            rows.append([field.strip() for field in fields])
    return rows
