"""How commands are typed: help, both spellings, wrong usage."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlaunch
from rlaunch.cli.flags import PlanFlags, SendFlags
from rlaunch.cli.table import COMMANDS

GOLDEN = Path(__file__).with_name("golden")
ROOT = Path(__file__).parents[2]
Rl = Callable[..., Any]

FLAGS = (  # noqa: SIM905  # forty words read better in lines than in a list
    "rl_config model_path train_data val_data num_nodes gpus_per_node cpu memory disk max_retries"
    " rendezvous_dir job_name priority no_wait skyrl_ref skyrl_override dry_run cluster_config task_image"
    " docker_image host secrets_env timeout time_limit preemptible no_preemptible cluster workspace set allow"
    " resume offline if_exists new_series json interval kill_on_interrupt admission_timeout skip_preflight"
).split()
"""Every flag of a launch that is promised."""


def test_the_help_page_is_the_golden_one(rl: Rl):
    """`rlaunch --help` lists commands and the launch's flags; changes of it are seen in review."""
    said = rl("--help")
    assert (said.code, said.err) == (0, "")
    assert said.out == (GOLDEN / "help.txt").read_text(encoding="utf-8")


def test_the_launch_has_the_roots_help_page(rl: Rl):
    """The command that needs no name has no page of its own, wherever the help is asked for."""
    page = rl("--help").out
    assert rl("launch", "--help").out == page
    assert rl("--cluster", "local", "--help").out == page
    assert rl("-h").out == page


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself(rl: Rl, name: str):
    """A command's page begins with its line in the table, which is its docstring's first line."""
    said = rl(name, "--help")
    assert said.code == 0
    assert said.out.startswith(f"Usage: rlaunch {name} ")
    assert COMMANDS[name] in said.out
    doc = importlib.import_module(f"rlaunch.cli.{name}").command.__doc__ or ""
    assert doc.partition("\n")[0] == COMMANDS[name]


def test_no_arguments_is_wrong_usage(rl: Rl):
    """`rlaunch` alone shows the help page on stderr, for a script must notice it."""
    said = rl()
    assert said.code == 64
    assert said.out == ""
    assert "Usage: rlaunch" in said.err


def test_the_version_is_the_packages(rl: Rl):
    """One version: of the command, the package and the distribution's file."""
    assert rl("--version").out == f"rlaunch {rlaunch.__version__}\n"
    assert f'version = "{rlaunch.__version__}"' in (ROOT / "pyproject.toml").read_text(
        encoding="utf-8"
    )
    from rlaunch import world

    assert rlaunch.__version__ == world.VERSION


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_has_both_spellings(rl: Rl, flag: str):
    """With hyphens or underscores a flag is known; what is complained of is never the flag."""
    for spelling in (f"--{flag}", f"--{flag.replace('_', '-')}"):
        said = rl(spelling, "1", "--there-is-no-such-flag")
        assert said.code == 64
        assert "`--there-is-no-such-flag`" in said.err, said.err


def test_plan_and_launch_share_their_flags(rl: Rl):
    """Each flag that shapes a plan is declared once and known to both."""
    plan, launch = rl("plan", "--help").out, rl("--help").out
    for name in PlanFlags._fields:
        assert f"--{name.replace('_', '-')}" in plan
        assert f"--{name.replace('_', '-')}" in launch
    for name in SendFlags._fields:
        assert f"--{name.replace('_', '-')}" not in plan
        assert f"--{name.replace('_', '-')}" in launch


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["statsu"], "there is no command `statsu`", "did you mean `rlaunch status`?"),
        (["--rl_conf", "x"], "there is no flag `--rl_conf`", "did you mean `--rl-config`?"),
        (["--frobnicate"], "there is no flag `--frobnicate`", "hint: see `rl"),
        (["--name", "x"], "there is no flag `--name`", "did you mean `--job-name`?"),
        (["--nodes", "2"], "there is no flag `--nodes`", "did you mean `--num-nodes`?"),
        (["status", "--jsn"], "there is no flag `--jsn`", "did you mean `--json`?"),
        (["--cluster", "local"], "`--rl-config` is missing", "see `rlaunch --help`"),
        (["stop"], "`JOB` is missing", "see `rlaunch stop --help`"),
        (["--rl-config", "x", "--num-nodes", "two"], "`--num-nodes`: `two` is not", ""),
        (["--rl-config", "x", "--priority", "high"], "`--priority`: `high` is not", ""),
        (["--rl-config"], "option `--rl-config` requires an argument", ""),
        (["--rl-config", "x", "--set", "cpu"], "SETTING=VALUE", ""),
        (["--rl-config", "x", "--no-wait=yes"], "does not take a value", ""),
        (["logs", "x", "--since", "yesterday"], "neither RFC 3339", ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_64_and_says_what_to_type(rl: Rl, words: list[str], message: str, hint: str):
    """Wrong usage is told on stderr as a finding with a hint; nothing is on stdout."""
    said = rl(*words)
    assert (said.code, said.out) == (64, "")
    assert said.err.startswith("error[core.usage]: ")
    assert message in said.err
    assert hint in said.err


@pytest.mark.parametrize("flag", ["--interval", "--admission-timeout"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "", "soon", "-5m"])
def test_a_time_that_is_none_is_wrong_usage(
    rl: Rl, scripted: Any, launch: tuple[str, ...], flag: str, value: str
):
    """Nothing is sent with a wait that cannot be waited; watching and submitting ask the same."""
    for words in (
        (*launch, f"{flag}={value}"),
        ("watch", f"{flag}={value}", "x"),
        ("submit", f"{flag}={value}", "x"),
    ):
        said = rl(*words)
        assert (said.code, said.out) == (64, "")
        assert f"error[core.usage]: `{flag}`: `{value}` is not a time above 0" in said.err
    assert scripted.asked == []


@pytest.mark.parametrize(
    ("typed", "value"), [("0.5", 0.5), ("5", 5.0), ("1e2", 100.0), ("30m", 1800.0)]
)
def test_a_time_is_seconds_or_has_its_unit(typed: str, value: float):
    """`--admission-timeout 30m` is as good as 1800."""
    from rlaunch.cli.asking import seconds

    assert seconds(typed) == value


def test_an_empty_resume_is_wrong_usage(rl: Rl, scripted: Any, launch: tuple[str, ...]):
    """An unset variable in a script must not mean a start from nothing."""
    said = rl(*launch, "--resume", "")
    assert (said.code, said.out) == (64, "")
    assert "`--resume`: it is empty" in said.err
    assert scripted.asked == []


def test_a_command_after_launch_flags_is_wrong_usage(rl: Rl):
    """`rlaunch --cluster iris plan x` must not drop `--cluster iris` and go on."""
    for words in (
        ["--cluster", "iris", "plan", "x"],
        ["--cluster", "iris", "--rl_config", "x", "plan", "y"],
    ):
        said = rl(*words)
        assert said.code == 64
        assert "a command comes first: `rlaunch plan …`" in said.err


def test_abbreviated_flags_are_not_taken(rl: Rl):
    """`--num` is not `--num-nodes`: a flag that is added later must not change what is typed today."""
    assert rl("--rl-config", "x", "--num", "2").code == 64


@pytest.mark.parametrize("command", ["status", "watch", "logs", "diagnose", "stop"])
def test_an_unknown_cluster_of_a_job_is_told_at_the_argument(rl: Rl, command: str):
    """Those commands have no `--cluster`: the name stands in JOB."""
    said = rl(command, "zzz:/x")
    assert said.code == 3
    assert "error[core.cluster-unknown]: no cluster `zzz` is installed\n  at JOB\n" in said.err
