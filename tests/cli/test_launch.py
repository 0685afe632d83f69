"""A launch from flags to exit code, on a scheduler whose answers are scripted.

Over 300 lines: a launch is followed from its flags to its exit code.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlaunch import schemas

Rl = Callable[..., Any]
Launch = tuple[str, ...]
RUN = ("RUNNING", "", 1, None)


def fits(document: Any, name: str) -> None:
    """Validate a document against its published schema."""
    jsonschema.Draft202012Validator(schemas.schema(name)).validate(document)


def test_a_dry_run_shows_everything_and_sends_nothing(
    rl: Rl, scripted: Any, launch: Launch, home: Path
):
    """The plan is on stdout with settings and reasons, and neither scheduler nor record heard of it."""
    said = rl(*launch, "--dry-run")
    assert said.code == 0, said.err
    assert "nodes = 2  [command line" in said.out
    assert "half of the node belongs to the system" in said.out
    assert "trainer.max_steps" in said.out
    assert scripted.asked == []
    assert not (home / ".local/state/rlaunch/runs.sqlite").exists()


def test_a_dry_run_as_json_is_the_plan_document(rl: Rl, scripted: Any, launch: Launch):
    """One document on stdout, valid by its schema, the same as of `plan --json`."""
    document = rl(*launch, "--dry-run", "--json", "--offline").document
    fits(document, "plan")
    planned = rl("plan", *launch, "--json", "--offline").document
    volatile = {"digest", "run", "native", "command", "provenance", "env"}  # they name the run id
    assert {k: v for k, v in document.items() if k not in volatile} == {
        k: v for k, v in planned.items() if k not in volatile
    }
    assert document["run"]["nodes"] == planned["run"]["nodes"] == 2


def test_both_spellings_and_aliases_mean_one_setting(rl: Rl, scripted: Any, launch: Launch):
    """The typed spelling only shows in findings; the plan is the same."""
    by = [
        rl(*launch, "--dry-run", "--json", *words).document["run"]
        for words in (
            ["--max-retries", "3", "--time-limit", "90m", "--job-name", "a"],
            ["--max_retries=3", "--timeout=5400", "--job_name", "a"],
            ["--set", "max_retries=3", "--set", "timeout_s=5400", "--set", "name=a"],
        )
    ]
    assert [(run["max_retries"], run["timeout_s"], run["name"]) for run in by] == [
        (3, 5400, "a")
    ] * 3


def test_an_override_is_repeatable_and_the_last_wins(rl: Rl, scripted: Any, launch: Launch):
    """All overrides arrive in order, in either spelling of the flag."""
    words = ["--skyrl_override", "trainer.max_steps=3", "--skyrl-override", "trainer.max_steps=4"]
    document = rl(*launch, "--dry-run", "--json", *words).document
    assert document["run"]["overrides"] == ["trainer.max_steps=3", "trainer.max_steps=4"]
    steps = [word for word in document["command"]["argv"] if "trainer.max_steps=" in word]
    assert steps[-1].endswith("=4")


def test_a_launch_waits_and_sums_up(rl: Rl, scripted: Any, launch: Launch):
    """Each transition is a line; at the end come reward, rungs and where things lie; exit 0."""
    scripted.states(("PENDING", "queue", None, None), RUN, RUN, ("SUCCEEDED", "", 1, 0))
    scripted.lines(
        ("avg_final_rewards: 0.5", 0, 1),
        ("avg_final_rewards: 0.25", 0, 2),
        ("avg_final_rewards: 0.875", 0, 2),
    )
    said = rl(*launch, "--interval", "0.01")
    assert said.code == 0, said.err
    states = [
        line.split()[2] for line in said.out.splitlines() if "scripted:" in line and line[0] == "2"
    ]
    assert states == ["PENDING", "RUNNING", "SUCCEEDED"]
    assert "0.250 at the first step, 0.875 at the last of 2" in said.out
    assert "rungs" in said.out
    assert "/scripted/" in said.out
    assert scripted.asked[0].startswith("submit smoke-")


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("FAILED", 1),
        ("KILLED", 1),
        ("WORKER_FAILED", 1),
        ("UNSCHEDULABLE", 1),
        ("ABSENT", 2),
        ("SUCCEEDED", 0),
    ],
)
def test_the_exit_code_is_that_of_the_end(
    rl: Rl, scripted: Any, launch: Launch, state: str, code: int
):
    """The waiting launch ends as the run ended."""
    scripted.states(RUN, (state, "why", 1, 7))
    said = rl(*launch, "--interval", "0.01")
    assert said.code == code
    assert "(why) attempt=1 exit=7" in said.out


def test_without_waiting_it_says_how_to_come_back(rl: Rl, scripted: Any, launch: Launch):
    """`--no-wait` returns after the submit, without a look at the state."""
    said = rl(*launch, "--no-wait")
    assert said.code == 0
    assert "watch it with `rlaunch watch smoke-" in said.out
    assert len(scripted.asked) == 1


def test_json_of_a_launch_is_one_document(rl: Rl, scripted: Any, launch: Launch):
    """Waiting or not, stdout has one document and the transitions are on stderr."""
    scripted.states(RUN, ("FAILED", "driver-exit", 1, 7))
    said = rl(*launch, "--json", "--interval", "0.01")
    fits(said.document, "launch")
    assert said.document["status"]["reason"] == "driver-exit"
    assert said.document["job"] == f"scripted:{said.document['run']}"
    assert said.code == 1
    assert "FAILED" in said.err
    again = rl(*launch, "--json", "--no-wait", "--if-exists", "new")
    fits(again.document, "launch")
    assert again.document["status"] is None


def test_secrets_are_sent_by_name_only(rl: Rl, scripted: Any, launch: Launch, tmp_path: Path):
    """A value from the secrets file is in no output, while the cluster was given it."""
    file = tmp_path / "secrets.env"
    file.write_text("HF_TOKEN=hf_canary\n")
    file.chmod(0o600)
    said = rl(*launch, "--no-wait", "--secrets_env", str(file))
    assert said.code == 0, said.err
    assert scripted.asked[0].endswith(" HF_TOKEN")
    shown = rl(*launch, "--dry-run", "--json", "--secrets-env", str(file))
    assert "HF_TOKEN" in shown.document["secrets"]
    for text in (said.out, said.err, shown.out, shown.err):
        assert "hf_canary" not in text


@pytest.mark.parametrize(
    ("words", "code", "place"),
    [
        (["--num-nodes", "0"], "core.setting-invalid", "--num-nodes"),
        (["--num_nodes", "0"], "core.setting-invalid", "--num_nodes"),
        (["--train-data", "plain"], "core.data-list", "--train-data"),
        (["--train_data", "{}"], "core.data-list", "--train_data"),
        (["--cluster", "scriptd"], "core.cluster-unknown", "--cluster"),
        (["--docker_image", "x@sha256:1"], "core.flag-unsupported", "--docker_image"),
        (["--set", "colour=red"], "core.setting-unknown", "--set colour"),
        (
            ["--skyrl_override", "++extra_env.AWS_SECRET_ACCESS_KEY=x"],
            "env.refused",
            "--skyrl_override",
        ),
        (["--set", "env.R2_TOKEN=x"], "env.refused", ""),
        (["--set", "env.A=$HOME"], "env.dollar", ""),
        (["--allow", "env.refused"], "core.allow", "--allow env.refused"),
        (["--rl_config", "nowhere.yaml"], "recipe.missing", "--rl_config"),
        (["--secrets-env", "nowhere.env"], "secrets.missing", "nowhere.env"),
        (["--workspace", "nowhere"], "core.workspace", "--workspace"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_a_finding_and_nothing_is_sent(
    rl: Rl, scripted: Any, launch: Launch, *, words: list[str], code: str, place: str
):
    """Each fault has its code, its place as it was typed and a hint; exit 3, also as JSON."""
    said = rl(*launch, *words)
    assert said.code == 3
    assert f"error[{code}" in said.err
    assert f"  at {place}" in said.err
    assert "  hint: " in said.err
    assert scripted.asked == []
    document = rl(*launch, *words, "--dry-run", "--json").document
    assert any(f["code"].startswith(code) for f in document["findings"])


def test_a_waived_code_passes_and_is_recorded(rl: Rl, scripted: Any, launch: Launch):
    """`--allow` lets a waivable error through as a warning, and the plan keeps it."""
    said = rl(*launch, "--dry-run", "--json", "--set", "env.A=$HOME", "--allow", "env.dollar")
    assert said.code == 0
    assert said.document["env"]["A"] == "$HOME"
    assert said.document["run"]["allow"] == ["env.dollar"]


def test_the_default_cluster_is_the_users(rl: Rl, scripted: Any, launch: Launch, home: Path):
    """`cluster = "…"` in rlaunch.toml stands in for `--cluster`; without either it is an error."""
    rest = launch[2:]
    assert "error[core.cluster-missing]" in rl(*rest, "--dry-run").err
    config = home / ".config" / "rlaunch"
    config.mkdir(parents=True)
    (config / "rlaunch.toml").write_text('cluster = "scripted"\n[clusters.scripted]\ncpu = 3\n')
    document = rl(*rest, "--dry-run", "--json").document
    assert document["run"]["cluster"] == "scripted"
    assert document["provenance"]["cpu"]["source"] == "rlaunch.toml"


def test_a_bug_keeps_its_traceback(rl: Rl, scripted: Any, launch: Launch):
    """What is not an explained error is not swallowed."""
    (scripted.folder / "states.json").write_text(json.dumps([["NO SUCH STATE", "", 1, None]]))
    with pytest.raises(ValueError, match="NO SUCH STATE"):
        rl(*launch, "--interval", "0.01")


def test_an_explained_error_shows_its_traceback_on_request(
    rl: Rl, scripted: Any, launch: Launch, monkeypatch: pytest.MonkeyPatch
):
    """`RLAUNCH_TRACEBACK=1` is for whoever hunts the cause of a refusal."""
    from rlaunch.errors import RlaunchError

    monkeypatch.setenv("RLAUNCH_TRACEBACK", "1")
    with pytest.raises(RlaunchError):
        rl("status", "nobody")
