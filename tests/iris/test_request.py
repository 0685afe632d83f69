"""The request as the wire carries it: whole goldens, names, sizes, and what may never be in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch import documents, render
from rlaunch.model import Observed
from rlaunch.settings import size_in_bytes
from rlaunch_iris import planning, request, sizing

from .conftest import CONTEXT, SEEN, Maker

CANONICAL = "iris_8node_qwen3_30b_a3b_131k_cp_dcp2_r3.yaml"
GIB = 1024**3
RUN = Maker().run()


def canonical(make: Maker, shared_recipe: Any) -> Any:
    """Plan the launch that the text of requirements gives as the usual one."""
    run = make.run(
        recipe=shared_recipe(CANONICAL), name="rl-131k-cpdcp2r3", nodes=8, gpus_per_node=8, cpu="48",
        max_retries="1", priority="interactive",
        rendezvous_dir="s3://marin-us-east-02a/iris/rl-131k/a",
    )  # fmt: skip
    return make.plan(run)


def test_canonical_launch(
    make: Maker, shared_recipe: Any, golden: Callable[[str, str], None]
) -> None:
    """The usual launch comes to the request, the in-job description and the text that were reviewed."""
    plan = canonical(make, shared_recipe)
    golden("canonical.request.json", json.dumps(plan.native, indent=1) + "\n")
    job = next(f.content for f in plan.files if f.path == planning.JOB_PATH)
    golden("canonical.job.json", job)
    start = next(f for f in plan.files if f.path == planning.START_PATH)
    shown = render.plan(plan).replace(start.content.replace("\n", "\n  "), "(start.py)\n")
    golden("canonical.txt", shown)


def test_canonical_launch_survives_json(make: Maker, shared_recipe: Any) -> None:
    """The plan of the usual launch is the same after a plan file."""
    plan = canonical(make, shared_recipe)
    text = json.dumps(documents.plan_to_json(plan))
    assert documents.plan_from_json(json.loads(text)).native == plan.native


def test_one_node_is_no_gang(make: Maker) -> None:
    """A single node asks for no common leaf of the network, and without retries for none."""
    wanted = make.plan(make.run(nodes=1, max_retries="0")).native["request"]
    assert "coscheduling" not in wanted
    assert wanted["replicas"] == 1
    assert "maxTaskFailures" not in wanted
    assert "maxRetriesFailure" not in wanted


def test_retries_are_given_twice(make: Maker) -> None:
    """Retries per task alone do nothing since June 2026: the job's own tolerance goes with them."""
    wanted = make.plan(make.run(max_retries="3")).native["request"]
    assert (wanted["maxRetriesFailure"], wanted["maxTaskFailures"]) == (3, 3)


@pytest.mark.parametrize(
    ("band", "sent"),
    [("batch", "PRIORITY_BAND_BATCH"), ("interactive", "PRIORITY_BAND_INTERACTIVE")],
)
def test_band(make: Maker, band: str, sent: str) -> None:
    """The priority band is the client's own enum."""
    assert make.plan(make.run(priority=band)).native["request"]["priorityBand"] == sent


def test_timeout_and_constraint(make: Maker) -> None:
    """A limit is milliseconds as text; `preemptible` is a constraint where the cluster knows it."""
    run = make.run("iris-local", timeout_s="90m", preemptible=False)
    wanted = make.plan(run).native["request"]
    assert wanted["timeout"] == {"milliseconds": "5400000"}
    assert wanted["constraints"] == [{"key": "preemptible", "value": {"stringValue": "false"}}]


@given(st.text(min_size=1, max_size=90))
def test_job_name_is_a_label(text: str) -> None:
    """Whatever the run's id is, the job's name is a DNS label of at most 63 characters, and stable."""
    run = RUN._replace(id=text)
    name = request.job_name(run)
    assert name == request.job_name(run)
    assert 0 < len(name) <= 63
    assert name.strip("-") == name
    assert all(c.isascii() and (c.islower() or c.isdigit() or c == "-") for c in name)


def test_job_name_carries_the_run(make: Maker) -> None:
    """The run's id travels as the job's name, under the user's own."""
    assert make.plan(make.run(name="rl-131k")).native["job"] == "/ada/rl-131k-0a1b2c3d"


