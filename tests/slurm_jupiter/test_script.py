"""The batch script: its text, and what it does when bash runs it with stand-ins for SLURM's programs.

A stand-in is a script of one line that writes down how it was called; the real ones are asked in
`tests/e2e/test_slurm*.py`.
Over 300 lines: the script's parts are tested in their order.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlaunch import render
from rlaunch.model import Command, Plan, Recipe, Run
from rlaunch_slurm_jupiter import PROFILES, records

Script = Callable[..., str]
ORIGINALS = ("jupiter_16node_qwen3_30b_a3b_131k_cp_dcp_r3", "jupiter_24GPU_qwen3_coder_30b_a3b")


@pytest.mark.parametrize("name", ORIGINALS)
def test_the_original_recipes(
    name: str,
    golden: Callable[[str, str], None],
    saved: Callable[[str], Recipe],
    run_on: Callable[..., Run],
    plan_of: Callable[..., Plan],
) -> None:
    """The saved JUPITER recipes plan to the whole text that is kept: script, task, environment."""
    plan = plan_of(run_on("jupiter", saved(name), max_retries=2, timeout_s=43140))
    files = tuple(f for f in plan.files if f.path != "task.py")
    golden(f"{name}.txt", render.plan(plan._replace(files=files)))


@pytest.mark.parametrize("name", PROFILES)
def test_shipped_profiles(name: str, golden: Callable[[str, str], None], script: Script) -> None:
    """Each shipped profile gives the script that is kept for the toy run."""
    golden(f"toy.{name}.txt", script(name))


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "chain": {"max_retries": 3},
    "requeue": {"max_retries": 3, "restart": "requeue"},
    "host": {"tunnel": None, "modules": [], "save_lead_s": 0},
    "image": {"sif": "/images/a b.sif", "binds": ["/x:/y:ro", "/a b"], "overlays": ["/o.img"]},
    "unset": {"unset": ["LD_PRELOAD"], "before": ["export X=1"]},
    "proxy": {"tunnel": {"proxy": "10.1.2.3:1080"}},
    "wrapped": {"tunnel": {"proxy": "gate:1080", "wrapper": ["proxychains4"]}},
    "login": {"tunnel": {"login": "gate"}, "interfaces": []},
    "blanks": {"run_dir": "/s/it's a 'dir'; & \"q\" #1/{run}"},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_script_is_clean(variant: str, script: Script, tmp_path: Path) -> None:
    """bash reads every script, and shellcheck has nothing to say about it."""
    path = tmp_path / "job.sh"
    path.write_text(script(**VARIANTS[variant]))
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0
    checker = shutil.which("shellcheck")
    if checker is None:  # `.ci/run` installs it; elsewhere bash's own reading is what there is
        assert not os.environ.get("RLAUNCH_REQUIRE_SERVICES"), "shellcheck is not installed"
        return
    done = subprocess.run([checker, path], capture_output=True, text=True, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_value_of_the_environment_is_in_a_script(variant: str, script: Script) -> None:
    """Values travel in a file: the script has no `export` but the one for Apptainer, and no `set -x`."""
    text = script(**VARIANTS[variant])
    exports = [row for row in text.splitlines() if row.startswith("export ")]
    assert [row for row in exports if row != "export X=1"] == ["export APPTAINER_NO_EVAL=1"]
    assert "set -euo pipefail" in text.splitlines()
    assert "set -x" not in text
    assert "APPTAINERENV_X" not in text
    assert "--env" not in text.replace("--env-file", "")


STUBS = {
    "srun": 'printf "%s\\n" "$@" >"$CALLS/srun"; echo "$$" >"$CALLS/srun.pid"; . "$CALLS/step"',
    "scancel": 'echo "$*" >>"$CALLS/scancel"',
    "scontrol": 'echo "$*" >>"$CALLS/scontrol"; kill -TERM "$PPID"',
    "sleep": "exit 0",
}


class Batch:
    """The script of a run in a directory of its own, and bash to run it."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.calls = folder / "calls"
        self.bin = folder / "bin"
        self.root = Path(plan.run.paths.run_dir)
        for path in (self.calls, self.bin, self.root):
            path.mkdir(parents=True)
        for name, text in STUBS.items():
            (self.bin / name).write_text(f"#!/bin/bash\n{text}\n")
            (self.bin / name).chmod(0o755)
        self.step("exit 0")
        for file in plan.files:
            (self.root / file.path).write_text(file.content)
        (self.root / "secrets.json").write_text("{}")

    def step(self, text: str) -> None:
        """Say what srun does."""
        (self.calls / "step").write_text(text)

    def start(self, link: int = 1, **environ: str) -> subprocess.Popen[str]:
        """Start the script as SLURM would."""
        env = {
            "PATH": f"{self.bin}:{os.environ['PATH']}", "CALLS": str(self.calls), "HOME": "/",
            "SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": "2",
            "SLURM_NTASKS": "2", "SLURM_JOB_NAME": "rl-0a1b2c3d", **environ,
        }  # fmt: skip
        return subprocess.Popen(
            ["bash", self.root / "job.sh", str(link)], env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, link: int = 1, **environ: str) -> tuple[int, str]:
        """Run the script to its end."""
        with self.start(link, **environ) as process:
            out, _ = process.communicate(timeout=60)
        return process.returncode, out

    def outcome(self, attempt: int, outcome: str, **fields: Any) -> None:
        """Publish an outcome, as rank 0's agent does."""
        done = {"run": "rl-0a1b2c3d", "attempt": attempt, "outcome": outcome, **fields}
        folder = self.root / "rendezvous"
        folder.mkdir(exist_ok=True)
        (folder / "ray_head.done").write_text(json.dumps(done, separators=(",", ":")) + "\n")

    def end(self, attempt: int) -> str:
        """What the script noted about an attempt."""
        return (self.root / "attempts" / str(attempt) / "end").read_text().strip()

    def called(self, name: str) -> list[str]:
        """How a stand-in was called."""
        path = self.calls / name
        return path.read_text().splitlines() if path.is_file() else []


