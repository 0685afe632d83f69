"""Every rule fires where it should and is silent where it should be.

Over 300 lines: one table of cases for all rules, in which none is forgotten.
"""

# ruff: noqa: E501  # a case is one line, so that the tables can be read

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlaunch import explain, recipes
from rlaunch.model import Finding, Run
from rlaunch.skyrl import geometry, ledger, rules
from rlaunch.skyrl.models import Facts

Judged = Callable[..., tuple[Finding, ...]]

EIGHT = "trainer: {placement: {policy_num_nodes: 4, policy_num_gpus_per_node: 8}}\n"
COLOCATED = "trainer: {placement: {colocate_all: true, policy_num_nodes: null, policy_num_gpus_per_node: null}}\n"
MOE = Facts(32, 4, 128, False, "test")
R3 = """
generator:
  inference_engine_tensor_parallel_size: 8
  inference_engine_decode_context_parallel_size: 2
  engine_init_kwargs: {enable_return_routed_experts: true%s}
"""
GUARD = {"VLLM_ALLOW_ROUTED_EXPERTS_DCP": "1"}
RETIRED = {"retired_roots": [{"root": "s3://old", "reason": "gone"}], "storage_root": "s3://new/x"}


def tp(size: int) -> str:
    """A tensor-parallel size."""
    return f"generator: {{inference_engine_tensor_parallel_size: {size}}}"


def dcp(size: int, within: int) -> str:
    """A decode-context size within a tensor-parallel size."""
    return f"generator: {{inference_engine_tensor_parallel_size: {within}, inference_engine_decode_context_parallel_size: {size}}}"


def fsdp(**sizes: Any) -> str:
    """Sizes of the policy's sharding."""
    return f"trainer: {{use_sample_packing: false, flash_attn: false, policy: {{fsdp_config: {sizes}}}}}".replace(
        "'", ""
    )


def trainer(text: str) -> str:
    """A line of the trainer's section."""
    return f"trainer: {{{text}}}"


