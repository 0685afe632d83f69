"""Keys of `--skyrl_override` are compared with the trainer's, as a recipe's are."""

from collections.abc import Callable

import pytest

from rlaunch.model import Finding

Judged = Callable[..., tuple[Finding, ...]]


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("trainer.max_stps=3", "trainer.max_steps"),
        ("trainer.max_stps=null", "trainer.max_steps"),
        ("trainr.max_steps=3", "trainer.max_steps"),
        ("trainer.policy.optimizer_config={lr: 1e-6, weight_deacy: 0.1}",
         "trainer.policy.optimizer_config.weight_decay"),
    ],
)  # fmt: skip
def test_a_typo_in_a_plain_override_is_the_recipes_error(judged: Judged, text: str, near: str):
    """Hydra would refuse it minutes after the GPUs were given; the finding names the flag."""
    (finding,) = judged("", overrides=[text])
    assert (finding.level, finding.code) == ("error", "skyrl.key-typo")
    assert finding.place == f"--skyrl_override {text}"
    assert finding.hint == f"did you mean `{near}`?"


def test_an_unknown_plain_override_is_the_recipes_warning(judged: Judged):
    """No near miss: a newer trainer may have the key, in a recipe and in an override alike."""
    (typed,) = judged("", overrides=["generator.foo.bar=3"])
    (written,) = judged("generator: {foo: {bar: 3}}")
    assert typed.place == "--skyrl_override generator.foo.bar=3"
    assert typed._replace(place="") == written._replace(place="")
    assert (typed.level, typed.code) == ("warning", "skyrl.key-unknown")


@pytest.mark.parametrize("text", ["nope=1", "nope={a: 1}", "foo.bar=1", "nope=null"])
def test_an_unknown_section_is_a_warning(judged: Judged, text: str):
    """A key at the top level that nothing is near to is said like any other unknown key."""
    for recipe in ("", "entrypoint: rlaunch.smoke"):
        (finding,) = judged(recipe, overrides=[text])
        assert (finding.level, finding.code) == ("warning", "skyrl.key-unknown")
        assert finding.place == f"--skyrl_override {text}"


@pytest.mark.parametrize(
    ("text", "level", "code"),
    [
        ("trainer.max_stps=3", "error", "skyrl.key-typo"),
        ("smoke.fail_at_stp=3", "error", "skyrl.key-typo"),
        ("smoke.nope=3", "warning", "skyrl.key-unknown"),
        ("generator.foo=3", "warning", "skyrl.key-unknown"),
    ],
)
def test_the_toy_trainers_keys_are_compared_too(judged: Judged, text: str, level: str, code: str):
    """The toy ignores what it does not know, so a typo would be lost: it is said as SkyRL's is."""
    (finding,) = judged("entrypoint: rlaunch.smoke", overrides=[text])
    assert (finding.level, finding.code) == (level, code)
    section, _, key = text.partition("=")[0].partition(".")
    (written,) = judged(f"entrypoint: rlaunch.smoke\n{section}: {{{key}: 3}}")
    assert (written.level, written.code) == (level, code)


@pytest.mark.parametrize(
    "text",
    ["smoke.step_seconds=1", "smoke=null", "trainer.max_steps=3", "++nope=1", "generator=null"],
)
def test_what_the_toy_knows_is_not_said(judged: Judged, text: str):
    """Its own keys, the trainer's, whole sections, and what `++` adds."""
    assert judged("entrypoint: rlaunch.smoke", overrides=[text]) == ()


def test_a_configuration_group_may_be_chosen_anew(judged: Judged):
    """An override of a group that the recipe chooses is no unknown key."""
    recipe = "config_groups: {skyrl_gym_config: one}"
    assert judged(recipe, overrides=["skyrl_gym_config=two"]) == ()
    (finding,) = judged("", overrides=["skyrl_gym_config=two"])
    assert finding.code == "skyrl.key-unknown"


def test_a_key_in_both_is_told_once(judged: Judged):
    """The override wins, so the finding points at it, and there is one."""
    found = judged("generator: {foo: {bar: 3}}", overrides=["generator.foo.bar=4"])
    assert [f.place for f in found] == ["--skyrl_override generator.foo.bar=4"]


@pytest.mark.parametrize(
    "texts",
    [
        ["trainer.epochs=2", "data.train_data=[/d/x]"],
        ["trainer.policy.optimizer_config={lr: 1e-6}"],
        ["trainer.policy.fsdp_config=null"],
        ["generator.rope_scaling={type: yarn, factor: 4}"],
        ["++trainer.brand_new_knob=3"],
        ["+trainer.brand_new_knob=3", "trainer.brand_new_knob=4"],
        ["hydra.run.dir=/x"],
        ["terminal_bench_config.trials_dir=/exp/job-x/more"],
        ["terminal_bench_config=other"],
    ],
)
def test_other_overrides_keep_their_meaning(judged: Judged, texts: list[str]):
    """Known keys, whole mappings, what was added before, and sections that are not the base's."""
    assert not [f for f in judged("", overrides=texts) if f.code.startswith("skyrl.key-")]


def test_an_added_near_miss_is_a_note(judged: Judged):
    """`++` adds what it is told to: that is said and never refused."""
    (finding,) = judged("", overrides=["++trainer.max_stps=3"])
    assert (finding.level, finding.code) == ("note", "skyrl.key-added")
    assert finding.hint == "did you mean `trainer.max_steps`?"


@pytest.mark.parametrize(
    "text",
    [
        "hydra.run.dir=/tmp/x", "hydra.output_subdir=null", "hydra/job_logging=none", "hydra.job.chdir=false",
        "hydra.verbose=true", "megatron_config@trainer.ref.megatron_config=policy",
    ],
)  # fmt: skip
def test_what_hydra_takes_and_makes_one_run_is_not_refused(judged: Judged, text: str):
    """Hydra's folders and logging, and the groups of the base configuration, are the user's to choose."""
    assert judged("", overrides=[text]) == ()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("trainer/epochs=x", "`trainer.epochs=VALUE` sets a value"),
        ("++a/b=x", "`++a.b=VALUE` sets a value"),
        ("a@b=x", "`--allow skyrl.override-group` where your trainer has it"),
        ("a/b@c=x", "`--allow skyrl.override-group` where your trainer has it"),
    ],
)
def test_a_group_is_no_misspelt_key_where_it_has_a_package(judged: Judged, text: str, hint: str):
    """Only a slash may have been meant as a dot."""
    (found,) = [f for f in judged("", overrides=[text]) if f.code == "skyrl.override-group"]
    assert found.hint == hint
