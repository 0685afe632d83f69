"""From a request to a submitted job: nothing half-sent, nothing lost."""

from pathlib import Path
from typing import Any

import pytest
from tests.core.scripted import (
    Scripted,
    ask,
    install,
    make_world,
    planned,
    refusal,
    transient,
    write_recipe,
)

from rlaunch import flow
from rlaunch.cluster import PreflightQuery
from rlaunch.documents import plan_from_json, plan_to_json
from rlaunch.errors import RlaunchError, UnclearSubmitError
from rlaunch.launching import Interrupted
from rlaunch.model import Finding
from rlaunch.runs import Runs
from rlaunch.secrets import Keyring


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The scripted cluster, and what observers were told."""
    return install(monkeypatch, tmp_path)


def codes(prepared: flow.Prepared) -> list[str]:
    """The codes of the errors."""
    return [f.code for f in prepared.findings if f.level == "error"]


def test_prepare_sends_nothing_and_records_nothing(events: list[Any], tmp_path: Path):
    """A dry run leaves no trace: no row, no event, no call that writes."""
    plan = planned(tmp_path)
    assert plan.observed.facts == {"free": 1}
    assert (Scripted.submitted, Scripted.asked, events) == ([], [], [])
    assert not (tmp_path / "state").exists()


def test_problems_are_findings_and_never_raised(events: list[Any], tmp_path: Path):
    """A missing recipe, a bad flag and a bad recipe come as findings."""
    world = make_world(tmp_path)
    assert codes(flow.prepare(world, ask(tmp_path, rl_config="/no/such.yaml"))) == [
        "recipe.missing"
    ]
    bad = ask(tmp_path, settings={"nodes": 0})
    assert codes(flow.prepare(world, bad)) == ["core.setting-invalid"]
    odd = ask(tmp_path, rl_config=write_recipe(tmp_path, "entrypoint: some.other.trainer\n"))
    assert "core.no-trainer" in codes(flow.prepare(world, odd))
    assert codes(flow.prepare(world, ask(tmp_path, cluster=""))) == ["core.cluster-missing"]


def test_the_users_variables_are_a_layer(events: list[Any], tmp_path: Path):
    """`[env]` of rlaunch.toml reaches the job, a cluster's own section wins, and both are judged."""
    user = {"env": {"A": "all", "B": 1}, "clusters": {"scripted": {"env": {"A": "own"}}}}
    plan = planned(tmp_path, make_world(tmp_path)._replace(user=user))
    assert plan.env == {"A": "own", "B": "1"}
    assert plan.run.provenance["env.B"].source == "rlaunch.toml"
    world = make_world(tmp_path)._replace(user={"env": {"AWS_SECRET_ACCESS_KEY": "x"}})
    assert codes(flow.prepare(world, ask(tmp_path))) == ["env.refused"]


def test_the_name_that_was_typed_has_a_section_too(events: list[Any], tmp_path: Path):
    """Settings under the typed name and under the profile's own are both used; the latter win."""
    user = {"clusters": {"alias": {"cpu": 3, "max_retries": 2}, "scripted": {"cpu": 5}}}
    plan = planned(tmp_path, make_world(tmp_path)._replace(user=user), cluster="alias")
    assert (plan.run.cpu, plan.run.max_retries) == (5, 2)


def test_a_section_about_no_cluster_is_said(events: list[Any], tmp_path: Path):
    """A misspelt section of rlaunch.toml is a warning with the name that was meant."""
    world = make_world(tmp_path)._replace(user={"clusters": {"lcoal": {"cpu": 1}}})
    found = [f for f in flow.prepare(world, ask(tmp_path)).findings if f.level == "warning"]
    assert [f.code for f in found] == ["core.config-section"]
    assert found[0].hint == "did you mean `[clusters.local]`?"


def test_a_recipe_outside_the_workspace(events: list[Any], tmp_path: Path):
    """Where the workspace travels, the recipe must lie inside it."""
    inner = tmp_path / "inner"
    inner.mkdir()
    world = make_world(inner)
    assert codes(flow.prepare(world, ask(tmp_path))) == ["recipe.outside-workspace"]


def test_what_cannot_be_observed_is_a_warning(events: list[Any], tmp_path: Path):
    """A cluster that does not answer the look is planned with the profile's values."""
    Scripted.sees = transient()
    plan = planned(tmp_path)
    assert plan.observed.facts == {}
    assert "core.not-observed" in [f.code for f in plan.findings]