@pytest.fixture
def batch(
    tmp_path: Path, run_on: Callable[..., Run], plan_of: Callable[..., Plan]
) -> Callable[..., Batch]:
    """Prepare a batch in a directory whose name needs quoting."""

    def make(command: Command | None = None, run: str = "", **settings: Any) -> Batch:
        folder = tmp_path / run
        fixed: dict[str, Any] = {
            "run_dir": f"{folder}/it's a dir/{{run}}",
            "modules": [],
            "tunnel": None,
        }
        fixed["data_root"] = f"{folder}/data"
        return Batch(folder, plan_of(run_on(**{**fixed, **settings}), command))

    return make


def test_success_ends_the_chain(batch: Callable[..., Batch]) -> None:
    """A driver that succeeded ends the run: 0, the rest of the chain cancelled, the secrets gone."""
    job = batch(max_retries=2)
    job.step(
        f"echo '{json.dumps({'run': 'x', 'attempt': 1, 'outcome': 'succeeded'})}' >rendezvous/ray_head.done"
    )
    code, out = job.run()
    assert code == 0, out
    assert job.end(1) == "succeeded driver-exit 0"
    assert (job.root / "last").read_text() == "1 succeeded driver-exit 0\n"
    [cancelled] = job.called("scancel")
    assert "--state=PENDING" in cancelled
    assert "--name=rl-0a1b2c3d" in cancelled
    assert not (job.root / "secrets.json").exists()


def test_failure_keeps_its_code_and_its_reason(batch: Callable[..., Batch]) -> None:
    """The driver's exit code is the job's, and the outcome's reason is noted; more links keep the secrets."""
    job = batch(max_retries=1)
    job.step(
        'echo \'{"attempt":1,"outcome":"failed","reason":"driver-exit","exit_code":7}\' '
        ">rendezvous/ray_head.done; exit 7"
    )
    code, _ = job.run()
    assert (code, job.end(1)) == (7, "failed driver-exit 7")
    assert (job.root / "secrets.json").exists()
    assert job.called("scancel") == []


