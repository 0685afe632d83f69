"""Submit, status, logs, stop and preflight, with a SLURM that is told what to say.

Over 300 lines: all promises of the cluster share one told SLURM.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.scripted import make_world
from tests.slurm_jupiter.told import Site, accounting, queue

from rlaunch import flow, zipapps
from rlaunch.cluster import LogQuery, PreflightQuery
from rlaunch.errors import ClusterError, RlaunchError
from rlaunch.model import (
    Command,
    Evidence,
    JobRef,
    RunFacts,
    State,
    Status,
)
from rlaunch.shell import Shell
from rlaunch_slurm_jupiter.diagnosis import ENDS, explain_end

AT = "2026-01-02T03:04:05"


def test_submit_writes_what_was_planned(site: Callable[..., Site]) -> None:
    """Every file of the plan lies in the run directory with its mode, secrets only in their own file."""
    here = site()
    here.say("sbatch", (0, "501\n", ""))
    ref = here.submit()
    assert ref == JobRef("jupiter", "501", "rl-0a1b2c3d")
    root = Path(here.plan.run.paths.run_dir)
    for file in here.plan.files:
        assert (root / file.path).read_text() == file.content
        assert stat.S_IMODE((root / file.path).stat().st_mode) == file.mode
    assert json.loads((root / "secrets.json").read_text()) == {"HF_TOKEN": "s3cr3t"}
    assert stat.S_IMODE((root / "secrets.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert (root / "rlaunch-node.pyz").read_bytes() == zipapps.build("rlaunch-node.pyz")
    texts = [
        p.read_text()
        for p in root.iterdir()
        if p.suffix in (".sh", ".py", ".json") and p.stem != "secrets"
    ]
    assert not any("s3cr3t" in text for text in texts)
    assert "s3cr3t" not in repr(here.shell.calls)


def test_a_chain_waits_for_its_links(site: Callable[..., Site]) -> None:
    """Each link is the same script with its number, after any end of the one before."""
    here = site(max_retries=2)
    here.say("sbatch", (0, "501\n", ""), (0, "502;jupmock\n", ""), (0, "503\n", ""))
    assert here.submit().native == "501+502+503"
    script = f"{here.plan.run.paths.run_dir}/job.sh"
    assert here.calls("sbatch") == [
        ("--parsable", script, "1"),
        ("--parsable", "--dependency=afterany:501", script, "2"),
        ("--parsable", "--dependency=afterany:502", script, "3"),
    ]


def test_a_run_directory_is_used_once(site: Callable[..., Site]) -> None:
    """A second submit of the same plan is refused before anything is written or sent."""
    here = site()
    here.say("sbatch", (0, "501\n", ""))
    here.submit()
    with pytest.raises(ClusterError, match="holds a run already"):
        here.submit()
    assert len(here.calls("sbatch")) == 1


def test_status_asks_once_for_all(site: Callable[..., Site]) -> None:
    """Many runs are one squeue, and one sacct for those that the controller forgot."""
    here = site()
    refs = [JobRef("jupiter", str(n), f"rl-{n}") for n in range(100, 1100)]
    here.say(
        "squeue",
        queue(*(f"{n}|RUNNING|None|2026-01-02T03:04:05|n1|rl-{n}|/none" for n in range(100, 600))),
    )
    here.say(
        "sacct",
        accounting(
            *(
                f"{n}|COMPLETED|0:0|2026-01-02T03:04:05|2026-01-02T03:05:05|n1|rl-{n}|/none"
                for n in range(600, 1000)
            )
        ),
    )
    seen = here.cluster.status(refs)
    states = [seen[ref].state for ref in refs]
    assert states.count(State.RUNNING) == 500
    assert states.count(State.SUCCEEDED) == 400
    assert states.count(State.ABSENT) == 100
    assert len(here.calls("squeue")) + len(here.calls("sacct")) == 2


@pytest.mark.parametrize(
    ("squeue", "sacct", "state"),
    [
        (
            (
                1,
                "",
                "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
            ),
            accounting(),
            State.UNKNOWN,
        ),
        ((0, "", ""), accounting(), State.UNKNOWN),
        ((1, "", "slurm_load_jobs error: Invalid job id specified\n"), accounting(), State.ABSENT),
        (
            (1, "", "slurm_load_jobs error: Invalid job id specified\n"),
            (1, "", "sacct: error: slurmdbd: down\n"),
            State.UNKNOWN,
        ),
        (
            (1, "", "slurm_load_jobs error: Invalid job id specified\n"),
            (1, "", "Slurm accounting storage is disabled\n"),
            State.ABSENT,
        ),
        (queue(), (0, "", ""), State.UNKNOWN),
        ((254, "", "fork: retry"), accounting(), State.UNKNOWN),
    ],
)
def test_absent_needs_a_positive_answer(
    site: Callable[..., Site], squeue: Any, sacct: Any, state: State
) -> None:
    """Only tools that answered and do not know the job make it ABSENT; silence is UNKNOWN."""
    here = site()
    here.say("squeue", squeue)
    here.say("sacct", sacct)
    ref = JobRef("jupiter", "7", "rl-7")
    assert here.cluster.status([ref])[ref].state is state


def test_accounting_that_lags_is_asked_around(site: Callable[..., Site]) -> None:
    """A job that ended a moment ago is described by the controller until accounting has it."""
    here = site()
    here.say("squeue", queue("7|FAILED|NonZeroExitCode|2026-01-02T03:04:05|n1|rl-7|/none"))
    here.say("sacct", accounting("7|RUNNING|0:0|2026-01-02T03:04:05|Unknown|n1|allocation|"))
    here.say(
        "scontrol",
        (
            0,
            "JobId=7 JobName=rl-7 JobState=FAILED Reason=NonZeroExitCode ExitCode=7:0 "
            "StartTime=2026-01-02T03:04:05 EndTime=2026-01-02T03:04:06 NodeList=n1 "
            "WorkDir=/a b/c StdErr=/x\n",
            "",
        ),
    )
    ref = JobRef("jupiter", "7", "rl-7")
    seen = here.cluster.status([ref])[ref]
    assert (seen.state, seen.exit_code, seen.since) == (State.FAILED, 7, "2026-01-02T03:04:06Z")


def write_run(root: Path) -> None:
    """Leave what a run of two ranks leaves."""
    for name, text in {
        "last": "2 failed driver-exit 7\n",
        "rendezvous/ray_head.done": (
            '{"run":"rl-0a1b2c3d","attempt":2,"outcome":"failed",'
            '"reason":"driver-exit","exit_code":7,"signal":null}'
        ),
        "rendezvous/ranks/2/0.json": (
            '{"run":"rl-0a1b2c3d","rank":0,"phase":"ended","node":"n1","exit_code":7,'
            '"at":"2026-01-02T03:04:00Z"}'
        ),
        "rendezvous/ranks/2/1.json": (
            '{"run":"rl-0a1b2c3d","rank":1,"phase":"ended","node":"n2","at":"2026-01-02T03:04:00Z"}'
        ),
        "logs/1/0.log": "2026-01-02T03:04:05.100Z first\n",
        "logs/2/0.log": "2026-01-02T03:04:05.200Z third\nno stamp\n2026-01-02T03:04:05.400Z last",
        "logs/2/1.log": "2026-01-02T03:04:05.150Z second\n2026-01-02T03:04:05.300Z fifth\n",
        "job-7.out": "[rlaunch-slurm] begins\n1: FATAL: no image\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def ended(site: Callable[..., Site]) -> Site:
    """A run that has ended, with its directory."""
    here = site()
    root = here.plan.run.paths.run_dir
    write_run(Path(root))
    here.say("squeue", (1, "", "slurm_load_jobs error: Invalid job id specified\n"))
    here.say(
        "sacct",
        accounting(
            f"7|FAILED|7:0|2026-01-02T03:04:05|2026-01-02T03:05:05|n[1-2]|rl-0a1b2c3d|{root}",
            "7.batch|FAILED|7:0|2026-01-02T03:04:05|2026-01-02T03:05:05|n1|batch|",
            "7.0|FAILED|7:0|2026-01-02T03:04:05|2026-01-02T03:05:05|n[1-2]|env|",
        ),
    )
    return here


REF = JobRef("jupiter", "7", "rl-0a1b2c3d")


@pytest.mark.parametrize("native", ["7", ""], ids=["by id", "by name"])
def test_accounting_that_does_not_know_the_directory_yet(
    site: Callable[..., Site], native: str
) -> None:
    """For 2 s after a short job's end sacct has no WorkDir (SLURM 22.05.8): the queue's is read."""
    here = site()
    run = here.plan.run
    write_run(Path(run.paths.run_dir))
    where = f"n[1-2]|{run.id}|{run.paths.run_dir}"
    here.say("squeue", queue(f"7|FAILED|NonZeroExitCode|2026-01-02T03:04:05|{where}"))
    times = "2026-01-02T03:04:05|2026-01-02T03:04:06"
    here.say("sacct", accounting(f"7|FAILED|9:0|{times}|n[1-2]|{run.id}|"))
    ref = JobRef("jupiter", native, run.id)
    seen = here.cluster.status([ref])[ref]
    assert (seen.reason, seen.attempt, seen.exit_code, len(seen.ranks)) == ("driver-exit", 2, 7, 2)


def test_status_tells_how_it_ended(ended: Site) -> None:
    """Reason, attempt, code and ranks come from the run's directory, which SLURM names."""
    seen = ended.cluster.status([REF])[REF]
    assert (seen.state, seen.reason, seen.exit_code, seen.attempt) == (
        State.FAILED,
        "driver-exit",
        7,
        2,
    )
    assert [(r.rank, r.node, r.phase, r.exit_code) for r in seen.ranks] == [
        (0, "n1", "ended", 7),
        (1, "n2", "ended", None),
    ]
    assert seen.native["nodes"] == "n[1-2]"


