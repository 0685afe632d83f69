"""Promises about planning: tried without a cluster, with hundreds of runs."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar
from unittest import mock

from hypothesis import HealthCheck, Phase, given, settings

from rlaunch import render
from rlaunch.errors import RlaunchError
from rlaunch.model import Command, Plan, Run
from rlaunch.testing import strategies
from rlaunch.testing.kit import CANARY, Kit, through_json

_TOUCHES = ("open", "os.", "socket.", "subprocess.", "shutil.", "glob.", "sqlite3.", "urllib.")
_watched: list[list[str]] = []
"""Where audit events go at the moment; an audit hook cannot be taken away again."""


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched and event.startswith(_TOUCHES):
        _watched[-1].append(f"{event} {arguments[:1]}")


sys.addaudithook(_note)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Collect what the body touches outside the process: files, sockets, processes."""
    touched: list[str] = []
    _watched.append(touched)
    try:
        yield touched
    finally:
        _watched.remove(touched)


class PlanPromises:
    """`plan` is a function: of a run, a command and what was observed, and of nothing else."""

    examples: ClassVar[int] = 60
    """How many runs each property is tried with."""

    def _for_all(self, kit: Kit, judge: Callable[[Run, Command], None]) -> None:
        # @given stands on an inner function: on an inherited method hypothesis refuses the second
        # class that runs it.
        rules = settings(
            max_examples=self.examples,
            deadline=None,
            database=None,
            derandomize=True,
            report_multiple_bugs=False,
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        rules(given(strategies.runs(kit.run), strategies.commands)(judge))()

    def test_plan_is_pure(self, kit: Kit) -> None:
        """The same run gives the same plan, whatever the machine looks like, and reads nothing."""
        kit.plan(kit.run, Command(("x",)))  # imports happen before anybody listens

        def judge(run: Run, command: Command) -> None:
            calls = len(getattr(kit.bench.shell, "calls", ()))
            with watched() as touched:
                first = kit.cluster.plan(run, command, kit_seen)
            assert not touched, f"planning touched the world: {touched}"
            assert len(getattr(kit.bench.shell, "calls", ())) == calls, "planning ran a command"
            other = {"HOME": "/nowhere", "USER": "nobody", "PATH": "/none", "TMPDIR": "/none"}
            with mock.patch.dict(os.environ, other, clear=True):
                second = kit.cluster.plan(run, command, kit_seen)
            assert first == second, "the same run was planned in two ways"

        kit_seen = kit.cluster.observe(kit.run)
        self._for_all(kit, judge)

    def test_plan_is_total(self, kit: Kit) -> None:
        """Every run gives a plan, or an `RlaunchError` that explains why not; offline too."""

        def judge(run: Run, command: Command) -> None:
            try:
                plan = kit.plan(run, command)
            except RlaunchError as error:
                if not error.findings:
                    raise AssertionError("refused without a word") from error
                return
            except Exception as error:
                raise AssertionError(f"planning raised {type(error).__name__}: {error}") from error
            assert isinstance(plan, Plan)
            assert plan.run == run, "the plan is of another run"
            assert plan.command == command, "the plan has another command"

        self._for_all(kit, judge)

    def test_plan_survives_json(self, kit: Kit) -> None:
        """A plan that was written to a file and read again is the same plan."""

        def judge(run: Run, command: Command) -> None:
            plan = kit.plan(run, command)
            assert through_json(plan) == plan, "the plan file is another plan"

        self._for_all(kit, judge)

    def test_plan_is_frozen(self, kit: Kit) -> None:
        """A plan is not tied to what it was made from: read-only mappings go in, and nothing changes."""

        def judge(run: Run, command: Command) -> None:
            frozen = run._replace(
                env=MappingProxyType(dict(run.env)), profile=MappingProxyType(dict(run.profile))
            )
            try:
                kit.plan(frozen, command)
            except TypeError as error:
                raise AssertionError(f"planning changes the run: {error}") from error

        self._for_all(kit, judge)

    def test_secrets_are_names(self, kit: Kit) -> None:
        """No value of a secret is in a plan, though it stands in the environment while it is made."""
        names = ("KIT_TOKEN", "HF_TOKEN", "WANDB_API_KEY")

        def judge(run: Run, command: Command) -> None:
            with mock.patch.dict(os.environ, dict.fromkeys(names, CANARY)):
                plan = kit.plan(run, command)
            assert CANARY not in repr(plan), "a secret's value is in the plan"
            assert set(run.secrets) <= set(plan.secrets), "a secret's name was lost"
            assert not set(plan.secrets) & plan.env.keys(), "a name is a secret and a plain value"

        self._for_all(kit, judge)

    def test_environment_is_sent_unchanged(self, kit: Kit) -> None:
        """Every variable of the run is in the plan, and in what the scheduler is sent, as it was."""

        def judge(run: Run, command: Command) -> None:
            plan = kit.plan(run, command)
            sent = kit.bench.sent(plan)
            for name, value in run.env.items():
                assert plan.env.get(name) == value, f"`{name}` is another in the plan"
                assert sent.env.get(name) == value, f"`{name}` is sent as {sent.env.get(name)!r}"

        self._for_all(kit, judge)

    def test_arguments_survive_quoting(self, kit: Kit) -> None:
        """The driver's arguments can be read back word by word out of the text and of what is sent."""

        def judge(run: Run, command: Command) -> None:
            plan = kit.plan(run, command)
            assert kit.bench.sent(plan).argv == command.argv, "other arguments are sent"
            assert shown(plan, len(command.argv)) == command.argv, "other arguments are shown"

        self._for_all(kit, judge)


def shown(plan: Plan, count: int) -> tuple[str, ...]:
    """Read the first `count` words of the command back out of the text of a dry run."""
    text = render.plan(plan).partition("\ncommand:\n")[2]
    lexer = shlex.shlex(text, posix=True, punctuation_chars="")
    lexer.whitespace_split, lexer.commenters = True, ""
    return tuple(lexer.get_token() or "" for _ in range(count))