def test_offline_does_not_look(events: list[Any], tmp_path: Path):
    """`--offline` plans without asking the cluster."""
    Scripted.sees = AssertionError("looked")
    assert planned(tmp_path, offline=True).observed.facts == {}


def test_a_bug_in_observe_stays_a_bug(events: list[Any], tmp_path: Path):
    """An exception that is not the cluster's own keeps its traceback."""
    Scripted.sees = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        flow.prepare(make_world(tmp_path), ask(tmp_path))


def test_submit_sends_the_plan_as_it_is(events: list[Any], tmp_path: Path):
    """The cluster gets the very plan, with the values of its secrets only; the record knows it."""
    world = make_world(tmp_path, environ={"HF_TOKEN": "canary", "OTHER": "x"})
    plan = planned(tmp_path, world)
    ref = flow.submit(world, plan)
    assert Scripted.submitted == [(plan, {"HF_TOKEN": "canary"})]
    row = world.open_runs().find("my-run")
    assert row is not None
    assert (row.native, row.state, row.plan["run"]["id"]) == (ref.native, None, plan.run.id)
    assert [e.kind for e in events] == ["submitted"]
    assert b"canary" not in b"".join(p.read_bytes() for p in (tmp_path / "state").iterdir())


def test_a_plan_that_went_through_json_is_the_same(events: list[Any], tmp_path: Path):
    """What a plan file says is what would have been submitted directly."""
    plan = planned(tmp_path)
    assert plan_from_json(plan_to_json(plan)) == plan


def test_preflight_stops_before_anything_is_written(events: list[Any], tmp_path: Path):
    """An error of preflight leaves no row; skipped by name it passes; a warning is reported once."""
    Scripted.preflights = [
        Finding("error", "scripted.full", "no room"),
        Finding("warning", "scripted.w", "so so"),
    ]
    said: list[str] = []
    world = make_world(tmp_path, said=said)
    plan = planned(tmp_path, world)
    assert refusal(world, plan) == ["scripted.full"]
    assert world.open_runs().find("my-run") is None
    flow.submit(world, plan, skip=frozenset({"scripted.full"}))
    assert sum("scripted.w" in line for line in said) == 1


def test_the_check_of_secrets_is_skipped_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`secrets` is a check of every cluster; its code and its name both skip it, a wrong name is refused."""
    install(monkeypatch, tmp_path, required_secrets=["HF_TOKEN"])
    world = make_world(tmp_path)
    plan = planned(tmp_path, world)
    assert refusal(world, plan) == ["core.secret-missing"]
    assert refusal(world, plan, skip=frozenset({"secret"})) == ["core.check-unknown"]
    for run_id, name in (("0123abcd", "secrets"), ("89abcdef", "core.secret-missing")):
        own = make_world(tmp_path, run_id)
        own = own._replace(open_runs=lambda name=name: Runs(str(tmp_path / name / "runs.sqlite")))
        flow.submit(own, plan, skip=frozenset({name}))
    assert len(Scripted.submitted) == 2


def test_preflight_gets_the_secrets_that_submit_will_get(
    events: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A check can try the values, of the plan's names only, the file's before the shell's; none is shown."""
    file = tmp_path / "secrets.env"
    file.write_text("HF_TOKEN=canary-file\nOTHER=canary-other\n")
    file.chmod(0o600)
    keyring = Keyring(str(file), {"HF_TOKEN": "canary-shell"})
    world = make_world(tmp_path)._replace(keyring=keyring)
    queries: list[PreflightQuery] = []

    def look(self: Scripted, query: PreflightQuery) -> list[Finding]:
        queries.append(query)
        return []

    monkeypatch.setattr(Scripted, "preflight", look)
    flow.submit(world, planned(tmp_path, world))
    assert queries[0].collect() == Scripted.submitted[0][1] == {"HF_TOKEN": "canary-file"}
    assert "canary" not in repr(queries[0])


def test_a_failed_submit_is_recorded_and_raised(events: list[Any], tmp_path: Path):
    """When the cluster does not take the job, the row says so and the error comes out."""
    Scripted.fails = [transient("down")]
    world = make_world(tmp_path)
    assert refusal(world, planned(tmp_path, world)) == ["scripted.down"]
    row = world.open_runs().find("my-run")
    assert row is not None
    assert row.failed_at is not None
    assert "down" in row.failure


def test_a_failed_submit_can_be_sent_again(events: list[Any], tmp_path: Path):
    """The same plan is taken once the cluster does; its own failed row does not take its name."""
    world = make_world(tmp_path)
    plan = planned(tmp_path, world)
    Scripted.fails = [transient("down")]
    assert refusal(world, plan) == ["scripted.down"]
    Scripted.fails = []
    flow.submit(world, plan)
    row = world.open_runs().find("my-run")
    assert row is not None
    assert (row.failed_at, row.native) == (None, plan.run.id)