def test_long_names_differ(make: Maker) -> None:
    """Two long ids that differ at their ends stay two names."""
    run = make.run()
    names = {request.job_name(run._replace(id="x" * 70 + end)) for end in "ab"}
    assert len(names) == 2


def test_environment_travels_in_a_file(make: Maker) -> None:
    """No value of the run is a variable of the request: Kubernetes would expand `$(NAME)` in it."""
    run = make.run()._replace(env={"A": "$(HOME) $$ $HOME", "B": "l1\nl2"})
    plan = make.plan(run)
    variables = plan.native["request"]["environment"]["envVars"]
    assert variables.keys() == {
        "HF_DATASETS_TRUST_REMOTE_CODE", "MARIN_PROVENANCE", "RLAUNCH_RUN_ID", "TOKENIZERS_PARALLELISM"
    }  # fmt: skip
    job = json.loads(next(f.content for f in plan.files if f.path == planning.JOB_PATH))
    assert job["env"] == run.env


def test_provenance_says_what_and_no_more(make: Maker) -> None:
    """MARIN_PROVENANCE is ours: commit, changes and run, and not the command line of this program."""
    text = make.plan(make.run()).native["request"]["environment"]["envVars"]["MARIN_PROVENANCE"]
    said = json.loads(text)
    assert said["base_commit"] == CONTEXT.workspace.commit
    assert said["dirty"] is True
    assert said["command_line"] == ["rlaunch", "rl-0a1b2c3d"]


def test_secrets_stand_by_name(make: Maker) -> None:
    """A secret of the request is its name and a note, and `AWS_*` is not among them."""
    secrets = make.plan(make.run()).native["request"]["environment"]["secrets"]
    assert set(secrets.values()) == {request.SECRET}
    assert {"HF_TOKEN", "CW_KEY_ID", "CW_KEY_SECRET"} <= secrets.keys()
    assert not [name for name in secrets if name.startswith(("AWS_", "R2_"))]


def test_auto_memory_without_a_look(make: Maker) -> None:
    """`auto` takes the profile's share of the profile's node."""
    assert sizing.decide(make.run(), "memory", {}).amount == int(2014 * 0.85) * GIB


@pytest.mark.parametrize(
    ("free", "amount"),
    [(2000 * GIB, 1700 * GIB), (1500 * GIB, 1500 * GIB), (10, GIB), (None, 1700 * GIB)],
)
def test_auto_memory_by_what_was_seen(make: Maker, free: int | None, amount: int) -> None:
    """85 % of the smallest allocatable that was seen, bounded by what the last of the nodes has free."""
    facts = {"nodes": {"smallest_memory": 2000 * GIB, "free_memory": free}}
    assert sizing.decide(make.run(), "memory", facts).amount == amount


@pytest.mark.parametrize(("text", "size"), [("512GB", 512 * 1000**3), ("1400GiB", 1400 * GIB)])
def test_written_sizes_are_exact(make: Maker, text: str, size: int) -> None:
    """A size as it was written is sent in bytes: GB of ten, GiB of two."""
    run = make.run(memory=text, disk=text)
    wanted = make.plan(run).native["request"]["resources"]
    assert wanted["memoryBytes"] == wanted["diskBytes"] == str(size) == str(size_in_bytes(text))


def test_archive_is_an_artifact(make: Maker) -> None:
    """The packed workspace stands in the plan with its digest, and offline it does not."""
    run = make.run()
    (packed,) = make.plan(run).artifacts
    assert (packed.path, packed.sha256) == (planning.ARCHIVE_PATH, "e" * 64)
    assert make.plan(run, observed=Observed()).artifacts == ()
    job = json.loads(next(f.content for f in make.plan(run).files if f.path == planning.JOB_PATH))
    assert job["workspace"]["sha256"] == SEEN.facts["workspace"]["sha256"]


def test_loopback_networks_differ(make: Maker) -> None:
    """Two runs on one machine meet on loopback networks of their own, and never on 127.0.0.1."""
    nets = {planning.network(f"run-{i}") for i in range(50)}
    assert len(nets) > 45
    assert not [n for n in nets if n.startswith(("127.0.", "127.1."))]