def test_logs_of_all_ranks_by_time(ended: Site) -> None:
    """Lines of all files come in the order of their stamps, each with rank and attempt."""
    lines = list(ended.cluster.logs(LogQuery(REF)))
    assert [(x.text, x.rank, x.attempt) for x in lines] == [
        ("[rlaunch-slurm] begins", 0, None),
        ("FATAL: no image", 1, None),
        ("first", 0, 1),
        ("second", 1, 2),
        ("third", 0, 2),
        ("no stamp", 0, 2),
        ("fifth", 1, 2),
        ("last", 0, 2),
    ]


@pytest.mark.parametrize(
    ("wanted", "texts"),
    [
        ({"rank": 1}, ["FATAL: no image", "second", "fifth"]),
        ({"attempt": 1}, ["first"]),
        ({"since": "2026-01-02T03:04:05.200Z"}, ["third", "fifth", "last"]),
        ({"rank": 0, "attempt": 2, "follow": True}, ["third", "no stamp", "last"]),
    ],
)
def test_logs_can_be_narrowed(ended: Site, wanted: dict[str, Any], texts: list[str]) -> None:
    """Rank, attempt and time narrow what is given; following an ended run ends."""
    assert [line.text for line in ended.cluster.logs(LogQuery(REF, **wanted))] == texts


