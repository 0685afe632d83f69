"""Gangs on a real Iris controller, with a real S3 rendezvous and real Ray, through the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
import s3fs
from tests.services import s3
from tests.services.iris_ground import CANARY, USER, Ground, open_ground

pytestmark = pytest.mark.timeout(600)  # four nodes of Ray on two busy cores take their time


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """One operator, store and controller for the module."""
    with open_ground(AWS_INJECTED="by-the-cluster") as opened:
        yield opened


@pytest.mark.gang
def test_two_nodes_learn(ground: Ground) -> None:
    """The smoke recipe on two nodes waits, succeeds, and leaves a whole log, a summary and no secret."""
    said = ground.launch(
        "two", 2, "--json", "--skyrl_override", f"++smoke.dump_env={ground.folder}/env"
    )
    assert said.code == 0, said.err
    document = said.document
    assert document["status"]["state"] == "SUCCEEDED"
    run = document["run"]
    (row,) = ground.rl("runs", "--json").document["runs"]
    assert row["job"] == f"iris-local:/{USER}/{run}"
    assert (row["state"], row["exit_code"]) == ("SUCCEEDED", 0)
    assert row["commit"]
    logs = ground.rl("logs", run)
    for part in (
        "All 2 Ray node(s) joined", "Wrote rendezvous s3://", "Training done!", "rank=1/2 attempt=0",
        "workspace unpacked at",
    ):  # fmt: skip
        assert part in logs.out, logs.out[-3000:]
    assert ground.rl("diagnose", run, "--json").document["verdict"] == "succeeded"
    driver = json.loads((ground.folder / "env/driver.json").read_text(encoding="utf-8"))
    assert driver["HF_TOKEN"] == CANARY
    assert driver["AWS_INJECTED"] == "by-the-cluster"
    assert "canary" not in json.dumps(
        {k: v for k, v in driver.items() if k.startswith(("AWS_", "R2_"))}
    )
    for text in (
        said.out,
        said.err,
        logs.out,
        json.dumps(row),
        ground.rl("status", run, "--json").out,
    ):
        assert CANARY not in text
    assert ground.processes(run) == []


@pytest.mark.e2e
@pytest.mark.parametrize("nodes", [1, 4])
def test_other_sizes(ground: Ground, nodes: int) -> None:
    """One node alone and four together end well, and every rank had its say in the store and the log."""
    said = ground.launch(f"size-{nodes}", nodes, "--json")
    assert said.code == 0, said.err
    logs = ground.rl("logs", f"size-{nodes}").out
    for rank in range(nodes):
        assert f"rank={rank}/{nodes} attempt=0 Ended: succeeded" in logs
    seen = ground.status(f"size-{nodes}")
    assert [rank["exit_code"] for rank in seen["ranks"]] == [0] * nodes


@pytest.mark.e2e
def test_a_store_that_refuses(ground: Ground) -> None:
    """Preflight tries it with the secrets file's keys and nothing is recorded; the check can be skipped."""
    named = ("keys", 1, "--no-wait")
    nowhere = ("--rendezvous-dir", "s3://nobucket/x")
    said = ground.launch(*named, *nowhere)
    assert said.code == 3
    assert said.err.count("error[iris.storage-refused]") == 1
    assert "keys-" not in ground.rl("runs").out
    sent = ground.launch(*named, *nowhere, "--skip-preflight", "storage")
    assert sent.code == 0, sent.err
    assert ground.rl("stop", "keys", "--yes").code == 0


