"""Whole plans as plain text: what a reviewer reads when the planning changes, and what the docs show.

`make golden` writes them anew; the change is the review.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import ada

from rlaunch import documents, flow, render
from rlaunch.model import Artifact, Plan, Request

ROOT = Path(__file__).parents[2]
CHECKOUT = ada.CONTEXT.workspace
CONTEXT = ada.CONTEXT._replace(
    workspace=CHECKOUT._replace(root=str(ROOT)),  # the recipe must lie in it
    artifacts=tuple(
        Artifact(name, "run-dir", "a" * 64, 1000)
        for name in ("rlaunch-node.pyz", "rlaunch-smoke.pyz")
    ),
)
SMOKE = Request(
    rl_config="docs/recipes/smoke.yaml",
    cluster="local",
    model_path="toy/grpo",
    train_data='["builtin/sums"]',
    settings={"nodes": 2, "name": "smoke"},
    flags={"nodes": "--num-nodes", "name": "--job-name"},
    offline=True,
)
CASES: dict[str, Request] = {
    "smoke.local": SMOKE,
    "smoke-tuned.local": SMOKE._replace(
        settings={
            "nodes": 3,
            "name": "smoke-tuned",
            "cpu": "1",
            "memory": "1GiB",
            "max_retries": "2",
            "timeout_s": "1h",
            "env.NOTE": "a, b=c 'd'",
        },
        overrides=("trainer.max_steps=4", "++generator.note='a b'"),
        val_data='["builtin/sums"]',
    ),
}


def prepare(request: Request, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Plan as the command line does, from an injected machine."""
    monkeypatch.chdir(ROOT)
    prepared = flow.prepare(ada.world(CONTEXT), request)
    assert prepared.plan is not None, prepared.findings
    plan = prepared.plan._replace(run=prepared.plan.run._replace(workspace=CHECKOUT))
    assert str(ROOT) not in repr(plan), "the plan names the directory that the tests run in"
    return plan


@pytest.mark.parametrize("case", CASES)
def test_text(
    case: str, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of a dry run is the one that was reviewed."""
    plan = prepare(CASES[case], monkeypatch)
    findings = "".join(f"{render.finding(found)}\n" for found in plan.findings)
    golden(f"{case}.txt", render.plan(plan) + "\n" + findings)


@pytest.mark.parametrize("case", CASES)
def test_document(
    case: str, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan file is the one that was reviewed."""
    plan = prepare(CASES[case], monkeypatch)
    golden(f"{case}.json", documents.to_text(documents.plan_to_json(plan)))


def test_document_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reviewed plan file is a plan that this rlaunch submits: digest, schema and every type fit."""
    text = (Path(__file__).parent / "smoke.local.json").read_text(encoding="utf-8")
    plan = documents.plan_from_json(json.loads(text))
    assert documents.to_text(documents.plan_to_json(plan)) == text