def test_a_step_that_lies_is_no_success(batch: Callable[..., Batch]) -> None:
    """srun may say 0 without an outcome: that is a failure with a name."""
    job = batch()
    code, _ = job.run()
    assert (code, job.end(1)) == (85, "failed no-outcome 85")
    assert not (job.root / "secrets.json").exists(), "the last link forgets the secrets"


def test_an_older_outcome_gives_no_reason(batch: Callable[..., Batch]) -> None:
    """A failure noted by an earlier attempt says nothing about this one."""
    job = batch(max_retries=3)
    job.outcome(1, "failed", reason="driver-exit")
    (job.root / "attempts" / "1").mkdir(parents=True)
    job.step("exit 9")
    code, _ = job.run()
    assert (code, job.end(2)) == (9, "failed step-failed 9")


def test_the_attempt_is_taken_not_counted(batch: Callable[..., Batch]) -> None:
    """Numbers rise strictly over links and requeues, whatever SLURM's own counters say."""
    job = batch(max_retries=5)
    job.step("exit 3")
    for link in (1, 2):
        job.run(link)
    job.step("exit 4")
    job.run(3, SLURM_RESTART_COUNT="1")
    assert [job.end(n) for n in (1, 2)] == ["failed step-failed 3"] * 2
    assert not (job.root / "attempts" / "3").exists(), "the third would fail as the two before"


def test_failing_twice_in_the_same_way_is_enough(batch: Callable[..., Batch]) -> None:
    """A third link does not try what failed twice alike, and ends with that failure's code."""
    job = batch(max_retries=5)
    job.step("exit 3")
    job.run(1)
    job.run(2)
    code, out = job.run(3)
    assert code == 3
    assert "the same way (failed step-failed 3)" in out
    assert len(job.called("scancel")) == 1


def test_two_different_failures_are_tried_again(batch: Callable[..., Batch]) -> None:
    """Another code is another failure."""
    job = batch(max_retries=5)
    for code in (3, 4, 3):
        job.step(f"exit {code}")
        assert job.run()[0] == code
    assert job.end(3) == "failed step-failed 3"


def test_a_cut_attempt_is_no_failure(batch: Callable[..., Batch]) -> None:
    """Attempts that SLURM ended, by time or by a lost node, leave no failure behind."""
    job = batch(max_retries=5)
    job.step("exit 3")
    job.run()
    (job.root / "attempts" / "2").mkdir()
    assert job.run()[0] == 3
    assert job.end(3) == "failed step-failed 3"


def test_a_complete_run_is_left_alone(batch: Callable[..., Batch]) -> None:
    """A link that finds a success of any attempt does nothing and ends with 0."""
    job = batch(max_retries=1)
    job.outcome(1, "succeeded")
    code, out = job.run(2)
    assert code == 0
    assert "complete" in out
    assert job.called("srun") == []


@pytest.mark.parametrize(
    ("step", "code"), [("80", 0), ("81\n", 0), ("79", 85), ("", 85), ("08", 85)]
)
def test_the_checkpoint_says_whether_there_is_more(
    batch: Callable[..., Batch], step: str, code: int, saved: Callable[[str], Recipe]
) -> None:
    """A checkpoint at `max_steps` or beyond is the end; before it, the step it starts from is shown."""
    job = batch(recipe=saved(ORIGINALS[1]), sif=None, max_retries=1)
    marker = job.root / "checkpoints" / "latest_ckpt_global_step.txt"
    marker.parent.mkdir()
    marker.write_text(step)
    job.root.joinpath("job.sh").write_text(
        job.root.joinpath("job.sh").read_text().replace('[[ -e "$sif" ]]', "true")
    )
    found, out = job.run(SLURM_JOB_NUM_NODES="6", SLURM_NTASKS="6")
    assert found == code, out
    assert ("complete: the checkpoint" in out) == (code == 0)
    if code:
        assert f"starts from step {int(step or 0)} of 80" in out