def test_following_sees_what_is_written_later(ended: Site) -> None:
    """Lines that come while following are given once each, half lines only when they are whole."""
    root = Path(ended.plan.run.paths.run_dir)
    ended.say("squeue", queue(f"7|RUNNING|None|2026-01-02T03:04:05|n[1-2]|rl-0a1b2c3d|{root}"))
    lines = ended.cluster.logs(LogQuery(REF, follow=True, rank=0, attempt=2))
    assert [next(lines).text for _ in range(2)] == ["third", "no stamp"]
    with (root / "logs/2/0.log").open("a") as file:
        file.write(" word\n2026-01-02T03:04:06.000Z more\n")
    assert next(lines).text == "last word"
    ended.say("squeue", queue(f"7|COMPLETED|None|2026-01-02T03:04:05|n[1-2]|rl-0a1b2c3d|{root}"))
    assert [line.text for line in lines] == ["more"]


def test_logs_of_a_run_that_slurm_forgot(ended: Site) -> None:
    """When accounting has forgotten the job, the profile's own place is looked at."""
    ended.say("sacct", accounting())
    assert len(list(ended.cluster.logs(LogQuery(REF)))) == 8
    with pytest.raises(ClusterError, match="nobody knows where"):
        list(ended.cluster.logs(LogQuery(JobRef("jupiter", "7"))))