Case = tuple[str, str, dict[str, Any]]
FIRES: tuple[Case, ...] = (
    ("skyrl.tp-heads", tp(8), {"facts": Facts(42)}),
    ("skyrl.tp-heads", "model_num_attention_heads: 42\n" + tp(8), {}),
    ("skyrl.dcp-too-large", dcp(4, 8), {"facts": MOE}),
    ("skyrl.dcp-too-large", dcp(3, 8), {}),
    ("skyrl.engine-experts", "generator: {inference_engine_expert_parallel_size: 4}", {}),
    ("skyrl.experts", fsdp(expert_model_parallel_size=8, fsdp_size=32), {"facts": MOE}),
    ("skyrl.experts", fsdp(expert_model_parallel_size=2), {"facts": Facts(experts=0)}),
    ("skyrl.policy-world", fsdp(context_parallel_size=3), {}),
    ("skyrl.cp-gdn", fsdp(context_parallel_size=2), {"facts": Facts(gdn=True)}),
    ("skyrl.cp-packing", trainer("policy: {fsdp_config: {context_parallel_size: 2}}"), {}),
    ("skyrl.r3-dcp", R3 % ", async_scheduling: false", {}),
    ("skyrl.r3-dcp", R3 % "", {"env": GUARD}),
    ("skyrl.r3-dcp", R3 % ", async_scheduling: false}\n  inference_engine_mp_backend: true\n  x: {", {"env": GUARD}),
    ("skyrl.mp-colocated", COLOCATED + "generator: {inference_engine_mp_backend: true}", {}),
    ("skyrl.colocated-scatter", COLOCATED + tp(4), {"nodes": 2}),
    ("skyrl.policy-not-reserved", EIGHT + tp(8), {}),
    ("skyrl.ref-placement", trainer("placement: {ref_num_nodes: 2}"), {}),
    ("skyrl.model-unknown", tp(2), {"model_path": "org/unheard"}),
    ("skyrl.engine-kwarg", "generator: {engine_init_kwargs: {max_num_seqs: 4}}", {}),
    ("skyrl.engine-kwarg", "", {"overrides": ["++generator.engine_init_kwargs.seed=1"]}),
    ("skyrl.sampling-params", "generator: {sampling_params: {max_tokens: 4}}", {}),
    ("skyrl.mini-batch", trainer("train_batch_size: 32, policy_mini_batch_size: 64"), {}),
    ("skyrl.mini-batch", trainer("train_batch_size: 64, policy_mini_batch_size: 48"), {}),
    ("skyrl.mini-batch", trainer("train_batch_size: 64, policy_mini_batch_size: 32, fully_async: {max_staleness_steps: 1}"), {}),
    ("skyrl.reentrant-offload", trainer("gradient_checkpointing_use_reentrant: true, policy: {fsdp_config: {cpu_offload: true}}"), {}),
    ("skyrl.wandb-key", trainer("logger: wandb"), {"secrets": ()}),
    ("skyrl.wandb-key", trainer("logger: [console, wandb]"), {"secrets": ()}),
    ("skyrl.wandb-key", trainer("logger: null"), {"secrets": ()}),
    ("skyrl.wandb-offline", "", {"profile": {"egress": False}, "overrides": ["trainer.logger=wandb"]}),
    ("skyrl.adapted", trainer("logger: wandb"), {"profile": {"egress": False}}),
    ("skyrl.no-container", "container: {sif: /e/x.sif}", {"profile": {"name": "iris"}}),
    ("skyrl.adapted", "terminal_bench: {trials_dir: 's3://b/x'}", {"profile": {"storage_root": "/scratch"}}),
    ("skyrl.upload-offline", "terminal_bench: {trace_upload: {enabled: true}}", {"env": {"HF_HUB_OFFLINE": "1"}}),
    ("skyrl.db-registration", trainer("enable_db_registration: true"), {}),
    ("skyrl.db-registration", trainer("enable_db_registration: 'false'"), {}),
    ("skyrl.db-registration", trainer("enable_db_registration: 1"), {}),
    ("skyrl.db-registration", "", {"overrides": ["trainer.enable_db_registration=TRUE"]}),
    ("skyrl.db-registration", "", {"overrides": ["++trainer.enable_db_registration=yes"]}),
    ("skyrl.db-registration", "", {"overrides": ["~trainer.enable_db_registration"]}),
    ("skyrl.db-registration", "", {"overrides": ["+other.enable_db_registration=${x}"]}),
    ("skyrl.db-registration", "terminal_bench: {jobs: [{enable_db_registration: true}]}", {}),
    ("skyrl.db-registration", "terminal_bench: {enable_db_registration: true}", {"overrides": ["terminal_bench_config={foo:1}"]}),
    ("skyrl.db-registration", "terminal_bench: {enable_db_registration: true}", {"overrides": ["terminal_bench_config=other"]}),
    ("skyrl.db-registration", "", {"overrides": ["trainer={enable_db_registration:true}"]}),
    ("skyrl.db-registration", "", {"overrides": ["++other.jobs=[{enable_db_registration:1}]"]}),
    ("skyrl.db-registration", "", {"overrides": ["++x.enable_db_registration=1", "++x.enable_db_registration=false"]}),
    ("skyrl.resume-foreign", trainer("ckpt_path: /shared/ckpt, resume_mode: latest"), {}),
    ("skyrl.resume-lost", trainer("resume_mode: none"), {"max_retries": 1}),
    ("skyrl.retired-root", "", {"overrides": ["terminal_bench_config.trials_dir='s3://old/x'"], "profile": RETIRED}),
    ("skyrl.root-moved", "terminal_bench: {trials_dir: 's3://old/x'}", {"profile": RETIRED}),
    ("skyrl.foreign-run", "terminal_bench: {trials_dir: 's3://new/iris/other-run/trials'}", {}),
    ("skyrl.personal-path", "generator: {engine_init_kwargs: {chat: /home/ann/t.jinja2}}", {}),
    ("skyrl.personal-path", "generator: {engine_init_kwargs: {chat: ~/t.jinja2}}", {}),
    ("skyrl.absolute-path", "generator: {engine_init_kwargs: {chat: /e/project/ann/t.jinja2}}", {}),
    ("skyrl.interpolation", trainer("project_name: 'a ${b'"), {}),
    ("skyrl.override-derived", "", {"overrides": ["trainer.run_name=other"]}),
    ("skyrl.override-derived", "", {"overrides": ["trainer={ckpt_path:/x}"]}),
    ("skyrl.override-hydra", "", {"overrides": ["hydra.mode=MULTIRUN"]}),
    ("skyrl.override-hydra", "", {"overrides": ["hydra/sweeper=basic"]}),
    ("skyrl.override-hydra", "", {"overrides": ["++hydra={mode:MULTIRUN}"]}),
    ("skyrl.override-hydra", "", {"overrides": ["+hydra/launcher@hydra.launcher=joblib"]}),
    ("skyrl.override-hydra", "", {"overrides": ["++hydra.mode=MULTIRUN"]}),
    ("skyrl.override-hydra", "", {"overrides": ["hydra.sweep.dir=/x"]}),
    ("skyrl.override-hydra", "", {"overrides": ["hydra.sweeper.params={a: '1,2'}"]}),
    ("skyrl.override-hydra", "", {"overrides": ["hydra.launcher.n_jobs=2"]}),
    ("skyrl.override-hydra", "", {"overrides": ["hydra=other"]}),
    ("skyrl.override-hydra", "", {"overrides": ["~hydra"]}),
    ("skyrl.override-hydra", "", {"overrides": ["hydra={run:{dir:/x},sweeper:{params:{}}}"]}),
    ("skyrl.override-hydra", "", {"overrides": ["+mine@hydra.sweeper=x"]}),
    ("skyrl.override-hydra", "config_groups: {hydra/launcher: joblib}", {}),
    ("skyrl.override-group", "", {"overrides": ["trainer/epochs=x"]}),
    ("skyrl.override-group", "", {"overrides": ["trainer.epochs@x=3"]}),
    ("skyrl.override-group", "", {"overrides": ["deepspeed_config@deepspeed_config.other=x"]}),
    ("skyrl.override-deletes", "", {"overrides": ["~trainer.logger"]}),
    ("skyrl.override-exists", "", {"overrides": ["+trainer.logger=wandb"]}),
    ("skyrl.override-adds", "", {"overrides": ["generator.engine_init_kwargs.max_model_len=4"]}),
    ("skyrl.override-adds", "generator: {engine_init_kwargs: {seed: 1}}", {"overrides": ["generator.engine_init_kwargs={max_model_len:4}"]}),
    ("skyrl.override-section", "", {"overrides": ["terminal_bench.trials_dir=x"]}),
    ("skyrl.override-section", "", {"overrides": ["++extra_env.A=1"]}),
    ("skyrl.override-section", "", {"overrides": ["extra_env={A:1}"]}),
    ("skyrl.null-default", trainer("policy: {optimizer_config: {max_grad_norm: null}}"), {}),
    ("skyrl.served-name", "generator: {engine_init_kwargs: {served_model_name: other}}", {}),
    ("skyrl.env-near-miss", "", {"env": {"VLLM_ALLOW_ROUTED_EXPERT_DCP": "1"}}),
    ("skyrl.env-near-miss", "", {"env": {"NCCL_DEBGU": "WARN"}}),
    ("skyrl.key-typo", trainer("train_batchsize: 1"), {}),
    ("skyrl.key-typo", "", {"overrides": ["trainer.max_stps=3"]}),
    ("skyrl.key-unknown", trainer("brand_new_knob: 1"), {}),
    ("skyrl.key-unknown", "", {"overrides": ["generator.foo.bar=3"]}),
    ("skyrl.key-added", "", {"overrides": ["++trainer.max_stps=3"]}),
)  # fmt: skip
SILENT: tuple[Case, ...] = (
    ("skyrl.tp-heads", tp(8), {"facts": MOE}),
    ("skyrl.tp-heads", tp(8), {"model_path": "org/unheard"}),
    ("skyrl.dcp-too-large", dcp(2, 8), {"facts": MOE}),
    ("skyrl.engine-experts", "generator: {inference_engine_expert_parallel_size: 4, inference_engine_tensor_parallel_size: 4}", {}),
    ("skyrl.experts", fsdp(expert_model_parallel_size=8, fsdp_size=2), {"facts": MOE}),
    ("skyrl.policy-world", EIGHT + "generator: {}", {}),
    ("skyrl.cp-gdn", fsdp(context_parallel_size=2), {"facts": MOE}),
    ("skyrl.cp-packing", fsdp(context_parallel_size=2), {}),
    ("skyrl.r3-dcp", R3 % ", async_scheduling: false", {"env": GUARD}),
    ("skyrl.mp-colocated", "generator: {inference_engine_mp_backend: true}", {}),
    ("skyrl.colocated-scatter", COLOCATED + tp(4), {"nodes": 1}),
    ("skyrl.policy-not-reserved", "trainer: {placement: {policy_num_nodes: 4, policy_strict_spread_pg: true}}\n" + tp(8), {}),
    ("skyrl.ref-placement", trainer("algorithm: {use_kl_loss: false}, placement: {ref_num_nodes: 2}"), {}),
    ("skyrl.model-unknown", tp(2), {}),
    ("skyrl.engine-kwarg", "generator: {max_num_seqs: 4, engine_init_kwargs: {max_model_len: 4}}", {}),
    ("skyrl.sampling-params", "generator: {sampling_params: {top_k: 4, stop: null}}", {}),
    ("skyrl.mini-batch", trainer("train_batch_size: 64, policy_mini_batch_size: 32"), {}),
    ("skyrl.reentrant-offload", trainer("gradient_checkpointing_use_reentrant: false, policy: {fsdp_config: {cpu_offload: true}}"), {}),
    ("skyrl.wandb-key", trainer("logger: wandb"), {}),
    ("skyrl.wandb-key", trainer("logger: wandb"), {"secrets": (), "env": {"WANDB_MODE": "offline"}}),
    ("skyrl.wandb-key", trainer("logger: []"), {"secrets": ()}),
    ("skyrl.wandb-offline", "", {"profile": {"egress": False}, "env": {"WANDB_MODE": "offline"}, "overrides": ["trainer.logger=wandb"]}),
    ("skyrl.adapted", trainer("logger: wandb"), {"profile": {"egress": True, "storage_root": "/scratch"}}),
    ("skyrl.no-container", "container: {sif: /e/x.sif}", {"profile": {"sif": None}}),
    ("skyrl.upload-offline", "terminal_bench: {trace_upload: {enabled: true}}", {"env": {"HF_HUB_OFFLINE": "0"}}),
    ("skyrl.db-registration", trainer("enable_db_registration: false"), {"overrides": ["trainer.enable_db_registration=false"]}),
    ("skyrl.db-registration", "terminal_bench: {enable_db_registration: true}", {"overrides": ["terminal_bench_config={enable_db_registration:false}"]}),
    ("skyrl.db-registration", "terminal_bench: {jobs: [{enable_db_registration: false}], notes: [enable_db_registration]}", {}),
    ("skyrl.resume-foreign", trainer("ckpt_path: null, resume_mode: latest"), {}),
    ("skyrl.resume-lost", trainer("resume_mode: latest"), {"max_retries": 1}),
    ("skyrl.retired-root", "", {"overrides": ["terminal_bench_config.trials_dir='s3://older/x'"], "profile": RETIRED}),
    ("skyrl.root-moved", "terminal_bench: {trials_dir: 's3://older/x'}", {"profile": RETIRED}),
    ("skyrl.foreign-run", "terminal_bench: {trials_dir: 's3://new/iris/job-x/trials'}", {}),
    ("skyrl.personal-path", "generator: {engine_init_kwargs: {chat: chat/t.jinja2}}", {}),
    ("skyrl.absolute-path", "generator: {engine_init_kwargs: {a: /data/t, b: /opt/t, c: /e/t}}", {"profile": {"binds": ["/e"]}}),
    ("skyrl.interpolation", trainer("project_name: 'a ${b}'"), {}),
    ("skyrl.override-derived", "", {"overrides": ["trainer.epochs=3"]}),
    ("skyrl.override-derived", "", {"overrides": ["trainer={epochs:3}", "terminal_bench_config=other", "data={}"]}),
    ("skyrl.override-hydra", "", {"overrides": ["trainer.hydra=1", "+hydration.x=1"]}),
    ("skyrl.override-hydra", "", {"overrides": ["hydra.run.dir=/tmp/x", "hydra.output_subdir=null", "hydra.job.chdir=false"]}),
    ("skyrl.override-hydra", "", {"overrides": ["hydra/job_logging=none", "hydra.verbose=true", "hydra={run:{dir:/x}}"]}),
    ("skyrl.override-hydra", "config_groups: {hydra/job_logging: none}", {}),
    ("skyrl.override-group", "", {"overrides": ["megatron_config@trainer.ref.megatron_config=policy"]}),
    ("skyrl.override-group", "", {"overrides": ["megatron_config@trainer.policy.megatron_config=policy"]}),
    ("skyrl.override-group", "", {"overrides": ["deepspeed_config@deepspeed_config.train=x", "deepspeed_config@deepspeed_config.eval=x"]}),
    ("skyrl.override-group", "", {"overrides": ["hydra/job_logging=none"]}),
    ("skyrl.override-group", "config_groups: {envs/a: one}", {"overrides": ["envs/a=two", "trainer.project_name='a/b@c'"]}),
    ("skyrl.override-deletes", "", {"overrides": ["trainer.logger=null"]}),
    ("skyrl.override-exists", "", {"overrides": ["++trainer.logger=wandb", "+trainer.logger=[wandb]"]}),
    ("skyrl.override-adds", "", {"overrides": ["++generator.engine_init_kwargs.max_model_len=4", "trainer.epochs=1"]}),
    ("skyrl.override-section", "", {"overrides": ["terminal_bench_config.trials_dir=x"]}),
    ("skyrl.null-default", trainer("run_name: null"), {}),
    ("skyrl.served-name", "generator: {engine_init_kwargs: {served_model_name: Qwen3-8B}}", {}),
    ("skyrl.env-near-miss", "", {"env": {"NCCL_DEBUG": "1", "VLLM_BRAND_NEW": "1", "EPDIAG_CPX_Y": "1"}}),
    ("skyrl.key-typo", trainer("train_batch_size: 1, brand_new_knob: 1"), {}),
    ("skyrl.key-unknown", trainer("max_steps: 1, policy: {fsdp_config: {moe_router_replay: true}}"), {}),
    ("skyrl.key-added", "", {"overrides": ["++trainer.max_steps=3", "++trainer.brand_new_knob=3"]}),
)  # fmt: skip