@pytest.mark.parametrize(
    ("words", "before", "after"),
    [
        (
            ["trainer.resume_mode=from_path", "trainer.resume_path=/old/global_step_8"],
            "starts from /old/global_step_8\n",
            "starts from step 8 of 80, the checkpoint of this run\n",
        ),
        (
            ["trainer.resume_mode=none"],
            "starts from step 0 of 80: resume_mode is none\n",
            "starts from step 0 of 80: resume_mode is none\n",
        ),
        (
            ["trainer={resume_mode:none,resume_path:/old}"],
            "starts from step 0 of 80: resume_mode is none\n",
            "starts from step 0 of 80: resume_mode is none\n",
        ),
        (
            ["trainer.resume_mode=latest", "trainer.resume_path=/old/global_step_8"],
            "starts from step 0 of 80\n",
            "starts from step 8 of 80\n",
        ),
    ],
)
def test_where_an_attempt_starts_is_what_the_driver_is_told(
    batch: Callable[..., Batch], tmp_path: Path, words: list[str], before: str, after: str
) -> None:
    """Step 0 is said only of a driver that starts there; the run's own checkpoint goes before another's."""
    steps = ("trainer.max_steps=80", f"trainer.ckpt_path={tmp_path}/checkpoints")
    job = batch(Command(("python3", "x", *steps, *words)), max_retries=3)
    job.step("exit 3")
    assert before in job.run()[1]
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "latest_ckpt_global_step.txt").write_text("8")
    assert after in job.run()[1]


def test_stop_reaches_a_link_that_waited(batch: Callable[..., Batch]) -> None:
    """A link that starts after `rlaunch stop` cancels itself and runs nothing."""
    job = batch()
    (job.root / "stop").write_text("stop\n")
    code, _ = job.run()
    assert code == 143
    assert job.called("scancel") == ["77"]
    assert job.called("srun") == []


def signalled(
    job: Batch, number: signal.Signals, step: str, *, link: int = 1, mark: str = "srun.pid"
) -> tuple[int, str]:
    """Send the script a signal once its step runs, or another mark is there."""
    job.step(step)
    process = job.start(link)
    until = time.monotonic() + 20
    while not (job.calls / mark).exists() and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    return process.returncode, out


WAITS = "trap 'exit 143' TERM; for i in {1..200}; do /bin/sleep 0.05; done"


@pytest.mark.parametrize(
    ("number", "why"), [(signal.SIGTERM, "terminated"), (signal.SIGUSR1, "wall-limit")]
)
def test_signals_end_the_driver_first(
    batch: Callable[..., Batch], number: signal.Signals, why: str
) -> None:
    """SIGTERM and the early signal are passed on, waited for, and noted as a cut with the step's code."""
    job = batch(max_retries=1)
    code, out = signalled(job, number, WAITS)
    assert (code, job.end(1)) == (143, f"cut {why} 143"), out
    assert (job.root / "secrets.json").exists()


@pytest.mark.parametrize(
    ("settings", "link", "kept"),
    [
        ({"max_retries": 1}, 2, True),
        ({"max_retries": 1, "restart": "requeue"}, 1, True),
        ({}, 1, False),
        ({"sbatch": ["--requeue"]}, 1, True),
        ({"max_retries": 1, "sbatch": ["--no-requeue"]}, 2, False),
    ],
)
def test_a_job_that_slurm_starts_again_finds_its_secrets(
    batch: Callable[..., Batch], settings: dict[str, Any], link: int, kept: bool
) -> None:
    """SIGTERM by preemption keeps the secrets where the same job may come back, in the last link too."""
    job = batch(**settings)
    _, out = signalled(job, signal.SIGTERM, WAITS, link=link)
    assert job.end(1) == "cut terminated 143", out
    assert (job.root / "secrets.json").exists() == kept
    if kept:
        job.step("[[ -e secrets.json ]] || exit 2; exit 5")
        assert job.run(link, SLURM_RESTART_COUNT="1")[0] == 5


