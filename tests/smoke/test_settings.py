"""Which arguments the toy trainer takes, and what it says about those that it cannot."""

from __future__ import annotations

import pytest

from rlaunch.skyrl.tree import removed, updated
from rlaunch.smoke.__main__ import main
from rlaunch.smoke.overrides import parse
from rlaunch.smoke.settings import KEYS, SettingsError, build_tree, read

DATA = "data.train_data=['/d']"


def test_defaults_are_those_of_the_table() -> None:
    """With nothing but data, every setting has its default."""
    settings = read([DATA])
    assert settings.train_data == ("/d",)
    for key in KEYS:
        if key.field != "train_data":
            assert getattr(settings, key.field) == key.default


def test_skyrl_arguments_are_taken() -> None:
    """The argument shapes that a launcher sends for a real recipe are read."""
    settings = read(
        [
            "+terminal_bench_config=terminal_bench",
            "trainer.strategy=fsdp2",
            "trainer.max_steps=2",
            "trainer.policy.optimizer_config.lr=8e-6",
            "trainer.policy.optimizer_config.adam_betas=[0.9,0.999]",
            "++trainer.hf_hub_repo_id='it\\'s'",
            "trainer.ckpt_path='/tmp/a b/ck'",
            "trainer.policy.model.path=toy/grpo",
            "+terminal_bench_config.harbor.n_concurrent_trials=32",
            "+terminal_bench_config.trials_dir=/tmp/trials",
            "++generator.engine_init_kwargs.rope_scaling={type:yarn,factor:2.0}",
            'data.train_data=["/d/a","/d/b"]',
            "data.val_data=[]",
            "trainer.logger=null",
        ]
    )
    assert settings.max_steps == 2
    assert settings.lr == 8e-6
    assert settings.ckpt_path == "/tmp/a b/ck"
    assert settings.concurrent_trials == 32
    assert settings.trials_dir == "/tmp/trials"
    assert settings.train_data == ("/d/a", "/d/b")


def test_the_last_argument_wins() -> None:
    """A repeated key has its last value; `~key` takes it away again."""
    words = [DATA, "trainer.seed=1", "++trainer.seed=2"]
    assert read(words).seed == 2
    assert read([*words, "~trainer.seed"]).seed == 42


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("trainer.max_steps=0", "at least 1"),
        ("trainer.max_steps=two", "whole number"),
        ("trainer.max_steps=2.0", "whole number"),
        ("trainer.max_steps=true", "whole number"),
        ("trainer.epochs=null", "is null"),
        ("trainer.policy.optimizer_config.lr=0", "above 0"),
        ("trainer.policy.optimizer_config.lr=nan", "above 0"),
        ("trainer.algorithm.eps_clip_low=-0.1", "at least 0"),
        ("generator.n_samples_per_prompt=1", "at least 2"),
        ("generator.sampling_params.temperature=hot", "above 0"),
        ("trainer.policy.model.path=Qwen/Qwen3-8B", "toy/grpo"),
        ("trainer.resume_mode=maybe", "from_path"),
        ("trainer.resume_mode=latest", "ckpt_path"),
        ("trainer.resume_mode=from_path", "resume_path"),
        ("trainer.ckpt_path=[a]", "a path or a URL"),
        ("data.train_data=[1]", "list of directories"),
        ("data.train_data=[]", "names no directory"),
        ("++smoke.exit_code=256", "at most 255"),
        ("trainer.seed=1,2", "sweep"),
        ("trainer.seed", "key=value"),
        ("trainer.seed.x=1", "seed"),
    ],
)
def test_a_bad_value_ends_with_2_and_names_the_key(
    argument: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing starts with a value that cannot be used; the message says the key and why."""
    with pytest.raises(SettingsError, match=words):
        read([DATA, "trainer.seed=1" if argument == "trainer.seed.x=1" else "a=1", argument])
    assert main([DATA, "trainer.seed=1", argument]) == 2
    assert argument.partition("=")[0].lstrip("+") in capsys.readouterr().err


def test_unknown_keys_are_kept_quiet() -> None:
    """A recipe's keys that mean nothing to the toy do not stop it."""
    assert read([DATA, "trainer.fsdp.whatever=[1,{a:b}]", "hydra/launcher=x"]).seed == 42


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["trainer.epochs=3", "trainer={seed:7}"], {"trainer": {"epochs": 3, "seed": 7}}),
        (["trainer.a.b=1", "trainer={a:{c:[2]}}"], {"trainer": {"a": {"b": 1, "c": [2]}}}),
        (["trainer.a=[1]", "trainer={a:{b:1}}"], {"trainer": {"a": {"b": 1}}}),
        (["trainer.a.b=1", "trainer=null"], {"trainer": None}),
        (["trainer={a:{b:1}}", "~trainer.a.b"], {"trainer": {"a": {}}}),
    ],
)
def test_mappings_merge_as_in_hydra(words: list[str], expected: object) -> None:
    """A mapping keeps the keys beside it, so the toy gets what the plan says and a real trainer would get."""
    tree = build_tree(map(parse, words))
    assert tree == expected
    body: dict[str, object] = {}
    for word in words:
        key, _, _ = word.lstrip("~").partition("=")
        given = parse(word)
        body = removed(body, key) if given.mark == "~" else updated(body, key, given.value)
    assert body == expected
