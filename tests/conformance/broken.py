"""Clusters that break one promise each, made of the outsider's plugin in `tests/third_party/acme`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import rlaunch_acme
from rlaunch_acme import queue
from rlaunch_acme.cluster import Acme

from rlaunch import ClusterError, Code, Finding, JobRef, LogLine, Observed, State, hookimpl
from rlaunch.testing.fakes import FakeQueue


class Broken(NamedTuple):
    """One way to break a promise."""

    says: str
    """What the kit must say about it (a regular expression)."""
    methods: Mapping[str, Callable[..., Any]] = {}
    """Methods of the cluster that are replaced."""
    names: Mapping[str, Any] = {}
    """Names of the module that are replaced or added."""

    def plugin(self) -> ModuleType:
        """Return the broken plugin."""
        kind = type("BrokenAcme", (Acme,), dict(self.methods))
        module = ModuleType("rlaunch_acme")
        vars(module).update(vars(rlaunch_acme))
        vars(module).update({"rlaunch_cluster": hookimpl(lambda: kind), **self.names})
        return module


def lossy_request(plan_env: Callable[[dict[str, str]], dict[str, str]]) -> Callable[..., Any]:
    """Return a `plan` that sends another environment than it shows."""

    def plan(self: Acme, run: Any, command: Any, observed: Any) -> Any:
        made = Acme.plan(self, run, command, observed)
        request = queue.request(command.argv, plan_env(dict(run.env)))
        return made._replace(native={**made.native, "request": request})

    return plan


def split_words(self: Acme, run: Any, command: Any, observed: Any) -> Any:
    """Send the arguments as one string that is split again at blanks."""
    made = Acme.plan(self, run, command, observed)
    request = queue.request(" ".join(command.argv).split(" "), run.env)
    return made._replace(native={**made.native, "request": request})


def with_home(self: Acme, run: Any, command: Any, observed: Any) -> Any:
    """Plan with a variable of the operator's shell."""
    made = Acme.plan(self, run, command, observed)
    return made._replace(native={**made.native, "home": os.environ.get("HOME", "")})


def with_token(self: Acme, run: Any, command: Any, observed: Any) -> Any:
    """Look a secret up while planning."""
    made = Acme.plan(self, run, command, observed)
    return made._replace(native={**made.native, "token": os.environ.get("HF_TOKEN", "")})


def only_small(self: Acme, run: Any, command: Any, observed: Any) -> Any:
    """Fail with a bug instead of a refusal when the run is large."""
    if run.nodes > 1:
        raise KeyError(run.nodes)
    return Acme.plan(self, run, command, observed)


def with_tuple(self: Acme, run: Any, command: Any, observed: Any) -> Any:
    """Put something into the plan that JSON does not have."""
    made = Acme.plan(self, run, command, observed)
    return made._replace(native={**made.native, "size": (1, 2)})


def writes_into_run(self: Acme, run: Any, command: Any, observed: Any) -> Any:
    """Plan by changing the run that was given."""
    run.env["ACME"] = "1"
    return Acme.plan(self, run, command, observed)


