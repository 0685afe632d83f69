"""Rules that hold on every cluster, and the text that shows a plan."""

import shlex
from typing import Any

import pytest

from rlaunch import checks, render
from rlaunch.model import (
    Artifact,
    Command,
    Entry,
    File,
    Finding,
    Observed,
    Paths,
    Plan,
    Recipe,
    Run,
    SecretFile,
    Setting,
    Workspace,
)


def make_run(**fields: Any) -> Run:
    """A small run with everything decided."""
    run = Run(
        id="r-1", name="r", cluster="here", profile={"name": "here", "plugin": "here"}, user="u",
        created="2026-01-01T00:00:00Z", version="0", recipe=Recipe("r.yaml", "a" * 64, {}, {}),
        workspace=Workspace("/w", "c" * 40, ("x",), "d"), model_path="m", train_data=("d",), val_data=(),
        nodes=2, gpus_per_node=8, cpu=None, memory=None, disk=None, max_retries=0, timeout_s=None,
        priority=None, preemptible=None, task_image=None, skyrl_ref=None, python="/py",
        paths=Paths("/r", "/r/rv", "/r", "/d", "/r"), resume="never", overrides=(), env={}, secrets=(),
        allow=(), identity="i" * 64,
        provenance={"nodes": Setting(2, "derived", "why"), "env.A": Setting("x y", "recipe")},
    )  # fmt: skip
    return run._replace(**fields)


def make_plan(**fields: Any) -> Plan:
    """A small plan."""
    command = Command(
        ("/py", "-m", "x", "a='b c'"), ("/py", "stage"), ledger=(Entry("a.b", "dropped", "null"),)
    )
    plan = Plan(
        make_run(), command, {"A": "x y"}, ("HF_TOKEN",),
        (File("env.json", "run-dir", 0o600, '{"A": "x y"}'),),
        (Artifact("n.pyz", "run-dir", "f" * 64, 9),),
        (SecretFile("s.json", "run-dir", 0o600, ("HF_TOKEN",)),),
        {"argv": ["a"]}, Observed("2026-01-01T00:00:00Z", "here", {"cpus": 2}),
    )  # fmt: skip
    return plan._replace(**fields)


def codes(plan: Plan) -> list[str]:
    """The codes that the core's rules say."""
    return sorted(f.code for f in checks.rlaunch_check(plan.run, plan))


def test_a_plain_plan_passes():
    """A plan without faults has no findings."""
    assert codes(make_plan()) == []


def test_a_plan_file_cannot_smuggle_credentials():
    """The environment of a plan is judged again, wherever the plan came from."""
    assert codes(make_plan(env={"AWS_ACCESS_KEY_ID": "x"})) == ["env.refused"]
    assert codes(make_plan(secrets=("R2_TOKEN",))) == ["core.secret-refused"]
    asked = ("FSSPEC_S3_KEY", "FSSPEC_S3_SECRET", "FSSPEC_S3", "HF_TOKEN")
    assert codes(make_plan(secrets=asked)) == ["core.secret-refused"] * 3
    plan = make_plan()
    argv = (*plan.command.argv, "+trainer.env={AWS_PROFILE:x}")
    assert codes(plan._replace(command=plan.command._replace(argv=argv))) == ["env.refused"]
    recipe = plan.run.recipe._replace(body={"trainer": {"env": [{"HF_TOKEN": "hf_x"}]}})
    assert codes(make_plan(run=make_run(recipe=recipe))) == ["env.secret-literal"]
    assert codes(make_plan(run=make_run(overrides=("++a={R2_X:1}",)))) == ["env.refused"]


def test_what_a_plugin_plans_under_reserved_names_passes():
    """rlaunch's own variables are no fault in a plan."""
    assert codes(make_plan(env={"RLAUNCH_RUN_ID": "x"})) == []


def test_a_name_is_a_secret_or_a_variable():
    """One name cannot be both."""
    assert codes(make_plan(env={"HF_TOKEN": ""})) == ["core.secret-in-plan"]


def test_missing_data_is_an_error():
    """A run without training data is refused before it is given nodes."""
    plan = make_plan(run=make_run(train_data=()))
    assert codes(plan) == ["core.no-data"]


