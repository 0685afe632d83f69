"""The environment plane: coercion, precedence, twins, profile rules, refusals."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch import env
from rlaunch.model import Recipe


def gather(body: dict[str, Any], **layers: Any) -> env.Environment:
    """Lay the layers with empty ones where none is given."""
    recipe = Recipe("r.yaml", "0" * 64, body, {"extra_env.A": (3, 5)})
    given_layers = {
        "typed": {},
        "user": {},
        "profile": {},
        "rules": {},
        "cluster": "here",
        **layers,
    }
    return env.gather(recipe, **given_layers)


def codes(found: env.Environment) -> list[str]:
    """The codes of the findings, sorted."""
    return sorted(f.code for f in found.findings)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (1, "1"),
        (True, "1"),
        (False, "0"),
        (1.5, "1.5"),
        (1e-05, "1e-05"),
        ("", ""),
        (None, None),
    ],
)
def test_one_coercion_rule(value: Any, text: str | None):
    """Every YAML scalar becomes one string by one rule, and null means not set."""
    assert env.coerce(value) == text


@pytest.mark.parametrize("value", [[1], {"a": 1}])
def test_lists_and_mappings_are_refused(value: Any):
    """A list or mapping is an error with the place of the key."""
    found = gather({"extra_env": {"A": value}})
    assert codes(found) == ["env.not-scalar"]
    assert found.findings[0].place == "r.yaml:3:5: extra_env.A"


def test_order_of_the_layers():
    """Command line beats recipe beats rlaunch.toml beats profile, and the source is kept."""
    names = ["A", "B", "C", "D"]
    found = gather(
        {"extra_env": dict.fromkeys(names[:2], "recipe")},
        typed={"A": "typed"},
        user=dict.fromkeys(names[:3], "user"),
        profile=dict.fromkeys(names, "profile"),
    )
    assert found.values == {"A": "typed", "B": "recipe", "C": "user", "D": "profile"}
    sources = [found.provenance[f"env.{n}"].source for n in names]
    assert sources == ["command line", "recipe", "rlaunch.toml", "profile here"]


def test_container_env_is_forwarded_and_the_top_level_wins():
    """`container.extra_env` reaches the job too; a different top-level value wins with a warning."""
    found = gather({"container": {"extra_env": {"X": 1, "Y": 2}}, "extra_env": {"Y": 3}})
    assert found.values == {"X": "1", "Y": "3"}
    assert codes(found) == ["env.container-shadowed"]


def test_twins_fold_into_the_plain_name():
    """An APPTAINERENV_ twin with the same value disappears; alone it gives its plain name."""
    found = gather({"extra_env": {"A": 1, "APPTAINERENV_A": "1", "APPTAINERENV_B": "x"}})
    assert found.values == {"A": "1", "B": "x"}
    assert codes(found) == []
    assert found.provenance["env.APPTAINERENV_A"].value is None


def test_twins_that_differ_are_an_error():
    """A hand-typed twin that drifted is refused."""
    assert codes(gather({"extra_env": {"A": 1, "APPTAINERENV_A": "2"}})) == ["env.twins-differ"]


def test_profile_rules_drop_keep_set_and_refuse():
    """Each rule acts and leaves its reason; the longest prefix decides."""
    rules = {
        "NCCL_P2P_DISABLE": {"action": "drop", "value": None, "reason": "NVLink"},
        "NCCL_*": {"action": "keep", "value": None, "reason": "observability"},
        "LD_LIBRARY_PATH": {"action": "set", "value": "/lib", "reason": "the image's"},
        "BAD": {"action": "refuse", "value": None, "reason": "never"},
    }
    written = {"NCCL_P2P_DISABLE": 1, "NCCL_DEBUG": "INFO", "BAD": "x", "LD_LIBRARY_PATH": "/mine"}
    found = gather({"extra_env": written}, rules=rules)
    assert found.values["NCCL_DEBUG"] == "INFO"
    assert found.values["LD_LIBRARY_PATH"] == "/lib"
    assert "NCCL_P2P_DISABLE" not in found.values
    assert found.provenance["env.NCCL_P2P_DISABLE"].reason == "dropped: NVLink"
    assert codes(found) == ["env.refused-here"]


def test_what_was_typed_only_a_refusal_changes():
    """A rule of the profile yields to the command line, unless it refuses."""
    rules = {
        "A": {"action": "drop", "value": None, "reason": "r"},
        "B": {"action": "set", "value": "/lib", "reason": "r"},
        "C": {"action": "refuse", "value": None, "reason": "r"},
    }
    found = gather({}, typed={"A": "1", "B": "2", "C": "3"}, rules=rules)
    assert (found.values["A"], found.values["B"]) == ("1", "2")
    assert codes(found) == ["env.refused-here"]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("AWS_SECRET_ACCESS_KEY", "x", "env.refused"),
        ("aws_region", "x", "env.refused"),
        ("R2_TOKEN", "x", "env.refused"),
        ("FSSPEC_S3", '{"key": "a"}', "env.refused"),
        ("FSSPEC_S3_KEY", "a", "env.refused"),
        ("FSSPEC_S3_CLIENT_SECRET", "a", "env.refused"),
        ("RLAUNCH_RUN_ID", "x", "env.reserved"),
        ("RAY_ADDRESS", "x", "env.reserved"),
        ("PYTHONHTTPSVERIFY", "0", "env.tls-off"),
        ("WANDB_API_KEY", "x", "env.secret-literal"),
        ("X", "$HOME/x", "env.dollar"),
        ("X", "${HOME}", "env.dollar"),
        ("X", "$(id)", "env.dollar"),
        ("X", "a\0b", "env.nul"),
        ("a b", "x", "env.name"),
        ("1A", "x", "env.name"),
    ],
)
def test_refusals(name: str, value: str, code: str):
    """What must not reach a job is an error with its code."""
    assert codes(gather({"extra_env": {name: value}})) == [code]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FSSPEC_S3", '{"endpoint_url": "http://x"}'),
        ("FSSPEC_S3_ENDPOINT_URL", "http://x"),
        ("PRICE", "5$"),
        ("PYTHONHTTPSVERIFY", "1"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("NCCL_SOCKET_IFNAME", "^ibs,lo"),
    ],
)
def test_harmless_neighbours_pass(name: str, value: str):
    """Names and values that merely look alike are not refused."""
    assert codes(gather({"extra_env": {name: value}})) == []


def test_size_limit_names_the_largest():
    """More than 96 KiB is refused, and the largest variable is named."""
    found = gather({"extra_env": {"SMALL": "x", "HUGE": "y" * env.LIMIT}})
    assert codes(found) == ["env.too-large"]
    assert "`HUGE`" in found.findings[0].message


def test_an_env_block_that_is_no_mapping_is_an_error():
    """A list where a mapping belongs is refused, never skipped."""
    assert codes(gather({"extra_env": ["A=1"]})) == ["env.not-mapping"]


@given(st.text())
def test_any_text_arrives_unchanged(value: str):
    """A value is never altered: it arrives as written, or there is an error."""
    found = gather({"extra_env": {"A": value}})
    assert found.values["A"] == value