def test_an_unknown_submit_is_not_recorded_as_failed(events: list[Any], tmp_path: Path):
    """The job may be there, so the run stays open and its plan is not sent a second time."""
    world = make_world(tmp_path)
    plan = planned(tmp_path, world)
    Scripted.fails = [UnclearSubmitError(Finding("error", "scripted.lost", "no answer"))]
    assert refusal(world, plan) == ["scripted.lost"]
    row = world.open_runs().find("my-run")
    assert row is not None
    assert row.open
    Scripted.fails = []
    assert refusal(world, plan) == ["plan.submitted"]


def test_an_interrupted_submit_says_whether_anything_was_sent(events: list[Any], tmp_path: Path):
    """Ctrl-C while the cluster is asked is told from one before that."""
    world = make_world(tmp_path)
    plan = planned(tmp_path, world)
    Scripted.fails = [KeyboardInterrupt()]
    with pytest.raises(Interrupted):
        flow.submit(world, plan)
    row = world.open_runs().find("my-run")
    assert row is not None
    assert row.open


def test_a_run_id_is_submitted_once(events: list[Any], tmp_path: Path):
    """The same plan a second time is refused."""
    world = make_world(tmp_path)
    plan = planned(tmp_path, world)
    flow.submit(world, plan)
    Scripted.submitted.clear()
    assert refusal(world, plan) == ["plan.submitted"]


def test_a_stale_plan_file_is_refused(events: list[Any], tmp_path: Path):
    """Another version or a changed workspace is said before anything is sent."""
    plan = planned(tmp_path)
    later = make_world(tmp_path, digest="changed", version="9.9")
    assert refusal(later, plan, from_file=True) == ["plan.version", "plan.workspace-changed"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"commit": "b" * 40}, "is at bbbbbbbbbbbb"),
        ({"root": "/elsewhere"}, "that was `/"),
        ({"dirty": ("new.py",)}, "`new.py`"),
        ({}, "content of a file"),
    ],
    ids=["commit", "root", "new", "content"],
)
def test_a_changed_workspace_is_told_apart(
    events: list[Any], tmp_path: Path, change: dict[str, Any], told: str
):
    """What differs from the plan's workspace is named: commit, directory, or the files."""
    plan = planned(tmp_path)
    world = make_world(tmp_path)
    here = world.context.workspace._replace(digest="changed", **change)
    world = world._replace(context=world.context._replace(workspace=here))
    with pytest.raises(RlaunchError) as caught:
        flow.submit(world, plan, from_file=True)
    (finding,) = caught.value.findings
    assert (finding.code, told in finding.message) == ("plan.workspace-changed", True)


def test_absolute_refusals_hold_for_plan_files(events: list[Any], tmp_path: Path):
    """Credentials written into a plan file are refused at submit."""
    plan = planned(tmp_path)
    bad = plan._replace(env={**plan.env, "AWS_SECRET_ACCESS_KEY": "x"})
    assert refusal(make_world(tmp_path), bad, from_file=True) == ["env.refused"]


def test_a_waiver_lets_one_code_pass_and_is_kept(events: list[Any], tmp_path: Path):
    """`--allow env.dollar` turns that error into a warning, in prepare and again in submit."""
    recipe = write_recipe(tmp_path, "entrypoint: rlaunch.smoke\nextra_env: {A: $HOME}\n")
    world = make_world(tmp_path)
    assert codes(flow.prepare(world, ask(tmp_path, rl_config=recipe))) == ["env.dollar"]
    allowed = flow.prepare(world, ask(tmp_path, rl_config=recipe, allow=("env.dollar",)))
    assert codes(allowed) == []
    assert allowed.plan is not None
    assert allowed.plan.env["A"] == "$HOME"
    flow.submit(world, allowed.plan)
    assert Scripted.submitted[0][0].run.allow == ("env.dollar",)


def test_a_refusal_cannot_be_waived(events: list[Any], tmp_path: Path):
    """Neither an absolute refusal nor an unknown code is accepted by `--allow`."""
    world = make_world(tmp_path)
    assert codes(flow.prepare(world, ask(tmp_path, allow=("env.refused",)))) == ["core.allow"]
    assert codes(flow.prepare(world, ask(tmp_path, allow=("no.such",)))) == ["core.allow"]
