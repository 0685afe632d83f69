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
        ({"terminal_bench": {"env": {"AWS_PROFILE": "${PROFILE}"}}}, "env.refused",
         "terminal_bench.env.AWS_PROFILE"),
        ({"trainer": {"e": {"AWS_SECRET_ACCESS_KEY": "${oc.env:AWS_SECRET_ACCESS_KEY,abc}"}}},
         "env.refused", "trainer.e.AWS_SECRET_ACCESS_KEY"),
        ({"trainer": {"e": {"AWS_REGION": "us-west-2"}}}, "env.refused", "trainer.e.AWS_REGION"),
        ({"trainer": {"e": {"AWS_PROFILE": ""}}}, "env.refused", "trainer.e.AWS_PROFILE"),
        ({"trainer": {"e": {"AWS_PROFILE": "dummy"}}}, "env.refused", "trainer.e.AWS_PROFILE"),
        ({"trainer": {"e": {"AWS_PROFILE": "$aws_profile"}}}, "env.refused", "trainer.e.AWS_PROFILE"),
        ({"trainer": {"e": "Aws_Secret_Access_Key=x"}}, "env.refused", "trainer.e"),
        ({"trainer": {"FSSPEC_S3.key": "a"}}, "env.refused", "trainer.FSSPEC_S3.key"),
        ({"trainer": {"e": "A=1,AWS_PROFILE=x"}}, "env.refused", "trainer.e"),
        ({"trainer": {"e": "aws_region=us,AWS_PROFILE=x"}}, "env.refused", "trainer.e"),
        ({"trainer": {"e": "run -e APPTAINERENV_AWS_PROFILE=x"}}, "env.refused", "trainer.e"),
        ({"trainer": {"e": "export AWS_PROFILE=${AWS_PROFILE:-x}"}}, "env.refused", "trainer.e"),
        ({"trainer": {"e": 'run -e AWS_PROFILE="$AWS_PROFILE"x'}}, "env.refused", "trainer.e"),
        ({"trainer": {"e": "x=1 y=${AWS_SECRET_ACCESS_KEY:-abc}"}}, "env.refused", "trainer.e"),
        ({"trainer": {"e": ": ${AWS_PROFILE:=x}"}}, "env.refused", "trainer.e"),
        ({"trainer": {"e": '{"AWS_REGION": null, "AWS_PROFILE": "x"}'}}, "env.refused", "trainer.e"),
        ({"trainer": {"e": "env:\n  - AWS_PROFILE: x\n"}}, "env.refused", "trainer.e"),
        ({"trainer": {"e": "env -u AWS_REGION AWS_PROFILE=x run"}}, "env.refused", "trainer.e"),
        ({"trainer": {"a": {"HF_TOKEN": "hf_x"}}}, "env.secret-literal", "trainer.a.HF_TOKEN"),
        ({"trainer": {"a": {"PIN_PASSWORD": 1234}}}, "env.secret-literal", "trainer.a.PIN_PASSWORD"),
        ({"trainer": {"a": {"api_key": "sk-x"}}}, "env.secret-literal", "trainer.a.api_key"),
        ({"trainer": {"a": {"api_keys": 1, "API_TOKEN": ["x"]}}}, "env.secret-literal",
         "trainer.a.API_TOKEN"),
        ({"trainer": {"args": "--env AWS_PROFILE=x -v"}}, "env.refused", "trainer.args"),
        ({"trainer": {"env": '{"A": 1, "R2_TOKEN": "x"}'}}, "env.refused", "trainer.env"),
        ({"trainer": {"env": ["{AWS_PROFILE: x}"]}}, "env.refused", "trainer.env[0]"),
        ({"trainer": {"e": {"token": "abc"}}}, "env.secret-literal", "trainer.e.token"),
        ({"trainer": {"e": {"judge_hf_token": "abc"}}}, "env.secret-literal", "trainer.e.judge_hf_token"),
        ({"trainer": {"e": {"x-api-key": "abc"}}}, "env.secret-literal", "trainer.e.x-api-key"),
        ({"trainer": {"e": {"access_key_id": "abc"}}}, "env.secret-literal", "trainer.e.access_key_id"),
        ({"trainer": {"e": {"key_password": "abc"}}}, "env.secret-literal", "trainer.e.key_password"),
        ({"trainer": {"e": {"db_password": "abc"}}}, "env.secret-literal", "trainer.e.db_password"),
        ({"trainer": {"e": {"user_token": "sk-abc123"}}}, "env.secret-literal", "trainer.e.user_token"),
        ({"trainer": {"e": {"MASK_KEY": "abc"}}}, "env.secret-literal", "trainer.e.MASK_KEY"),
        ({"trainer": {"e": {"api_key": "my_dummy"}}}, "env.secret-literal", "trainer.e.api_key"),
        ({"trainer": {"e": {"api_key": "os.environ/sk-abc"}}}, "env.secret-literal", "trainer.e.api_key"),
        ({"trainer": {"e": {"api_key": "{{sk-abc}}"}}}, "env.secret-literal", "trainer.e.api_key"),
        ({"trainer": {"e": ["api_key=abc"]}}, "env.secret-literal", "trainer.e[0]"),
        ({"trainer": {"e": [{"name": "hf_token", "value": "abc"}]}}, "env.secret-literal",
         "trainer.e[0]"),
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
        {"trainer": {"metrics": {"R2_score": True}, "r2_score": 0.5, "r2_threshold": 0.9}},
        {"terminal_bench": {"sandbox": {"aws_region": "us-west-2"}}},
        {"data": {"prompt": "Store data at AWS_BUCKET: foo", "note": "see AWS_REGION: set by cluster"}},
        {"trainer": {"script": "env -u AWS_PROFILE=1"}},
        {"trainer": {"script": "export AWS_ACCESS_KEY_ID=${AWS_ACCESS_KEY_ID}"}},
        {"trainer": {"script": 'run -e AWS_PROFILE="$AWS_PROFILE" -e AWS_REGION=${AWS_REGION:-}; x'}},
        {"trainer": {"script": '{"AWS_PROFILE": null, "AWS_REGION": "${AWS_REGION}"}'}},
        {"trainer": {"env": {"AWS_ACCESS_KEY_ID": "${oc.env:AWS_ACCESS_KEY_ID}"}}},
        {"trainer": {"env": {"AWS_PROFILE": "${AWS_PROFILE}", "R2_KEY": "${oc.env:R2_KEY,null}"}}},
        {"trainer": {"a": "REGION=${AWS_REGION:-us}", "b": "AWS_REGION=${AWS_REGION:-}"}},
        {"trainer": {"c": "test ${R2_KEY:?it is missing}", "d": "aws_region=us,r2_mode=on"}},
        {"trainer": ["split_key=train", {"name": "output_token", "value": "mean"}]},
    ],
)  # fmt: skip
def test_neighbours_of_secrets_pass(body: dict[str, Any]):
    """Names of secrets, references, numbers and tokens of a tokenizer; variables are `env`'s to judge."""
    assert of_recipe(body) == []