def test_a_gang_that_lost_a_node_may_come_back(batch: Callable[..., Batch]) -> None:
    """The last link's script may see a lost node before SLURM puts the job back: its secrets stay."""
    job = batch(max_retries=1)
    job.outcome(1, "failed", reason="worker-lost")
    job.step("exit 68")
    assert job.run(2)[0] == 68
    assert (job.root / "secrets.json").exists()


def test_the_last_end_takes_the_secrets(batch: Callable[..., Batch]) -> None:
    """Where retries are used up, by failure or by the wall limit, nothing comes back and nothing stays."""
    for settings, link in (({}, 2), ({"restart": "requeue"}, 1)):
        job = batch(max_retries=1, run=str(link), **settings)
        job.step("exit 3")
        job.run()
        assert (job.root / "secrets.json").exists()
        code, out = signalled(job, signal.SIGUSR1, WAITS, link=link)
        assert (code, job.end(2)) == (143, "cut wall-limit 143"), out
        assert not (job.root / "secrets.json").exists()


def test_a_requeue_that_is_on_its_way_keeps_the_secrets(batch: Callable[..., Batch]) -> None:
    """Between `scontrol requeue` and SLURM's signal the script takes nothing away; refused, it does."""
    job = batch(max_retries=2, restart="requeue")
    job.step("exit 3")
    (job.bin / "scontrol").write_text('#!/bin/bash\necho "$*" >>"$CALLS/scontrol"\n')
    assert job.run()[0] == 3
    assert (job.root / "secrets.json").exists()
    (job.bin / "scontrol").write_text("#!/bin/bash\nexit 1\n")
    job.step("exit 4")
    assert job.run()[0] == 4
    assert not (job.root / "secrets.json").exists()


LINGERS = ['touch "$CALLS/before"', "/bin/sleep 20 >/dev/null 2>&1"]


@pytest.mark.parametrize(
    ("settings", "end"),
    [({"max_retries": 1}, "cut terminated 143"), ({"stop": True}, "cut stopped 143")],
)
def test_sigterm_before_the_step_has_an_end_too(
    batch: Callable[..., Batch], settings: dict[str, Any], end: str
) -> None:
    """A job that is ended while the site's lines run ends at once, with its record."""
    stop = settings.pop("stop", False)
    job = batch(before=[*(['touch "$run_dir/stop"'] if stop else []), *LINGERS], **settings)
    begin = time.monotonic()
    code, out = signalled(job, signal.SIGTERM, "exit 9", mark="before")
    assert (code, job.end(1)) == (-signal.SIGTERM, end), out
    assert time.monotonic() - begin < 10
    assert job.called("scancel") == (["77"] if stop else [])
    assert (job.root / "secrets.json").exists() == (not stop)
    assert job.called("srun") == []


def test_sigterm_in_the_tunnel_leaves_no_tunnel(batch: Callable[..., Batch]) -> None:
    """While the tunnel is made, too, SIGTERM ends the job with its record, and the tunnel's ssh."""
    job = batch(tunnel={"login": "nobody@127.0.0.1", "port": 7003})
    (job.bin / "ssh").write_text('#!/bin/bash\necho $$ >"$CALLS/ssh"; exec /bin/sleep 20\n')
    (job.bin / "ssh").chmod(0o755)
    code, out = signalled(job, signal.SIGTERM, "exit 9", mark="ssh")
    assert (code, job.end(1)) == (-signal.SIGTERM, "cut terminated 143"), out
    [pid] = job.called("ssh")
    assert not Path("/proc", pid).exists() or "Z" in Path("/proc", pid, "stat").read_text()


def test_the_early_signal_before_the_step(batch: Callable[..., Batch]) -> None:
    """A wall limit that comes while modules load is a wall limit, and the job is requeued for it."""
    job = batch(max_retries=1, restart="requeue", before=[LINGERS[0], "/bin/sleep 1"])
    (job.bin / "scontrol").write_text('#!/bin/bash\necho "$*" >>"$CALLS/scontrol"\n')
    code, out = signalled(job, signal.SIGUSR1, "exit 9", mark="before")
    assert (code, job.end(1)) == (138, "cut wall-limit 138"), out
    assert job.called("scontrol") == ["requeue 77"]
    assert job.called("srun") == []