def test_stop_goes_driver_first(site: Callable[..., Site]) -> None:
    """Waiting links are cancelled before anything ends; then the batch script is told; then it is gone."""
    here = site(max_retries=1)
    root = here.plan.run.paths.run_dir
    running = f"7|RUNNING|None|2026-01-02T03:04:05|n1|rl-0a1b2c3d|{root}"
    waiting = f"8|PENDING|Dependency|N/A||rl-0a1b2c3d|{root}"
    gone = f"7|CANCELLED|None|2026-01-02T03:04:05|n1|rl-0a1b2c3d|{root}"
    here.say("squeue", queue(running, waiting), queue(running), queue(gone))
    here.say("sacct", accounting())
    here.cluster.stop(JobRef("jupiter", "7+8", "rl-0a1b2c3d"))
    assert here.calls("scancel") == [("--quiet", "8"), ("--quiet", "--batch", "--signal=TERM", "7")]
    assert (Path(root) / "stop").exists()


def test_stop_does_not_wait_for_ever(site: Callable[..., Site]) -> None:
    """A job that does not go is killed after its grace, and stop ends within KillWait and 5 s."""
    here = site()
    here.say("squeue", queue("7|RUNNING|None|2026-01-02T03:04:05|n1|rl-0a1b2c3d|/none/x"))
    here.say(
        "squeue",
        queue(f"7|RUNNING|None|2026-01-02T03:04:05|n1|rl-0a1b2c3d|{here.plan.run.paths.run_dir}"),
    )
    begin = here.clock.monotonic()
    with pytest.raises(ClusterError, match="still there"):
        here.cluster.stop(REF)
    assert here.clock.monotonic() - begin <= 30 + 5.5
    assert here.calls("scancel")[-2:] == [("--quiet", "7"), ("--quiet", "--signal=KILL", "7")]


def test_stop_says_when_slurm_cannot_be_asked(site: Callable[..., Site]) -> None:
    """Nothing is cancelled blindly."""
    here = site()
    here.say("squeue", (1, "", "slurm_load_jobs error: Unable to contact slurm controller\n"))
    with pytest.raises(ClusterError, match="could not be asked"):
        here.cluster.stop(REF)
    assert here.calls("scancel") == []


DF = "Filesystem 1024-blocks Used Available Capacity Mounted\n/dev/x 100 1 {} 1% /\n"
GOOD = {
    "sinfo": (
        0,
        "NODELIST|GRES|STATE\n" + "".join(f"n{i}|gpu:gh200:4|idle\n" for i in range(8)),
        "",
    ),
    "sbatch": (0, "", "sbatch: Job 5 to start at 2026-01-02T03:05:00 using 2 processors on n1\n"),
}


def findings(here: Site) -> dict[str, str]:
    """What preflight says: slug -> message."""
    for tool, answer in GOOD.items():
        if tool not in here.says:
            here.say(tool, answer)
    found = here.cluster.preflight(PreflightQuery(here.plan))
    return {f.code.removeprefix("slurm_jupiter."): f.message for f in found if f.level == "error"}


def test_preflight_of_a_good_site(site: Callable[..., Site]) -> None:
    """A plan that fits has no error, and SLURM's own estimate of the start is a note."""
    here = site(min_disk="1MiB", min_inodes=1)
    assert findings(here) == {}
    [note] = here.cluster.preflight(PreflightQuery(here.plan))
    assert (note.level, "2026-01-02T03:05:00" in note.message) == ("note", True)


def test_preflight_in_slurms_words(site: Callable[..., Site]) -> None:
    """What sbatch refuses is told as it says it, without the boilerplate line."""
    here = site(min_disk="1MiB", min_inodes=1)
    here.say(
        "sbatch",
        (
            1,
            "",
            "allocation failure: Invalid account or account/partition combination specified\n"
            "sbatch: error: Invalid account\n",
        ),
    )
    assert "Invalid account" in findings(here)["refused"]


