"""Promises about answers: what a cluster makes of a scheduler's words, of silence and of rubbish."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from rlaunch import codes as code_pages
from rlaunch import hooks
from rlaunch.cluster import LogQuery, PreflightQuery
from rlaunch.errors import ClusterError
from rlaunch.model import ENDED, Command, Finding, JobRef, Observed, State
from rlaunch.testing.kit import CANARY, Kit, read_profile

INVENTED = "GRBLFX"
"""A word that no scheduler says."""


class AnswerPromises:
    """`status`, `logs`, `stop` and `preflight` tell the truth, and fail in one way only."""

    def test_unknown_job_is_absent(self, kit: Kit) -> None:
        """A job that was never there is `ABSENT`: an answer, not an exception."""
        seen = kit.status(kit.bench.absent())
        assert seen.state is State.ABSENT, f"a job that was never there is {seen.state}"

    def test_every_native_state_is_mapped(self, kit: Kit) -> None:
        """Each word of the scheduler becomes the state that the plugin's author says it means."""
        for word, state in kit.bench.native_states().items():
            seen = kit.status(kit.bench.show(word))
            assert seen.state is state, f"`{word}` became {seen.state}, not {state}"

    def test_unknown_native_state_is_not_guessed(self, kit: Kit) -> None:
        """A word that nobody knows is `UNKNOWN` or a `ClusterError`, never "running" or "ended"."""
        ref = kit.bench.show(INVENTED)
        try:
            seen = kit.status(ref)
        except ClusterError:
            return
        assert seen.state is State.UNKNOWN, f"`{INVENTED}` became {seen.state}"

    def test_every_question_is_answered(self, kit: Kit) -> None:
        """`status` answers for exactly the jobs that it was asked about, each under its own name."""
        words = kit.bench.native_states()
        refs = [kit.bench.show(word) for word in words] + [kit.bench.absent()]
        answers = kit.cluster.status(refs)
        assert set(answers) == set(refs), "other jobs were answered for than were asked about"
        assert all(seen.job == ref for ref, seen in answers.items()), (
            "an answer is about another job"
        )
        assert kit.cluster.status([]) == {}, "an empty question has an empty answer"

    def test_many_jobs_are_one_question(self, kit: Kit) -> None:
        """Asking about twenty jobs costs no more commands than asking about one."""
        word = next(iter(kit.bench.native_states()))
        refs = [kit.bench.show(word) for _ in range(20)]
        calls: list[object] = getattr(kit.bench.shell, "calls", [])
        before = len(calls)
        kit.cluster.status(refs[:1])
        one = len(calls) - before
        kit.cluster.status(refs)
        assert len(calls) - before - one <= one, "each job costs a command of its own"

    def test_terminal_is_final(self, kit: Kit) -> None:
        """An ended job stays as it ended, however often it is asked about or stopped."""
        for word, state in kit.bench.native_states().items():
            if state not in ENDED or state is State.ABSENT:
                continue
            ref = kit.bench.show(word)
            first = kit.status(ref)
            kit.cluster.stop(ref)
            second = kit.status(ref)
            assert second.state is first.state, f"`{word}`: {first.state} became {second.state}"
            assert second.exit_code == first.exit_code, f"`{word}`: the exit code changed"

    def test_stopping_an_absent_job_does_nothing(self, kit: Kit) -> None:
        """`stop` of a job that is not there is no error, and makes none appear."""
        ref = kit.bench.absent()
        for _ in range(2):
            found = _explained("stop of an absent job", partial(kit.cluster.stop, ref))
            assert not found, f"stopping an absent job is an error: {found}"
        assert kit.status(ref).state is State.ABSENT, "stopping made an absent job appear"

    def test_logs_end(self, kit: Kit) -> None:
        """The log of an ended job ends, with and without `follow`, and each line is a `LogLine`."""
        words = kit.bench.native_states()
        word = next(w for w, state in words.items() if state in ENDED and state is not State.ABSENT)
        ref = kit.bench.show(word)
        plain = list(kit.cluster.logs(LogQuery(ref)))
        followed = list(kit.cluster.logs(LogQuery(ref, follow=True)))
        texts = [line.text for line in plain]
        assert texts == [line.text for line in followed], "following shows other lines"
        assert not [line for line in plain if "\n" in line.text], "a line is several"

    def test_rubbish_gives_cluster_errors_only(self, kit: Kit) -> None:
        """Whatever the world answers, a method returns, or raises `ClusterError` with a known code."""
        pages = kit.codes()
        for fault in kit.bench.faults():
            for name, action in _actions(kit).items():
                ref = kit.bench.show(next(iter(kit.bench.native_states())))
                kit.bench.spoil(fault, ref)
                found = _explained(f"{name} after {fault}", partial(action, ref))
                for finding in found:
                    assert finding.code in pages, f"`{finding.code}` has no page"
                    assert CANARY not in repr(finding), "an error shows a secret's value"

    def test_rubbish_is_never_an_end(self, kit: Kit) -> None:
        """A scheduler that answers rubbish leaves a job `UNKNOWN`: neither ended nor absent nor well."""
        for fault in kit.bench.faults():
            ref = kit.bench.show(next(iter(kit.bench.native_states())))
            kit.bench.spoil(fault, ref)
            try:
                seen = kit.status(ref)
            except ClusterError:
                continue
            assert seen.state is State.UNKNOWN, f"after {fault} the job is {seen.state}"

    def test_observed_is_data(self, kit: Kit) -> None:
        """What was observed says when and where from, and can be written into a plan file."""
        seen = kit.cluster.observe(kit.run)
        assert isinstance(seen, Observed)
        assert json.loads(json.dumps(dict(seen.facts))) == dict(seen.facts)
        assert not seen.facts or (seen.at and seen.source), "facts without time or source"

    def test_preflight_explains(self, kit: Kit) -> None:
        """Preflight of a good world has no error, and each finding has a known code and a hint."""
        plan = kit.job("0")
        found = tuple(kit.cluster.preflight(PreflightQuery(plan, frozenset(plan.secrets))))
        assert not [f for f in found if f.level == "error"], f"a good world is refused: {found}"
        _judge_findings(kit, found)

    def test_checks_explain(self, kit: Kit) -> None:
        """What the plugin's checks say has a code with a page, and a hint of what to type."""
        plan = kit.plan(kit.run, Command(("x",)))
        _judge_findings(kit, kit.hooks.check(kit.run, plan))

    def test_codes_belong_to_the_plugin(self, kit: Kit) -> None:
        """Every code of the plugin begins with its name and has a page of more than a heading."""
        for code in getattr(kit.plugin, "CODES", ()):
            assert isinstance(code, code_pages.Code)
            assert code.code.startswith(f"{kit.owner}."), f"`{code.code}` is not `{kit.owner}.…`"
            assert len(code.page.split("\n", 1)) == 2, f"the page of `{code.code}` is one line"

    def test_profiles_are_valid(self, kit: Kit) -> None:
        """Each shipped profile fits the plugin's model, says the plugin's name, and reasons about
        settings that exist."""
        assert kit.plugin.DEFAULT_PROFILE in kit.plugin.PROFILES
        for name, path in kit.plugin.PROFILES.items():
            profile = kit.kind.Profile.model_validate(read_profile(path))
            assert profile.name == name, f"profile `{name}` calls itself `{profile.name}`"
            assert profile.plugin == kit.owner, f"profile `{name}` belongs to `{profile.plugin}`"
            fields = kit.kind.Profile.model_fields
            strange = [r for r in profile.reasons if r.partition(".")[0] not in fields]
            assert not strange, f"reasons for what is no setting: {strange}"

    def test_module_answers_known_hooks(self, kit: Kit) -> None:
        """The module implements only hooks that exist, and `rlaunch_cluster` exactly once."""
        # Plugins() refuses unknown hooks and arguments when it registers the module; a name that only
        # looks like a hook (never marked, never asked) is found here.
        ours = {name for name in vars(kit.plugin) if name.startswith("rlaunch_")}
        strange = {n for n in ours if callable(getattr(kit.plugin, n)) and not hasattr(hooks, n)}
        assert not strange, f"no such hook: {strange}"
        unmarked = {
            n for n in ours - strange
            if callable(getattr(kit.plugin, n)) and not hasattr(getattr(kit.plugin, n), "rlaunch_impl")
        }  # fmt: skip
        assert not unmarked, f"defined and never asked, `@hookimpl` is missing: {unmarked}"
        assert kit.hooks.cluster() is kit.kind


def _judge_findings(kit: Kit, found: tuple[Finding, ...]) -> None:
    pages = kit.codes()
    for finding in found:
        assert finding.code in pages, f"`{finding.code}` has no page"
        assert finding.hint or finding.level == "note", f"`{finding.code}` has no hint"


def _said(what: str, error: ClusterError) -> tuple[Finding, ...]:
    assert error.findings, f"{what}: an error without a finding"
    return error.findings


def _actions(kit: Kit) -> dict[str, Callable[[JobRef], object]]:
    return {
        "status": lambda ref: kit.cluster.status([ref]),
        "logs": lambda ref: list(kit.cluster.logs(LogQuery(ref))),
        "stop": kit.cluster.stop,
        "observe": lambda ref: kit.cluster.observe(kit.run),
    }


def _explained(what: str, action: Callable[[], object]) -> tuple[Finding, ...]:
    try:
        action()
    except ClusterError as error:
        return _said(what, error)
    except Exception as error:  # the promise is about what else comes out
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error
    return ()