@pytest.mark.parametrize(("code", "more", "given"), FIRES)
def test_a_rule_fires(code: str, more: str, given: dict[str, Any], judged: Judged):
    """The finding is there, with a place and a message in lower case."""
    found = [finding for finding in judged(more, **given) if finding.code == code]
    assert found
    for finding in found:
        assert finding.place
        assert finding.message[0].islower() or finding.message[0] in "`(0123456789"


@pytest.mark.parametrize(("code", "more", "given"), SILENT)
def test_a_rule_is_silent(code: str, more: str, given: dict[str, Any], judged: Judged):
    """The nearest good case has no such finding."""
    assert code not in {finding.code for finding in judged(more, **given)}


def test_every_rule_is_tested():
    """Each rule has a case that fires and one that does not."""
    codes = {rule.code.code for rule in rules.ALL}  # type: ignore[attr-defined]  # set by @rule
    assert {case[0] for case in FIRES} == codes == {case[0] for case in SILENT}


def test_a_good_recipe_has_no_findings(judged: Judged):
    """The base of these tests is spotless, so that a finding is due to what a test changed."""
    assert judged() == ()


def test_a_finding_points_at_the_key_or_the_override(judged: Judged):
    """Whoever set the value is named."""
    more = "generator: {sampling_params: {topk: 4}}"
    (written,) = judged(more)
    assert re.fullmatch(r"r\.yaml:\d+:\d+: generator\.sampling_params\.topk", written.place)
    assert written.hint == "did you mean `top_k`?"
    (typed, *_) = [
        f
        for f in judged("", overrides=["++generator.sampling_params.topk=4"])
        if "sampling" in f.code
    ]
    assert typed.place == "--skyrl_override ++generator.sampling_params.topk=4"