def test_preflight_counts_usable_nodes(site: Callable[..., Site]) -> None:
    """Nodes that are down, too small or excluded do not count."""
    here = site(
        nodes=3, bad_nodes=[{"nodes": "n[1-2]", "reason": "x"}], min_disk="1MiB", min_inodes=1
    )
    rows = [
        "n1|gpu:4|idle",
        "n2|gpu:4|idle",
        "n3|gpu:4|down*",
        "n4|gpu:2|idle",
        "n5|gpu:4|mixed",
        "n6|gpu:4|allocated",
    ]
    here.say("sinfo", (0, "\n".join(["NODELIST|GRES|STATE", *rows]) + "\n", ""))
    assert "2 usable node(s) with 4 GPUs, and 3 are wanted" in findings(here)["nodes"]


def test_preflight_looks_at_the_directory(site: Callable[..., Site]) -> None:
    """Room and inodes of the file system that the run directory will lie on."""
    assert set(findings(site(min_disk="900000GiB", min_inodes=1))) == {"disk"}
    assert set(findings(site(min_disk="1MiB", min_inodes=10**13))) == {"disk"}


def test_preflight_reads_the_images_header(site: Callable[..., Site], tmp_path: Path) -> None:
    """An image that is missing or of another architecture is refused."""
    image = tmp_path / "x.sif"
    small = {"min_disk": "1MiB", "min_inodes": 1}
    assert "no image" in findings(site(sif=str(image), **small))["sif"]
    head = b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\00001\000"
    for arch, wanted in ((b"02\0", {"sif"}), (b"04\0", set())):
        image.write_bytes(head[:42] + b"01\0" + arch + b"\0" * 100)
        assert set(findings(site(sif=str(image), **small))) == wanted


def test_a_missing_secret_stops_a_launch(site: Callable[..., Site], tmp_path: Path) -> None:
    """A launch without a secret that the profile requires is refused before anything is sent."""
    here = site(required_secrets=["DAYTONA_API_KEY"], min_disk="1MiB", min_inodes=1)
    for tool, answer in GOOD.items():
        here.say(tool, answer)
    world = make_world(tmp_path)._replace(shell=here.shell)
    with pytest.raises(RlaunchError) as caught:
        flow.submit(world, here.plan)
    (found,) = (f for f in caught.value.findings if f.level == "error")
    assert (found.code, found.place) == ("core.secret-missing", "secrets.DAYTONA_API_KEY")
    assert world.open_runs().find(here.plan.run.id) is None
    assert not Path(here.plan.run.paths.run_dir).exists()
    assert [call for call in here.calls("sbatch") if "--test-only" not in call] == []


def test_preflight_wants_room_for_runs(site: Callable[..., Site]) -> None:
    """A place among the runs that the cluster may have at once."""
    here = site(running_runs=1, min_disk="1MiB", min_inodes=1)
    here.say(
        "squeue",
        (
            0,
            "STATE|COMMENT|NAME\nRUNNING|rlaunch|rl-1\nPENDING|rlaunch|rl-1\nRUNNING|other|x\nCOMPLETED|rlaunch|rl-2\n",
            "",
        ),
    )
    assert set(findings(here)) == {"running-runs"}


def test_a_check_can_be_skipped(site: Callable[..., Site]) -> None:
    """The operator may skip a check by its name."""
    here = site(min_disk="900000GiB")
    for tool, answer in GOOD.items():
        here.say(tool, answer)
    found = here.cluster.preflight(PreflightQuery(here.plan, skip=frozenset({"run-dir"})))
    assert [f for f in found if f.level == "error"] == []


def test_preflight_looks_at_the_workspace(site: Callable[..., Site], tmp_path: Path) -> None:
    """A file that is no source code is refused before anything is sent."""
    root = tmp_path / "code"
    root.mkdir()
    Shell().run(("git", "-C", str(root), "init", "-q"))
    here = site(min_disk="1MiB", min_inodes=1)
    plan = here.plan
    run = plan.run._replace(workspace=plan.run.workspace._replace(root=str(root)))
    here.plan = plan._replace(run=run, native={**plan.native, "source": "/s/abc"})
    assert "source" not in findings(here)
    with (root / "model.bin").open("wb") as file:
        file.truncate(65 << 20)
    assert "`model.bin` has 65 MiB" in findings(here)["source"]