@pytest.mark.parametrize(
    ("before", "end"),
    [
        (["false", "(exit 3)", "x=$(exit 4)"], "failed step-failed 9"),
        (["cd /"], "failed step-failed 9"),
        (["cd /; exit 3"], "failed before-failed 3"),
        (["exit 3"], "failed before-failed 3"),
        (["exit"], "failed before-failed 88"),
    ],
)
def test_what_lines_of_the_profile_may_do(
    batch: Callable[..., Batch], before: list[str], end: str
) -> None:
    """They may fail as they like; where one leaves, the job has an end with a name."""
    job = batch(before=before)
    job.step("exit 9")
    code, out = job.run()
    assert (f"{code}", job.end(1)) == (end.rsplit(maxsplit=1)[-1], end), out


def test_a_command_of_the_script_that_fails(batch: Callable[..., Batch]) -> None:
    """What `set -e` ends is a failure with a name, not a job that somebody ended."""
    job = batch(unset=["BASH_VERSINFO"])
    code, out = job.run()
    assert (code, job.end(1)) == (1, "failed script-failed 1"), out
    assert not (job.root / "secrets.json").exists()


def test_rank_0s_agent_is_told_before_the_step(batch: Callable[..., Batch]) -> None:
    """Where rank 0 left its pid, its agent gets the signal and srun does not."""
    job = batch()
    agent = job.root / "rlaunch-node.pyz"
    agent.write_text("trap 'exit 9' TERM\nfor i in {1..200}; do /bin/sleep 0.05; done\n")
    pid = '"$PWD/attempts/1/head.pid"'
    step = f'bash "$PWD/rlaunch-node.pyz" & echo $! >{pid}; trap "exit 99" TERM; wait $!; exit 143'
    code, out = signalled(job, signal.SIGTERM, step)
    assert code == 143, out


def test_stopped_is_cancelled(batch: Callable[..., Batch]) -> None:
    """After `rlaunch stop` the script cancels its own job, so that SLURM says CANCELLED."""
    job = batch()
    (job.root / "attempts").mkdir()
    code, _ = signalled(job, signal.SIGTERM, 'touch "$PWD/stop"; ' + WAITS)
    assert code == 143
    assert job.end(1) == "cut stopped 143"
    assert job.called("scancel") == ["77"]
    assert not (job.root / "secrets.json").exists()


def test_requeue_instead_of_a_chain(batch: Callable[..., Batch]) -> None:
    """With `restart: requeue` a failure puts the same job back, as often as retries allow."""
    job = batch(max_retries=1, restart="requeue")
    job.step("exit 3")
    job.run()
    assert job.called("scontrol") == ["requeue 77"]
    job.step("exit 4")
    assert job.run()[0] == 4
    assert len(job.called("scontrol")) == 1


@pytest.mark.parametrize(("whole", "waits"), [("exit 0", 0), ("exit 1", 1)])
def test_a_requeue_waits_for_a_lost_node(
    batch: Callable[..., Batch], whole: str, waits: int
) -> None:
    """After a lost rank the job is requeued at once where every node is there, else SLURM may do it first."""
    job = batch(max_retries=1, restart="requeue")
    job.outcome(1, "failed", reason="worker-lost")
    (job.bin / "sleep").write_text('#!/bin/bash\necho "$1" >>"$CALLS/sleep"\n')
    job.step(f'case " $* " in *" true "*) {whole};; esac; exit 68')
    job.run()
    assert job.called("sleep").count("1200") == waits
    assert len(job.called("scontrol")) == 1


def test_the_wait_for_a_lost_node_ends_before_the_wall_limit(batch: Callable[..., Batch]) -> None:
    """SLURM's early signal ends the wait: after the limit the job would not come back."""
    job = batch(max_retries=1, restart="requeue")
    job.outcome(1, "failed", reason="worker-lost")
    (job.bin / "sleep").write_text(
        '#!/bin/bash\nkill -USR1 "$PPID"; [[ $1 != 1200 ]] || exec /bin/sleep 60\n'
    )
    job.step('case " $* " in *" true "*) exit 1;; esac; exit 68')
    begin = time.monotonic()
    job.run()
    assert time.monotonic() - begin < 30
    assert job.called("scontrol") == ["requeue 77"]


