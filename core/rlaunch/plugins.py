"""The typed facade over pluggy: every question that plugins answer, with what pluggy leaves open.

pluggy stops at the first hookimpl that raises, returns results in reverse order of registration, and
knows nothing of a generator that raises later. Here one plugin is asked at a time, results are
sorted, and a plugin that raises becomes the finding `core.plugin-failed`, which names it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import pluggy

from rlaunch import hooks
from rlaunch.codes import Code
from rlaunch.errors import PluginError, RlaunchError
from rlaunch.model import Finding

if TYPE_CHECKING:
    from rlaunch.cluster import Cluster
    from rlaunch.model import Command, Event, Evidence, Level, Milestone, Plan, Run, RunFacts

_ORDER = {"error": 0, "warning": 1, "note": 2}
_OURS = (KeyboardInterrupt, GeneratorExit)
"""What a plugin may be left by; anything else that it raises is its fault, `SystemExit` too."""


class Plugins:
    """The plugins of one launch. Each instance has its own pluggy manager; nothing is global.

    `modules` are plugin modules (or any objects with hookimpls), the core's own first. One that pluggy
    refuses (an unknown hook, an argument that the hook does not have) raises `PluginError`
    `core.plugin-invalid`. `failures` collects what went wrong while milestones were asked for.
    """

    def __init__(self, modules: Iterable[object]) -> None:
        self._manager = pluggy.PluginManager("rlaunch")
        self._manager.add_hookspecs(hooks)
        self.failures: list[Finding] = []
        for module in modules:
            self._register(module)

    def _register(self, module: object) -> None:
        name = getattr(module, "__name__", type(module).__name__)
        if self._manager.is_registered(module):
            return
        try:
            self._manager.register(module, name=name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            raise PluginError.of(
                "core.plugin-invalid",
                f"the plugin `{name}` does not fit the hooks of this rlaunch: {_line(error)}",
                hint="install a version of it that fits",
            ) from error

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the registered plugins, in the order of registration."""
        return tuple(
            name for name, plugin in self._manager.list_name_plugin() if plugin is not None
        )

    @property
    def modules(self) -> tuple[Any, ...]:
        """The registered plugins themselves, in the order of registration."""
        return tuple(plugin for _, plugin in self._manager.list_name_plugin() if plugin is not None)

    def cluster(self) -> type[Cluster] | None:
        """Return the chosen plugin's cluster class; None where no plugin has one."""
        return self._first("rlaunch_cluster")  # type: ignore[no-any-return]  # pluggy answers Any

    def command(self, run: Run) -> Command | None:
        """Return how the trainer starts; None where no plugin knows this recipe."""
        return self._first("rlaunch_command", run=run)  # type: ignore[no-any-return]  # pluggy answers Any

    def check(self, run: Run, plan: Plan) -> tuple[Finding, ...]:
        """Return all findings about a plan, sorted by level, code and place."""
        findings, failures = self._all("rlaunch_check", "error", run=run, plan=plan)
        return tuple(sorted({*findings, *failures}, key=_rank))

    def milestones(self, facts: RunFacts) -> tuple[Milestone, ...]:
        """Return the ladder, sorted by rung; failures go to `failures`."""
        rungs, failures = self._all("rlaunch_milestones", "warning", facts=facts)
        self.failures.extend(failures)
        return tuple(sorted(rungs, key=lambda rung: (rung.rung, rung.name)))

    def diagnose(self, evidence: Evidence) -> tuple[Finding, ...]:
        """Return all findings about what a run has shown, sorted by level, code and place."""
        findings, failures = self._all("rlaunch_diagnose", "warning", evidence=evidence)
        return tuple(sorted({*findings, *failures}, key=_rank))

    def event(self, event: Event) -> tuple[Finding, ...]:
        """Tell all observers; returns a warning for each that failed, and never raises."""
        return tuple(self._all("rlaunch_event", "warning", event=event)[1])

    def _implementers(self, hook: str) -> Sequence[str]:
        """Names of the plugins that implement a hook, in the order pluggy would ask them."""
        implementations = getattr(self._manager.hook, hook).get_hookimpls()
        return [implementation.plugin_name for implementation in reversed(implementations)]

    def _caller(self, hook: str, name: str) -> Callable[..., Any]:
        others = [p for n, p in self._manager.list_name_plugin() if n != name and p is not None]
        return self._manager.subset_hook_caller(hook, others)

    def _first(self, hook: str, **arguments: object) -> Any:
        """Ask one after the other until one answers; what a plugin raises is explained."""
        for name in self._implementers(hook):
            try:
                with redirect_stdout(sys.stderr):  # stdout is for what was asked for
                    answer = self._caller(hook, name)(**arguments)
            except (RlaunchError, *_OURS):
                raise
            except BaseException as error:
                raise PluginError(_failed(name, hook, error, "error")) from error
            if answer is not None:
                return answer
        return None

    def _all(self, hook: str, level: Level, **arguments: object) -> tuple[list[Any], list[Finding]]:
        """Ask every plugin; a generator is drained here, so that what it raises is caught too."""
        answers: list[Any] = []
        failures: list[Finding] = []
        for name in self._implementers(hook):
            try:
                with redirect_stdout(sys.stderr):
                    for answer in self._caller(hook, name)(**arguments):
                        answers.extend(answer or ())
            except _OURS:
                raise
            except RlaunchError as error:
                failures.extend(error.findings)
            except BaseException as error:  # noqa: BLE001  # a plugin's bug must not harm the run
                failures.append(_failed(name, hook, error, level))
        return answers, failures


def _rank(finding: Finding) -> tuple[int, str, str, str]:
    return _ORDER[finding.level], finding.code, finding.place, finding.message


def _failed(name: str, hook: str, error: BaseException, level: Level) -> Finding:
    return Finding(
        level,
        "core.plugin-failed",
        f"the plugin `{name}` failed in `{hook}`: {_line(error)}",
        hint=f"report it to the author of `{name}`; RLAUNCH_TRACEBACK=1 shows where it was raised",
    )


def _line(error: BaseException) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


CODES = (
    Code(
        "core.plugin-failed",
        "A plugin raised an exception, or called `sys.exit`, while it was asked.\n\n"
        "The exception is a bug of that plugin. In a check it stops the launch, because a rule that\n"
        "could not be judged may have been the one that matters; elsewhere it is a warning.",
    ),
    Code(
        "core.plugin-invalid",
        "A plugin implements a hook that does not exist, or with an argument that the hook lacks.\n\n"
        "It was written for another version of rlaunch. Install a version of it that fits.",
    ),
)
