"""A synthetic log of eight nodes, in the shapes that real jobs print (values invented)."""

from __future__ import annotations

from collections.abc import Iterable

from rlaunch.ladder import Rung, Verdict, climb, judge
from rlaunch.model import Evidence, Finding, JobRef, LogLine, RunFacts, State, Status
from rlaunch.skyrl.diagnosis import diagnose
from rlaunch.skyrl.milestones import milestones

JOB = JobRef("iris", "/u/rl-x")
NODES = 8
NOW = "2026-07-08T10:30:00Z"
CTL = "[start_rl_iris_controller] "
RAY = "(AsyncVLLMInferenceEngine pid=88, ip=10.0.4.15) "


def finelog(clock: str, rank: int, text: str, attempt: int = 0) -> str:
    """One line as Iris transports it."""
    suffix = f":{attempt}" if attempt else ""
    return f"[{clock}] task=/u/rl-x/{rank}{suffix} | {text}"


def engine(speed: float, running: int, waiting: int, clock: str = "10:20:00") -> str:
    """One line of an engine's statistics."""
    return finelog(
        clock, 0,
        f"{RAY}INFO 07-08 09:41:12 [loggers.py:248] Engine 000: Avg prompt throughput: 512.3 tokens/s, "
        f"Avg generation throughput: {speed} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
        "GPU KV cache usage: 11.2%, Prefix cache hit rate: 63.0%",
    )  # fmt: skip


def buffer(done: int, elapsed: str, clock: str = "10:25:00") -> str:
    """One line of the generation buffer."""
    return finelog(
        clock,
        0,
        f"Generation Buffer Progress:  19%|#9        | {done}/64 [{elapsed}<47:50, 55.2s/it]",
    )


def bring_up(attempt: int = 0, prefix: str = CTL) -> list[str]:
    """Rungs 1 to 3."""
    lines = [
        finelog("09:14:02", 0, "[rl-iris] MarinSkyRL now at 518179d", attempt),
        finelog("09:14:02", 0, "HEAD is now at 518179d fix(moe): resolve gate attribute", attempt),
    ]
    for rank in (3, 0, 5, 1, 7, 2, 6, 4):
        names = "['Org/tasks-a']"
        staging = f"{prefix}Staging train_data on this node (rank {rank}/8): {names}"
        lines.append(finelog("09:14:09", rank, staging, attempt))
    for rank in range(NODES):
        staged = f"{prefix}train_data staged to node-local paths: ['/tasks/Org/tasks-a']"
        lines.append(finelog("09:15:31", rank, staged, attempt))
    lines += [
        finelog("09:16:40", 0, f"{prefix}Ray nodes alive: 5/8", attempt),
        finelog("09:16:55", 0, f"{prefix}Ray nodes alive: 8/8", attempt),
        finelog(
            "09:16:55", 0, f"{prefix}All 8 Ray node(s) joined. Resources: {{'GPU': 64.0}}", attempt
        ),
    ]
    return lines


def start_up() -> list[str]:
    """Rungs 4 to 7."""
    retry = (
        "(FSDPPolicyWorker pid=4121, ip=10.0.4.12) [rank 7] transient HF weight-index/safetensors fetch "
        "error loading 'Qwen/Qwen3-8B' on attempt 1/6; retrying in 2s: OSError: Qwen/Qwen3-8B does not "
        "appear to have a file named model.safetensors"
    )
    loop = (
        "TerminalBenchGenerator initialized with HarborConfigBuilder. Exposed fields: ['name']. "
        "Retry config: max_retries=3. Concurrent trials: 8."
    )
    dcp = "allowing --enable-return-routed-experts with decode_context_parallel_size=2"
    return [
        finelog("09:21:10", 0, retry),
        finelog("09:24:00", 0, "init policy/ref/critic models done"),
        finelog("09:30:00", 0, "InferenceEngineClient initialized with 4 engines."),
        engine(61.7, 6, 0, "09:41:12"),
        finelog("09:41:20", 0, f"(VLLM pid=1) {dcp}"),
        finelog("09:42:00", 0, "Total training steps: 80"),
        finelog("09:42:00", 0, "Resumed training from global_step 0"),
        *[finelog("09:42:10", 0, f"(Coordinator pid={n}) {loop}") for n in range(4)],
    ]


def steps() -> list[str]:
    """Rung 8."""
    return [
        finelog("10:10:00", 0, "Started: 'step'"),
        buffer(12, "11:02"),
        finelog("10:28:00", 0, "avg_final_rewards: 0.214"),
        finelog("10:28:30", 0, "Finished: 'step', time cost: 3120.55s"),
        finelog(
            "10:29:00", 0,
            "Successfully saved checkpoint for global_step_2 to: /app/rl-x/checkpoints/global_step_2",
        ),
    ]  # fmt: skip


def healthy() -> list[str]:
    """All of it."""
    return [*bring_up(), *start_up(), *steps()]


def evidence(
    texts: Iterable[str],
    state: State | None = State.RUNNING,
    *,
    nodes: int | None = NODES,
    trials: int | None = None,
    missing: tuple[str, ...] = (),
    attempt: int | None = None,
    now: str = NOW,
    facts: RunFacts | None = None,
) -> Evidence:
    """Evidence of a job that another launcher started: its state and its lines, nothing else."""
    states = () if state is None else (Status(JOB, state, attempt=attempt),)
    known = facts or RunFacts(JOB, nodes=nodes)
    lines = tuple(LogLine(text) for text in texts)
    return Evidence(known, states, lines, now, trials, missing)


def climbed(evidence: Evidence) -> tuple[Rung, ...]:
    """The rungs of SkyRL's ladder."""
    return climb(milestones(evidence.facts), evidence)


def verdict(evidence: Evidence) -> Verdict:
    """The verdict with SkyRL's findings."""
    return judge(climbed(evidence), evidence, tuple(diagnose(evidence)))


def reached(rungs: Iterable[Rung]) -> list[int]:
    return [rung.milestone.rung for rung in rungs if rung.reached]


def without(texts: Iterable[str], *parts: str) -> list[str]:
    return [text for text in texts if not any(part in text for part in parts)]


def rung(rungs: Iterable[Rung], number: int) -> Rung:
    return next(one for one in rungs if one.milestone.rung == number)


def found(evidence: Evidence) -> dict[str, Finding]:
    """The findings by code."""
    return {finding.code: finding for finding in diagnose(evidence)}


def word(evidence: Evidence) -> str:
    """The verdict's word."""
    return verdict(evidence).word
