"""What is given to a command and cannot be sent: a finding with its place, and nothing asked or sent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlaunch import given
from rlaunch.documents import plan_from_json

Rl = Callable[..., Any]
ODD = "a\udcff"
"""The byte 0xff of a command line, as Python reads it."""
RECIPE = """
entrypoint: rlaunch.smoke
trainer: {%s, policy: {model: {path: "%s"}}}
data: {train_data: [%s]}
extra_env: {%s}
"""


def told(said: Any) -> list[tuple[str, str]]:
    """Return code and place of the errors in a document."""
    return [(f["code"], f["place"]) for f in said.document["findings"] if f["level"] == "error"]


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--model_path", ODD], "--model_path"),
        ([f"--model-path={ODD}"], "--model-path"),
        (["--skyrl_override", f"trainer.x={ODD}"], "--skyrl_override"),
        (["--train_data", f'["{ODD}"]'], "--train_data"),
        (["--job-name", ODD], "--job-name"),
        (["--resume", f"/{ODD}"], "--resume"),
        (["--set", f"run_dir=/{ODD}"], "--set"),
        (["--set", f"env.{ODD}=1"], "--set"),
        (["--secrets-env", ODD], "--secrets-env"),
        (["--workspace", ODD], "--workspace"),
        (["--allow", ODD], "--allow"),
        (["--val_data", '["a\0"]'], "--val_data"),
        (["--train_data", '["a\\ud800b"]'], "--train_data"),
        (["--set", 'run_dir="/a\\u0000b"'], "--set run_dir"),
        (["--set", 'env.A="a\\ud800b"'], "--set env.A"),
        (["--set", 'env={"A":"a\\u0000b"}'], "--set env"),
        (["--train_data", '["ok","a\\u0000b"]'], "--train_data"),
        (["--val_data", '["a\\u0000b"]'], "--val_data"),
    ],
)
def test_no_flag_takes_what_cannot_be_sent(
    rl: Rl, scripted: Any, launch: tuple[str, ...], words: list[str], place: str
):
    """Bytes that are not UTF-8, or NUL, in any flag are refused by its name, in a dry run too."""
    for mode in ("--dry-run", "--no-wait"):
        said = rl(*launch, *words, mode, "--json")
        assert said.code == 3
        (found,) = {found for found in told(said) if found[0] != "core.no-data"}
        assert found[0] in {"core.not-text", "core.data-list"}
        assert found[1] == place
        assert "\0" not in said.err
    assert "submit" not in " ".join(scripted.asked)


@pytest.mark.parametrize("words", [["runs", ODD], ["status", ODD], ["submit", ODD], ["check", ODD]])
def test_every_command_refuses_them(rl: Rl, scripted: Any, words: list[str]):
    """A word of another command that is no text is named by its number."""
    said = rl(*words, "--json")
    assert (said.code, told(said)) == (3, [("core.not-text", "argument 2")])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--skyrl_override", "++a.api_key=sk-secret-123\udcff"), "`++a.api_key`"),
        (("--skyrl_override=++a.api_key=sk-secret-123\udcff",), "`--skyrl_override`"),
        (("--name", "sk-secret-123\udcff"), "`argument {last}`"),
    ],
)
def test_what_was_given_is_not_printed(
    rl: Rl, scripted: Any, launch: tuple[str, ...], words: tuple[str, ...], name: str
):
    """The value may be a secret: the message has what stands before `=`, or the word's number."""
    said = rl(*launch, *words, "--dry-run", "--json")
    (found,) = said.document["findings"]
    assert found["message"].startswith(name.format(last=len(launch) + len(words)))
    assert "sk-secret" not in said.out + said.err