def status_changed(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a `status` whose answers are changed."""

    def status(self: Acme, refs: Any) -> Any:
        return {ref: change(seen) for ref, seen in Acme.status(self, refs).items()}

    return status


def one_by_one(self: Acme, refs: Any) -> Any:
    """Ask once for each job."""
    return {ref: Acme.status(self, [ref])[ref] for ref in refs}


def naive_status(self: Acme, refs: Any) -> Any:
    """Parse without looking whether the command worked."""
    done = self.shell.run(queue.show([ref.native for ref in refs]))
    words = {line.split()[0]: line.split()[1] for line in done.out.splitlines()}
    known = {ref: queue.STATES[words[ref.native]] for ref in refs if ref.native in words}
    return {
        ref: self._status(ref, None)._replace(state=known.get(ref, State.ABSENT)) for ref in refs
    }


def silence_is_absence(self: Acme, refs: Any) -> Any:
    """Take a queue that does not answer for one that has no such job."""
    try:
        return Acme.status(self, refs)
    except ClusterError:
        return {ref: self._status(ref, None) for ref in refs}


def stop_by_retry(self: Acme, ref: JobRef) -> None:
    """Stop a job by putting it into another state, ended or not."""
    jobs: FakeQueue = self.shell._answer.__self__  # type: ignore[attr-defined]  # the fake's own
    if ref.native in jobs.jobs:
        jobs.jobs[ref.native] = jobs.jobs[ref.native]._replace(word="CANCELLED")


def stop_strictly(self: Acme, ref: JobRef) -> None:
    """Call an absent job an error."""
    queue.checked(self.shell.run(["queue", "cancel", ref.native]))


def stop_everything(self: Acme, ref: JobRef) -> None:
    """Stop whatever is there."""
    jobs: FakeQueue = self.shell._answer.__self__  # type: ignore[attr-defined]  # the fake's own
    for one in jobs.jobs:
        jobs.jobs[one] = jobs.jobs[one]._replace(word="CANCELLED")


_stops: list[JobRef] = []


def stop_counts(self: Acme, ref: JobRef) -> None:
    """Change the job each time it is stopped."""
    Acme.stop(self, ref)
    _stops.append(ref)


def tail_only(self: Acme, query: Any) -> Iterator[LogLine]:
    """Leave the first line out when following."""
    lines = list(Acme.logs(self, query))
    yield from lines[1:] if query.follow else lines


def nameless_lines(self: Acme, query: Any) -> Iterator[LogLine]:
    """Yield lines of nobody."""
    yield from (line._replace(rank=None) for line in Acme.logs(self, query))


def submit_with(change: Callable[[tuple[str, ...], dict[str, str]], Any]) -> Callable[..., Any]:
    """Return a `submit` that sends something else than the plan says."""

    def submit(self: Acme, plan: Any, secrets: Any, report: Any) -> JobRef:
        argv, env = change(*queue.read_request(plan.native["request"]))
        native = {**plan.native, "request": queue.request(argv, env)}
        return Acme.submit(self, plan._replace(native=native), secrets, report)

    return submit


def chatty_submit(self: Acme, plan: Any, secrets: Any, report: Any) -> JobRef:
    """Show the secrets while sending."""
    report(f"sending {dict(secrets)}")
    return Acme.submit(self, plan, secrets, report)


def forgetful_submit(self: Acme, plan: Any, secrets: Any, report: Any) -> JobRef:
    """Return a reference that does not know its run."""
    return Acme.submit(self, plan, secrets, report)._replace(run_id="")


def careless_observe(self: Acme, run: Any) -> Observed:
    """Observe something without saying when or where."""
    return Observed(facts={"free": 3})


def preflight_without_page(self: Acme, query: Any) -> Iterator[Finding]:
    """Say something that no page explains."""
    yield Finding("warning", "acme.strange", "something is strange", hint="look")


def one_state(state: State, instead: State) -> Callable[..., Any]:
    """Return a `status` that takes one state for another."""
    return status_changed(lambda s: s._replace(state=instead) if s.state is state else s)


def all_running(self: Acme, ref: JobRef, row: Any) -> Any:
    """Take every word for RUNNING."""
    return Acme._status(self, ref, row)._replace(state=State.RUNNING)


def lose_values(env: dict[str, str]) -> dict[str, str]:
    """Cut values at the first comma, as a scheduler's `--export` list does."""
    return {name: value.partition(",")[0] for name, value in env.items()}


def expand(argv: tuple[str, ...], env: dict[str, str]) -> Any:
    """Expand `$NAME` in values, as a shell would."""
    return argv, {name: os.path.expandvars(value) for name, value in env.items()}


def reverse(argv: tuple[str, ...], env: dict[str, str]) -> Any:
    """Turn the probe's words round."""
    return (*argv[:5], *reversed(argv[5:])), env


PROFILE = rlaunch_acme.PROFILES["acme"]
BROKEN: Mapping[str, Broken] = {
    "test_plan_is_pure": Broken("planned in two ways", {"plan": with_home}),
    "test_plan_is_total": Broken("planning raised KeyError", {"plan": only_small}),
    "test_plan_survives_json": Broken("another plan", {"plan": with_tuple}),
    "test_plan_is_frozen": Broken("planning changes the run", {"plan": writes_into_run}),
    "test_secrets_are_names": Broken("value is in the plan", {"plan": with_token}),
    "test_environment_is_sent_unchanged": Broken(
        "is sent as", {"plan": lossy_request(lose_values)}
    ),
    "test_arguments_survive_quoting": Broken("other arguments are sent", {"plan": split_words}),
    "test_unknown_job_is_absent": Broken(
        "never there is UNKNOWN", {"status": one_state(State.ABSENT, State.UNKNOWN)}
    ),
    "test_every_native_state_is_mapped": Broken(
        "`QUEUED` became RUNNING", {"status": one_state(State.WAITING, State.RUNNING)}
    ),
    "test_unknown_native_state_is_not_guessed": Broken(
        "`GRBLFX` became RUNNING", {"_status": all_running}
    ),
    "test_every_question_is_answered": Broken(
        "other jobs", {"status": lambda self, refs: Acme.status(self, refs[:1])}
    ),
    "test_many_jobs_are_one_question": Broken("a command of its own", {"status": one_by_one}),
    "test_terminal_is_final": Broken("SUCCEEDED became KILLED", {"stop": stop_by_retry}),
    "test_stopping_an_absent_job_does_nothing": Broken("is an error", {"stop": stop_strictly}),
    "test_logs_end": Broken("other lines", {"logs": tail_only}),
    "test_rubbish_gives_cluster_errors_only": Broken("raised IndexError", {"status": naive_status}),
    "test_rubbish_is_never_an_end": Broken("job is ABSENT", {"status": silence_is_absence}),
    "test_observed_is_data": Broken("without time or source", {"observe": careless_observe}),
    "test_preflight_explains": Broken("has no page", {"preflight": preflight_without_page}),
    "test_checks_explain": Broken(
        "has no page",
        names={"rlaunch_check": hookimpl(lambda run, plan: [Finding("error", "acme.what", "no")])},
    ),
    "test_codes_belong_to_the_plugin": Broken(
        "is not `acme", names={"CODES": (Code("iris.taken", "A page.\n\nLong."),)}
    ),
    "test_profiles_are_valid": Broken(
        "calls itself `acme`", names={"PROFILES": {"acme": PROFILE, "other": PROFILE}}
    ),
    "test_module_answers_known_hooks": Broken(
        "no such hook", names={"rlaunch_milestone": lambda facts: ()}
    ),
    "test_reference_reads_back": Broken("does not know its run", {"submit": forgetful_submit}),
    "test_arguments_arrive": Broken("other arguments arrived", {"submit": submit_with(reverse)}),
    "test_environment_arrives_once": Broken(
        "`KIT_DOLLAR` arrived otherwise", {"submit": submit_with(expand)}
    ),
    "test_secret_arrives_and_is_seen_nowhere": Broken("shows a secret", {"submit": chatty_submit}),
    "test_failure_is_told": Broken(
        "exit 7 became",
        {"status": status_changed(lambda s: s._replace(exit_code=s.exit_code and 1))},
    ),
    "test_success_is_told": Broken(
        "exit 0 became", {"status": one_state(State.SUCCEEDED, State.FAILED)}
    ),
    "test_lines_know_their_rank": Broken("rank 0 spoke", {"logs": nameless_lines}),
    "test_stop_ends_the_job": Broken(
        "a stopped job is FAILED", {"status": one_state(State.KILLED, State.FAILED)}
    ),
    "test_stop_twice_is_once": Broken(
        "changed the job",
        {
            "stop": stop_counts,
            "status": status_changed(lambda s: s._replace(since=str(len(_stops)))),
        },
    ),
    "test_stop_spares_others": Broken("another job became KILLED", {"stop": stop_everything}),
}
"""promise -> a cluster that breaks it."""
