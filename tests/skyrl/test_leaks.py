"""Credentials are refused wherever they stand: any depth, mappings and lists, recipes and overrides."""

from typing import Any

import pytest
import yaml

from rlaunch import leaks, recipes
from rlaunch.skyrl import overrides


def of_recipe(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Codes and places of a recipe."""
    recipe = recipes.parse(yaml.safe_dump(body).encode(), "r.yaml")
    return [(f.code, f.place.rpartition(" ")[2]) for f in leaks.of_recipe(recipe)]


def of_override(text: str) -> list[tuple[str, str]]:
    """Codes and places of an override."""
    return [(f.code, f.place) for f in leaks.of_override(overrides.parse(text))]


@pytest.mark.parametrize(
    ("body", "code", "place"),
    [
        ({"terminal_bench": {"env": {"AWS_SECRET_ACCESS_KEY": "abc"}}}, "env.refused",
         "terminal_bench.env.AWS_SECRET_ACCESS_KEY"),
        ({"rollout": {"e": {"R2_TOKEN": 1}}}, "env.refused", "rollout.e.R2_TOKEN"),
        ({"trainer": {"jobs": [{"x": [{"aws_access_key_id": "k"}]}]}}, "env.refused",
         "trainer.jobs[0].x[0].aws_access_key_id"),
        ({"trainer": {"FSSPEC_S3": {"key": "a"}}}, "env.refused", "trainer.FSSPEC_S3"),
        ({"trainer": {"FSSPEC_S3": '{"key": "a"}'}}, "env.refused", "trainer.FSSPEC_S3"),
        ({"generator": {"env": {"FSSPEC_S3_KEY": "a"}}}, "env.refused", "generator.env.FSSPEC_S3_KEY"),
        ({"terminal_bench": {"env": {"APPTAINERENV_AWS_PROFILE": "a"}}}, "env.refused",
         "terminal_bench.env.APPTAINERENV_AWS_PROFILE"),
        ({"terminal_bench": {"env": ["AWS_PROFILE=x"]}}, "env.refused", "terminal_bench.env[0]"),
        ({"terminal_bench": {"env": [{"name": "AWS_PROFILE", "value": "x"}]}}, "env.refused",
         "terminal_bench.env[0]"),
        ({"terminal_bench": {"env": {"AWS_PROFILE": "${AWS_PROFILE}"}}}, "env.refused",
         "terminal_bench.env.AWS_PROFILE"),
        ({"trainer": {"a": {"HF_TOKEN": "hf_x"}}}, "env.secret-literal", "trainer.a.HF_TOKEN"),
        ({"trainer": {"a": {"PIN_PASSWORD": 1234}}}, "env.secret-literal", "trainer.a.PIN_PASSWORD"),
        ({"trainer": {"a": {"api_key": "sk-x"}}}, "env.secret-literal", "trainer.a.api_key"),
        ({"trainer": {"a": {"api_keys": 1, "API_TOKEN": ["x"]}}}, "env.secret-literal",
         "trainer.a.API_TOKEN"),
        ({"trainer": {"args": "--env AWS_PROFILE=x -v"}}, "env.refused", "trainer.args"),
        ({"trainer": {"env": '{"A": 1, "R2_TOKEN": "x"}'}}, "env.refused", "trainer.env"),
        ({"trainer": {"env": ["{AWS_PROFILE: x}"]}}, "env.refused", "trainer.env[0]"),
        ({"extra_env": {"X": "-e AWS_PROFILE=x"}}, "env.refused", "extra_env.X"),
        ({"extra_env": {"X": {"AWS_PROFILE": "x"}}}, "env.refused", "extra_env.X.AWS_PROFILE"),
    ],
)  # fmt: skip
def test_a_recipe_is_searched_to_its_leaves(body: dict[str, Any], code: str, place: str):
    """One finding with the key's own place, whatever section it stands in."""
    assert of_recipe(body) == [(code, place)]


@pytest.mark.parametrize(
    "body",
    [
        {"terminal_bench": {"model_info": {"input_cost_per_token": 0.5}}},
        {"terminal_bench": {"api_key_env": "OPENAI_API_KEY", "forward": ["HF_TOKEN", "AWS_PROFILE"]}},
        {"terminal_bench": {"env": {"HF_TOKEN": "${oc.env:HF_TOKEN}", "X_KEY": "$X_KEY"}}},
        {"terminal_bench": {"a": {"API_KEY": "A_KEY", "B_KEY": None, "C_KEY": "", "api_key": "EMPTY"}}},
        {"trainer": {"env": {"AWS_PROFILE": None}}},
        {"trainer": {"FSSPEC_S3": {"endpoint_url": "http://x"}}},
        {"generator": {"eos_token": "<|im_end|>", "prompt_key": "question", "use_key": True}},
        {"data": {"reward_key": "r", "new_token": "x", "max_token": 5, "sort": {"key": "x"}}},
        {"trainer": {"note": "neither AWS_PROFILE nor R2_TOKEN is sent", "b": "LAWS_OF=3"}},
        {"trainer": {"note": "LR=3", "tokens": "a=b", "awesome": 1, "r2": 1}},
        {"extra_env": {"AWS_PROFILE": "x"}, "container": {"extra_env": {"HF_TOKEN": "x"}}},
    ],
)  # fmt: skip
def test_neighbours_of_secrets_pass(body: dict[str, Any]):
    """Names of secrets, references, numbers and tokens of a tokenizer; variables are `env`'s to judge."""
    assert of_recipe(body) == []


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        (
            "+trainer.env={AWS_SECRET_ACCESS_KEY:x}",
            "env.refused",
            "trainer.env.AWS_SECRET_ACCESS_KEY",
        ),
        ("extra_env={AWS_SECRET_ACCESS_KEY:x}", "env.refused", "extra_env.AWS_SECRET_ACCESS_KEY"),
        ("++generator.foo=[{R2_KEY:x}]", "env.refused", "generator.foo[0].R2_KEY"),
        ("++generator.foo=[{R2_KEY:null}]", "env.refused", "generator.foo[0].R2_KEY"),
        ("++a.R2_X.b=1", "env.refused", "a.R2_X.b"),
        ("~a.R2_X", "env.refused", "a.R2_X"),
        ("++a.b='AWS_PROFILE=x'", "env.refused", "a.b"),
        ("++a={b.AWS_PROFILE:x}", "env.refused", "a.b.AWS_PROFILE"),
        ("++a.FSSPEC_S3={key:x}", "env.refused", "a.FSSPEC_S3"),
        ("++a.HF_TOKEN=x", "env.secret-literal", "a.HF_TOKEN"),
        ("++a=[[{HF_TOKEN:hf_x}]]", "env.secret-literal", "a[0][0].HF_TOKEN"),
    ],
)
def test_an_override_is_searched_to_its_leaves(text: str, code: str, path: str):
    """The mapping form is refused as the dotted one is; the place has the key and never the value."""
    assert of_override(text) == [(code, f"--skyrl_override {path}")]


@pytest.mark.parametrize(
    "text",
    ["++a.api_key_env=OPENAI_API_KEY", "++a={HF_TOKEN:null}", "++a.API_KEY=OPENAI_API_KEY", "++a.eos_token=x",
     "trainer.cost_per_token=0.1", "++a=[AWS_PROFILE]"],
)  # fmt: skip
def test_an_override_that_names_a_secret_passes(text: str):
    """What merely names a variable shows nothing."""
    assert of_override(text) == []


def test_saved_recipes_have_no_credentials(shared_recipes: Any):
    """No real recipe is refused for a name that only looks like a secret's."""
    for path in sorted(shared_recipes.glob("*.yaml")):
        assert list(leaks.of_recipe(recipes.read(str(path)))) == []
