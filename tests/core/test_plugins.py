"""The facade over pluggy: sorted, and one plugin's fault is told with its name."""

import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from rlaunch.errors import PluginError, RecipeError
from rlaunch.hooks import hookimpl
from rlaunch.model import Finding, Milestone, RunFacts
from rlaunch.plugins import Plugins

RUN: Any = SimpleNamespace(name="r")
PLAN: Any = SimpleNamespace(name="p")
B = Finding("error", "b.b", "second")
A = Finding("error", "a.a", "first")
W = Finding("warning", "a.a", "third")


class Two:
    """Finds two things, in the wrong order."""

    @hookimpl
    def rlaunch_check(self, run: Any, plan: Any) -> Iterable[Finding]:
        return (W, B)

    @hookimpl
    def rlaunch_milestones(self, facts: RunFacts) -> Iterable[Milestone]:
        return (Milestone(2, "two", "", ()),)


class Lazy:
    """Takes fewer arguments than the hook has, and answers as a generator."""

    @hookimpl
    def rlaunch_check(self, run: Any) -> Iterator[Finding]:
        yield A

    @hookimpl
    def rlaunch_milestones(self) -> Iterator[Milestone]:
        yield Milestone(1, "one", "", ())


class Raising:
    """Fails everywhere, in a generator only after its first answer."""

    @hookimpl
    def rlaunch_check(self, run: Any, plan: Any) -> Iterator[Finding]:
        yield A
        raise ZeroDivisionError("division by zero")

    @hookimpl
    def rlaunch_milestones(self, facts: RunFacts) -> Iterable[Milestone]:
        raise RuntimeError

    @hookimpl
    def rlaunch_event(self, event: Any) -> None:
        raise OSError("no network")

    @hookimpl
    def rlaunch_command(self, run: Any) -> None:
        raise KeyError("entrypoint")


class Leaving:
    """Calls `sys.exit` wherever it is asked, after a word on stdout."""

    @hookimpl
    def rlaunch_check(self, run: Any, plan: Any) -> Iterator[Finding]:
        print("leaving")
        yield A
        sys.exit(0)

    @hookimpl
    def rlaunch_event(self, event: Any) -> None:
        sys.exit(0)

    @hookimpl
    def rlaunch_command(self, run: Any) -> None:
        print("leaving")
        sys.exit(0)


class Interrupted:
    """Is asked while the operator presses Ctrl-C."""

    @hookimpl
    def rlaunch_check(self, run: Any, plan: Any) -> Iterable[Finding]:
        raise KeyboardInterrupt

    @hookimpl
    def rlaunch_command(self, run: Any) -> None:
        raise KeyboardInterrupt


class Judging:
    """Refuses with an explained error."""

    @hookimpl
    def rlaunch_check(self, run: Any, plan: Any) -> Iterable[Finding]:
        raise RecipeError(B)

    @hookimpl
    def rlaunch_command(self, run: Any) -> None:
        raise RecipeError(B)


class Answering:
    """Has an answer to the questions that take one."""

    @hookimpl
    def rlaunch_cluster(self) -> Any:
        return dict

    @hookimpl(trylast=True)
    def rlaunch_command(self, run: Any) -> Any:
        return ("command", run.name)


class Silent:
    """Does not know this recipe."""

    @hookimpl
    def rlaunch_command(self, run: Any) -> Any:
        return None


def test_findings_are_sorted_by_level_and_code():
    """The order of registration and of the answers does not matter."""
    for modules in ((Two(), Lazy()), (Lazy(), Two())):
        assert Plugins(modules).check(RUN, PLAN) == (A, B, W)


def test_milestones_are_sorted_by_rung():
    """The ladder is in order whoever says its rungs."""
    assert [m.rung for m in Plugins([Two(), Lazy()]).milestones(RunFacts())] == [1, 2]