def test_a_finding_has_level_code_place_and_hint():
    """The shape of a finding's text."""
    text = render.finding(Finding("error", "a.b", "it is wrong", "f:1:2: k", "type this"))
    assert text == "error[a.b]: it is wrong\n  at f:1:2: k\n  hint: type this"
    assert render.finding(Finding("note", "a.b", "so")) == "note[a.b]: so"


def test_the_text_shows_what_an_override_replaced():
    """Each override with the value before it, that of the recipe or of an earlier override."""
    texts = ("trainer.epochs=7", "trainer={epochs:8}", "++x.y='a b'")
    plan = make_plan(run=make_run(overrides=texts))
    argv = ("/py", "-m", "x", "trainer.epochs=1", "trainer.seed=2", *texts)
    shown = render.plan(plan._replace(command=plan.command._replace(argv=argv)))
    section = shown.partition("overrides, with what each replaces:\n")[2].partition("\n\n")[0]
    assert section.split("\n") == [
        "  trainer.epochs=7  [was 1]",
        "  'trainer={epochs:8}'  [was trainer.epochs=7]",
        """  '++x.y='"'"'a b'"'"''  [nothing was sent for it]""",
    ]
    assert "overrides" not in render.plan(make_plan())


@pytest.mark.parametrize(
    ("content", "was"),
    [
        ('"trainer": {"note": "long"}\n', "was in the file that travels"),
        ("no such shape", "nothing was sent for it"),
    ],
)
def test_the_text_shows_that_an_override_replaced_what_travels(content: str, was: str):
    """A value in the file of values was sent too; a file that nobody can read is no fault of the text."""
    plan = make_plan(run=make_run(overrides=("trainer.note=x",)))
    file = File("hydra/rlaunch/values.yaml", "run-dir", 0o644, content)
    sent = plan.command._replace(argv=("/py", "trainer.note=x", "behind"), files=(file,))
    assert f"  trainer.note=x  [{was}]\n" in render.plan(plan._replace(command=sent))


def test_the_text_shows_all_that_is_sent():
    """Every argument, variable, secret's name, file, artifact and request is in the text, whole."""
    plan = make_plan()
    text = render.plan(plan)
    for argument in plan.command.argv:
        assert f"  {shlex.quote(argument)}\n" in text
    for piece in (
        "A='x y'",
        "HF_TOKEN",
        '{"A": "x y"}',
        "f" * 64,
        '"argv"',
        "nodes = 2  [derived: why]",
        "cpus = 2",
    ):
        assert piece in text
    assert "dropped a.b: null" in text


def test_the_text_is_never_wrapped():
    """A long argument stays on one line."""
    plan = make_plan(command=Command(("/py", "x" * 5000)))
    assert f"  {'x' * 5000}\n" in render.plan(plan)


@pytest.mark.parametrize(
    "ref",
    [
        "", "a\nb", "a\n", "-x; rm -rf /", "--force", "-", "a b", "a\x7fb", "a\tb", "a..b",
        "a/../b", ".a", "a/", "a.", "a//b", "a/.b", "x.lock", "x.lock/y", "a\x00b", "a\\b", "a:b", "a?b",
        "a[b]", "*", "~1", "^a", "/a", "x.lock~1", "x.lock^{commit}", "a" * 300,
    ],
)  # fmt: skip
def test_a_reference_that_git_would_not_take(ref: str):
    """What would be an option, several words or no name at all for `git checkout` is refused everywhere."""
    plan = make_plan(run=make_run(skyrl_ref=ref))
    (found,) = checks.rlaunch_check(plan.run, plan)
    assert (found.level, found.code, found.place) == ("error", "core.skyrl-ref", "--skyrl-ref")
    assert "\n" not in found.message
    assert "\x00" not in found.message


@pytest.mark.parametrize(
    "ref", ["518179d0", "a" * 40, "main", "origin/me/working", "v1.2", "fix_a+b", "HEAD~2", "v1.2^0", "12",
     "alice/fix@2", "feat#12", "release=1", "feature/(x)", "user/foo,bar", "ünï", "v1^{commit}", "HEAD@{1}",
     "a;b", "$(id)", "a" * 200 + "/" + "b" * 100, "main~2^{tree}"]
)  # fmt: skip
def test_a_reference_that_git_takes(ref: str):
    """Commits, branches, tags and their ancestors pass."""
    plan = make_plan(run=make_run(skyrl_ref=ref))
    assert codes(plan) == []
