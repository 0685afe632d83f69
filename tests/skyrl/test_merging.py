"""Overrides change a recipe's body as Hydra's own composition changes a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlaunch.model import Finding, Run
from rlaunch.skyrl import command, grammar, overrides
from rlaunch.skyrl.derive import derive
from rlaunch.skyrl.replaced import replaced
from rlaunch.smoke.values import parse

PARSER = OverridesParser.create()
Judged = Callable[..., tuple[Finding, ...]]
ITEMS = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["x", "a/b", ""]))
NAMES = st.sampled_from(["a", "b", "c"])
TREES = st.recursive(
    ITEMS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
BODIES = st.fixed_dictionaries(
    {"trainer": st.dictionaries(NAMES, TREES, max_size=3)},
    optional={"generator": st.dictionaries(NAMES, TREES, max_size=3)},
)
KEYS = st.builds(
    lambda head, rest: ".".join((head, *rest)),
    st.sampled_from(["trainer", "trainer", "generator"]),
    st.lists(st.sampled_from(["a", "b", "c", "0", "1"]), max_size=3),
)
TEXTS = st.one_of(
    st.builds(
        lambda prefix, key, value: f"{prefix}{key}={grammar.write(value)}",
        st.sampled_from(["", "+", "++", "++"]), KEYS, TREES,
    ),
    KEYS.map(lambda key: f"~{key}"),
)  # fmt: skip


def ours(body: Any, texts: list[str]) -> Any:
    """Apply overrides as rlaunch does."""
    return overrides.apply(body, [overrides.parse(text) for text in texts])


@pytest.mark.parametrize(
    ("body", "texts", "after"),
    [
        ({"a": {"b": 1, "c": 2}}, ["trainer={a:{b:5}}"], {"a": {"b": 5, "c": 2}}),
        ({"a": {"b": 1}}, ["+trainer.a={c:2}"], {"a": {"b": 1, "c": 2}}),
        ({"a": [1, 2]}, ["+trainer.a=[3]"], {"a": [3]}),
        ({"a": {"b": 1}}, ["trainer.a={}"], {"a": {"b": 1}}),
        ({"a": {"b": 1}}, ["trainer.a=null", "++trainer.a={c:1}"], {"a": {"c": 1}}),
        ({"a": [{"b": 1}, 2]}, ["++trainer.a.0={c:3}", "trainer.a.1=4"], {"a": [{"b": 1, "c": 3}, 4]}),
        ({"a": 1}, ["++trainer.a.b.c=2"], {"a": {"b": {"c": 2}}}),
        ({"a": {"b": None}, "c": 1}, ["~trainer.a"], {"c": 1}),
        ({"a": {"b": {"c": 1}}}, ["trainer.a={b:null}"], {"a": {"b": None}}),
    ],
)  # fmt: skip
def test_a_body_is_what_hydra_composes(tmp_path: Path, body: Any, texts: list[str], after: Any):
    """Mappings merge, lists and single values replace, as in a composition from files."""
    (tmp_path / "base.yaml").write_text(OmegaConf.to_yaml({"trainer": body}), "utf-8")
    with initialize_config_dir(str(tmp_path), version_base=None):
        composed = OmegaConf.to_container(compose("base", overrides=texts))
    assert ours({"trainer": body}, texts) == composed == {"trainer": after}


@settings(max_examples=200, deadline=None)
@given(BODIES, st.lists(TEXTS, min_size=1, max_size=3))
def test_any_body_is_what_hydra_makes_of_it(body: Any, texts: list[str]):
    """The same with any tree, any prefix and any number of overrides that Hydra accepts."""
    config = OmegaConf.create(body)
    OmegaConf.set_struct(config, True)
    try:
        for override in PARSER.parse_overrides(texts):
            ConfigLoaderImpl._apply_overrides_to_config([override], config)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError):
        reject()
    assert ours(body, texts) == OmegaConf.to_container(config)


def test_a_mapping_leaves_its_neighbours(judged: Judged):
    """An override of one key of a section takes nothing from the section, and draws no finding."""
    for text in (
        "generator={gpu_memory_utilization:0.8}",
        "trainer.placement={colocate_all:false}",
        "trainer={placement:{colocate_all:false}}",
    ):
        assert judged("", overrides=[text]) == ()


def test_a_mapping_is_blamed_for_what_it_sets_only(judged: Judged):
    """A fault in the recipe points at the recipe, though an override touches the same section."""
    (found,) = judged(
        "generator: {sampling_params: {topk: 4}}",
        overrides=["generator={gpu_memory_utilization:0.8}"],
    )
    assert found.place.endswith("generator.sampling_params.topk")
    typed = judged("", overrides=["++generator={sampling_params:{topk:4}}"])
    places = [f.place for f in typed if f.code == "skyrl.sampling-params"]
    assert places == ["--skyrl_override ++generator={sampling_params:{topk:4}}"]


@pytest.mark.parametrize(
    "text",
    [
        "trainer=null",
        "~trainer",
        "data={train_data:[x]}",
        "data.train_data.0=x",
        "trainer={ckpt_path:{a:1}}",
    ],
)
def test_an_override_around_or_inside_a_decided_key_warns(judged: Judged, text: str):
    """Whatever the form, a value that rlaunch decides is not replaced without a word."""
    found = [f for f in judged("", overrides=[text]) if f.code == "skyrl.override-derived"]
    assert [f.place for f in found] == [f"--skyrl_override {text}"]


def test_an_ancestor_of_decided_keys_names_them(judged: Judged):
    """Whoever replaces a section reads which decisions of rlaunch are lost."""
    (found,) = [
        f for f in judged("", overrides=["data=null"]) if f.code == "skyrl.override-derived"
    ]
    assert found.level == "warning"
    assert found.place == "--skyrl_override data=null"
    assert "`data.train_data`, `data.val_data`" in found.message
    (one,) = [
        f for f in judged("", overrides=["trainer={ckpt_path:/tmp/x}"]) if "derived" in f.code
    ]
    assert "`trainer.ckpt_path` would be `/exp/job-x/checkpoints`" in one.message


def test_a_placement_that_was_typed_is_not_laid_out_anew(launch: Callable[..., Run]):
    """An override of a count, by itself or in a mapping, is the placement that was meant."""
    recipe = """
