"""Plan files: made, reviewed, sent as they are."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlaunch.smoke import settings

Rl = Callable[..., Any]
Launch = tuple[str, ...]


@pytest.fixture
def file(rl: Rl, scripted: Any, launch: Launch, tmp_path: Path) -> Path:
    """A plan file."""
    path = tmp_path / "plan.json"
    said = rl("plan", *launch, "-o", str(path))
    assert said.code == 0, said.err
    return path


def test_a_plan_is_shown_as_a_dry_run_shows_it(rl: Rl, scripted: Any, launch: Launch):
    """Without `-o` the plan is text on stdout."""
    said = rl("plan", *launch)
    assert said.code == 0
    assert "what the scheduler is sent:" in said.out


def test_a_plan_file_is_the_document_that_is_printed(
    rl: Rl, file: Path, launch: Launch, tmp_path: Path
):
    """`-o` with `--json` writes and prints one and the same document."""
    other = tmp_path / "other.json"
    said = rl("plan", *launch, "--json", "-o", str(other))
    assert other.read_text(encoding="utf-8") == said.out
    assert json.loads(file.read_text())["schema"] == "rlaunch.plan/1"


def test_what_was_planned_is_what_is_sent(rl: Rl, scripted: Any, file: Path):
    """The run id of the file is the run id of the job; a second submit is refused."""
    planned = json.loads(file.read_text())["run"]["id"]
    said = rl("submit", str(file), "--no-wait", "--json")
    assert said.code == 0, said.err
    assert said.document["run"] == planned
    assert scripted.asked == [f"submit {planned}"]
    again = rl("submit", str(file), "--no-wait")
    assert again.code == 3
    assert "error[plan.submitted]" in again.err
    assert len(scripted.asked) == 1


def test_submit_waits_like_a_launch(rl: Rl, scripted: Any, file: Path):
    """Transitions, summary and exit code are those of a launch."""
    scripted.states(("RUNNING", "", 1, None), ("FAILED", "driver-exit", 1, 7))
    said = rl("submit", str(file), "--interval", "0.01")
    assert said.code == 1
    assert "FAILED (driver-exit)" in said.out


def test_an_edited_plan_is_refused(rl: Rl, scripted: Any, file: Path):
    """A changed value is noticed, the file is named, nothing is sent."""
    document = json.loads(file.read_text())
    document["run"]["nodes"] = 1
    file.write_text(json.dumps(document))
    said = rl("submit", str(file))
    assert said.code == 3
    assert "error[plan.edited]" in said.err
    assert f"  at {file}: digest" in said.err
    assert scripted.asked == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "plan.not-json"),
        ("[" * 100_000, "plan.not-json"),
        ('{"schema": "rlaunch.plan/9"}', "plan.schema"),
    ],
)
def test_another_file_is_refused(rl: Rl, tmp_path: Path, text: str, code: str):
    """What is no plan of this version is told by its code."""
    path = tmp_path / "x.json"
    path.write_text(text)
    assert f"error[{code}]" in rl("submit", str(path)).err
    assert "error[plan.unreadable]" in rl("submit", str(tmp_path / "none.json")).err


def test_a_plan_that_would_be_refused_is_not_written(
    rl: Rl, scripted: Any, launch: Launch, tmp_path: Path
):
    """A file is only ever a plan that may be sent; the text shows what is wrong with it."""
    path = tmp_path / "bad.json"
    said = rl("plan", *launch, "--set", "env.A=$HOME", "-o", str(path))
    assert said.code == 3
    assert "error[env.dollar]" in said.err
    assert not path.exists()


def test_a_file_that_cannot_be_written_is_an_explained_error(rl: Rl, scripted: Any, launch: Launch):
    """A missing directory is named, with no traceback."""
    said = rl("plan", *launch, "-o", "/nowhere/plan.json")
    assert said.code == 3
    assert "error[core.output]" in said.err


def test_a_link_and_a_pipe_are_written_through(
    rl: Rl, scripted: Any, launch: Launch, tmp_path: Path
):
    """`-o` never puts a file where a link, a pipe or a device was."""
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    assert rl("plan", *launch, "-o", str(tmp_path / "link.json")).code == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["schema"] == "rlaunch.plan/1"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert rl("plan", *launch, "-o", str(pipe)).code == 0
    reader.join(10)
    assert json.loads(read[0])["schema"] == "rlaunch.plan/1"
    assert pipe.is_fifo()
    said = rl("plan", *launch, "-o", str(tmp_path))
    assert said.code == 3
    assert "error[core.output]" in said.err


def test_the_toy_trainer_reads_what_a_plan_sends(rl: Rl, tmp_path: Path):
    """A value too long for an argument, and a key with a space, reach the trainer by the plan's file."""
    long = "x" * 200_000
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "entrypoint: rlaunch.smoke\ndata: {train_data: [d]}\n"
        f"trainer: {{run_name: {long}, 'a key': 3, policy: {{model: {{path: toy/grpo}}}}}}\n"
    )
    words = (
        "--cluster",
        "local",
        "--rl_config",
        str(recipe),
        "--set",
        f"run_dir={tmp_path}/run",
    )
    plan = rl(*words, "--offline", "--dry-run", "--json").document
    (file,) = [f for f in plan["files"] if f["path"].endswith("values.yaml")]
    place = Path(plan["run"]["paths"]["run_dir"], file["path"])
    place.parent.mkdir(parents=True)
    place.write_text(file["content"], encoding="utf-8")
    arguments = plan["command"]["argv"][2:]
    assert "+rlaunch=values" in arguments
    assert all(len(argument) < 1000 for argument in arguments)
    assert settings.read(arguments).run_name == long
