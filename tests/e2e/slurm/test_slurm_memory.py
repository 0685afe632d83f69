"""Jobs that use more memory than they asked for, with SLURM's cgroups for real: the reason says so, whoever
the kernel kills."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
SERVICE = Path(__file__).resolve().parents[2] / "services" / "slurm.sh"
GIB = 1 << 30


@pytest.fixture(scope="module")
def limited(slurm: Any) -> Iterator[Any]:
    """The cluster, with jobs held to the memory they ask for until the last test of this module."""
    try:
        subprocess.run([SERVICE, "memory", "on"], check=True, timeout=120)
        yield slurm
    finally:
        subprocess.run([SERVICE, "memory", "off"], check=True, timeout=120)


def eat(where: str, size: int) -> list[str]:
    """Return the arguments that make a process of the toy trainer take memory at its second step."""
    keys = {"eat_at_step": 2, "eat_bytes": size, "eat_in": where}
    return [w for k, v in keys.items() for w in ("--skyrl_override", f"++smoke.{k}={v}")]


def diagnosis(slurm: Any, name: str) -> str:
    """Return what `rlaunch diagnose` says."""
    done = slurm.rlaunch("diagnose", name, "--json")
    assert done.stdout, done.stderr
    return json.dumps(json.loads(done.stdout), ensure_ascii=False)


@pytest.mark.parametrize(("where", "code", "signal"), [("driver", None, 9), ("worker", 1, None)])
def test_the_kernel_ends_what_takes_too_much(
    limited: Any, where: str, code: int | None, signal: int | None
) -> None:
    """The driver's death by 9 and its 1 after a lost Ray process are both `out-of-memory`, codes kept.

    Ray asks the kernel to prefer its workers, so they may die first for what the driver takes.
    """
    name = f"oom-{where}"
    limited.launch(*eat(where, 4 * GIB), name=name, memory="3GiB", code=1)
    seen = limited.status(name)
    assert (seen["state"], seen["reason"]) == ("FAILED", "out-of-memory"), limited.output(name)
    assert (seen["exit_code"], seen["signal"]) == (code, signal)
    run = limited.run_dir(name)
    done = json.loads((run / "rendezvous" / "ray_head.done").read_text())
    assert done["oom_kills"] >= 1, "the agent's own evidence, for clusters without accounting"
    assert done["reason"] == ("driver-signal" if where == "driver" else "driver-exit")
    assert "for want of memory" in done["detail"]
    term = json.loads((run / "rendezvous" / "term" / "1" / "0.json").read_text())
    assert term["oom_kills"] == done["oom_kills"]
    said = diagnosis(limited, name)
    assert "used more memory than it had asked for" in said
    assert "`--memory` asks for more" in said


def test_a_run_that_fits_is_left_alone(limited: Any) -> None:
    """With the same limit a run that stays below it succeeds, Ray's processes included."""
    limited.launch(*eat("worker", GIB // 2), name="fits", memory="3GiB")
    assert limited.status("fits")["state"] == "SUCCEEDED"


def test_an_ordinary_failure_is_not_blamed_on_memory(limited: Any) -> None:
    """A driver that exits 7 under the limit is `driver-exit`."""
    fails = [
        w for k in ("fail_at_step=2", "exit_code=7") for w in ("--skyrl_override", f"++smoke.{k}")
    ]
    limited.launch(*fails, name="plain7", memory="3GiB", code=1)
    seen = limited.status("plain7")
    assert (seen["reason"], seen["exit_code"]) == ("driver-exit", 7)