entrypoint: terminal_bench
trainer: {placement: {colocate_all: false, policy_num_nodes: 2, policy_num_gpus_per_node: 4}}
generator: {num_inference_engines: 8, inference_engine_tensor_parallel_size: 1}
"""
    key = "trainer.placement.policy_num_nodes"
    for text, laid in (
        ("trainer.epochs=1", True),
        ("trainer={epochs:1}", True),
        (f"{key}=2", False),
        ("trainer={placement:{policy_num_nodes:2}}", False),
    ):
        run = launch(recipe, overrides=[text])
        derived = {item.key for item in derive(run, (overrides.parse(text),))}
        assert (key in derived) is laid, text


def test_only_a_choice_of_a_group_of_ones_own_is_waivable():
    """Some of Hydra's settings make several runs of one, so no flag lets them pass."""
    from rlaunch.skyrl.override_rules import override_chooses_no_group, override_starts_one_run

    codes = [
        rule.code  # type: ignore[attr-defined]  # set by @rule
        for rule in (override_starts_one_run, override_chooses_no_group)
    ]
    assert [(c.level, c.waivable) for c in codes] == [("error", False), ("error", True)]


def test_the_group_of_a_section_may_be_chosen(launch: Callable[..., Run]):
    """`terminal_bench_config=NAME` chooses a file; the recipe's own values of the section stay."""
    recipe = "entrypoint: terminal_bench\nterminal_bench: {harbor: {name: x}}\n"
    body = launch(recipe).recipe.body
    for text in ("terminal_bench_config=other", "~terminal_bench_config"):
        assert overrides.apply(body, [overrides.parse(text)]) is body


def test_what_an_override_replaces(launch: Callable[..., Run]):
    """The value before it, by key; that of an earlier override when there was one; nothing else."""
    texts = [
        "trainer.logger=wandb",
        "trainer={logger:x,epochs:2}",
        "++generator.brand_new='a b'",
        "data={train_data:[/x]}",
        "~trainer.placement",
        "+terminal_bench_config.more=1",
        "terminal_bench_config=other",
    ]
    made = command.command(launch(overrides=texts))
    assert made is not None
    said = dict(replaced(made.argv, texts))
    assert list(said) == texts
    assert said[texts[0]] == ("console",)
    assert said[texts[1]] == ("trainer.logger=wandb",)
    assert said[texts[2]] == ()
    assert [text.partition("=")[0] for text in said[texts[3]]] == ["data.train_data"]
    assert "trainer.placement.policy_num_nodes=1" in said[texts[4]]
    assert said[texts[5]] == ()
    assert said[texts[6]] == ("terminal_bench",)
    assert list(replaced(("python", "other.py"), ())) == []


def test_an_override_replaces_what_travels_in_the_file(launch: Callable[..., Run]):
    """A value that no argument carries was sent all the same, whichever override decides it."""
    text = f"entrypoint: terminal_bench\nterminal_bench: {{note: &long {'y' * 150_000}}}\n"
    text += "generator: {engine_init_kwargs: {long: *long, 'a b': {c: 1}}}\n"
    texts = ["++generator.engine_init_kwargs={long:x}", "++terminal_bench_config.note=short",
             "++generator.engine_init_kwargs.long=y", "++generator.engine_init_kwargs=null"]  # fmt: skip
    made = command.command(launch(text, overrides=texts))
    assert made is not None
    (file,) = made.files
    said = dict(replaced(made.argv, texts, parse(file.content)))
    assert said[texts[0]] == ("generator.engine_init_kwargs.long in the file that travels",)
    assert said[texts[1]] == ("in the file that travels",)
    assert said[texts[2]] == ("x",)
    assert "generator.engine_init_kwargs.a b.c in the file that travels" in said[texts[3]]


def test_overrides_are_found_wherever_they_stand(launch: Callable[..., Run]):
    """Arguments that a plugin adds behind them hide nothing; without them there is nothing to tell."""
    texts = ["trainer.logger=wandb", "++x=1"]
    argv = ("python", "trainer.logger=console", *texts, "--more", "trainer.logger=last")
    assert dict(replaced(argv, texts)) == {texts[0]: ("console",), texts[1]: ()}
    assert list(replaced(argv, [*texts, "y=1"])) == []


def test_the_ledger_tells_of_an_override_of_a_section(launch: Callable[..., Run]):
    """A leaf is marked by the override that decides it, and by no other of the same section."""
    text = "entrypoint: terminal_bench\ntrainer: {epochs: 2, seed: 1}\n"
    made = command.command(launch(text, overrides=["trainer={epochs:3}"]))
    assert made is not None
    details = {entry.key: entry.detail for entry in made.ledger}
    assert details["trainer.epochs"] == (
        "trainer.epochs=2; then overridden by `trainer={epochs:3}`"
    )
    assert details["trainer.seed"] == "trainer.seed=1"
