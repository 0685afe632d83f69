"""The shipped trainer on a real Ray of two nodes, whose workers cannot import it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from rlaunch.ladder import climb, judge
from rlaunch.model import Evidence, JobRef, LogLine, RunFacts, State, Status
from rlaunch.skyrl.diagnosis import diagnose
from rlaunch.skyrl.milestones import milestones

from .conftest import Train, clean_environment

pytestmark = pytest.mark.gang


class Trained(NamedTuple):
    """A finished run and where it wrote."""

    root: Path
    out: str


def _places(root: Path) -> tuple[str, ...]:
    return (
        f"trainer.ckpt_path={root}/ckpt",
        f"trainer.export_path={root}/exports",
        f"terminal_bench_config.trials_dir={root}/trials",
        "trainer.ckpt_interval=5",
        "trainer.resume_mode=latest",
    )


def _theta(root: Path, step: int) -> np.ndarray[Any, Any]:
    with np.load(root / "ckpt" / f"global_step_{step}" / "policy" / "weights.npz") as packed:
        return np.array(packed["theta"])


@pytest.fixture(scope="module")
def trained(train: Train, data: str, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """One whole run with two engines."""
    root = tmp_path_factory.mktemp("trained")
    done = train(
        *_places(root),
        f"data.val_data=['{data}']",
        "trainer.eval_interval=6",
        f"++smoke.dump_env={root}/env",
        "generator.num_inference_engines=2",
        env={"RLAUNCH_CANARY": 'naïve, "q" $HOME\nsecond line'},
    )
    assert done.returncode == 0, done.stderr
    return Trained(root, done.stdout)


def test_it_learns(trained: Trained) -> None:
    """The mean reward goes from at most 0.3 in the first step to at least 0.8 in the last."""
    rewards = [
        float(r) for r in re.findall(r"^avg_final_rewards: (\S+)$", trained.out, re.MULTILINE)
    ]
    assert len(rewards) == 12
    assert rewards[0] <= 0.3
    assert rewards[-1] >= 0.8
    summary = json.loads((trained.root / "exports" / "summary.json").read_text())
    assert summary["rewards"] == pytest.approx(rewards, abs=1e-4)
    assert (summary["steps"], summary["trials"]) == (12, 12 * 16 * 8)


def test_it_prints_the_lines_of_the_ladder(trained: Trained) -> None:
    """The milestones stand in the output, whole lines, in their order."""
    patterns = [
        r"InferenceEngineClient initialized with 2 engines\.",
        r"init policy/ref/critic models done",
        r"Total training steps: 12",
        r"Resumed training from global_step 0",
        r"Started: 'step'",
        r"Generation Buffer Progress:\s+50%\|.*\| 64/128 \[.*",
        r"INFO \S+ \S+ \[.*\] Engine 00\d: Avg prompt throughput: [\d.]+ tokens/s, "
        r"Avg generation throughput: [\d.]+ tokens/s, Running: \d+ reqs, Waiting: \d+ reqs",
        r"avg_final_rewards: 0\.\d+",
        r"Finished: 'step', time cost: [\d.]+s",
        r"eval/avg_score: [\d.]+",
        r"Successfully saved checkpoint for global_step_10 to: .*/ckpt/global_step_10",
        r"Reached max training steps \(12\)",
        r"Training done!",
    ]
    lines = trained.out.splitlines()
    places = [
        next((n for n, line in enumerate(lines) if re.fullmatch(pattern, line)), None)
        for pattern in patterns
    ]
    assert None not in places
    assert places == sorted(places, key=lambda place: place or 0)


def test_it_climbs_the_ladder_to_its_top(trained: Trained) -> None:
    """With the agents' lines before it, the toy's output reaches every rung and looks healthy."""
    agent = "[rlaunch-node] rank={}/2 attempt=0 {}"
    before = [agent.format(n, "train_data staged to node-local paths: ['/d']") for n in (0, 1)]
    before.append(agent.format(0, "All 2 Ray node(s) joined. Resources: {}"))
    lines = tuple(LogLine(text) for text in (*before, *trained.out.splitlines()))
    facts = RunFacts(JobRef("local", "r-1"), "r-1", nodes=2, arguments=("py", "rlaunch-smoke.pyz"))
    for state, word in ((State.RUNNING, "progressing"), (State.SUCCEEDED, "succeeded")):
        states = (Status(JobRef("local", "r-1"), state),)
        evidence = Evidence(facts, states, lines, "2026-07-08T10:30:00Z", 1536)
        rungs = climb(milestones(facts), evidence)
        assert [rung.milestone.rung for rung in rungs if rung.reached] == [2, 3, 4, 5, 7, 8]
        assert len(rungs) == 6
        findings = tuple(diagnose(evidence))
        assert findings == ()
        assert judge(rungs, evidence, findings).word == word


def test_every_engine_reports_work_that_it_did(trained: Trained) -> None:
    """Both nodes answered prompts, and the throughput is above zero."""
    found = re.findall(r"Engine (\d+): .* generation throughput: ([\d.]+)", trained.out)
    assert {engine for engine, _ in found} == {"000", "001"}
    assert all(float(speed) > 0 for _, speed in found)


def test_every_trial_has_its_result(trained: Trained) -> None:
    """One `result.json` per trial, from both engines, whose rewards are those of the steps."""
    results = [json.loads(p.read_text()) for p in trained.root.glob("trials/*/result.json")]
    assert len(results) == 12 * 16 * 8
    assert {result["engine"] for result in results} == {0, 1}
    last = [r["verifier_result"]["rewards"]["reward"] for r in results if r["step"] == 12]
    summary = json.loads((trained.root / "exports" / "summary.json").read_text())
    assert np.mean(last) == pytest.approx(summary["rewards"][-1])
    for result in results[:50]:
        left, right = result["prompt"].split(" + ")
        right_answer = result["answer"] == int(left) + int(right)
        assert result["verifier_result"]["rewards"]["reward"] == float(right_answer)


def test_the_environment_is_shown_as_it_arrived(trained: Trained) -> None:
    """The driver and one worker per node write their environments, readable by the owner only."""
    files = sorted((trained.root / "env").iterdir())
    assert [file.name for file in files] == ["driver.json", "node-0.json", "node-1.json"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    driver = json.loads(files[0].read_text())
    assert driver["RLAUNCH_CANARY"] == 'naïve, "q" $HOME\nsecond line'
    for file in files[1:]:
        assert json.loads(file.read_text())["RLAUNCH_MARK"] == "set on the node"


def test_a_run_that_failed_and_resumed_ends_like_one_that_did_not(
    train: Train, trained: Trained, tmp_path: Path
) -> None:
    """Failing in attempt 0 and resuming from the checkpoint gives the very same weights.

    With three engines instead of two: the result does not depend on who answered.
    """
    arguments = (
        *_places(tmp_path),
        "++smoke.fail_at_step=8",
        "++smoke.exit_code=7",
        "++smoke.fail_attempts=1",
        "generator.num_inference_engines=3",
    )
    first = train(*arguments, env={"RLAUNCH_ATTEMPT": "0"})
    assert first.returncode == 7
    assert "failing at step 8 of attempt 0" in first.stderr
    assert (tmp_path / "ckpt" / "latest_ckpt_global_step.txt").read_text() == "5"
    second = train(*arguments, env={"RLAUNCH_ATTEMPT": "1"})
    assert second.returncode == 0, second.stderr
    assert "Resumed training from global_step 5" in second.stdout
    assert "initialized with 3 engines" in second.stdout
    assert (_theta(tmp_path, 12) == _theta(trained.root, 12)).all()


def test_a_finished_run_has_nothing_left_to_do(train: Train, trained: Trained) -> None:
    """Starting again at the last step trains nothing and succeeds; a path works like the marker."""
    done = train(
        "trainer.resume_mode=from_path",
        f"trainer.resume_path={trained.root}/ckpt/global_step_12",
    )
    assert done.returncode == 0, done.stderr
    assert "Resumed training from global_step 12" in done.stdout
    assert "Started: 'step'" not in done.stdout
    assert "Training done!" in done.stdout


@pytest.fixture
def hang(
    pyz: Path, data: str, ray_address: str, tmp_path: Path
) -> Iterator[Callable[..., tuple[subprocess.Popen[bytes], Path]]]:
    """Start the trainer and wait until it hangs in its second step; gives its process and its log."""
    started = []

    def start(*arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        words = [f"data.train_data=['{data}']", "++smoke.hang_at_step=2", *arguments]
        log = tmp_path / "log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, str(pyz), *words],
                stdout=out,
                stderr=subprocess.DEVNULL,
                env=clean_environment(RAY_ADDRESS=ray_address),
            )
        started.append(process)
        until = time.monotonic() + 60
        while log.read_text().count("Started: 'step'") < 2:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        return process, log

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_it_hangs_silently_where_asked(hang: Any) -> None:
    """`hang_at_step` prints nothing more and does not end; SIGTERM still ends it."""
    process, log = hang("trainer.max_steps=3", "++smoke.step_seconds=0.5")
    before = log.read_text()
    cost = re.findall(r"^Finished: 'step', time cost: (\S+)s$", before, re.MULTILINE)
    assert [float(seconds) >= 0.5 for seconds in cost] == [True]
    time.sleep(1.5)
    assert log.read_text() == before
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) != 0


def test_it_saves_when_asked(hang: Any, tmp_path: Path) -> None:
    """With `save_seconds` SIGTERM ends the step, and its checkpoint is written, slowly; exit 143."""
    words = (f"trainer.ckpt_path={tmp_path}/ckpt", "trainer.max_steps=9", "++smoke.save_seconds=1")
    process, _ = hang(*words)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 143
    assert time.monotonic() - began > 1
    assert (tmp_path / "ckpt" / "latest_ckpt_global_step.txt").read_text() == "2"


def test_a_checkpoint_that_is_gone_ends_the_run_with_its_path(train: Train, tmp_path: Path) -> None:
    """The marker names a step that is not there: exit 1, and the path in the message."""
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt" / "latest_ckpt_global_step.txt").write_text("99")
    done = train(*_places(tmp_path))
    assert done.returncode == 1
    assert "global_step_99" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_trains_alone_without_a_cluster(data: str) -> None:
    """Without RAY_ADDRESS it starts a small Ray of its own, from the sources too."""
    done = subprocess.run(
        [sys.executable, "-m", "rlaunch.smoke", f"data.train_data=['{data}']", "trainer.epochs=2"],
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
        env=clean_environment(PYTHONPATH=os.pathsep.join(sys.path)),
    )
    assert done.returncode == 0, done.stderr
    assert "initialized with 1 engines" in done.stdout
    assert "Total training steps: 4" in done.stdout