def test_database_registration_is_never_waivable():
    """No flag reaches it."""
    code = explain.codes()["skyrl.db-registration"]
    assert (code.level, code.waivable) == ("error", False)


def test_every_code_has_a_page():
    """What is said can be explained."""
    known = explain.codes()
    for module in (geometry, ledger, recipes):
        text = Path(module.__file__).read_text(encoding="utf-8")
        for code in re.findall(r'"((?:skyrl|recipe)\.[a-z-]+)"', text):
            assert code in known, code


def test_another_trainers_recipe_is_not_judged(launch: Callable[..., Run]):
    """Rules of SkyRL say nothing about a foreign entry point."""
    run = launch("entrypoint: acme.train\nwhatever: 1\n")
    assert rules.check(run, None) == ()  # type: ignore[arg-type]  # nothing looks at the plan
    assert ledger.check_keys(run.recipe) == ()


def test_the_toy_is_judged_by_what_it_has(judged: Judged):
    """No model, no engines, no logger; registration and overrides as everywhere."""
    toy = "entrypoint: rlaunch.smoke\n"
    assert judged("", base=toy, gpus_per_node=0, nodes=2) == ()
    found = judged("", base=toy, gpus_per_node=0, overrides=["trainer.enable_db_registration=1"])
    assert "skyrl.db-registration" in {f.code for f in found}


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("entrypoint: terminal_bench\nrolout: {}", "recipe.unknown-key", "did you mean `rollout`?"),
        ("entrypoint: terminal_bench\nzzz: 1", "recipe.unknown-key", "known are"),
        ("entrypoint: terminal_bench\ncontainer: {overlay: []}", "recipe.unknown-key", "did you mean `overlays`?"),
        ("entrypoint: terminal_bench\ncontext_budget: {}", "skyrl.newer-schema", "max_model_len"),
        ("entrypoint: terminal_bench\nenvironment: {}", "skyrl.newer-schema", "non-agentic"),
        ("entrypoint: terminal_bench\ntrainer: [1]", "recipe.wrong-shape", "keys below"),
        ("entrypoint: terminal_bench\nconfig_groups: {a: 1}", "recipe.wrong-shape", "write `a: NAME`"),
        ("trainer: {}", "recipe.entrypoint", "`entrypoint: terminal_bench`"),
        ("entrypoint: [1]\ntrainer: {}", "recipe.entrypoint", "`entrypoint: terminal_bench`"),
    ],
)  # fmt: skip
def test_keys_and_shapes_are_checked(text: str, code: str, hint: str):
    """Unknown keys and wrong shapes are errors with a suggestion."""
    (finding,) = ledger.check_keys(recipes.parse(text.encode(), "r.yaml"))
    assert (finding.level, finding.code) == ("error", code)
    assert hint in finding.hint


@pytest.mark.parametrize(
    "text",
    [
        "entrypoint: skyrl_train.entrypoints.main_base\nenvironment: {env_class: gsm8k}",
        "entrypoint: terminal_bench\nmodel_num_attention_heads: 42\nteacher:\n",
        "entrypoint: rlaunch.smoke\nsmoke: {exit_code: 3}\nextra_env: {A: 1}",
    ],
)
def test_known_keys_pass(text: str):
    """Sections of each kind of recipe are known."""
    assert ledger.check_keys(recipes.parse(text.encode(), "r.yaml")) == ()


def test_saved_recipes_have_known_keys(shared_recipes: Path):
    """No saved recipe has a key that nobody reads."""
    for path in shared_recipes.glob("*.yaml"):
        assert ledger.check_keys(recipes.read(str(path))) == ()
