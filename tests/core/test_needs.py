"""The secrets that a run cannot do without."""

from typing import Any

import pytest
from tests.core.test_checks import make_plan, make_run

from rlaunch import needs
from rlaunch.model import Command, Plan, Recipe

AGENTIC = {"entrypoint": "examples.terminal_bench.entrypoints.main_tbench"}
KEYS = ("DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN", "WANDB_API_KEY", "HF_TOKEN")


def plan_of(body: dict[str, Any], *argv: str, **fields: Any) -> Plan:
    """A plan with this recipe and these arguments, whose profile forwards all keys."""
    run = make_run(recipe=Recipe("r.yaml", "a" * 64, body, {}))
    return make_plan(run=run, command=Command(argv), **{"secrets": KEYS, **fields})


def asked(plan: Plan, *present: str) -> list[str]:
    """The places of what is missing."""
    return sorted(f.place.removeprefix("secrets.") for f in needs.missing(plan, frozenset(present)))


def test_agentic_runs_need_their_sandbox():
    """An agent recipe needs one of Daytona's keys, unless its sandboxes are others'."""
    assert asked(plan_of(AGENTIC)) == ["DAYTONA_API_KEY"]
    assert asked(plan_of(AGENTIC), "DAYTONA_JWT_TOKEN") == []
    other = "+terminal_bench_config.harbor.environment_type=podman_hpc"
    assert asked(plan_of(AGENTIC, other)) == []
    assert asked(plan_of({"entrypoint": "rlaunch.smoke"})) == []


@pytest.mark.parametrize("logger", ["wandb", '\'["console","wandb"]\''])
def test_a_logger_that_needs_a_key(logger: str):
    """W&B needs its key, unless it is offline; the last argument counts."""
    assert asked(plan_of({}, f"trainer.logger={logger}")) == ["WANDB_API_KEY"]
    assert asked(plan_of({}, f"trainer.logger={logger}", env={"WANDB_MODE": "offline"})) == []
    assert asked(plan_of({}, f"trainer.logger={logger}", "trainer.logger=console")) == []


def test_uploads_need_the_hub():
    """Uploading traces needs the hub's token."""
    upload = "+terminal_bench_config.trace_upload.enabled=true"
    assert asked(plan_of({}, upload)) == ["HF_TOKEN"]


def test_what_the_profile_requires():
    """A profile's required names are needed by every job."""
    plan = plan_of({})
    run = plan.run._replace(profile={"name": "here", "required_secrets": ["CW_KEY_ID"]})
    (found,) = needs.missing(plan._replace(run=run), frozenset())
    assert found.code == "core.secret-missing"
    assert "the profile's `secrets`" in found.hint
