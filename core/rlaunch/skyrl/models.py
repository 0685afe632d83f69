"""What rlaunch knows of models: heads, key-value heads, experts. Pure; unknown is unknown.

Facts come, first found first, from the recipe (`model_num_attention_heads`), from the `config.json`
of a local model that the resolver has read (`of_config`, in the run's provenance under
`model_facts`), and from the table here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rlaunch.model import Run
from rlaunch.skyrl.tree import look


class Facts(NamedTuple):
    """Sizes of one model; None is unknown, 0 experts is a dense model."""

    heads: int | None = None
    kv_heads: int | None = None
    experts: int | None = None
    gdn: bool | None = None
    """Gated DeltaNet layers (linear attention), which context parallelism cannot split."""
    source: str = ""


_QWEN3 = "Qwen3 technical report (arXiv 2505.09388), tables 1 and 2, and the models' config.json"
_QWEN25 = "Qwen2.5 technical report (arXiv 2412.15115), table 1, and the models' config.json"
_LLAMA = "The Llama 3 herd of models (arXiv 2407.21783), table 3, and the models' config.json"
_NEXT = "config.json of Qwen/Qwen3-Next-80B-A3B-Instruct"
_GLM = "GLM-4.5 technical report (arXiv 2508.06471), table 1, and the models' config.json"

MODELS: Mapping[str, Facts] = {
    "qwen3-0.6b": Facts(16, 8, 0, False, _QWEN3),
    "qwen3-1.7b": Facts(16, 8, 0, False, _QWEN3),
    "qwen3-4b": Facts(32, 8, 0, False, _QWEN3),
    "qwen3-8b": Facts(32, 8, 0, False, _QWEN3),
    "qwen3-14b": Facts(40, 8, 0, False, _QWEN3),
    "qwen3-32b": Facts(64, 8, 0, False, _QWEN3),
    "qwen3-30b-a3b": Facts(32, 4, 128, False, _QWEN3),
    "qwen3-coder-30b-a3b": Facts(32, 4, 128, False, _QWEN3),
    "qwen3-235b-a22b": Facts(64, 4, 128, False, _QWEN3),
    "qwen3-next-80b-a3b": Facts(16, 2, 512, True, _NEXT),
    "qwen2.5-0.5b": Facts(14, 2, 0, False, _QWEN25),
    "qwen2.5-1.5b": Facts(12, 2, 0, False, _QWEN25),
    "qwen2.5-3b": Facts(16, 2, 0, False, _QWEN25),
    "qwen2.5-7b": Facts(28, 4, 0, False, _QWEN25),
    "qwen2.5-14b": Facts(40, 8, 0, False, _QWEN25),
    "qwen2.5-32b": Facts(40, 8, 0, False, _QWEN25),
    "qwen2.5-72b": Facts(64, 8, 0, False, _QWEN25),
    "llama-3.1-8b": Facts(32, 8, 0, False, _LLAMA),
    "llama-3.1-70b": Facts(64, 8, 0, False, _LLAMA),
    "glm-4.5": Facts(96, 8, 160, False, _GLM),
    "glm-4.6": Facts(96, 8, 160, False, _GLM),
}
"""Name without its organisation and suffixes -> facts."""

_SUFFIXES = ("-instruct", "-thinking", "-base", "-chat", "-2507", "-fp8", "-awq", "-bf16")
_OWNERS = ("qwen", "meta-llama", "zai-org", "quanttrio", "unsloth", "toy", "")


def known(model_path: str) -> Facts:
    """Return the table's facts of a model id or directory; all None where it is not in the table.

    Only models of their makers and plain repackagings are taken: a fine-tune of another name may have
    another shape.
    """
    owner, _, name = model_path.rstrip("/").rpartition("/")
    if "/" not in owner and owner.lower() not in _OWNERS:
        return Facts()
    name = name.lower().removeprefix("meta-")
    while cut := next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), ""):
        name = name.removesuffix(cut)
    return MODELS.get(name, Facts())


def of_config(config: Mapping[str, Any], source: str) -> Facts:
    """Return the facts that a model's `config.json` has; nested `text_config` is looked into."""
    inner = config.get("text_config")
    config = {**config, **inner} if isinstance(inner, Mapping) else config

    def number(*names: str) -> int | None:
        values = (config.get(name) for name in names)
        return next((v for v in values if isinstance(v, int) and not isinstance(v, bool)), None)

    heads = number("num_attention_heads", "n_head")
    experts = number("num_experts", "n_routed_experts", "num_local_experts")
    layers = config.get("layer_types") or ()
    gdn = "linear_attention" in layers or "linear_num_value_heads" in config
    return Facts(heads, number("num_key_value_heads") or heads, experts or 0, gdn, source)


def facts(run: Run) -> Facts:
    """Return what is known of a run's model."""
    read = run.provenance.get("model_facts")
    if read is not None:
        found = read.value if isinstance(read.value, Facts) else Facts(**dict(read.value))
    else:
        found = known(run.model_path)
    heads = look(run.recipe.body, "model_num_attention_heads")
    if isinstance(heads, int) and not isinstance(heads, bool):
        return found._replace(heads=heads, source="the recipe's `model_num_attention_heads`")
    return found
