"""What is known of models: a table of names, and what a `config.json` says."""

import pytest

from rlaunch.skyrl import models
from rlaunch.skyrl.models import Facts


@pytest.mark.parametrize(
    ("path", "heads", "experts"),
    [
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 32, 128),
        ("/models/Qwen3-8B/", 32, 0),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", 32, 0),
        ("QuantTrio/GLM-4.6-AWQ", 96, 160),
        ("ann/Qwen3-8B", None, None),
        ("Qwen/Qwen9", None, None),
    ],
)
def test_models_are_known_or_unknown(path: str, heads: int | None, experts: int | None):
    """A maker's model is known by name; somebody's model of the same name is not."""
    found = models.known(path)
    assert (found.heads, found.experts) == (heads, experts)
    assert bool(found.source) == (heads is not None)


def test_a_config_says_what_a_model_has():
    """`config.json` wins over the table, nested text configurations included."""
    moe = {"text_config": {"num_attention_heads": 16, "num_key_value_heads": 2, "num_experts": 256}}
    assert models.of_config(moe, "c") == Facts(16, 2, 256, False, "c")
    linear = {"num_attention_heads": 8, "layer_types": ["linear_attention", "full_attention"]}
    assert models.of_config(linear, "c") == Facts(8, 8, 0, True, "c")
