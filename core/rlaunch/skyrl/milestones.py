"""The eight rungs that a SkyRL run climbs. The toy trainer prints the same lines.

Rungs 1 to 3 are printed by whoever started the trainer: `[start_rl_iris_controller]`,
`[task-runtime]` and `[rl-iris]` in older jobs, `[rlaunch-node]` in ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlaunch.model import Milestone, RunFacts

STAGED = r"train_data staged to node-local paths"
STAGING = r"Staging train_data on this node \(rank \d+/\d+\)"
GANG = r"All \d+ Ray node\(s\) joined"
WEIGHTS = r"init policy/ref/critic models done"
STEPS = r"Total training steps: \d+"

LADDER = (
    Milestone(
        1, "source", "the pinned source is live",
        (r"MarinSkyRL now at [0-9a-f]{7,40}", r"HEAD is now at [0-9a-f]{7,40}"),
        absence="no revision was printed: the image's own source may be running",
    ),
    Milestone(
        2, "data", "the training data lies on every node", (STAGED,),
        every_rank=True,
        absence="that node did not start, or is still fetching its data",
        phases=("staging",),
    ),
    Milestone(
        3, "gang", "Ray runs on all nodes",
        (
            r"Ray nodes alive: (\d+)/\1(?!\d)", GANG,
            r"Single-node slice: skipping rendezvous and multi-node wait",
        ),
        absence="a node is missing, or cannot reach the head",
        phases=("starting", "rendezvous", "ray", "joining"),
    ),
    Milestone(
        4, "weights", "policy and reference have their weights", (WEIGHTS,),
        absence="weights are still loading, or could not be loaded",
    ),
    Milestone(
        5, "engines", "inference engines serve",
        (
            r"InferenceEngineClient initialized with [1-9]\d* engines",
            r"Engine \d+: .*Avg generation throughput: (?!0\.0 )\d",
        ),
        absence="no engine has answered yet",
    ),
    Milestone(
        6, "routed experts", "routed experts and decode context parallelism are allowed together",
        (
            r"VLLM_ALLOW_ROUTED_EXPERTS_DCP=1: allowing decode context parallel",
            r"allowing --enable-return-routed-experts with decode_context_parallel_size",
        ),
        absence="the guard was not lifted: vLLM refuses the pair, or ignores the experts",
    ),
    Milestone(
        7, "loop", "the driver is in its training loop",
        (
            STEPS, r"Resumed training from global_step \d+",
            r"TerminalBenchGenerator initialized with ",
        ),
        absence="the driver has not begun to generate",
    ),
    Milestone(
        8, "trials", "trials complete and steps advance",
        (
            r"Generation Buffer Progress:.*\b[1-9]\d*/\d+", r"avg_final_rewards: ",
            r"Finished: 'step', time cost: ", r"Successfully saved checkpoint for global_step_\d+",
            r"Reached max training steps \(\d+\)", r"Training done!",
        ),
        absence="no completed trial is known of; the first takes up to three hours at 131k tokens",
        by_trials=True,
    ),
)  # fmt: skip
"""Lowest first, each as it stands where it applies."""


def milestones(facts: RunFacts) -> Iterable[Milestone]:
    """Return the ladder of a run; rungs 1 and 6 apply only to runs that ask for them."""
    applies = {1: _pins_source(facts), 6: _asks_for_guard(facts)}
    return tuple(one._replace(when=applies.get(one.rung, True)) for one in LADDER)


def _pins_source(facts: RunFacts) -> bool:
    """A revision was asked for; or nobody knows, and only SkyRL's own launcher was ever used."""
    return bool(facts.skyrl_ref) or not (facts.run_id or facts.arguments)


def _asks_for_guard(facts: RunFacts) -> bool:
    """The run returns routed experts (R3) from engines that split the decode context (DCP)."""
    if facts.env.get("VLLM_ALLOW_ROUTED_EXPERTS_DCP") == "1":
        return True
    told = dict(argument.lstrip("+").partition("=")[::2] for argument in facts.arguments)
    experts = told.get("generator.engine_init_kwargs.enable_return_routed_experts", "")
    split = told.get("generator.inference_engine_decode_context_parallel_size", "1")
    return experts.lower() == "true" and bool(re.fullmatch(r"[1-9]\d*", split)) and int(split) > 1