@pytest.mark.e2e
def test_retry_resumes(ground: Ground) -> None:
    """A driver that fails once is started again as attempt 1, from its checkpoint, and succeeds.

    All that it writes lies in the store, as on a cluster whose pods share no disk.
    """
    root = f"s3://{s3.BUCKET}/storage"
    said = ground.launch(
        "retry", 2, "--max-retries", "1", "--skyrl_override", "++smoke.fail_at_step=3",
        "--skyrl_override", "++smoke.fail_attempts=1", "--skyrl_override", "++smoke.exit_code=7",
        "--set", f"storage_root={root}",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert ground.status("retry")["attempt"] == 1
    second = ground.rl("logs", "retry", "--rank", "0", "--attempt", "1").out
    assert "resum" in second.lower()
    assert "Training done!" in second
    assert "attempt=0" not in second.replace("stale ray_head.done: run=", "").partition("ROLE=")[2]
    assert f"saved checkpoint for global_step_4 to: {root}/retry-" in second
    store = s3fs.S3FileSystem(
        key=ground.store.key_id, secret=ground.store.secret, endpoint_url=ground.store.endpoint
    )
    for name in ("checkpoints/latest_ckpt_global_step.txt", "exports/summary.json"):
        assert store.glob(f"{s3.BUCKET}/storage/retry-*/{name}"), name
    assert len(store.glob(f"{s3.BUCKET}/storage/retry-*/trace_jobs/*/result.json")) > 100


@pytest.mark.e2e
def test_failure_is_told_as_it_was(ground: Ground) -> None:
    """Without retries a driver that exits 7 makes exit code 1, state FAILED and the true 7."""
    said = ground.launch(
        "fails", 2, "--max-retries", "0", "--json", "--skyrl_override", "++smoke.fail_at_step=1",
        "--skyrl_override", "++smoke.exit_code=7",
    )  # fmt: skip
    assert said.code == 1, said.err
    status = said.document["status"]
    assert (status["state"], status["exit_code"], status["attempt"]) == ("FAILED", 7, 0)


@pytest.mark.e2e
def test_stop_and_names(ground: Ground) -> None:
    """A running job is stopped alone and twice; its name is not taken again; nothing is left running."""
    said = ground.launch(
        "hangs", 1, "--no-wait", "--json", "--skyrl_override", "++smoke.hang_at_step=1"
    )
    assert said.code == 0, said.err
    ground.wait_for("hangs", "RUNNING")
    clash = ground.launch("hangs", 1, "--no-wait")
    assert clash.code == 3
    assert "run.live" in clash.err
    ps = ground.rl("logs", "hangs", "--rank", "0")
    assert CANARY not in ps.out
    assert ground.rl("stop", "hangs", "--yes").code == 0
    seen = ground.wait_for("hangs", "KILLED")
    assert ground.rl("stop", "hangs", "--yes").code == 0
    assert ground.status("hangs")["since"] == seen["since"]
    assert ground.rl("watch", "hangs").code == 1


@pytest.mark.e2e
def test_absent_and_unreachable(ground: Ground) -> None:
    """A job that was never there is ABSENT and exit 2; a controller that is away is UNKNOWN and exit 3."""
    said = ground.rl("watch", f"iris-local:/{USER}/never", "--once", "--json")
    assert (said.code, said.document["state"]) == (2, "ABSENT")
    config = ground.home / ".config/rlaunch/rlaunch.toml"
    text = config.read_text()
    try:
        config.write_text(text.replace(ground.controller.url, "http://127.0.0.1:9"))
        said = ground.rl("watch", f"iris-local:/{USER}/never", "--once", "--json")
        assert (said.code, said.document["state"]) == (3, "UNKNOWN")
        assert "controller-unreachable" in said.document["reason"]
    finally:
        config.write_text(text)


@pytest.mark.e2e
@pytest.mark.parametrize("how", ["recipe", "flag", "override"])
def test_credentials_are_never_forwarded(ground: Ground, how: str) -> None:
    """`AWS_*` that is asked for is refused from any source, and nothing is sent."""
    words, recipe = [], "smoke.yaml"
    if how == "recipe":
        recipe = "aws.yaml"
        text = (ground.tree / "smoke.yaml").read_text()
        (ground.tree / recipe).write_text(text + "\nextra_env:\n  AWS_SECRET_ACCESS_KEY: x\n")
    elif how == "flag":
        words = ["--set", "env.AWS_SECRET_ACCESS_KEY=x"]
    else:
        words = ["--skyrl_override", "++trainer.env.R2_TOKEN=x"]
    said = ground.launch(f"aws-{how}", 1, "--no-wait", *words, recipe=recipe)
    assert said.code == 3, said.err
    assert "env.refused" in said.err or "recipe.duplicate-key" in said.err


@pytest.mark.e2e
def test_controller_stores_no_secret(ground: Ground) -> None:
    """What the controller keeps of a job, its request included, has no secret's value and no command line."""
    from iris.rpc import controller_pb2
    from iris.rpc.controller_connect import ControllerServiceClientSync

    (row, *_) = ground.rl("runs", "--json").document["runs"]
    with ControllerServiceClientSync(ground.controller.url) as client:
        asked = controller_pb2.Controller.GetJobStatusRequest(job_id=row["job"].partition(":")[2])
        kept = str(client.get_job_status(asked))
    assert CANARY not in kept
    assert CANARY.encode("unicode_escape").decode() not in kept
    assert "submit_argv" not in kept
    assert "pytest" not in kept
    assert sys.argv[0] not in kept