@pytest.mark.parametrize(
    ("parts", "places"),
    [
        (("epochs: 1", "a\\0b", "d", ""), ["trainer.policy.model.path"]),
        (("epochs: 1", "m", '"a\\0b"', ""), ["data.train_data"]),
        (('ckpt_path: "/a\\0b"', "m", "d", ""), ["trainer.ckpt_path"]),
        (('project_name: "a\\0b"', "m", "d", ""), []),
    ],
)
def test_a_recipe_is_told_where(
    rl: Rl, scripted: Any, tmp_path: Path, parts: tuple[str, ...], places: list[str]
):
    """A NUL byte in a model, a data set or a path has the recipe's line; other values travel in a file."""
    recipe = tmp_path / "r.yaml"
    recipe.write_text(RECIPE % parts, encoding="utf-8")
    said = rl("--cluster", "scripted", "--rl_config", str(recipe), "--dry-run", "--json")
    found = [place for code, place in told(said) if code == "core.not-text"]
    assert [place.rpartition(" ")[2] for place in found] == places
    assert all(place.startswith(f"{recipe}:3:") or ":4:" in place for place in found)


def test_a_data_set_that_is_named_twice(rl: Rl, scripted: Any, launch: tuple[str, ...]):
    """It is a warning with the flag, and the plan is made."""
    said = rl(*launch, "--train_data", '["d","e","d"]', "--dry-run", "--json")
    (found,) = [f for f in said.document["findings"] if f["code"] == "core.data-twice"]
    assert (said.code, found["level"], found["place"]) == (0, "warning", "--train_data")
    assert "`d` 2 times" in found["message"]


def test_a_plan_is_judged_by_its_words(rl: Rl, scripted: Any, launch: tuple[str, ...]):
    """Every argument and variable of a plan is looked at, whoever made it; NUL in a variable is `env.nul`."""
    plan = plan_from_json(rl(*launch, "--dry-run", "--json").document)
    assert list(given.texts_can_be_sent(plan.run, plan)) == []
    command = plan.command._replace(argv=("python", "trainer.epochs=a\0b"), stage=("a\ud800b",))
    plan = plan._replace(command=command, env={"A": "a\ud800b", "B": "a\0b"})
    found = list(given.texts_can_be_sent(plan.run, plan))
    assert [f.message.split("`")[1] for f in found] == ["env.A", "trainer.epochs", "stage[0]"]
    assert found[1].place.endswith(": trainer.epochs")


def test_a_user_whose_name_is_no_text(
    rl: Rl, scripted: Any, launch: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    """What the shell says of the user is judged too, since it goes into the plan."""
    monkeypatch.setenv("USER", ODD)
    assert told(rl(*launch, "--no-wait", "--json")) == [("core.not-text", "$USER")]


@pytest.mark.parametrize("words", [["submit"], ["--rl_config"], ["check"]])
def test_no_command_reads_what_never_ends(rl: Rl, scripted: Any, words: list[str]):
    """A plan or a recipe that is a device is refused before its first byte."""
    more = ["--cluster", "scripted"] if words == ["--rl_config"] else []
    said = rl(*words, "/dev/zero", *more)
    assert said.code == 3
    assert "no regular file" in said.err


@pytest.mark.parametrize("text", ["cluster = 3\n", "cluster = [", None])
def test_a_broken_configuration_stops_launches_only(
    rl: Rl, scripted: Any, launch: tuple[str, ...], home: Path, text: str | None
):
    """Runs that are under way are asked for and stopped all the same; a launch is refused."""
    scripted.states(["RUNNING", "", 1, None])
    assert rl(*launch, "--job-name", "going", "--no-wait").code == 0
    file = home / ".config" / "rlaunch" / "rlaunch.toml"
    file.parent.mkdir(parents=True)
    file.symlink_to("/dev/zero") if text is None else file.write_text(text)
    for words in (["runs"], ["status", "going"], ["stop", "going", "--yes"]):
        said = rl(*words)
        assert said.code in {0, 1, 4}, said
        assert said.err.count("warning[core.config]") == 1
    said = rl(*launch, "--dry-run", "--json")
    assert (said.code, told(said)) == (3, [("core.config", str(file))])
    if text != "cluster = 3\n":
        assert "`rlaunch.toml` cannot be used" in rl("doctor").out