def test_preflight_refuses_shards_of_another_size(
    site: Callable[..., Site], tmp_path: Path
) -> None:
    """A checkpoint that 8 ranks wrote is not read by 4."""
    shards = tmp_path / "global_step_3" / "policy"
    shards.mkdir(parents=True)
    for rank in range(8):
        (shards / f"model_world_size_8_rank_{rank}.pt").touch()
    here = site(min_disk="1MiB", min_inodes=1)
    for nodes, wanted in ((1, {"world-size"}), (2, set())):
        words = (
            "trainer.resume_mode=from_path",
            f"trainer.resume_path={shards.parent}",
            f"trainer.placement.policy_num_nodes={nodes}",
            "trainer.placement.policy_num_gpus_per_node=4",
        )
        here.plan = here.plan._replace(command=Command(("python3", "x", *words)))
        assert set(findings(here)) - {"not-staged"} == wanted


def test_a_job_without_a_log_file_says_so(site: Callable[..., Site]) -> None:
    """0:53 is SLURM's way to say that it could not open the output file: quota, mostly."""
    here = site()
    here.say("squeue", queue())
    here.say("sacct", accounting(f"7|FAILED|0:53|{AT}|{AT}|n1|rl-7|/none"))
    ref = JobRef("jupiter", "7", "rl-7")
    seen = here.cluster.status([ref])[ref]
    assert (seen.state, seen.reason) == (State.FAILED, "no-output-file")


def test_observe_says_which_slurm_it_is(site: Callable[..., Site]) -> None:
    """The version and the home directory there are in the plan, with time and source."""
    here = site()
    here.say("sh", (0, "/home/ada\nslurm 24.11.5\n", ""))
    seen = here.cluster.observe(here.plan.run)
    assert seen.facts == {"home": "/home/ada", "slurm": "24.11.5"}
    here.say("sh", (1, "", "no"))
    assert here.cluster.observe(here.plan.run).facts == {}


def test_secrets_of_a_run_that_was_killed_are_removed(ended: Site) -> None:
    """A script that could not tidy up, killed or on a lost node, leaves no secrets once anybody asks."""
    secrets = Path(ended.plan.run.paths.run_dir) / "secrets.json"
    secrets.write_text("{}")
    ended.cluster.status([JobRef("jupiter", "7")])
    assert secrets.exists(), "a job that rlaunch did not start is not touched"
    ended.cluster.status([REF])
    assert not secrets.exists()
    before = len(ended.shell.calls)
    ended.cluster.status([REF])
    assert not [c for c in ended.shell.calls[before:] if c[0] == "rm"], "once is enough"


@pytest.mark.parametrize("reason", [*ENDS, "driver-exit"])
def test_an_end_is_explained(reason: str) -> None:
    """Each of SLURM's and the script's own reasons has a sentence and something to type."""
    status = Status(REF, State.FAILED, reason)
    evidence = Evidence(RunFacts(), (Status(REF, State.RUNNING), status), (), "")
    found = list(explain_end(evidence))
    assert len(found) == (reason in ENDS)
    assert all(f.hint and f.message for f in found)


def test_secrets_are_found_in_any_run_directory(site: Callable[..., Site], tmp_path: Path) -> None:
    """A run directory need not end in the run's id for its secrets to be removed."""
    here = site(run_dir=f"{tmp_path}/{{run}}/slurm")
    here.say("sbatch", (0, "501\n", ""))
    ref = here.submit()
    folder = here.plan.run.paths.run_dir
    secrets = Path(folder, "secrets.json")
    assert secrets.exists()
    here.say("squeue", queue(f"501|FAILED|NonZeroExitCode|{AT}|n1|{ref.run_id}|{folder}"))
    here.say("sacct", accounting(f"501|FAILED|0:9|{AT}|{AT}|n1|{ref.run_id}|{folder}"))
    assert here.cluster.status([ref])[ref].state is State.FAILED
    assert not secrets.exists()
