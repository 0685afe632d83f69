"""Lines that end a SkyRL run, and lines that only look as if they would. Data.

Each was seen in real runs (facts of 2026-06 to 2026-08); a signature says what the line means and,
for a fatal one, what mends it.
"""

from __future__ import annotations

from typing import NamedTuple

from rlaunch.codes import Code
from rlaunch.model import Level


class Signature(NamedTuple):
    """One known line."""

    slug: str
    level: Level
    pattern: str
    says: str
    """What it means for the run: lower case, one clause."""
    why: str
    """The rest of its page."""
    hint: str = ""

    @property
    def code(self) -> str:
        """`skyrl.fatal-…` or `skyrl.benign-…`."""
        return f"skyrl.{self.slug}"

    @property
    def page(self) -> Code:
        """The page that `rlaunch explain` shows."""
        summary = f"{self.says[0].upper()}{self.says[1:]}."
        mend = f"\n\n{self.hint[0].upper()}{self.hint[1:]}." if self.hint else ""
        return Code(self.code, f"{summary}\n\n{self.why}{mend}", self.level)


FATAL: tuple[Signature, ...] = (
    Signature(
        "fatal-engine-dead", "error", r"EngineDeadError",
        "an inference engine has died",
        "vLLM does not start a dead engine again: everything that waits for it waits for ever.",
        "read the engine's own log just before this line; the cause stands there",
    ),
    Signature(
        "fatal-cuda-out-of-memory", "error", r"CUDA out of memory",
        "a GPU ran out of memory",
        "The process that asked for the memory is gone, and its collective partners wait for it.",
        "lower `generator.gpu_memory_utilization` or the micro batch sizes",
    ),
    Signature(
        "fatal-oom-killed", "error", r"\bOOMKilled\b",
        "the kernel ended a process for its memory",
        "The container's limit was reached. Ray's own idea of memory is the host's, unless it is "
        "told the limit of the container.",
        "ask for more `--memory`, or turn off `cpu_offload`",
    ),
    Signature(
        "fatal-watchdog-stuck", "error", r"watchdog got stuck for \d+ seconds",
        "a collective operation hung until its watchdog gave up",
        "One rank did not take part: it died, or it waits for something else.",
        "look for the rank that printed something else last",
    ),
    Signature(
        "fatal-abort", "error", r"Fatal Python error: Aborted",
        "a Python process was aborted",
        "Often libuv's io_uring on a kernel that lacks it, seconds after the start.",
        "set `UV_USE_IO_URING: \"0\"` in `extra_env`",
    ),
    Signature(
        "fatal-store-broken", "error", r"TCPStore.*sendBytes.*Broken pipe",
        "the process group's store is gone",
        "The rank that held it has ended; this line is the consequence, not the cause.",
        "look at rank 0 before this line",
    ),
    Signature(
        "fatal-disk-full", "error", r"No space left on device|Disk quota exceeded",
        "a file system was full",
        "The run directory, a quota, a node's `/tmp`, or its `/dev/shm`: what could not be written there "
        "ended its process.",
        "see which path the line names, make room there, and resume",
    ),
    Signature(
        "fatal-unknown-key", "error", r"Key '[^']*' is not in struct",
        "the trainer does not know a key of the recipe",
        "The base configuration is closed: a key that it lacks has to be added with `++`.",
        "correct the key, or pass it as `++KEY=VALUE`",
    ),
    Signature(
        "fatal-ray-system-config", "error",
        r"System config parameters can only be set on the head node",
        "a Ray worker was given the head's configuration",
        "Ray refuses `--system-config` on a worker and ends with code 1.",
    ),
    Signature(
        "fatal-moe-gate", "error", r"could not resolve MoE attribute",
        "the trainer's source does not know this mixture-of-experts model",
        "The gate's attributes moved between versions of transformers; a newer SkyRL finds them.",
        "pin a newer revision with `--skyrl-ref`",
    ),
    Signature(
        "fatal-gang-incomplete", "error", r"Only \d+/\d+ Ray nodes joined within",
        "the gang was not complete in time",
        "A node did not start, could not reach the head, or met the leavings of another attempt.",
        "see which rank has no line at rung 2",
    ),
    Signature(
        "fatal-data-missing", "error", r"FileNotFoundError: .*task\.toml",
        "a task directory is missing on a node: the data starves",
        "The data were staged on some nodes only, or elsewhere than the trainer looks.",
        "compare the staged paths of all ranks",
    ),
)  # fmt: skip

BENIGN: tuple[Signature, ...] = (
    Signature(
        "benign-shared-memory-wait", "note", r"No available shared memory broadcast block found",
        "vLLM's workers wait for work",
        "Printed once a minute while an engine is idle or its partner is slow.",
    ),
    Signature(
        "benign-unknown-variable", "note", r"Unknown vLLM environment variable",
        "vLLM does not know a variable that is meant for a patch of it",
        "The patched source reads the variable all the same.",
    ),
    Signature(
        "benign-image-pull", "note", r"ImagePullBackOff",
        "the image is still being fetched",
        "Large images break off now and then; the kubelet tries again.",
    ),
    Signature(
        "benign-token-length", "note", r"sequence length.*\b\d+ > \d+\b|\b32769 > 32768\b",
        "a conversation is one token longer than the model's nominal length",
        "A warning of the tokenizer; the trainer truncates.",
    ),
    Signature(
        "benign-prob-diff", "note",
        r"prob_diff_mean\D{1,4}(?:\d{7,}|\d+(?:\.\d+)?[eE]\+?0*[6-9])",
        "the difference of probabilities is in the millions",
        "A ratio of tiny probabilities; the clipped objective does not see it.",
    ),
    Signature(
        "benign-operation-count", "note", r"opCount dead",
        "NCCL's flight recorder shows an operation that is over",
        "Part of a dump, not an error.",
    ),
    Signature(
        "benign-weights-retry", "note",
        r"transient HF weight-index/safetensors fetch error",
        "a fetch of weights failed and is tried again",
        "Benign as long as it says that it retries; the last attempt's error is the fatal one.",
    ),
)  # fmt: skip

SIGNATURES = (*FATAL, *BENIGN)
