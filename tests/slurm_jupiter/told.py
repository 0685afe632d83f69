"""A SLURM that is told what to say, on a machine whose other commands are real."""

from __future__ import annotations

from collections.abc import Callable

from rlaunch.model import JobRef, Plan
from rlaunch.shell import Done, Shell
from rlaunch.testing.fakes import FakeClock, FakeShell
from rlaunch_slurm_jupiter import queries
from rlaunch_slurm_jupiter.cluster import Slurm

TOOLS = ("squeue", "sacct", "scancel", "scontrol", "sbatch", "sinfo")
Said = tuple[int, str, str]


class Site:
    """One machine with a SLURM that says what the test wants; other commands are real."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.says: dict[str, list[Done]] = {}
        self.answers: dict[str, Callable[[tuple[str, ...]], Said | None]] = {}
        """Tools whose answer depends on the question; None: ask the real one."""
        self.shell, self.clock = FakeShell(self._answer), FakeClock()
        profile = Slurm.Profile.model_validate(plan.run.profile)
        self.cluster = Slurm(profile, self.shell, self.clock)

    def say(self, tool: str, *answers: Said) -> None:
        """Queue answers of a tool; the last one stays."""
        self.says[tool] = [Done((), *answer) for answer in answers]

    def _answer(self, argv: tuple[str, ...], stdin: str | None) -> Done | None:
        asked = next((w for w in argv if w in self.answers), "")
        if asked and (said := self.answers[asked](argv)) is not None:
            return Done(argv, *said)
        tool = next((w for w in argv if w in self.says), "")
        if tool:
            several = self.says[tool]
            return (several.pop(0) if len(several) > 1 else several[0])._replace(argv=argv)
        if any(w in argv for w in TOOLS):
            return Done(argv, 0, "", "")
        return Shell().run(argv, stdin=stdin)

    def calls(self, tool: str) -> list[tuple[str, ...]]:
        """How a tool was called."""
        return [c[c.index(tool) + 1 :] for c in self.shell.calls if tool in c]

    def submit(self) -> JobRef:
        """Submit the plan with a secret."""
        return self.cluster.submit(self.plan, {"HF_TOKEN": "s3cr3t"}, lambda line: None)


def queue(*rows: str) -> Said:
    """What squeue prints."""
    return (0, "\n".join([queries.QUEUE_HEADER, *rows]) + "\n", "")


def accounting(*rows: str) -> Said:
    """What sacct prints."""
    return (0, "\n".join([queries.ACCOUNT_HEADER, *rows]) + "\n", "")