def test_a_rank_that_refused_names_the_failure(batch: Callable[..., Batch]) -> None:
    """Where rank 0 never came to an outcome, the reason is that of the first rank that has one."""
    job = batch()
    record = json.dumps({"rank": 0, "reason": "tunnel-dead", "detail": "x"})
    job.step(f"mkdir -p rendezvous/ranks/1; echo '{record}' >rendezvous/ranks/1/0.json; exit 84")
    code, out = job.run()
    assert (code, job.end(1)) == (84, "failed tunnel-dead 84"), out


def test_an_end_that_cannot_be_written(batch: Callable[..., Batch]) -> None:
    """Where no file can be added the end stands in place of the attempt's number, as `not-written`."""
    job = batch()
    job.step("mkdir -p attempts/1/end; exit 7")
    code, out = job.run()
    assert (code, (job.root / "last").read_text()) == (7, "1 failed not-written 7\n"), out


def test_an_end_that_stands_over_a_longer_one() -> None:
    """On a full disk the file keeps the end of a longer text: the first line is what counts."""
    ended = (2, ("failed", "not-written", 1))
    assert records.read_last("2 failed not-written 1\n 60\n") == ended
    assert records.read_last("2 failed not-written 1\n") == ended


@pytest.mark.parametrize(
    ("step", "end"),
    [
        ("kill -KILL $$", "failed step-killed 137"),
        ("""(until [[ -e "$CALLS/late" ]]; do /bin/sleep 0.02; done; mkdir -p rendezvous/ranks/1
            echo '{"reason":"head-lost"}' >rendezvous/ranks/1/0.json; echo >"$CALLS/told") &
            kill -KILL $$""", "failed head-lost 137"),
    ],
)  # fmt: skip
def test_a_step_that_is_killed(batch: Callable[..., Batch], step: str, end: str) -> None:
    """A killed step ends as the nodes say within seconds, else as `step-killed`, never as `step-failed`."""
    job = batch()
    (job.bin / "sleep").write_text(
        '#!/bin/bash\n: >"$CALLS/late"\n'
        'for _ in {1..20}; do [[ -e "$CALLS/told" ]] || /bin/sleep 0.02; done\n'
    )
    job.step(step)
    code, out = job.run()
    assert (code, job.end(1)) == (137, end), out


def test_leftover_apptainer_variables_are_forgotten(batch: Callable[..., Batch]) -> None:
    """What a login shell exports for Apptainer would be run as shell text: it is gone, plain ones stay."""
    job = batch()
    job.step('env >"$CALLS/env"; exit 1')
    job.run(APPTAINERENV_A="$(id)", SINGULARITYENV_B="x", PLAIN="a,b $(id)")
    seen = (job.calls / "env").read_text()
    assert "APPTAINERENV" not in seen
    assert "SINGULARITYENV" not in seen
    assert "PLAIN=a,b $(id)\n" in seen


def test_named_failures_of_the_site(batch: Callable[..., Batch]) -> None:
    """A module that does not load and an image that is not there have names and codes of their own."""
    job = batch(sif="/none/x.sif")
    code, out = job.run()
    assert (code, job.end(1)) == (81, "failed sif-missing 81")
    assert "there is no image /none/x.sif" in out


def test_a_module_that_does_not_load(batch: Callable[..., Batch]) -> None:
    """The job ends before its step."""
    job = batch(modules=["none/1.0"], before=["module() { return 1; }"])
    code, _ = job.run()
    assert (code, job.end(1)) == (80, "failed module-failed 80")
    assert job.called("srun") == []


