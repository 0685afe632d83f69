"""A ported recipe's text: only what changes is touched, and it reads as what was meant."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.skyrl.profiles import iris, jupiter

from rlaunch import recipes
from rlaunch.errors import RecipeError
from rlaunch.porting.rewrite import rewrite, same
from rlaunch.porting.scalars import flow, scalar
from rlaunch.porting.translate import translate

IRIS, JUPITER = iris(), jupiter()
COMMENTED = """\
# Head, 200 lines of it — with ü.
entrypoint: terminal_bench   # what starts
trainer:
  # who logs
  logger: console            # no internet
  placement:
    colocate_all: false
    policy_num_nodes: 2      # × 4
    policy_num_gpus_per_node: 4

generator: {num_inference_engines: 8, inference_engine_tensor_parallel_size: 1}

# the image
container:
  sif: /e/x.sif              # of May
  binds: [/e/scratch]
  # variables
  extra_env:
    # probes
    EPDIAG: 1                # on
    APPTAINERENV_EPDIAG: 1
    FLAG: true

    # offline
    HF_HUB_OFFLINE: 1
# after the block
data:
  train_data: []
# foot
"""
PORTED = """\
# Head, 200 lines of it — with ü.
entrypoint: terminal_bench   # what starts
trainer:
  # who logs
  logger: wandb            # no internet
  placement:
    colocate_all: false
    policy_num_nodes: 1      # × 4
    policy_num_gpus_per_node: 8

generator: {num_inference_engines: 8, inference_engine_tensor_parallel_size: 1}

# the image
extra_env:
  # probes
  EPDIAG: "1"                # on
  FLAG: "1"

  # offline
  LD_LIBRARY_PATH: /opt/openthoughts/envs/rl/lib
# after the block
data:
  train_data: []
# foot
"""


def ported(
    text: str, target: Any = IRIS, source: Any = JUPITER, accept: tuple[str, ...] = ()
) -> str:
    """Return a recipe's text for another cluster."""
    recipe = recipes.parse(text.encode(), "r.yaml")
    made = translate(recipe, target, source, accept)
    assert [found for found in made.findings if found.level == "error"] == []
    return rewrite(text, recipe, made.body, made.changes)


def test_comments_and_order_are_kept():
    """Every comment and every line that says nothing else is where it was."""
    assert ported(COMMENTED) == PORTED


def test_a_saved_recipe_comes_back_as_it_was(shared_recipes: Path):
    """Jupiter to Iris and back is the very same text, byte for byte, where there is no container."""
    text = (shared_recipes / "jupiter_56GPU_seqnorm_tis.yaml").read_text(encoding="utf-8")
    assert ported(ported(text), JUPITER, IRIS) == text


def test_only_lines_that_are_named_change(shared_recipes: Path):
    """Each line that differs belongs to a key of the table of changes."""
    for path in sorted(shared_recipes.glob("jupiter_*.yaml")):
        text = path.read_text(encoding="utf-8")
        recipe = recipes.read(str(path))
        made = translate(recipe, IRIS, JUPITER)
        new = rewrite(text, recipe, made.body, made.changes)
        removed = [
            line[2:] for line in difflib.ndiff(text.split("\n"), new.split("\n")) if line[0] == "-"
        ]
        keys = {change.key.rpartition(".")[2] for change in made.changes} | {
            "container",
            "extra_env",
        }
        for line in removed:
            name = line.partition(":")[0].strip()
            assert name in keys or line.strip().startswith("- /e/")


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_line_ends_are_kept(end: str):
    """A file of Windows lines stays one."""
    made = ported(COMMENTED.replace("\n", end))
    assert made.count(end) == PORTED.count("\n") == made.count("\n")
    assert yaml.safe_load(made) == yaml.safe_load(PORTED)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("extra_env: {A: '1', NCCL_P2P_DISABLE: 1}", {"A": "1"}),
        ("extra_env:\n  NCCL_P2P_DISABLE: 1\n", None),
        ("extra_env:\n    NCCL_P2P_DISABLE: 1\n    A: x", {"A": "x"}),
        ("extra_env:\n  LIBRARY_PATH: |\n    a\n    b\n  A: x\n", {"A": "x"}),
        (
            "extra_env:\n  A: 1\ncontainer:\n  sif: /e/x\n  extra_env:\n    B: 2\n",
            {"A": 1, "B": "2"},
        ),
        ("container:\n  extra_env:\n    B: 2\nextra_env:\n      A: 1\n", {"A": 1, "B": "2"}),
        ("container:\n  sif: /e/x\n  extra_env:\n", None),
        ("container:\n  sif: /e/x", None),
        ("container: {sif: /e/x}\nextra_env:\n  A: x\n", {"A": "x"}),
        ("container:\n", None),
        ("x: &env\n  NCCL_P2P_DISABLE: 1\nextra_env: *env\n", None),
    ],
)
def test_ways_to_write_variables(text: str, after: Any):
    """Blocks, braces, empty ones and files without a last newline: the variables are what was meant."""
    body = yaml.safe_load(ported(f"entrypoint: terminal_bench\n{text}"))
    if after is not None:
        after = {**after, "LD_LIBRARY_PATH": "/opt/openthoughts/envs/rl/lib"}
    assert body.get("extra_env") == after
    assert "container" not in body


