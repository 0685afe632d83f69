"""What of the operator's shell reaches the job, whatever is asked for."""

from __future__ import annotations

import os
from typing import Any

import pytest

from rlaunch.model import Command, Observed, State
from rlaunch_local import checks, planning
from rlaunch_local.inheritance import inherited

SEEN = Observed()
NEVER = {
    "AWS_SECRET_ACCESS_KEY": "hush",
    "AWS_ENDPOINT_URL": "hush",
    "aws_lower": "hush",
    "R2_TOKEN": "hush",
    "RLAUNCH_RUN_ID": "hush",
    "RAY_ADDRESS": "hush",
    "RAY_AUTH_TOKEN": "hush",
    "RAY_AUTH_TOKEN_PATH": "hush",
    "PYDANTIC_DISABLE_PLUGINS": "hush",
    "TYPER_USE_RICH": "hush",
}


@pytest.mark.parametrize("names", [["*"], ["AWS_*", "R2_*", "RA*", "RLAUNCH_*"], [*NEVER], ["a*"]])
def test_some_names_are_kept_back(names: list[str]) -> None:
    """No entry of `inherit` takes credentials or rlaunch's own names along; others come as asked."""
    shell = {**NEVER, "PATH": "/bin", "RAY_memory_usage_threshold": "0.9"}
    assert not inherited(names, shell).keys() & NEVER.keys()
    assert inherited(["PATH", "RAY_*"], shell) == {
        "PATH": "/bin",
        "RAY_memory_usage_threshold": "0.9",
    }


def test_credentials_do_not_reach_an_agent(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan whose profile inherits everything starts agents without the shell's credentials."""
    for name, value in NEVER.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAB_SEEN", "yes")
    run = lab.run(inherit=["*"])
    show = (
        "hush = sorted(k for k, v in os.environ.items() if v == 'hush')\n"
        "print(hush, os.environ['LAB_SEEN'], flush=True)"
    )
    ref = lab.submit(lab.agents(run, [f"{show}\n{lab.WIN}"]))
    assert lab.end(ref).state is State.SUCCEEDED
    assert lab.lines(ref, rank=0)[0].text == "[] yes"
    assert os.environ["RAY_ADDRESS"] == "hush"


@pytest.mark.parametrize(
    ("entry", "refused"),
    [
        ("*", True), ("AWS_*", True), ("AWS*", True), ("A*", True), ("aws_region", True), ("R2_KEY", True),
        ("AWS_REGION", True), ("RLAUNCH_*", True), ("RAY_ADDRESS", True), ("RAY_AUTH_*", True),
        ("PATH", False), ("LC_*", False), ("RAY_*", False), ("CUDA_*", False), ("AXOLOTL", False),
    ],
)  # fmt: skip
def test_asking_for_them_is_refused(lab: Any, entry: str, refused: bool) -> None:
    """An `inherit` that names them, or is wide enough for credentials, is an error that cannot be waived."""
    run = lab.run(inherit=["PATH", entry])
    found = list(checks.inherits_no_credentials(run, planning.plan_run(run, Command(("x",)), SEEN)))
    assert [f.code for f in found] == ["local.inherit-refused"] * refused
    assert not checks.inherits_no_credentials.code.waivable
    assert all(f"`{entry}`" in f.message for f in found)


def test_a_plan_file_cannot_ask_either(lab: Any) -> None:
    """The rule looks at what the supervisor would use, not only at the profile."""
    run = lab.run()
    plan = planning.plan_run(run, Command(("x",)), SEEN)
    assert not list(checks.inherits_no_credentials(run, plan))
    bent = plan._replace(native={**plan.native, "inherit": ["AWS_*"]})
    assert [f.code for f in checks.inherits_no_credentials(run, bent)] == ["local.inherit-refused"]