def test_a_tunnel_that_cannot_be_made(batch: Callable[..., Batch]) -> None:
    """A login host that does not let the job in ends it with a named failure: it never runs on without."""
    job = batch(tunnel={"login": "nobody@127.0.0.1", "port": 7003})
    (job.bin / "ssh").write_text("#!/bin/sh\necho 'Permission denied' >&2; exit 255\n")
    (job.bin / "ssh").chmod(0o755)
    code, out = job.run()
    assert (code, job.end(1)) == (84, "failed tunnel-failed 84"), out
    assert "Permission denied" in out


def test_a_port_that_somebody_has(batch: Callable[..., Batch]) -> None:
    """What listens at the tunnel's port already is not the tunnel: the job does not go out through it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        tunnel = {"login": "nobody@127.0.0.1", "port": other.getsockname()[1]}
        job = batch(tunnel=tunnel, interfaces=["l*"])
        code, out = job.run()
    assert (code, job.end(1)) == (84, "failed tunnel-failed 84"), out
    assert f"something else listens at 127.0.0.1:{tunnel['port']}" in out


def test_the_tunnel_is_handed_to_every_task(batch: Callable[..., Batch]) -> None:
    """The proxy's address goes to each task, which checks it; a wrapper gets a configuration."""
    job = batch(
        tunnel={"proxy": "10.1.2.3:1080", "wrapper": ["env"], "local": ["100.64.0.0/255.192.0.0"]}
    )
    job.run()
    words = job.called("srun")
    assert words[-1] == "10.1.2.3:1080"
    config = Path(words[words.index("-f") + 1])
    assert "socks5 10.1.2.3 1080" in config.read_text()
    assert "localnet 10.0.0.0/255.0.0.0" in config.read_text()
    assert "localnet 127.0.0.1/255.0.0.0" in config.read_text(), "what this node is attached to"
    assert "localnet 100.64.0.0/255.192.0.0" in config.read_text(), "what the profile says"


def test_a_standing_proxy_is_reached_without_itself(batch: Callable[..., Batch]) -> None:
    """A proxy outside the private networks is reached directly; its name becomes an address."""
    for number, proxy in enumerate(("192.0.2.7:1080", "localhost:1080")):
        job = batch(run=str(number), tunnel={"proxy": proxy, "wrapper": ["env"]})
        job.run()
        words = job.called("srun")
        config = Path(words[words.index("-f") + 1]).read_text()
        address = "127.0.0.1" if number else "192.0.2.7"
        assert f"localnet {address}/255.255.255.255" in config
        assert f"socks5 {address} 1080" in config
        assert words[-1] == f"{address}:1080"
    job = batch(run="none", tunnel={"proxy": "nowhere.invalid:1080", "wrapper": ["env"]})
    (job.bin / "getent").write_text("#!/bin/sh\nexit 2\n")
    (job.bin / "getent").chmod(0o755)
    code, out = job.run()
    assert (code, job.end(1)) == (84, "failed tunnel-failed 84"), out


@pytest.mark.parametrize(
    "tunnel", [{"proxy": "192.0.2.7:1080", "wrapper": ["env"]}, {"login": "nobody@127.0.0.1"}]
)
def test_a_node_that_hides_its_networks(
    batch: Callable[..., Batch], tunnel: dict[str, Any]
) -> None:
    """Without `ip` the gang's own connections would go through the proxy: the job says so and ends."""
    job = batch(tunnel=tunnel)
    (job.bin / "ip").write_text("#!/bin/sh\nexit 127\n")
    (job.bin / "ip").chmod(0o755)
    code, out = job.run()
    assert (code, job.end(1)) == (84, "failed networks-unknown 84"), out
    assert job.called("srun") == []


def test_one_srun_for_all_nodes(batch: Callable[..., Batch]) -> None:
    """The step has one task on each node and the words of the plan, blanks kept."""
    job = batch(sif=None)
    job.run()
    words = job.called("srun")
    assert words[0] == f"--task-epilog={job.root}/attempts/1/after-task"
    assert (job.root / "attempts/1/after-task").resolve() == (job.root / "after-task.sh").resolve()
    assert words[1:4] == ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1"]
    assert words[-4:] == ["python3", f"{job.root}/task.py", f"{job.root}/task.json", "1"]