@pytest.mark.parametrize(
    ("logger", "after"),
    [
        ("wandb", "console"),
        ("", "console"),
        ("[console, wandb]", ["console"]),
        ("\n  - console\n  - wandb\n  epochs: 1", ["console"]),
        ("'wandb'  # why", "console"),
    ],
)
def test_ways_to_write_a_logger(logger: str, after: Any):
    """A word, nothing, a list in brackets or of lines."""
    text = f"entrypoint: terminal_bench\ntrainer:\n  logger: {logger}\n  seed: 3\n"
    body = yaml.safe_load(ported(text, JUPITER, IRIS))
    assert body["trainer"]["logger"] == after
    assert body["trainer"]["seed"] == 3


def test_a_section_is_made_where_there_is_none():
    """An accepted proposal of an absent key is written behind its section, or with a new one."""
    target = {
        **JUPITER,
        "proposals": {"generator.enforce_eager": {"value": False, "reason": "graphs"}},
    }
    for head in ("generator:\n  backend: vllm\n", "generator: {}\n", ""):
        text = f"entrypoint: terminal_bench\n{head}trainer:\n  logger: console\n"
        made = ported(text, target, {**IRIS, "proposals": {}}, ("generator.enforce_eager",))
        assert yaml.safe_load(made)["generator"]["enforce_eager"] is False


@pytest.mark.parametrize(
    "text",
    [
        "x: &env\n  NCCL_P2P_DISABLE: 1\n  A: b\nextra_env: *env\n",
        "x: &name console\ntrainer:\n  logger: *name\n",
        "x: &env\n  NCCL_P2P_DISABLE: 1\nextra_env:\n  <<: *env\n  A: b\n",
        "container:\n  sif: /e/x\n  extra_env: {B: 2}\n",
    ],
)
def test_what_cannot_be_changed_in_place_is_refused(text: str):
    """Values behind aliases and merges stand in several places; no guess is made."""
    with pytest.raises(RecipeError) as caught:
        ported(f"entrypoint: terminal_bench\n{text}")
    assert caught.value.findings[0].code == "port.rewrite"


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=12),
    st.sampled_from(["null", "true", "1e3", "0x1", "a: b", "a #b", "- a", "1:30", "=", "<<", "~"]),
)  # fmt: skip


@given(
    st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
    )
)
def test_a_written_value_reads_as_itself(value: Any):
    """Whatever a value is, the recipe's loader reads it back."""
    assert same(yaml.safe_load(f"k: {scalar(value)}"), {"k": value})
    assert same(yaml.safe_load(flow([value])), [value])


NAMES = st.sampled_from([
    "EPDIAG", "NCCL_DEBUG", "NCCL_P2P_DISABLE", "NCCL_SOCKET_IFNAME", "LD_LIBRARY_PATH", "HF_HUB_OFFLINE",
    "OMP_NUM_THREADS", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "LIBRARY_PATH", "VLLM_USE_V1",
])  # fmt: skip
PLAIN = st.one_of(
    st.integers(-3, 3), st.booleans(), st.none(), st.text(max_size=5), st.just("/e/data1/fr")
)
VARIABLES = st.dictionaries(NAMES, PLAIN, max_size=5)


@given(inner=VARIABLES, top=VARIABLES, twins=st.booleans(), sif=st.booleans(), order=st.booleans())
def test_any_block_of_variables_can_be_ported(
    inner: dict[str, Any], top: dict[str, Any], twins: bool, sif: bool, order: bool
):
    """Whatever stands in the two blocks, the text is rewritten, and reads as what was meant."""
    if twins:
        inner = {**inner, **{f"APPTAINERENV_{name}": value for name, value in inner.items()}}
    container = {**({"sif": "/e/x.sif"} if sif else {}), **({"extra_env": inner} if inner else {})}
    parts: dict[str, Any] = {"container": container, "extra_env": top}
    parts = {key: value for key, value in parts.items() if value}
    if order:
        parts = dict(reversed(parts.items()))
    body = {"entrypoint": "terminal_bench", **parts, "trainer": {"logger": "console"}}
    text = yaml.safe_dump(body, sort_keys=False, allow_unicode=True)
    made = yaml.safe_load(ported(text))
    assert "container" not in made
    gone = {"NCCL_P2P_DISABLE", "NCCL_SOCKET_IFNAME", "HF_HUB_OFFLINE"}
    assert not gone & (made.get("extra_env") or {}).keys()
    assert ported(text, JUPITER, JUPITER) == text


@pytest.mark.parametrize("number", [1e-6, 1e16, -1.5e300, 0.1, float("inf"), float("-inf")])
def test_numbers_with_exponents_stay_numbers(number: float):
    """`1e-06` is text in YAML 1.1; what is written here is a number."""
    assert yaml.safe_load(f"k: {scalar(number)}") == {"k": number}


def test_what_reads_differently_is_refused():
    """The text is read again: a change that it does not have is never let through."""
    recipe = recipes.parse(COMMENTED.encode(), "r.yaml")
    with pytest.raises(RecipeError, match="read again, it says something else"):
        rewrite(COMMENTED, recipe, {**recipe.body, "more": 1}, ())
    with pytest.raises(RecipeError, match="half-way it is no YAML"):
        rewrite(": [", recipe, recipe.body, ())


def test_one_is_not_true():
    """Equal for Python is not equal for a recipe."""
    assert not same({"a": 1}, {"a": True})
    assert not same({"a": [1]}, {"a": [1.0]})
    assert same(float("nan"), float("nan"))