@pytest.mark.parametrize(
    "value",
    ["fake_key", "dummy", "Dummy", "none", "None", "", "empty", "EMPTY", "local",
     "sk-no-key-required", "NULL",
     "os.environ/OPENAI_API_KEY", "{env:OPENAI_API_KEY}", "{{HF_TOKEN}}", "{{ HF_TOKEN }}",
     "${K:?it is missing}",
     "${oc.env:K}", "${oc.env:K,}", "${oc.env:K, null}", "${K:-}", "${K:-EMPTY}", "${K-'dummy'}",
     "${.judge.key}",
     "${oc.env:K,${oc.env:L,none}}", "${secrets:OPENAI_API_KEY}"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["api_key", "OPENAI_API_KEY"])
def test_placeholders_and_references_pass(name: str, value: str):
    """A client of a server that asks for no key still needs one; a reference names a key and shows none."""
    assert of_recipe({"terminal_bench": {name: value}}) == []


@pytest.mark.parametrize(
    "value",
    ["${oc.env:K,sk-abc123}", "${VAR:-sk-abc123}", "${VAR-sk-abc123}", "${VAR:=sk-abc123}",
     "${VAR:+sk-abc123}",
     "${oc.env:K, 'abc'}", "${K:abc}", "${oc.env:K,${oc.env:L,abc}}", "${K:-dummy}abc", "${A:-}x${B:-}",
     "${K:-${L}abc${M}}", "${oc.env:K,a}b}"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["a.api_key", "a.OPENAI_API_KEY"])
def test_the_default_of_a_reference_is_judged(name: str, value: str):
    """A secret that stands where the variable is not set stands in plain text all the same."""
    found = [("env.secret-literal", f"--skyrl_override {name}")]
    assert (
        of_override(f"++{name}={value!r}" if "'" not in value else f'++{name}="{value}"') == found
    )


@pytest.mark.parametrize(
    "name",
    ["eot_token", "eom_token", "boi_token", "user_token", "assistant_token", "mask_key", "score_key",
     "target_key", "task_key", "id_key", "split_key", "ground_truth_key", "data_source_key", "extra_info_key",
     "cache_key", "length_key", "public_key", "solution_key", "pad_token_id", "hf_dataset_key"],
)  # fmt: skip
def test_columns_and_tokens_of_texts_pass(name: str):
    """A lower-case `…_key` or `…_token` is a secret only where a word in it says whose or what for."""
    assert of_recipe({"data": {name: "train"}}) == of_override(f"++data.{name}=train") == []


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
        ("++extra_env.aws_region=x", "env.refused", "extra_env.aws_region"),
        ("extra_env={r2_mode:x}", "env.refused", "extra_env.r2_mode"),
        ("++a.aws_session_token=x", "env.refused", "a.aws_session_token"),
        ("++a.R2_X.b=1", "env.refused", "a.R2_X.b"),
        ("~a.R2_X=x", "env.refused", "a.R2_X"),
        ("++a.FSSPEC_S3.key=x", "env.refused", "a.FSSPEC_S3.key"),
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
     "trainer.cost_per_token=0.1", "++a=[AWS_PROFILE]", "++trainer.router.r2_mode=on",
     "++x.env={AWS_ACCESS_KEY_ID:null}", "~extra.AWS_REGION", "++generator.foo=[{R2_KEY:null}]", "~a.R2_X",
     "++a.R2_X.b=null", "++terminal_bench_config.credentials.provider=daytona",
     "++trainer.algorithm.token.level=mean", "++a={credentials.provider:daytona}"],
)  # fmt: skip
def test_an_override_that_names_a_secret_passes(text: str):
    """What merely names a variable shows nothing."""
    assert of_override(text) == []


def test_saved_recipes_have_no_credentials(shared_recipes: Any):
    """No real recipe is refused for a name that only looks like a secret's."""
    for path in sorted(shared_recipes.glob("*.yaml")):
        assert list(leaks.of_recipe(recipes.read(str(path)))) == []