def test_a_plugin_that_raises_is_named_and_the_others_are_heard():
    """A generator that raises late is caught too; in a check it is an error, for its rule may matter."""
    findings = Plugins([Two(), Raising(), Lazy()]).check(RUN, PLAN)
    (failed,) = [f for f in findings if f.code == "core.plugin-failed"]
    assert failed.level == "error"
    assert "`Raising` failed in `rlaunch_check`: ZeroDivisionError" in failed.message
    assert {A, B, W} <= set(findings)


def test_a_ladder_with_a_broken_plugin_is_a_ladder_with_a_warning():
    """Milestones of the others are given, the failure is kept for whoever shows them."""
    plugins = Plugins([Two(), Raising()])
    assert [m.rung for m in plugins.milestones(RunFacts())] == [2]
    (failed,) = plugins.failures
    assert (failed.level, failed.code) == ("warning", "core.plugin-failed")


def test_an_observer_that_fails_is_a_warning():
    """An event never raises."""
    (finding,) = Plugins([Two(), Raising()]).event(SimpleNamespace())  # type: ignore[arg-type]
    assert finding.level == "warning"
    assert "OSError: no network" in finding.message


def test_an_explained_error_stays_as_it_was_said():
    """A plugin's refusal is not told as its failure."""
    assert Plugins([Judging()]).check(RUN, PLAN) == (B,)
    with pytest.raises(RecipeError) as refused:
        Plugins([Judging()]).command(RUN)
    assert refused.value.findings == (B,)


def test_a_command_that_raises_is_a_plugin_error_with_its_cause():
    """The plugin's name and hook are told, the traceback stays reachable."""
    with pytest.raises(PluginError, match=r"`Raising` failed in `rlaunch_command`") as refused:
        Plugins([Raising()]).command(RUN)
    assert isinstance(refused.value.__cause__, KeyError)


def test_the_first_answer_counts_and_trylast_comes_last():
    """A plugin that does not know the recipe lets the next one answer."""
    plugins = Plugins([Answering(), Silent()])
    assert plugins.command(RUN) == ("command", "r")
    assert plugins.cluster() is dict
    assert Plugins([Silent()]).command(RUN) is None
    assert Plugins([]).cluster() is None


def test_a_hook_that_does_not_exist_is_refused():
    """A misspelt hook would never be asked, so the plugin is refused, with its name."""

    class Misspelt:
        @hookimpl
        def rlaunch_chekc(self, run: Any) -> Any:
            return ()

    class Greedy:
        @hookimpl
        def rlaunch_check(self, run: Any, colour: str) -> Any:
            return ()

    for module in (Misspelt(), Greedy()):
        with pytest.raises(PluginError, match=type(module).__name__):
            Plugins([module])


def test_one_module_is_registered_once_and_managers_share_nothing():
    """A plugin named twice is asked once, and another launch's plugins are its own."""
    two = Two()
    assert Plugins([two, two]).check(RUN, PLAN) == (B, W)
    assert Plugins([]).modules == ()
    assert Plugins([two]).modules == (two,)
    assert Plugins([two]).names == ("Two",)


def test_a_plugin_that_exits_is_a_plugin_that_failed(capsys: pytest.CaptureFixture[str]):
    """`sys.exit(0)` in a hook is no success of the command, and what it prints is not on stdout."""
    plugins = Plugins([Two(), Leaving()])
    (failed,) = [f for f in plugins.check(RUN, PLAN) if f.code == "core.plugin-failed"]
    assert failed.level == "error"
    assert "`Leaving` failed in `rlaunch_check`: SystemExit" in failed.message
    assert [f.code for f in plugins.event(SimpleNamespace())] == ["core.plugin-failed"]  # type: ignore[arg-type]
    with pytest.raises(PluginError, match=r"`Leaving` failed in `rlaunch_command`"):
        plugins.command(RUN)
    assert capsys.readouterr() == ("", "leaving\nleaving\n")


def test_an_interrupt_is_the_operators():
    """Ctrl-C while a plugin is asked ends the command and is not told as the plugin's failure."""
    for ask in (lambda p: p.check(RUN, PLAN), lambda p: p.command(RUN)):
        with pytest.raises(KeyboardInterrupt):
            ask(Plugins([Interrupted()]))
